//! The configuration file: what holds for the whole controller. What is written there and can't be meant
//! ends the start, with the field that is wrong.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Deserializer};
use sluice_crds::{UndeclaredResources, duration};
use sluice_engine::{FairPreemption, ResourceName, Settings};
use sluice_gates::ManagedNamespaces;
use sluice_kinds::Problem;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::names::is_qualified_name;
use sluice_kinds::problem::summarize;

mod aliases;
mod device_classes;
mod managed_namespaces;

use device_classes::DeviceClassMapping;
use managed_namespaces::ManagedNamespacesSection;

/// What was used longer ago than this can't be told from what is used now.
const HALF_LIFE_MIN: Duration = Duration::from_secs(1);

/// What jobs often ask for and hardly a queue has quota for: it is bound to a node, where the scheduler
/// counts it.
const IGNORED_RESOURCES: [&str; 3] = ["ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi"];

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Labels that name a queue besides `sluice.dev/queue-name`, for instance
    /// `kueue.x-k8s.io/queue-name`. The match conditions of the webhooks follow; admission policies
    /// have to be generated with them.
    pub queue_label_aliases: Vec<String>,
    /// Names of the queue gate, and of the annotation by which a pod asks for it, besides
    /// `sluice.dev/queue-allocation-gate`: for instance Volcano's,
    /// `scheduling.volcano.sh/queue-allocation-gate`. Match conditions and policies as above.
    pub queue_gate_aliases: Vec<String>,
    /// Share what cohorts lend by dominant resource share. Absent: don't.
    #[serde(deserialize_with = "even_if_empty")]
    fair_sharing: Option<FairSharing>,
    /// How ClusterQueues that admit by usage remember it.
    #[serde(deserialize_with = "even_if_empty")]
    admission_fair_sharing: Option<AdmissionFairSharing>,
    /// What becomes of a job that asks for a resource that its ClusterQueue does not cover, where the
    /// ClusterQueue has no `undeclaredResources`. Absent: Block.
    undeclared_resources: Option<UndeclaredResources>,
    /// Under Block, resources that are not counted where a ClusterQueue does not cover them. Absent:
    /// ephemeral-storage and huge pages.
    ignored_resources: Option<Vec<String>>,
    /// Which resource the devices of a class are counted as that pods claim.
    device_classes: Vec<DeviceClassMapping>,
    /// The namespaces where objects need a queue.
    managed_namespaces: ManagedNamespacesSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FairSharing {
    /// When shares let jobs be preempted: the first strategy that frees enough quota counts. Absent: both.
    preemption_strategies: Option<Vec<PreemptionStrategy>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum PreemptionStrategy {
    LessThanOrEqualToFinalShare,
    LessThanInitialShare,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct AdmissionFairSharing {
    /// After this time what was used counts half.
    usage_half_life_time: Option<String>,
}

impl Config {
    /// Reads the file, if there is one to read.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read the configuration file {}", path.display()))?;
        Self::parse(&text)
            .with_context(|| format!("read the configuration file {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(serde_saphyr::from_str(text)?)
    }

    /// What the engine is told of it.
    ///
    /// # Errors
    /// All values that can't be meant.
    pub fn settings(&self) -> Result<Settings> {
        let mut problems = aliases::check(&self.queue_label_aliases, &self.queue_gate_aliases);
        problems.extend(device_classes::check(&self.device_classes));
        problems.extend(self.managed_namespaces.compile().err().unwrap_or_default());
        let default = Settings::new(sluice_translate::POD);
        let half_life = self
            .admission_fair_sharing
            .as_ref()
            .and_then(|sharing| sharing.usage_half_life_time.as_deref())
            .and_then(|text| half_life(text, &mut problems));
        let settings = Settings {
            fair_sharing: self
                .fair_sharing
                .as_ref()
                .map(|sharing| strategies(sharing, &mut problems)),
            usage_half_life: half_life.unwrap_or(default.usage_half_life),
            undeclared_resources: self.undeclared_resources(&mut problems),
            ..default
        };
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(anyhow!(summarize(&problems)).context("check the configuration file"))
        }
    }

    /// The classes of devices that are counted.
    pub fn device_classes(&self) -> DeviceClasses {
        device_classes::classes(&self.device_classes)
    }

    /// The namespaces where objects need a queue. Of a section that is not valid, which [`Config::settings`] tells, only
    /// those with the label.
    pub fn managed_namespaces(&self) -> ManagedNamespaces {
        self.managed_namespaces.compile().unwrap_or_default()
    }

    fn undeclared_resources(
        &self,
        problems: &mut Vec<Problem>,
    ) -> sluice_engine::UndeclaredResources {
        let ignored = match &self.ignored_resources {
            Some(names) => resource_names(names, problems),
            None => IGNORED_RESOURCES.map(ResourceName::from).into(),
        };
        match self.undeclared_resources {
            Some(UndeclaredResources::Ignore) => sluice_engine::UndeclaredResources::Ignore,
            Some(UndeclaredResources::Block) | None => {
                sluice_engine::UndeclaredResources::IgnoreOnly(Arc::new(ignored))
            }
        }
    }
}

/// The names in `ignoredResources`, checked as the API server checks the names of requests.
fn resource_names(names: &[String], problems: &mut Vec<Problem>) -> BTreeSet<ResourceName> {
    let mut checked = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let field = format!("ignoredResources[{index}]");
        if !is_qualified_name(name) {
            let detail = "must be the name of a resource, such as \"ephemeral-storage\" or \"example.com/licence\"";
            problems.push(Problem::invalid(field, name.clone(), detail));
        } else if !checked.insert(ResourceName::from(name.as_str())) {
            problems.push(Problem::duplicate(field, name.clone()));
        }
    }
    checked
}

fn strategies(sharing: &FairSharing, problems: &mut Vec<Problem>) -> Vec<FairPreemption> {
    let Some(named) = &sharing.preemption_strategies else {
        return FairPreemption::DEFAULT.to_vec();
    };
    let field = "fairSharing.preemptionStrategies";
    if named.is_empty() {
        let detail = "must have at least one element: LessThanOrEqualToFinalShare or LessThanInitialShare; if absent, both apply";
        problems.push(Problem::invalid(field, "[]", detail));
    }
    for (index, strategy) in named.iter().enumerate() {
        if named.iter().take(index).any(|before| before == strategy) {
            let field = format!("{field}[{index}]");
            problems.push(Problem::duplicate(field, format!("{strategy:?}")));
        }
    }
    let translated = named.iter().map(|strategy| match strategy {
        PreemptionStrategy::LessThanOrEqualToFinalShare => {
            FairPreemption::LessThanOrEqualToFinalShare
        }
        PreemptionStrategy::LessThanInitialShare => FairPreemption::LessThanInitialShare,
    });
    translated.collect()
}

fn half_life(text: &str, problems: &mut Vec<Problem>) -> Option<Duration> {
    let parsed = duration::parse(text).ok();
    let counted = parsed.filter(|time| HALF_LIFE_MIN <= *time);
    if counted.is_none() {
        let field = "admissionFairSharing.usageHalfLifeTime";
        let detail = format!("{}, and at least 1s", duration::RULE);
        problems.push(Problem::invalid(field, text, detail));
    }
    counted
}

/// A section that is there with nothing in it is there.
fn even_if_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let section = Option::<T>::deserialize(deserializer)?;
    Ok(Some(section.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Config::parse(text).unwrap().settings().unwrap()
    }

    /// What the user is told.
    fn refusal(text: &str) -> String {
        let error = Config::parse(text).and_then(|config| config.settings());
        format!("{:#}", error.unwrap_err())
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(Config::parse("").unwrap().queue_label_aliases.is_empty());
        let config = Config::parse("queueLabelAliases: [kueue.x-k8s.io/queue-name]").unwrap();
        assert_eq!(config.queue_label_aliases, ["kueue.x-k8s.io/queue-name"]);
        for (text, expected) in [
            ("queueLabels: [x]", "unknown field `queueLabels`"),
            (
                "fairSharing: {enable: true}",
                "unknown field `enable`, expected one of preemptionStrategies",
            ),
            (
                "admissionFairSharing: {resourceWeights: {cpu: 2}}",
                "unknown field `resourceWeights`, expected one of usageHalfLifeTime",
            ),
            (
                "fairSharing: {preemptionStrategies: [LessThanFinalShare]}",
                "`LessThanFinalShare`",
            ),
            (
                "deviceClasses: [{name: example.com/gpu, classes: [x]}]",
                "unknown field `classes`, expected one of name, deviceClassNames",
            ),
            (
                "deviceClasses: [{name: example.com/gpu, deviceClassNames: []}]",
                "check the configuration file: deviceClasses[0].deviceClassNames: Required value",
            ),
        ] {
            let told = refusal(text);
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn nothing_is_shared_fairly_unless_told() {
        for text in ["", "queueLabelAliases: []", "admissionFairSharing: {}"] {
            assert_eq!(settings(text).fair_sharing, None, "{text:?}");
        }
    }

    #[test]
    fn fair_sharing_has_both_strategies_unless_told() {
        let both = FairPreemption::DEFAULT.to_vec();
        for text in ["fairSharing: {}", "fairSharing:"] {
            assert_eq!(
                settings(text).fair_sharing.as_ref(),
                Some(&both),
                "{text:?}"
            );
        }
        let text = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}";
        let one = vec![FairPreemption::LessThanInitialShare];
        assert_eq!(settings(text).fair_sharing, Some(one));
    }

    #[test]
    fn resources_that_no_queue_covers_block_but_for_those_that_are_ignored() {
        let listed = |names: &[&str]| {
            let names = names.iter().map(|name| ResourceName::from(*name)).collect();
            sluice_engine::UndeclaredResources::IgnoreOnly(Arc::new(names))
        };
        for (text, expected) in [
            ("", listed(&IGNORED_RESOURCES)),
            ("undeclaredResources: Block", listed(&IGNORED_RESOURCES)),
            ("ignoredResources: []", listed(&[])),
            (
                "ignoredResources: [example.com/licence]",
                listed(&["example.com/licence"]),
            ),
            (
                "undeclaredResources: Ignore",
                sluice_engine::UndeclaredResources::Ignore,
            ),
        ] {
            assert_eq!(settings(text).undeclared_resources, expected, "{text:?}");
        }
        assert_eq!(
            refusal("ignoredResources: [cpu, 'a b', cpu]"),
            "check the configuration file: ignoredResources[1]: Invalid value: \"a b\": must be the \
             name of a resource, such as \"ephemeral-storage\" or \"example.com/licence\"; \
             ignoredResources[2]: Duplicate value: \"cpu\""
        );
        let told = refusal("undeclaredResources: Allow");
        assert!(
            told.contains("unknown variant `Allow`, expected one of Block, Ignore"),
            "{told}"
        );
    }

    #[test]
    fn a_half_life_is_a_duration() {
        for (text, seconds) in [
            ("168h", 168 * 3600),
            ("7d", 168 * 3600),
            ("1h30m", 5400),
            ("90s", 90),
            ("1.5h", 5400),
        ] {
            let text = format!("admissionFairSharing: {{usageHalfLifeTime: {text:?}}}");
            let expected = Duration::from_secs(seconds);
            assert_eq!(settings(&text).usage_half_life, expected, "{text}");
        }
    }

    #[test]
    fn values_that_can_not_be_meant_are_told_by_field() {
        for text in ["0s", "-1h", "1mo", "a week", "168", "10ms"] {
            let told = refusal(&format!(
                "admissionFairSharing: {{usageHalfLifeTime: {text:?}}}"
            ));
            let expected = format!(
                "check the configuration file: admissionFairSharing.usageHalfLifeTime: Invalid \
                 value: {text:?}: {}, and at least 1s",
                duration::RULE
            );
            assert_eq!(told, expected);
        }
        assert_eq!(
            refusal("fairSharing: {preemptionStrategies: []}"),
            "check the configuration file: fairSharing.preemptionStrategies: Invalid value: \"[]\": \
             must have at least one element: LessThanOrEqualToFinalShare or LessThanInitialShare; if absent, both apply"
        );
        assert_eq!(
            refusal(
                "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanInitialShare]}"
            ),
            "check the configuration file: fairSharing.preemptionStrategies[1]: Duplicate value: \
             \"LessThanInitialShare\""
        );
    }
}
