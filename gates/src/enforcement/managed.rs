//! The namespaces where objects need a queue: by their label, else by the selector of the configuration.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sluice_crds::ENFORCEMENT_LABEL;
use sluice_kinds::{Problem, names};

use super::exception::{CompiledEnforcementException, Exception};
use super::unlabelled::Unlabelled;
use crate::applies_to::applicant::Applicant;
use crate::applies_to::selector::Selector;

/// The value of the label by which a namespace only has reported what would become of objects.
const DRY_RUN: &str = "DryRun";
/// The LocalQueue that `Default` names.
const DEFAULT_LOCAL_QUEUE: &str = "default";
/// Longest value of a label, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// What the configuration says, unchecked.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedNamespacesSpec {
    /// The namespaces without a label of their own. None: no others.
    pub selector: Option<LabelSelector>,
    /// What becomes of objects there.
    pub unlabelled: Unlabelled,
    /// The LocalQueue that `Default` names, in all managed namespaces.
    pub default_local_queue: String,
    /// Whether that is only reported.
    pub dry_run: bool,
    /// What is left alone, in all managed namespaces.
    pub exceptions: Vec<Exception>,
}

impl Default for ManagedNamespacesSpec {
    fn default() -> Self {
        Self {
            selector: None,
            unlabelled: Unlabelled::Hold,
            default_local_queue: DEFAULT_LOCAL_QUEUE.to_owned(),
            dry_run: false,
            exceptions: Vec::new(),
        }
    }
}

/// The namespaces where objects need a queue.
#[derive(Debug)]
pub struct ManagedNamespaces {
    label_selector: Option<LabelSelector>,
    selector: Option<Selector>,
    configured: Enforced,
    default_local_queue: String,
    exceptions: Vec<CompiledEnforcementException>,
    /// Namespaces that are never managed.
    excluded: BTreeSet<String>,
}

/// What becomes of an object without a queue label in one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforced {
    /// What.
    pub unlabelled: Unlabelled,
    /// Whether that is only reported.
    pub is_dry_run: bool,
}

impl Enforced {
    const IGNORED: Self = Self {
        unlabelled: Unlabelled::Ignore,
        is_dry_run: false,
    };

    /// Whether an object needs a queue to run.
    pub fn requires_queue(self) -> bool {
        self.unlabelled.is_judged() && !self.is_dry_run
    }
}

impl Default for ManagedNamespaces {
    /// Only namespaces with the label.
    fn default() -> Self {
        Self {
            label_selector: None,
            selector: None,
            configured: Enforced::IGNORED,
            default_local_queue: DEFAULT_LOCAL_QUEUE.to_owned(),
            exceptions: Vec::new(),
            excluded: BTreeSet::new(),
        }
    }
}

impl ManagedNamespaces {
    /// The values of the label of a namespace.
    pub const LABEL_VALUES: [&str; 5] = ["Default", DRY_RUN, "Hold", "Ignore", "Refuse"];

    /// Checks what stands at `field` of the configuration.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn compile(spec: &ManagedNamespacesSpec, field: &str) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let selector = spec.selector.as_ref().map(|selector| {
            let field = format!("{field}.selector");
            Selector::compile(selector, &field, &mut problems)
        });
        let queue = format!("{field}.defaultLocalQueue");
        problems.extend(names::subdomain(&spec.default_local_queue, &queue));
        if LABEL_BYTES_MAX < spec.default_local_queue.len() {
            problems.push(Problem::too_long(queue, LABEL_BYTES_MAX));
        }
        let mut exceptions = Vec::new();
        for (index, exception) in spec.exceptions.iter().enumerate() {
            match CompiledEnforcementException::compile(
                exception,
                &format!("{field}.exceptions[{index}]"),
            ) {
                Ok(compiled) => exceptions.push(compiled),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            label_selector: spec.selector.clone(),
            selector,
            configured: Enforced {
                unlabelled: spec.unlabelled,
                is_dry_run: spec.dry_run,
            },
            default_local_queue: spec.default_local_queue.clone(),
            exceptions,
            excluded: BTreeSet::new(),
        })
    }

    /// The same, where these namespaces are never managed.
    #[must_use]
    pub fn without(self, namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            excluded: namespaces.into_iter().collect(),
            ..self
        }
    }

    /// The same without exceptions.
    #[must_use]
    pub fn without_exceptions(mut self) -> Self {
        self.exceptions.clear();
        self
    }

    /// The same with the exceptions that cover an object whoever asks for it.
    #[must_use]
    pub fn for_any_author(mut self) -> Self {
        self.exceptions.retain(|one| !one.depends_on_author());
        self
    }

    /// The same with the exceptions that cover an object for somebody.
    #[must_use]
    pub fn for_some_author(self) -> Self {
        let exceptions = self.exceptions.into_iter();
        Self {
            exceptions: exceptions
                .map(CompiledEnforcementException::of_some_author)
                .collect(),
            ..self
        }
    }

    /// Whether an exception depends on the priorities of objects.
    pub fn reads_priority(&self) -> bool {
        (self.exceptions.iter()).any(CompiledEnforcementException::reads_priority)
    }

    /// The selector of the configuration, if it manages anything.
    pub fn selector(&self) -> Option<&LabelSelector> {
        let manages = self.configured.unlabelled.is_judged();
        self.label_selector.as_ref().filter(|_| manages)
    }

    /// Whether what the configuration would do is only reported.
    pub fn is_dry_run(&self) -> bool {
        self.configured.is_dry_run
    }

    /// The LocalQueue that `Default` names.
    pub fn default_local_queue(&self) -> &str {
        &self.default_local_queue
    }

    /// What becomes of objects in a namespace with these labels. Its own label goes before the configuration; one with
    /// a value that is not known requires a queue, as whoever set it meant something like that.
    pub fn of_namespace(&self, name: &str, labels: &BTreeMap<String, String>) -> Enforced {
        if self.excluded.contains(name) {
            return Enforced::IGNORED;
        }
        if let Some(value) = labels.get(ENFORCEMENT_LABEL) {
            if value == DRY_RUN {
                return self.dry_run();
            }
            return Enforced {
                unlabelled: value.parse().unwrap_or(Unlabelled::Hold),
                is_dry_run: false,
            };
        }
        let is_selected = |selector: &Selector| selector.matches(labels);
        if self.selector.as_ref().is_some_and(is_selected) {
            self.configured
        } else {
            Enforced::IGNORED
        }
    }

    /// Whether `candidate` needs no queue, wherever it is.
    pub fn is_excepted(&self, candidate: &dyn Applicant) -> bool {
        let mut exceptions = self.exceptions.iter();
        exceptions.any(|exception| exception.applies(candidate))
    }

    /// What the configuration would do, reported; Hold if it would do nothing.
    fn dry_run(&self) -> Enforced {
        let unlabelled = match self.configured.unlabelled {
            Unlabelled::Ignore => Unlabelled::Hold,
            configured => configured,
        };
        Enforced {
            unlabelled,
            is_dry_run: true,
        }
    }
}
