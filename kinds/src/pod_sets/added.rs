//! Containers that a kind's controller adds to pods (`addContainers`), compiled: they are put into the
//! template before it is counted, and nowhere else.

use std::borrow::Cow;

use serde_json::{Value, json};
use sluice_crds::{AddedContainer, WhenAbsent};

use crate::expression::compiled::{Declared, Expression, Returns, Variables};
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::pod_sets::rule::Template;

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
        let mut told = |name: &str, text: &str, rule: String| {
            problems.push(Problem::invalid(format!("{field}.{name}"), text, rule));
        };
        let when = match container.when.as_deref() {
            None => None,
            Some(source) => match Expression::compile(source, declared, Returns::Bool) {
                Ok(when) => Some(when),
                Err(rule) => {
                    told("when", source, rule);
                    return None;
                }
            },
        };
        let resources_from = match container.resources_from.as_deref() {
            None => None,
            Some(text) => match FieldPath::parse(text) {
                Ok(path) => Some(path),
                Err(rule) => {
                    told("resourcesFrom", text, rule);
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

    fn container(&self, object: &Value) -> Value {
        let own = self.resources_from.as_ref();
        let resources = own.and_then(|path| path.get(object));
        json!({"name": self.name, "resources": resources.unwrap_or(&self.resources)})
    }
}

impl Template<'_> {
    /// Whether the pods are made from a template that is not in the object.
    pub(crate) fn is_assumed(&self) -> bool {
        self.pod.is_none() && self.rule.when_absent == WhenAbsent::Assume
    }

    /// The pod as it is counted: with what the kind's controller adds.
    ///
    /// # Errors
    /// An expression does not fit the object.
    pub(crate) fn counted(&self, object: &Value) -> Result<Cow<'_, Value>, Problem> {
        let pod = self.pod.as_deref();
        let mut counted = pod.map_or(Cow::Owned(Value::Null), Cow::Borrowed);
        for added in &self.rule.added {
            if self.is_added(added, object)? {
                add(counted.to_mut(), added.list, added.container(object));
            }
        }
        Ok(counted)
    }

    fn is_added(&self, added: &Added, object: &Value) -> Result<bool, Problem> {
        let Some(when) = &added.when else {
            return Ok(true);
        };
        let element = self.element.as_ref().map(|(item, key)| (*item, key));
        let what = match when.evaluate(Variables { object, element }) {
            Ok(cel::Value::Bool(is_added)) => return Ok(is_added),
            Ok(other) => format!("gave {}, not a bool", other.type_of()),
            Err(error) => format!("does not fit this object: {error}"),
        };
        let field = format!("the container {:?} of pod set {:?}", added.name, self.set);
        Err(Problem::forbidden(field, format!("the expression {what}")))
    }
}

/// Adds a container to a list of the spec of `pod`. A spec that is none is told when it is counted.
fn add(pod: &mut Value, list: &str, container: Value) {
    if pod.is_null() {
        *pod = json!({"spec": {}});
    }
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match spec.entry(list).or_insert_with(|| json!([])) {
        Value::Array(containers) => containers.push(container),
        Value::Null => {
            spec.insert(list.to_owned(), json!([container]));
        }
        _ => {}
    }
}
