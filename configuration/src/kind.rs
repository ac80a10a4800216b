//! The kind itself: `apiVersion: config.sluice.dev/v1alpha1`, `kind: Configuration`. What holds for the whole
//! controller. Each section is checked in its own file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluice_crds::UndeclaredResources;
use sluice_engine::Settings;
use sluice_gates::{ManagedNamespaces, ManagedNamespacesSpec};
use sluice_kinds::Problem;
use sluice_kinds::devices::DeviceClasses;

use crate::aliases::Aliases;
use crate::device_classes::{self, DeviceClassMapping};
use crate::fair_sharing::{AdmissionFairSharing, FairSharing};
use crate::managed_namespaces::ManagedNamespacesSection;
use crate::{resources, structure};

const API_VERSION: &str = "config.sluice.dev/v1alpha1";
const KIND: &str = "Configuration";

/// The fields that a running controller takes from a changed file. All others are read when it starts: they go
/// into watches, match conditions and what is read of objects.
pub(crate) const LIVE_FIELDS: [&str; 4] = [
    "admissionFairSharing",
    "fairSharing",
    "ignoredResources",
    "undeclaredResources",
];

/// The configuration file of the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The version of the kind: config.sluice.dev/v1alpha1.
    api_version: ApiVersion,
    /// The kind: Configuration.
    kind: Kind,
    /// The keys of others that mean the same as Sluice's own.
    #[serde(flatten)]
    pub aliases: Aliases,
    /// Share what cohorts lend by dominant resource share. If absent, first come, first served. An empty section
    /// (`fairSharing: {}`) has the defaults.
    #[serde(
        default,
        deserialize_with = "even_if_empty",
        skip_serializing_if = "Option::is_none"
    )]
    fair_sharing: Option<FairSharing>,
    /// How ClusterQueues that admit by usage remember it.
    #[serde(default)]
    admission_fair_sharing: AdmissionFairSharing,
    /// What becomes of a job that asks for a resource that its ClusterQueue does not cover, where the
    /// ClusterQueue has no `undeclaredResources`.
    #[serde(default = "block")]
    undeclared_resources: UndeclaredResources,
    /// Under `Block`, resources that are not counted where a ClusterQueue does not cover them.
    #[serde(default = "resources::ignored_by_default")]
    ignored_resources: Vec<String>,
    /// The namespaces where objects need a queue.
    #[serde(default)]
    managed_namespaces: ManagedNamespacesSection,
    /// Devices that the pods of jobs claim by ResourceClaimTemplates are counted as a resource by their
    /// DeviceClass, and so are devices that containers request as `deviceclass.resource.kubernetes.io/<class>`. Jobs that
    /// claim devices of a class that is not named here are held.
    #[serde(default)]
    device_classes: Vec<DeviceClassMapping>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
enum ApiVersion {
    #[serde(rename = "config.sluice.dev/v1alpha1")]
    V1Alpha1,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Kind {
    Configuration,
}

fn block() -> UndeclaredResources {
    UndeclaredResources::Block
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::Configuration,
            aliases: Aliases::default(),
            fair_sharing: None,
            admission_fair_sharing: AdmissionFairSharing::default(),
            undeclared_resources: block(),
            ignored_resources: resources::ignored_by_default(),
            managed_namespaces: ManagedNamespacesSection::default(),
            device_classes: Vec::new(),
        }
    }
}

impl Configuration {
    /// Reads a document.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn read(mut document: Value) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let schema = structure::schema_of::<Self>();
        structure::fits(&mut document, &schema, "", &mut problems);
        if let Some(fields) = document.as_object_mut() {
            // Told above, if it is another one. The rest is judged all the same.
            fields.insert("apiVersion".to_owned(), json!(API_VERSION));
            fields.insert("kind".to_owned(), json!(KIND));
        }
        let read = serde_path_to_error::deserialize::<_, Self>(&document);
        match read {
            Ok(configuration) => {
                configuration.check(&mut problems);
                if problems.is_empty() {
                    return Ok(configuration);
                }
            }
            Err(error) if problems.is_empty() => {
                let (field, error) = (error.path().to_string(), error.inner().to_string());
                problems.push(Problem::invalid(field, String::new(), error));
            }
            Err(_) => {}
        }
        Err(problems)
    }

    /// The values that can't be meant. A section that comes new adds its own check here.
    fn check(&self, problems: &mut Vec<Problem>) {
        self.aliases.check(problems);
        if let Some(sharing) = &self.fair_sharing {
            sharing.check(problems);
        }
        self.admission_fair_sharing.check(problems);
        resources::check(&self.ignored_resources, problems);
        problems.extend(self.managed_namespaces.compile().err().unwrap_or_default());
        problems.extend(device_classes::check(&self.device_classes));
    }

    /// What the engine is told of it. All of it can change while the controller runs.
    pub fn settings(&self) -> Settings {
        Settings {
            fair_sharing: self.fair_sharing.as_ref().map(FairSharing::strategies),
            usage_half_life: self.admission_fair_sharing.half_life(),
            undeclared_resources: sluice_translate::undeclared(
                self.undeclared_resources,
                &self.ignored_resources,
            ),
            ..Settings::new(sluice_translate::POD)
        }
    }

    /// The namespaces where objects need a queue.
    pub fn managed_namespaces(&self) -> ManagedNamespaces {
        self.managed_namespaces.compile().unwrap_or_default()
    }

    /// What it says of them.
    pub fn managed_namespaces_spec(&self) -> ManagedNamespacesSpec {
        self.managed_namespaces.spec()
    }

    /// The classes of devices that are counted.
    pub fn device_classes(&self) -> DeviceClasses {
        device_classes::classes(&self.device_classes)
    }

    /// The names of the fields that `other` has otherwise and that are read at the start only.
    pub fn fields_for_restart(&self, other: &Self) -> Vec<String> {
        let (own, other) = (json!(self), json!(other));
        let names = [&own, &other].map(|value| value.as_object().into_iter().flatten());
        let mut names: Vec<String> = names
            .into_iter()
            .flatten()
            .map(|(n, _)| n.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| {
            !LIVE_FIELDS.contains(&name.as_str()) && own.get(name) != other.get(name)
        });
        names
    }
}

/// A section that is there with nothing in it is there.
fn even_if_empty<'de, D>(deserializer: D) -> Result<Option<FairSharing>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let section = Option::<FairSharing>::deserialize(deserializer)?;
    Ok(Some(section.unwrap_or_default()))
}
