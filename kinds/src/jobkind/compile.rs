//! From a JobKind to a [`CompiledKind`]: all that is wrong with it is told at once.

use sluice_crds::{AdmissionMode, FinishedRule, JobKind, JobKindSpec};

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::field::names;
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::gates::scheduling::QueueGates;
use crate::jobkind::kind::{CLEAR_START_TIME, CompiledFinished, CompiledKind, PodGroups, Refusal};
use crate::jobkind::manageable_groups;
use crate::pod_sets::rule::Rule;

impl CompiledKind {
    /// Checks and compiles `kind`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn compile(kind: &JobKind) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let spec = &kind.spec;
        check_allowed(spec, &mut problems);
        let suspend = spec
            .suspend
            .as_ref()
            .and_then(|path| compile_suspend(path, &mut problems));
        let rules = compile_rules(spec, &mut problems);
        let finished = spec
            .finished
            .as_ref()
            .and_then(|rule| compile_finished(rule, &mut problems));
        let mut truth = |field: &str, source: &Option<String>| {
            Expression::compile_at(
                field,
                source.as_deref()?,
                Declared::Object,
                Returns::Bool,
                &mut problems,
            )
        };
        let active = truth("spec.active", &spec.active);
        let clear_start_time = truth(CLEAR_START_TIME, &spec.clear_start_time);
        let ready = truth("spec.ready", &spec.ready);
        let refusals = spec.refuse.iter().enumerate();
        let refusals = refusals
            .filter_map(|(index, rule)| Refusal::compile(rule, index, &mut problems))
            .collect();
        let pod_groups = PodGroups::compile(spec, &mut problems);
        check_whole(spec, &rules, &mut problems);
        check_infos(spec, &rules, &mut problems);
        check_makers(spec, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            name: kind.metadata.name.clone().unwrap_or_default(),
            group: spec.group.clone(),
            version: spec.version.clone(),
            kind: spec.kind.clone(),
            suspend,
            admission: spec.admission,
            rules,
            finished,
            active,
            clear_start_time,
            ready,
            refusals,
            pod_groups,
            children: spec.children.clone(),
            queue_gates: QueueGates::default(),
        })
    }
}

fn check_allowed(spec: &JobKindSpec, problems: &mut Vec<Problem>) {
    // Both become parts of the path by which the kind is looked for.
    if !spec.group.is_empty() {
        problems.extend(names::subdomain(&spec.group, "spec.group"));
    }
    problems.extend(names::label(&spec.version, "spec.version"));
    if spec.group.is_empty() && spec.kind == "Pod" {
        problems.push(Problem::forbidden(
            "spec.kind",
            "Pod needs no JobKind: pods with a queue label are queued by themselves",
        ));
    } else if !manageable_groups::may_be_managed(&spec.group) {
        problems.push(Problem::forbidden(
            "spec.group",
            format!(
                "{} of group {:?} {}",
                spec.kind,
                spec.group,
                manageable_groups::RULE
            ),
        ));
    }
}

/// What the fields say together.
fn check_whole(spec: &JobKindSpec, rules: &[Rule], problems: &mut Vec<Problem>) {
    if spec.suspend.is_some() && spec.active.is_none() {
        problems.push(Problem::required(
            "spec.active",
            "required with spec.suspend: it determines when the quota of a suspended object is freed",
        ));
    }
    if spec.suspend.is_none() && spec.clear_start_time.is_some() {
        problems.push(Problem::required(
            "spec.suspend",
            "required with spec.clearStartTime: only the start time of suspended objects is cleared",
        ));
    }
    let has_children = spec.children.iter().any(|child| !child.is_pod());
    if spec.pod_sets.is_empty() && (!has_children || spec.suspend.is_none()) {
        problems.push(Problem::required(
            "spec.podSets",
            "must name at least one pod template, unless the kind can be suspended and has children whose pods count as its own",
        ));
    }
    if spec.suspend.is_none() && rules.iter().any(|rule| rule.partial.is_some()) {
        problems.push(Problem::required(
            "spec.suspend",
            "required with partialAdmission: the number of admitted pods is written to a suspended object",
        ));
    }
    if rules.iter().any(Rule::is_opaque) && spec.admission != AdmissionMode::PerPod {
        problems.push(Problem::invalid(
            "spec.admission",
            "Whole",
            "must be PerPod: with podMetadata or whenAbsent: Create, the requests are known only from the pods",
        ));
    }
}

/// What goes with templates that can't be changed.
fn check_infos(spec: &JobKindSpec, rules: &[Rule], problems: &mut Vec<Problem>) {
    let has_infos = rules.iter().any(Rule::has_infos);
    if has_infos && spec.suspend.is_none() {
        problems.push(Problem::required(
            "spec.suspend",
            "required with podInfos: objects whose pod templates can't be changed wait suspended",
        ));
    }
    if (has_infos || spec.pod_sets.is_empty()) && spec.admission == AdmissionMode::PerPod {
        problems.push(Problem::invalid(
            "spec.admission",
            "PerPod",
            "must be Whole: no pod can be gated, as no pod template can be changed",
        ));
    }
    if (has_infos || spec.pod_sets.is_empty()) && spec.pod_groups.is_some() {
        problems.push(Problem::forbidden(
            "spec.podGroups",
            "may not be set: no pod can be gated, as no pod template can be changed",
        ));
    }
}

/// The accounts of the kind's controllers: user names, each once.
fn check_makers(spec: &JobKindSpec, problems: &mut Vec<Problem>) {
    for (index, child) in spec.children.iter().enumerate() {
        for (place, user) in child.made_by.iter().enumerate() {
            let field = format!("spec.children[{index}].madeBy[{place}]");
            if child.made_by.iter().take(place).any(|other| other == user) {
                problems.push(Problem::duplicate(field, user.clone()));
            } else if let Err(rule) = names::user(user) {
                problems.push(Problem::invalid(field, user.clone(), rule));
            }
        }
    }
}

fn compile_rules(spec: &JobKindSpec, problems: &mut Vec<Problem>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::with_capacity(spec.pod_sets.len());
    for (index, rule) in spec.pod_sets.iter().enumerate() {
        let field = format!("spec.podSets[{index}]");
        if rules.iter().any(|other| *other.name == *rule.name) {
            problems.push(Problem::duplicate(
                format!("{field}.name"),
                rule.name.clone(),
            ));
        }
        rules.extend(Rule::compile(rule, &field, problems));
    }
    rules
}

fn compile_finished(rule: &FinishedRule, problems: &mut Vec<Problem>) -> Option<CompiledFinished> {
    let FinishedRule {
        when,
        succeeded,
        message,
    } = rule;
    let when = Expression::compile_at(
        "spec.finished.when",
        when,
        Declared::Object,
        Returns::Bool,
        problems,
    );
    let succeeded = Expression::compile_at(
        "spec.finished.succeeded",
        succeeded,
        Declared::Object,
        Returns::Bool,
        problems,
    );
    let message = message.as_ref().and_then(|source| {
        Expression::compile_at(
            "spec.finished.message",
            source,
            Declared::Object,
            Returns::Text,
            problems,
        )
    });
    Some(CompiledFinished {
        when: when?,
        succeeded: succeeded?,
        message,
    })
}

fn compile_suspend(text: &str, problems: &mut Vec<Problem>) -> Option<FieldPath> {
    FieldPath::parse(text)
        .map_err(|rule| problems.push(Problem::invalid("spec.suspend", text, rule.to_string())))
        .ok()
}
