//! PriorityClasses, which of them the pods of a template will have, and which classes a ClusterQueue allows. What
//! WorkloadPriorityClasses say does not live here.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use sluice_crds::{PRIORITY_CLASS_LABEL, QueuePriorityClasses};

use crate::field::problem::Problem;

/// Most allowed classes that are told.
const TOLD_MAX: usize = 10;

/// Which classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassKind {
    /// WorkloadPriorityClasses, which a label names.
    Workloads,
    /// PriorityClasses, which pod templates name.
    Pods,
}

/// A class that an object names and its ClusterQueue does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisallowedClass {
    kind: ClassKind,
    name: String,
    cluster_queue: String,
    allowed: Vec<String>,
}

impl DisallowedClass {
    /// The class, unless what `cluster_queue` says of classes allows it.
    pub fn check(
        kind: ClassKind,
        name: &str,
        (cluster_queue, classes): (&str, &QueuePriorityClasses),
    ) -> Option<Self> {
        let allowed = classes.allowed.as_ref()?;
        (!allowed.iter().any(|class| class == name)).then(|| Self {
            kind,
            name: name.to_owned(),
            cluster_queue: cluster_queue.to_owned(),
            allowed: allowed.clone(),
        })
    }

    /// Which classes it is one of.
    pub fn kind(&self) -> ClassKind {
        self.kind
    }

    /// The field that names the class, the class, and what would be accepted.
    fn problem(&self) -> Problem {
        let field = match self.kind {
            ClassKind::Workloads => format!("metadata.labels[{PRIORITY_CLASS_LABEL}]"),
            ClassKind::Pods => "spec.priorityClassName of its pods".to_owned(),
        };
        let mut allowed: Vec<&str> = self.allowed.iter().map(String::as_str).collect();
        allowed.sort_unstable();
        if allowed.is_empty() {
            return Problem::invalid(field, &self.name, "no class may be named");
        }
        let more = allowed.len().saturating_sub(TOLD_MAX);
        allowed.truncate(TOLD_MAX);
        let mut problem = Problem::not_supported(field, &self.name, &allowed);
        if more > 0 {
            problem.detail = format!("{} and {more} more", problem.detail);
        }
        problem
    }
}

impl fmt::Display for DisallowedClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = &self.cluster_queue;
        write!(
            f,
            "ClusterQueue {queue:?} does not allow this priority class: {}",
            self.problem()
        )
    }
}

/// The PriorityClasses of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriorityClasses {
    classes: BTreeMap<String, Class>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    value: i32,
    is_global_default: bool,
}

/// What says which priority a job or a pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityFrom<'a> {
    /// The WorkloadPriorityClass that its label names.
    Label(&'a str),
    /// The WorkloadPriorityClass that its ClusterQueue names for what names none.
    QueueDefault {
        /// The class.
        name: &'a str,
        /// The ClusterQueue.
        cluster_queue: &'a str,
    },
    /// Its pods: the PriorityClass that they name, if they name one.
    Pods(Option<&'a str>),
}

/// There is no PriorityClass of this name: the API server refuses pods that name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPriorityClass(pub String);

impl PriorityClasses {
    /// Takes in a PriorityClass, or what has become of it. Returns whether that changes anything.
    pub fn put(&mut self, name: &str, class: Option<&Value>) -> bool {
        let class = class.map(|class| Class {
            value: (class.get("value").and_then(Value::as_i64))
                .and_then(|value| value.try_into().ok())
                .unwrap_or_default(),
            is_global_default: class.get("globalDefault") == Some(&Value::Bool(true)),
        });
        let before = match class {
            Some(class) => self.classes.insert(name.to_owned(), class),
            None => self.classes.remove(name),
        };
        before != class
    }

    /// Whether pods have this class that name none.
    pub fn is_default(&self, name: &str) -> bool {
        matches!(self.of_template(None), Ok((Some(default), _)) if default == name)
    }

    /// What says which priority an object has with this label, if it has one, whose pods name these classes, each pod set
    /// one or none; by what its ClusterQueue says of classes, if anything. The first class counts, and all must be allowed.
    /// The API server names the global default in pods, so that is taken for none.
    ///
    /// # Errors
    /// The ClusterQueue does not allow a class.
    pub fn priority_from<'a>(
        &self,
        label: Option<&'a str>,
        of_pods: impl IntoIterator<Item = &'a str>,
        allowed: Option<(&'a str, &'a QueuePriorityClasses)>,
    ) -> Result<PriorityFrom<'a>, DisallowedClass> {
        let check = |kind, name| {
            let disallowed =
                allowed.and_then(|allowed| DisallowedClass::check(kind, name, allowed));
            disallowed.map_or(Ok(()), Err)
        };
        if let Some(name) = label {
            check(ClassKind::Workloads, name)?;
            return Ok(PriorityFrom::Label(name));
        }
        let (mut first, mut global) = (None, None);
        for name in of_pods {
            if self.is_default(name) {
                global = Some(name);
                continue;
            }
            check(ClassKind::Pods, name)?;
            first = first.or(Some(name));
        }
        if first.is_some() {
            return Ok(PriorityFrom::Pods(first));
        }
        let default = allowed.and_then(|(cluster_queue, classes)| {
            let name = classes.default.as_deref()?;
            Some(PriorityFrom::QueueDefault {
                name,
                cluster_queue,
            })
        });
        Ok(default.unwrap_or(PriorityFrom::Pods(global)))
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.classes.keys()
    }

    /// The class, if there is one, and the priority of pods whose template names this class or none. The rule is that
    /// of the admission plugin Priority: of several global defaults the lowest counts
    /// (`plugin/pkg/admission/priority/admission.go`).
    ///
    /// # Errors
    /// There is no such class.
    pub fn of_template(&self, class: Option<&str>) -> Result<(Option<&str>, i32), NoPriorityClass> {
        let Some(name) = class else {
            let defaults = self.classes.iter().filter(|(_, c)| c.is_global_default);
            let lowest = defaults.min_by_key(|(_, class)| class.value);
            return Ok(lowest.map_or((None, 0), |(name, class)| (Some(name), class.value)));
        };
        let found = self.classes.get_key_value(name);
        let (name, class) = found.ok_or_else(|| NoPriorityClass(name.to_owned()))?;
        Ok((Some(name), class.value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_label_comes_first_then_the_pods_then_the_default_of_the_queue() {
        let mut classes = PriorityClasses::default();
        classes.put("global", Some(&json!({"value": 1, "globalDefault": true})));
        let rules = QueuePriorityClasses {
            allowed: Some(vec!["high".to_owned(), "mid".to_owned()]),
            default: Some("mid".to_owned()),
        };
        let default = PriorityFrom::QueueDefault {
            name: "mid",
            cluster_queue: "q",
        };
        let pods = |name| PriorityFrom::Pods(Some(name));
        let (label_high, label_low) = (PriorityFrom::Label("high"), PriorityFrom::Label("low"));
        let rows: [(_, &[&str], _, _); 9] = [
            (Some("high"), &["low"], label_high, Ok(label_high)),
            (Some("low"), &[], label_low, Err(ClassKind::Workloads)),
            (None, &["high"], pods("high"), Ok(pods("high"))),
            (None, &["low"], pods("low"), Err(ClassKind::Pods)),
            (None, &["high", "mid"], pods("high"), Ok(pods("high"))),
            (None, &["mid", "low"], pods("mid"), Err(ClassKind::Pods)),
            (None, &["global", "low"], pods("low"), Err(ClassKind::Pods)),
            (None, &["global"], pods("global"), Ok(default)),
            (None, &[], PriorityFrom::Pods(None), Ok(default)),
        ];
        for (label, of_pods, without, with) in rows {
            let case = format!("{label:?} {of_pods:?}");
            let of_pods = || of_pods.iter().copied();
            assert_eq!(
                classes.priority_from(label, of_pods(), None),
                Ok(without),
                "{case}"
            );
            let found = classes.priority_from(label, of_pods(), Some(("q", &rules)));
            assert_eq!(found.map_err(|class| class.kind()), with, "{case}");
        }
    }

    #[test]
    fn a_template_has_the_class_that_it_names_or_the_global_default() {
        let mut classes = PriorityClasses::default();
        assert_eq!(classes.of_template(None), Ok((None, 0)));
        let default = |value| json!({"value": value, "globalDefault": true});
        for (name, class) in [
            ("high", json!({"value": 1000})),
            ("b", default(7)),
            ("a", default(9)),
            ("zero", json!({})),
        ] {
            assert!(classes.put(name, Some(&class)), "{name}");
        }
        assert!(!classes.put("high", Some(&json!({"value": 1000, "description": "x"}))));
        let cases = [
            (None, Ok((Some("b"), 7))),
            (Some("high"), Ok((Some("high"), 1000))),
            (Some("zero"), Ok((Some("zero"), 0))),
            (Some("low"), Err(NoPriorityClass("low".to_owned()))),
        ];
        for (class, expected) in cases {
            assert_eq!(classes.of_template(class), expected, "{class:?}");
        }
        assert!(classes.put("b", None));
        assert!(!classes.put("b", None));
        assert_eq!(classes.of_template(None), Ok((Some("a"), 9)));
    }
}
