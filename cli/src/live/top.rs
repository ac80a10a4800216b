//! `kubectl sluice top`: who holds how much quota, by LocalQueue, namespace or ClusterQueue.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use sluice_crds::{LocalQueue, Quantity};

use super::listed::list;
use super::outcome::{EXIT_CODES, Ended, LiveError};
use super::view::{Look, View};
use crate::cluster::{Tell, Told};
use crate::table::columns;

/// Show who holds how much quota: by LocalQueue, namespace or ClusterQueue. That of a ClusterQueue is of all namespaces,
/// unless -n names one.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Top {
    /// Add up by queue, namespace or cluster-queue.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "queue",
        hide_possible_values = true
    )]
    by: By,
    #[command(flatten)]
    view: View,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Queue,
    Namespace,
    ClusterQueue,
}

/// What somebody holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// `namespace/queue`, the namespace, or the ClusterQueue.
    pub name: String,
    /// How many workloads hold quota.
    pub workloads: i64,
    /// How much of each resource, in all flavors together.
    pub held: BTreeMap<String, Quantity>,
}

impl Top {
    /// Shows it.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let look = async |client: &Client, namespace: Option<&str>, note: &mut Tell<'_>| {
            let is_named = self.view.named()?.is_some();
            let queues = queues(client, self.by, namespace, is_named, note).await?;
            let holders = holders(&queues, self.by);
            Look::of(self.view.output, &holders, |_| table(&holders, self.by))
        };
        self.view.show(tell, look).await
    }
}

/// What is added up. A ClusterQueue has LocalQueues in many namespaces: where these are those of one, be it because the
/// command line names it, it is told.
async fn queues(
    client: &Client,
    by: By,
    namespace: Option<&str>,
    is_named: bool,
    tell: &mut Tell<'_>,
) -> Result<Vec<LocalQueue>, LiveError> {
    let Some(own) = namespace.filter(|_| by == By::ClusterQueue) else {
        return list(client, namespace, None, tell).await;
    };
    let mut note = format!("only the LocalQueues of namespace {own} are added up");
    if !is_named {
        match list(client, None, None, tell).await {
            Err(LiveError::Cluster(why)) if why.is_forbidden() => note = format!("{note}: {why}"),
            listed => return listed,
        }
    }
    let queues = list(client, Some(own), None, tell).await?;
    tell(Told::Note(note))?;
    Ok(queues)
}

/// Who holds something, by name.
fn holders(queues: &[LocalQueue], by: By) -> Vec<Holder> {
    let mut sums: BTreeMap<String, (i64, BTreeMap<String, i128>)> = BTreeMap::new();
    for queue in queues {
        let namespace = queue.namespace().unwrap_or_default();
        let name = match by {
            By::Queue => format!("{namespace}/{}", queue.name_any()),
            By::Namespace => namespace,
            By::ClusterQueue => queue.spec.cluster_queue.clone(),
        };
        let status = queue.status.clone().unwrap_or_default();
        let (count, held) = sums.entry(name).or_default();
        *count = count.saturating_add(i64::from(status.reserving_workloads));
        for resource in status
            .flavors_usage
            .iter()
            .flat_map(|flavor| &flavor.resources)
        {
            let sum = held.entry(resource.name.clone()).or_default();
            *sum = sum.saturating_add(resource.total.nanos().unwrap_or_default());
        }
    }
    let holders = sums.into_iter().map(|(name, (workloads, held))| Holder {
        name,
        workloads,
        held: held
            .into_iter()
            .filter(|(_, nanos)| 0 < *nanos)
            .map(|(resource, nanos)| {
                let quantity = Quantity::of(&resource, nanos);
                (resource, quantity)
            })
            .collect(),
    });
    holders.collect()
}

fn table(holders: &[Holder], by: By) -> String {
    if holders.is_empty() {
        return "No LocalQueues found\n".to_owned();
    }
    let first = match by {
        By::Queue => "QUEUE",
        By::Namespace => "NAMESPACE",
        By::ClusterQueue => "CLUSTERQUEUE",
    };
    let resources: std::collections::BTreeSet<&String> = holders
        .iter()
        .flat_map(|holder| holder.held.keys())
        .collect();
    let upper: Vec<String> = resources.iter().map(|name| name.to_uppercase()).collect();
    let mut headers = vec![first, "WORKLOADS"];
    headers.extend(upper.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = holders
        .iter()
        .map(|holder| {
            let held = resources.iter().map(|name| {
                let held = holder.held.get(*name);
                held.map_or_else(|| "0".to_owned(), |held| held.0.clone())
            });
            let mut row = vec![holder.name.clone(), holder.workloads.to_string()];
            row.extend(held);
            row
        })
        .collect();
    columns(&headers, &rows, 0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use insta::assert_snapshot;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn queue(namespace: &str, name: &str, count: i32, cpu: &str) -> Value {
        let resources = json!([{"name": "cpu", "total": cpu}, {"name": "memory", "total": "1Gi"}]);
        json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": "shared"},
            "status": {"reservingWorkloads": count, "flavorsUsage": [
                {"name": "default", "resources": resources},
            ]},
        })
    }

    /// What is shown by ClusterQueue of two namespaces that share one, and the notes.
    async fn shared(sees_all: bool, is_named: bool) -> (Vec<(String, i64)>, Vec<String>) {
        let answering = tower::service_fn(move |request: Request<Body>| {
            let all = [queue("blue", "main", 2, "1"), queue("red", "main", 5, "4")];
            let (code, body) = match request.uri().path() {
                "/apis/sluice.dev/v1alpha1/localqueues" if sees_all => {
                    (200, json!({"metadata": {}, "items": all}))
                }
                "/apis/sluice.dev/v1alpha1/namespaces/blue/localqueues" => {
                    (200, json!({"metadata": {}, "items": all[..1]}))
                }
                _ => (
                    403,
                    json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                        "message": "not for you"}),
                ),
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let client = Client::new(answering, "default");
        let mut notes = Vec::new();
        let mut tell = |told| {
            if let Told::Note(text) = told {
                notes.push(text);
            }
            Ok(())
        };
        let by = By::ClusterQueue;
        let queues = queues(&client, by, Some("blue"), is_named, &mut tell).await;
        let holders = holders(&queues.unwrap(), by).into_iter();
        let holders = holders.map(|holder| (holder.name, holder.workloads));
        (holders.collect(), notes)
    }

    #[tokio::test]
    async fn a_part_of_a_cluster_queue_is_not_shown_as_the_whole() {
        let held = |workloads| vec![("shared".to_owned(), workloads)];
        let part = "only the LocalQueues of namespace blue are added up";
        assert_eq!(shared(true, false).await, (held(7), vec![]));
        assert_eq!(
            shared(false, false).await,
            (held(2), vec![format!("{part}: not for you")])
        );
        assert_eq!(shared(true, true).await, (held(2), vec![part.to_owned()]));
    }

    #[test]
    fn usage_is_added_up() {
        let queues = [
            queue("blue", "main", 2, "1500m"),
            queue("blue", "night", 1, "2"),
            queue("red", "main", 0, "0"),
        ]
        .map(|queue| serde_json::from_value(queue).unwrap());
        let told =
            [By::Queue, By::Namespace, By::ClusterQueue].map(|by| table(&holders(&queues, by), by));
        assert_snapshot!(told.join("\n"), @r"
    QUEUE        WORKLOADS   CPU     MEMORY
    blue/main    2           1500m   1Gi
    blue/night   1           2       1Gi
    red/main     0           0       1Gi

    NAMESPACE   WORKLOADS   CPU     MEMORY
    blue        3           3500m   2Gi
    red         0           0       1Gi

    CLUSTERQUEUE   WORKLOADS   CPU     MEMORY
    shared         3           3500m   3Gi
    ");
    }
}
