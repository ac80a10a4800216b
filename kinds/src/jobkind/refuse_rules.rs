//! What a JobKind says that the kind's controller would never run (`refuse`), compiled and judged over an
//! object. What follows from a refusal is said by the webhooks and the controller.

use serde_json::Value;
use sluice_crds::{RefuseRule, RefuseScope};

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::jobkind::hold::Hold;
use crate::jobkind::kind::{CompiledKind, Refusal};

impl Refusal {
    /// Compiles the rule at this place of the list.
    pub(super) fn compile(
        rule: &RefuseRule,
        index: usize,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let at = format!("spec.refuse[{index}]");
        let field = match rule.field.as_deref().map(FieldPath::parse_below) {
            None => "spec".to_owned(),
            Some(Ok(path)) => path.field(),
            Some(Err(error)) => {
                let text = rule.field.clone().unwrap_or_default();
                let what = error.to_string();
                problems.push(Problem::invalid(format!("{at}.field"), text, what));
                return None;
            }
        };
        let place = format!("{at}.when");
        let when = Expression::compile_at(
            &place,
            &rule.when,
            Declared::Object,
            Returns::Bool,
            problems,
        )?;
        Some(Self {
            when,
            rule: place,
            problem: Problem::forbidden(field, rule.message.clone()),
            scope: rule.applies_to,
        })
    }
}

impl CompiledKind {
    /// Why the kind's controller would never run `object`, which is held so; nothing, if it would.
    /// `object` needs metadata only for expressions ([`CompiledKind::reads_metadata`]).
    pub fn refusals(&self, object: &Value, hold: Hold) -> Vec<Problem> {
        let applies = |refusal: &&Refusal| match refusal.scope {
            RefuseScope::All => true,
            RefuseScope::Suspended => hold == Hold::Suspend,
        };
        let judged = self.refusals.iter().filter(applies).filter_map(|refusal| {
            match self.truth(&refusal.when, &refusal.rule, object) {
                Ok(true) => Some(refusal.problem.clone()),
                Ok(false) => None,
                Err(misfit) => Some(misfit),
            }
        });
        judged.collect()
    }
}
