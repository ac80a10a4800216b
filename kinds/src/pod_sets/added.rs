//! Containers that a kind's controller adds to pods (`addContainers`), compiled: they are put into the
//! template before it is counted, and nowhere else.

use serde_json::{Value, json};
use sluice_crds::AddedContainer;

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::field::path::FieldPath;
use crate::field::problem::Problem;

/// One compiled container.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) name: String,
    pub(crate) when: Option<Expression>,
    pub(crate) resources_from: Option<FieldPath>,
    list: &'static str,
    resources: Value,
}

impl Added {
    /// Compiles `container`, which stands at `field`.
    pub(super) fn compile(
        container: &AddedContainer,
        field: &str,
        declared: Declared,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let when = match container.when.as_deref() {
            None => None,
            Some(source) => {
                let at = format!("{field}.when");
                let bool = Returns::Bool;
                Some(Expression::compile_at(
                    &at, source, declared, bool, problems,
                )?)
            }
        };
        let resources_from = match container.resources_from.as_deref() {
            None => None,
            Some(text) => match FieldPath::parse(text) {
                Ok(path) => Some(path),
                Err(rule) => {
                    let at = format!("{field}.resourcesFrom");
                    problems.push(Problem::invalid(at, text, rule.to_string()));
                    return None;
                }
            },
        };
        Some(Self {
            name: container.name.clone(),
            when,
            resources_from,
            list: if container.init {
                "initContainers"
            } else {
                "containers"
            },
            resources: json!({"requests": container.requests}),
        })
    }

    /// Adds the container to the spec of `pod`, by what `object` says. A spec that is none is told when it is
    /// counted.
    pub(super) fn add_to(&self, pod: &mut Value, object: &Value) {
        let own = self.resources_from.as_ref();
        let resources = own.and_then(|path| path.get(object));
        let container =
            json!({"name": self.name, "resources": resources.unwrap_or(&self.resources)});
        if pod.is_null() {
            *pod = json!({"spec": {}});
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        match spec.entry(self.list).or_insert_with(|| json!([])) {
            Value::Array(containers) => containers.push(container),
            Value::Null => {
                spec.insert(self.list.to_owned(), json!([container]));
            }
            _ => {}
        }
    }
}
