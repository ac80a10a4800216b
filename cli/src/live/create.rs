//! `kubectl sluice create`: the YAML of queues and flavors, to be looked at and applied.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use sluice_crds::Quantity;
use sluice_kinds::names;

use super::outcome::{Ended, LiveError};
use crate::cluster::{Tell, Told};

/// Print the YAML of a queue or a flavor.
#[derive(Debug, Subcommand)]
pub enum Create {
    ClusterQueue(ClusterQueue),
    #[command(visible_alias = "queue")]
    LocalQueue(LocalQueue),
    Flavor(Flavor),
}

/// Print the YAML of a ClusterQueue.
#[derive(Debug, Args)]
pub struct ClusterQueue {
    /// Its name.
    name: String,
    /// Quota: FLAVOR:RESOURCE=AMOUNT,... as in default:cpu=4,memory=8Gi. May be repeated, in the order in which flavors
    /// are tried.
    #[arg(long, value_name = "QUOTA", required = true)]
    quota: Vec<String>,
    /// The cohort to borrow from and lend to.
    #[arg(long, value_name = "NAME")]
    cohort: Option<String>,
}

/// Print the YAML of a LocalQueue.
#[derive(Debug, Args)]
pub struct LocalQueue {
    /// Its name.
    name: String,
    /// The ClusterQueue whose quota it uses.
    #[arg(long, value_name = "NAME")]
    cluster_queue: String,
    /// Its namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Print the YAML of a ResourceFlavor.
#[derive(Debug, Args)]
pub struct Flavor {
    /// Its name.
    name: String,
    /// A label of its nodes: KEY=VALUE. May be repeated.
    #[arg(long, value_name = "LABEL")]
    node_label: Vec<String>,
}

impl Create {
    /// Prints it.
    ///
    /// # Errors
    /// A name, label or quantity that the API server would refuse.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let object = match self {
            Self::ClusterQueue(queue) => queue.object()?,
            Self::LocalQueue(queue) => queue.object()?,
            Self::Flavor(flavor) => flavor.object()?,
        };
        let yaml = serde_saphyr::to_string(&object);
        let yaml = yaml.map_err(|error| LiveError::Unprintable(error.to_string()))?;
        tell(Told::Result(yaml))?;
        Ok(Ended::Done)
    }
}

impl ClusterQueue {
    fn object(&self) -> Result<Value, LiveError> {
        let mut spec = BTreeMap::from([
            ("namespaceSelector", json!({})),
            ("resourceGroups", self.groups()?),
        ]);
        if let Some(cohort) = &self.cohort {
            spec.insert("cohortName", json!(named("--cohort", cohort)?));
        }
        Ok(own(
            "ClusterQueue",
            &json!({"name": named("NAME", &self.name)?}),
            &spec,
        ))
    }
}

impl ClusterQueue {
    /// The flavors by the resources that they have: those of a group have the same, and no other group has any of them.
    fn groups(&self) -> Result<Value, LiveError> {
        let mut groups: Vec<(Vec<String>, Vec<Value>)> = Vec::new();
        let mut named_flavors = BTreeSet::new();
        for quota in &self.quota {
            let (flavor, amounts) = parse_quota(quota)?;
            if !named_flavors.insert(flavor) {
                return Err(LiveError::TwoQuotas(flavor.to_owned()));
            }
            let amounts: BTreeMap<String, String> = amounts.into_iter().collect();
            let names: Vec<String> = amounts.keys().cloned().collect();
            let known = groups.iter().position(|(covered, _)| *covered == names);
            let group = if let Some(at) = known {
                groups.get_mut(at)
            } else {
                let mut covered = groups.iter().flat_map(|(covered, _)| covered);
                if let Some(name) = covered.find(|name| names.contains(name)) {
                    return Err(LiveError::TwoGroups(quota.clone(), name.clone()));
                }
                groups.push((names, Vec::new()));
                groups.last_mut()
            };
            let resource = |(name, amount)| json!({"name": name, "nominalQuota": amount});
            let resources: Vec<Value> = amounts.into_iter().map(resource).collect();
            if let Some((_, flavors)) = group {
                flavors.push(json!({"name": flavor, "resources": resources}));
            }
        }
        let group = |(covered, flavors)| json!({"coveredResources": covered, "flavors": flavors});
        Ok(groups.into_iter().map(group).collect())
    }
}

impl LocalQueue {
    fn object(&self) -> Result<Value, LiveError> {
        let mut metadata = BTreeMap::from([("name", named("NAME", &self.name)?)]);
        if let Some(namespace) = &self.namespace {
            metadata.insert("namespace", named("--namespace", namespace)?);
        }
        let spec = json!({"clusterQueue": named("--cluster-queue", &self.cluster_queue)?});
        Ok(own("LocalQueue", &metadata, &spec))
    }
}

impl Flavor {
    fn object(&self) -> Result<Value, LiveError> {
        let mut labels = BTreeMap::new();
        for label in &self.node_label {
            let parsed = label.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) = parsed.ok_or_else(|| LiveError::NoLabel(label.clone()))?;
            // A value is a name without a prefix, or empty.
            let is_value =
                value.is_empty() || (!value.contains('/') && names::is_qualified_name(value));
            if !names::is_qualified_name(key) || !is_value {
                return Err(LiveError::BadLabel(label.clone()));
            }
            labels.insert(key, value);
        }
        let spec = if labels.is_empty() {
            json!({})
        } else {
            json!({"nodeLabels": labels})
        };
        Ok(own(
            "ResourceFlavor",
            &json!({"name": named("NAME", &self.name)?}),
            &spec,
        ))
    }
}

fn own(kind: &str, metadata: &impl Serialize, spec: &impl Serialize) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// The name that `given` says, if an object can have it.
fn named<'a>(given: &'static str, name: &'a str) -> Result<&'a str, LiveError> {
    if names::subdomain(name, "").is_empty() {
        Ok(name)
    } else {
        Err(LiveError::BadName {
            given,
            name: name.to_owned(),
        })
    }
}

/// Each resource with its amount.
type Amounts = Vec<(String, String)>;

/// The flavor, and the amount of each resource.
fn parse_quota(text: &str) -> Result<(&str, Amounts), LiveError> {
    let wrong = || LiveError::NoQuota(text.to_owned());
    let (flavor, amounts) = text.split_once(':').ok_or_else(wrong)?;
    let mut parsed = Vec::new();
    for amount in amounts.split(',') {
        let (name, amount) = amount.split_once('=').ok_or_else(wrong)?;
        let nanos = Quantity(amount.to_owned()).nanos();
        if name.is_empty() || nanos.is_err() {
            return Err(wrong());
        }
        if !names::is_qualified_name(name) {
            return Err(LiveError::BadResource(text.to_owned(), name.to_owned()));
        }
        if nanos.is_ok_and(|nanos| nanos < 0) {
            return Err(LiveError::Negative(text.to_owned(), amount.to_owned()));
        }
        if parsed.iter().any(|(known, _)| known == name) {
            return Err(LiveError::Twice(text.to_owned(), name.to_owned()));
        }
        parsed.push((name.to_owned(), amount.to_owned()));
    }
    Ok((named("--quota: flavor", flavor)?, parsed))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn queues_and_flavors_are_printed() {
        let queue = ClusterQueue {
            name: "team-a".to_owned(),
            quota: vec![
                "reserved:cpu=4,memory=8Gi".to_owned(),
                "spot:cpu=16,memory=32Gi".to_owned(),
            ],
            cohort: Some("all".to_owned()),
        };
        let local = LocalQueue {
            name: "main".to_owned(),
            cluster_queue: "team-a".to_owned(),
            namespace: Some("blue".to_owned()),
        };
        let flavor = Flavor {
            name: "spot".to_owned(),
            node_label: vec!["cloud.example.com/spot=true".to_owned()],
        };
        let all = [queue.object(), local.object(), flavor.object()];
        let yaml: Vec<String> = all
            .into_iter()
            .map(|o| serde_saphyr::to_string(&o.unwrap()).unwrap())
            .collect();
        assert_snapshot!(yaml.join("---\n"), @r#"
    apiVersion: sluice.dev/v1alpha1
    kind: ClusterQueue
    metadata:
      name: team-a
    spec:
      cohortName: all
      namespaceSelector: {}
      resourceGroups:
      - coveredResources:
        - cpu
        - memory
        flavors:
        - name: reserved
          resources:
          - name: cpu
            nominalQuota: "4"
          - name: memory
            nominalQuota: 8Gi
        - name: spot
          resources:
          - name: cpu
            nominalQuota: "16"
          - name: memory
            nominalQuota: 32Gi
    ---
    apiVersion: sluice.dev/v1alpha1
    kind: LocalQueue
    metadata:
      name: main
      namespace: blue
    spec:
      clusterQueue: team-a
    ---
    apiVersion: sluice.dev/v1alpha1
    kind: ResourceFlavor
    metadata:
      name: spot
    spec:
      nodeLabels:
        cloud.example.com/spot: "true"
    "#);
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        let quota = |text: &str| parse_quota(text).unwrap_err().to_string();
        let rule = "must be FLAVOR:RESOURCE=AMOUNT,... as in default:cpu=4,memory=8Gi";
        for text in [
            "cpu=4",
            "default:cpu",
            "default:cpu=x",
            "default:=1",
            "default:",
        ] {
            assert_eq!(quota(text), format!("--quota {text:?}: {rule}"), "{text}");
        }
        for (text, rule) in [
            (
                "default:cpu=-1",
                "\"-1\" must be greater than or equal to 0",
            ),
            (
                "spot:default:cpu=1",
                "\"default:cpu\" is no name of a resource: must be a qualified name, as in cpu or example.com/gpu",
            ),
            ("default:cpu=1,cpu=2", "\"cpu\" is named twice"),
        ] {
            assert_eq!(quota(text), format!("--quota {text:?}: {rule}"), "{text}");
        }
        for label in ["a b=c", "a=b c", "a/b/c=d", "a=b/c"] {
            let flavor = Flavor {
                name: "spot".to_owned(),
                node_label: vec![label.to_owned()],
            };
            assert_eq!(
                flavor.object().unwrap_err().to_string(),
                format!(
                    "--node-label {label:?}: KEY must be a qualified name and VALUE a name of at most 63 characters, \
                     as in cloud.example.com/spot=true"
                )
            );
        }
        assert_eq!(
            quota("A:cpu=1"),
            "--quota: flavor \"A\": must be a lowercase RFC 1123 subdomain"
        );
    }

    #[test]
    fn flavors_are_grouped_by_their_resources() {
        let groups = |quotas: &[&str]| {
            let queue = ClusterQueue {
                name: "a".to_owned(),
                quota: quotas.iter().map(|quota| (*quota).to_owned()).collect(),
                cohort: None,
            };
            queue.groups().map_err(|error| error.to_string())
        };
        let found = groups(&[
            "a:memory=1Gi,cpu=1",
            "gpus:example.com/gpu=1",
            "b:cpu=2,memory=2Gi",
        ]);
        let found = found.unwrap();
        let covered = |at: usize| found[at]["coveredResources"].clone();
        assert_eq!(covered(0), json!(["cpu", "memory"]));
        assert_eq!(found[0]["flavors"][1]["name"], "b");
        assert_eq!(covered(1), json!(["example.com/gpu"]));
        assert_eq!(
            groups(&["a:cpu=1,memory=1Gi", "b:cpu=1"]).unwrap_err(),
            "--quota \"b:cpu=1\": \"cpu\" is in another group: flavors that have a resource in common must have the same \
             resources"
        );
        assert_eq!(
            groups(&["a:cpu=1", "a:memory=1Gi"]).unwrap_err(),
            "--quota: flavor \"a\" is named twice: a flavor has one list of resources"
        );
    }
}
