//! The queues and jobs of a cluster as documents, for the simulation to play.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{LimitRange, Namespace, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use sluice_crds::{
    ClusterQueue, Cohort, JobKind, LocalQueue, MANAGED_LABEL, ResourceFlavor, Workload,
    WorkloadPriorityClass,
};
use sluice_kinds::requests::{ClassAdditions, PodDefaults, container_requests};

use super::listed::list;
use super::outcome::LiveError;
use crate::cluster::{Cluster, Connection, Tell, Told, pages, run};
use crate::input::Document;
use crate::simulate::Seen;

/// How often it is told how far the reading is.
const PROGRESS: Duration = Duration::from_secs(1);

/// What JobKinds are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKinds {
    /// To know which jobs never end by themselves. Who may not list them goes by the shipped ones.
    ToKnowEnds,
    /// To read jobs.
    ToReadJobs,
}

/// Reads all queues, what they refer to, and all jobs of a cluster.
///
/// # Errors
/// The API server refuses one of them, or does not answer.
pub fn export(
    connection: &Connection,
    job_kinds: JobKinds,
    tell: &mut Tell<'_>,
) -> Result<Seen, LiveError> {
    let exported = async {
        let cluster = Cluster::connect(connection).await?;
        export_with(&cluster.client, job_kinds, usize::MAX, tell).await
    };
    run(exported).map_err(LiveError::NoRuntime)?
}

/// The same with a client. What is read takes so much memory at most.
///
/// # Errors
/// The API server refuses one of them, or does not answer.
pub async fn export_with(
    client: &Client,
    job_kinds: JobKinds,
    bytes_max: usize,
    tell: &mut Tell<'_>,
) -> Result<Seen, LiveError> {
    let mut reading = Reading {
        client,
        documents: Vec::new(),
        bytes_left: bytes_max,
        told: Instant::now(),
    };
    let at = Timestamp::now().as_millisecond();
    let resources = [
        ApiResource::erase::<ClusterQueue>(&()),
        ApiResource::erase::<Cohort>(&()),
        ApiResource::erase::<ResourceFlavor>(&()),
        ApiResource::erase::<LocalQueue>(&()),
        ApiResource::erase::<WorkloadPriorityClass>(&()),
        ApiResource::erase::<PriorityClass>(&()),
        ApiResource::erase::<Namespace>(&()),
        ApiResource::erase::<Workload>(&()),
    ];
    for resource in resources {
        reading.add(&resource, None, tell).await?;
    }
    let kinds = ApiResource::erase::<JobKind>(&());
    match (reading.add(&kinds, None, tell).await, job_kinds) {
        (Err(LiveError::Cluster(why)), JobKinds::ToKnowEnds) => {
            let text = format!("which jobs never end is told by the shipped JobKinds: {why}");
            tell(Told::Note(text))?;
        }
        (read, _) => read?,
    }
    let managed = format!("{MANAGED_LABEL}=true");
    let pods = ApiResource::erase::<Pod>(&());
    match reading.add(&pods, Some(&managed), tell).await {
        Err(LiveError::Cluster(why)) => {
            let text = format!("pods that are admitted by themselves are left out: {why}");
            tell(Told::Note(text))?;
        }
        // Without some of the pods, quota would seem free that they hold.
        read => read?,
    }
    Ok(Seen {
        at,
        documents: reading.documents,
        pod_defaults: PodDefaults::default(),
    })
}

/// What LimitRanges of the namespace and RuntimeClasses add to pods.
///
/// # Errors
/// The result can't be written.
pub async fn pod_defaults(
    client: &Client,
    namespace: &str,
    tell: &mut Tell<'_>,
) -> Result<PodDefaults, LiveError> {
    let mut defaults = PodDefaults::default();
    match list::<LimitRange>(client, Some(namespace), None, tell).await {
        Ok(mut ranges) => {
            ranges.sort_by_key(kube::ResourceExt::name_any);
            for range in &ranges {
                defaults.add_limit_range(&container_requests(range));
            }
        }
        Err(LiveError::Cluster(why)) => {
            let text = format!("what LimitRanges add to its pods is left out: {why}");
            tell(Told::Note(text))?;
        }
        Err(other) => return Err(other),
    }
    match list::<RuntimeClass>(client, None, None, tell).await {
        Ok(classes) => {
            let classes = classes.iter();
            let classes = classes.map(|class| (class.name_any(), ClassAdditions::of(class)));
            defaults.runtime_classes = Some(classes.collect());
        }
        Err(LiveError::Cluster(why)) => {
            let text = format!("what RuntimeClasses add to its pods is left out: {why}");
            tell(Told::Note(text))?;
        }
        Err(other) => return Err(other),
    }
    Ok(defaults)
}

struct Reading<'a> {
    client: &'a Client,
    documents: Vec<Document>,
    /// How much memory more of them may take.
    bytes_left: usize,
    /// When it was last told how far it is.
    told: Instant,
}

impl Reading<'_> {
    async fn add(
        &mut self,
        resource: &ApiResource,
        labels: Option<&str>,
        tell: &mut Tell<'_>,
    ) -> Result<(), LiveError> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), resource);
        let mut params = ListParams::default();
        if let Some(labels) = labels {
            params = params.labels(labels);
        }
        let what = format!("list {}", resource.plural);
        pages::each(&what, &api, params, |written| {
            // Of all kinds and pages: it is all that tells one object from another in a message.
            let number = self.documents.len() + 1;
            let document = document(written, resource, number)?;
            let bytes = bytes_of(&document.value);
            let left = self.bytes_left.checked_sub(bytes);
            self.bytes_left = left.ok_or(LiveError::TooMuch)?;
            self.documents.push(document);
            if PROGRESS < self.told.elapsed() {
                let count = self.documents.len();
                let text = format!("reading the cluster: {count} objects so far");
                tell(Told::Note(text))?;
                self.told = Instant::now();
            }
            Ok(ControlFlow::Continue(()))
        })
        .await
    }
}

fn document(
    written: pages::Written<'_>,
    resource: &ApiResource,
    number: usize,
) -> Result<Document, LiveError> {
    let unreadable = |error: serde_json::Error| LiveError::Unprintable(error.to_string());
    let mut object: DynamicObject = written.read().map_err(unreadable)?;
    // Nothing asks who wrote what, and it may be most of an object.
    object.metadata.managed_fields = None;
    let value = serde_json::to_value(object);
    let mut value = value.map_err(unreadable)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
        fields.insert("kind".to_owned(), resource.kind.clone().into());
    }
    Ok(Document {
        file: "the cluster".to_owned(),
        place: format!("object {number}"),
        value,
    })
}

/// What a value takes of memory. Maps have nodes of a fixed size.
fn bytes_of(value: &Value) -> usize {
    const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>());
    let own = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let nodes = fields.len().div_ceil(5).saturating_mul(NODE);
            let texts = fields.map(|(name, value)| name.len().saturating_add(bytes_of(value)));
            nodes.saturating_add(texts.sum())
        }
    };
    own.saturating_add(size_of::<Value>())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn no_two_objects_of_a_cluster_have_the_same_number() {
        let two = tower::service_fn(async |_: http::Request<Body>| {
            let list = json!({"metadata": {}, "items": [
                {"metadata": {"name": "a"}}, {"metadata": {"name": "b"}},
            ]});
            let list = Body::from(list.to_string().into_bytes());
            Ok::<_, Infallible>(http::Response::new(list))
        });
        let client = Client::new(two, "default");
        let mut reading = Reading {
            client: &client,
            documents: Vec::new(),
            bytes_left: usize::MAX,
            told: Instant::now(),
        };
        let resources = [
            ApiResource::erase::<LocalQueue>(&()),
            ApiResource::erase::<Workload>(&()),
        ];
        for resource in &resources {
            reading.add(resource, None, &mut |_| Ok(())).await.unwrap();
        }
        // The third one is too much.
        let two = reading.documents.iter();
        let two = two.take(2).map(|document| bytes_of(&document.value)).sum();
        let mut bounded = Reading {
            client: &client,
            documents: Vec::new(),
            bytes_left: two,
            told: Instant::now(),
        };
        let [first, second] = resources.each_ref();
        bounded.add(first, None, &mut |_| Ok(())).await.unwrap();
        let more = bounded.add(second, None, &mut |_| Ok(())).await;
        assert!(matches!(more, Err(LiveError::TooMuch)) && bounded.documents.len() == 2);
        let places: Vec<_> = (reading.documents.iter())
            .map(|document| document.place.as_str())
            .collect();
        assert_eq!(places, ["object 1", "object 2", "object 3", "object 4"]);
    }

    /// Quota would seem free that the others hold.
    #[tokio::test]
    async fn nothing_is_answered_of_a_part_of_the_pods() {
        let cluster = tower::service_fn(async |request: http::Request<Body>| {
            let items = match request.uri().path() {
                "/api/v1/pods" => json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]),
                _ => json!([]),
            };
            let list = json!({"metadata": {}, "items": items}).to_string();
            Ok::<_, Infallible>(http::Response::new(Body::from(list.into_bytes())))
        });
        let client = Client::new(cluster, "default");
        let read = async |bytes_max| {
            export_with(&client, JobKinds::ToKnowEnds, bytes_max, &mut |_| Ok(())).await
        };
        let all = read(usize::MAX).await.unwrap().documents;
        let bytes = all
            .iter()
            .map(|document| bytes_of(&document.value))
            .sum::<usize>();
        assert_eq!(all.len(), 2);
        assert_eq!(read(bytes).await.unwrap().documents.len(), 2);
        assert!(matches!(read(bytes - 1).await, Err(LiveError::TooMuch)));
    }
}
