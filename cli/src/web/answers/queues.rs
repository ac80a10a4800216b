//! The tree of cohorts and ClusterQueues, and the LocalQueues.

use kube::ResourceExt as _;
use serde::Serialize;
use sluice_crds::LocalQueue;

use super::viewer::{Answer, Viewer};
use crate::live::queues::{Node, inactive};
use crate::live::status;
use crate::web::problem::{Problem, Problems};

/// All queues that the caller may see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    /// As `kubectl sluice status -o json` prints them.
    nodes: Vec<Node>,
    local_queues: Vec<Local>,
}

/// A LocalQueue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Local {
    namespace: String,
    name: String,
    cluster_queue: String,
    /// Why nothing is admitted, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    inactive: Option<String>,
    gated: i32,
    pending: i32,
    admitted: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<String>,
}

impl Viewer {
    /// All queues.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn queues(&self) -> Result<Answer<Queues>, Problem> {
        let mut problems = Problems::default();
        let nodes = status::nodes(&self.client, &mut problems.tell()).await;
        let nodes = problems.or_nothing("clusterqueues and cohorts", nodes)?;
        let local = self.local_queues(None, &mut problems).await?;
        let local_queues = local.iter().map(of_queue).collect();
        let queues = Queues {
            nodes,
            local_queues,
        };
        Ok(Answer::new(queues, problems))
    }
}

pub(super) fn of_queue(queue: &LocalQueue) -> Local {
    let status = queue.status.clone().unwrap_or_default();
    Local {
        namespace: queue.namespace().unwrap_or_default(),
        name: queue.name_any(),
        cluster_queue: queue.spec.cluster_queue.clone(),
        inactive: inactive(&status.conditions, queue.spec.stop_policy),
        gated: status.gated_workloads,
        pending: status.pending_workloads,
        admitted: status.admitted_workloads,
        usage: status.usage,
    }
}
