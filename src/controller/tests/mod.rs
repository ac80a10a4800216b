//! The controller without I/O: inputs in, outputs out, the time an argument. What only the order of things can
//! break is for the simulation (`tests/simulation`).
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test")]

use std::convert::Infallible;

use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::client::Body;
use serde_json::{Value, json};
use sluice_webhooks::Policy;
use sluice_webhooks::manifests::ManagedResource;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::kinds::News;
use super::*;
use crate::api::watch::Change;
use crate::api::write::Reply;
use crate::jobkinds::webhook_rules::RulesBasis;
use crate::plan::{StatusPurpose, Write};
use crate::process::clock::Moment;
use crate::process::notices::Notices;
use crate::process::term::Term;

mod cleanups;
mod clocks;
mod deleted_again;
mod ended_terms;
mod evictions;
mod gates;
mod given_back;
mod held_notes;
mod job_kinds;
mod labels;
mod levels;
mod lost_members;
mod lost_workloads;
mod made_again;
mod missing_pods;
mod opening;
mod pod_usage;
mod pods_to_come;
mod priorities;
mod readers;
mod replies;
mod requeued;
mod rereads;
mod standing;
mod turns;
mod unqueued;
mod unreadable;
mod unreleased;

/// The term of the controller.
const TERM: &str = "3.lease";

/// A controller, and the time by its clock.
struct Play {
    controller: Controller,
    now: Now,
    /// Where Jobs are seen, once they are listed.
    jobs: Option<Source>,
}

impl Play {
    /// Nothing is listed yet. Only the rules of the webhooks need a runtime.
    fn new() -> Self {
        let never = service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>()
        });
        let basis = RulesBasis {
            options: sluice_webhooks::manifests::Options::default(),
            policy: Arc::new(arc_swap::ArcSwap::from_pointee(Policy::default())),
            notices: Notices::default(),
        };
        let stop = CancellationToken::new();
        let rules = Rules::keep(
            Client::new(never, "default"),
            Arc::new(Term::new()),
            basis,
            stop,
        );
        let options = Options {
            queue_labels: QueueLabels::default(),
            queue_gates: QueueGates::default(),
            key_aliases: KeyAliases::default(),
            instance: "sluice-0".to_owned(),
            settings: Settings::new(sluice_translate::POD),
            device_classes: DeviceClasses::default(),
            local_queue_metrics: false,
            managed_namespaces: Arc::default(),
            clock_ahead: SignedDuration::ZERO,
        };
        let now = Now {
            moment: Moment::from_millis(1_000_000),
            wall: "2026-11-23T12:00:00Z".parse().unwrap(),
        };
        let metrics = Arc::new(Metrics::new());
        let controller = Controller::new(options, metrics, TERM.into(), rules, now);
        Self {
            controller,
            now,
            jobs: None,
        }
    }

    /// Lists these objects of a fixed source.
    fn list(&mut self, source: &Source, objects: impl IntoIterator<Item = Value>) {
        let (ack, _asked) = oneshot::channel();
        self.observe(source, Change::Listing(ack));
        for object in objects {
            self.observe(source, Change::InList(seen(object)));
        }
        self.observe(source, Change::Listed);
    }

    fn observe(&mut self, source: &Source, change: Change<Seen>) {
        let source = source.clone();
        let observation = Observation { source, change };
        self.handle(Input::Observed(observation));
    }

    fn handle(&mut self, input: Input) {
        self.controller.handle(input, self.now);
    }

    /// The writes that come of one cycle.
    fn cycle(&mut self) -> Vec<InFlightWrite> {
        let outputs = self.controller.cycle(self.now);
        let writes = outputs.into_iter().filter_map(|output| match output {
            Output::Write(write) => Some(write),
            _ => None,
        });
        writes.collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now.moment = self.now.moment.after(time);
        self.now.wall += time;
    }

    fn end(&mut self, sent: InFlightWrite, reply: Reply) {
        self.handle(Input::WriteEnded(Box::new(EndedWrite { sent, reply })));
    }

    /// Everything is listed but Jobs: one queue with a cpu.
    fn list_settings(&mut self) {
        self.list_settings_of(&job_kind());
    }

    fn list_settings_of(&mut self, kind: &Value) {
        for source in FIXED_SOURCES {
            let objects = match source {
                Source::JobKind => vec![kind.clone()],
                Source::ResourceFlavor => vec![own("ResourceFlavor", "any", &json!({}))],
                Source::ClusterQueue => vec![own("ClusterQueue", "q", &queue_spec())],
                Source::LocalQueue => vec![local_queue()],
                Source::Namespace => vec![json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}})],
                _ => Vec::new(),
            };
            self.list(&source, objects);
        }
    }

    /// The task of the JobKind has found Jobs and lists these.
    fn list_jobs(&mut self, jobs: impl IntoIterator<Item = Value>) {
        let source = self.find_jobs();
        self.list(&source, jobs);
        self.jobs = Some(source);
    }

    /// The task of the JobKind has found Jobs, and has not listed them yet.
    fn find_jobs(&mut self) -> Source {
        self.find_jobs_by("job")
    }

    /// The same of a JobKind of this name.
    fn find_jobs_by(&mut self, name: &str) -> Source {
        let orders = self.controller.cycle(self.now);
        let life = orders.iter().find_map(|output| match output {
            Output::Kind(Order::Start { life, .. }) => Some(*life),
            _ => None,
        });
        let life = life.unwrap();
        self.handle(Input::KindReport(KindReport {
            name: name.into(),
            life,
            news: News::Found {
                resource: Box::new(ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&())),
                managed: Box::new(ManagedResource {
                    group: "batch".to_owned(),
                    version: "v1".to_owned(),
                    resource: "jobs".to_owned(),
                    subresources: Vec::new(),
                    pod_metadata: Vec::new(),
                }),
            },
        }));
        Source::Jobs(name.into(), life)
    }
}

fn job_kind() -> Value {
    serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap()
}

fn seen(object: Value) -> Seen {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    Seen::Object(Box::new(object))
}

fn own(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": {"name": name, "uid": format!("{kind}-{name}"), "generation": 1, "resourceVersion": "5"},
    })
}

fn queue_spec() -> Value {
    json!({"namespaceSelector": {}, "resourceGroups": [{
        "coveredResources": ["cpu"],
        "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
    }]})
}

fn local_queue() -> Value {
    let mut queue = own("LocalQueue", "main", &json!({"clusterQueue": "q"}));
    queue["metadata"]["namespace"] = json!("blue");
    queue
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": "blue", "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/queue-name": "main"}, "annotations": {"sluice.dev/held": "true"},
        },
        "spec": {"suspend": true, "parallelism": 1, "template": {"spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        }}},
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    })
}

/// What the API server makes of a Workload that is created or whose status is set.
fn stored(write: &InFlightWrite, revision: u64) -> DynamicObject {
    let mut object = match &write.write {
        Write::CreateWorkload(workload) => serde_json::to_value(workload).unwrap(),
        other => panic!("no Workload is created by {other:?}"),
    };
    let metadata = &mut object["metadata"];
    let name = metadata["name"].as_str().unwrap().to_owned();
    metadata["uid"] = json!(format!("workload-{name}"));
    metadata["resourceVersion"] = json!(revision.to_string());
    metadata["creationTimestamp"] = json!("2026-11-23T12:00:00Z");
    metadata["generation"] = json!(1);
    serde_json::from_value(object).unwrap()
}

fn is_created(write: &InFlightWrite) -> bool {
    matches!(write.write, Write::CreateWorkload(_))
}

fn is_admitted(write: &InFlightWrite) -> bool {
    let Write::SetWorkloadStatus { purpose, .. } = &write.write else {
        return false;
    };
    *purpose == StatusPurpose::Admit
}

#[tokio::test]
async fn nothing_is_written_before_everything_is_listed() {
    let mut play = Play::new();
    play.list_settings();
    assert!(play.controller.unlisted().next().is_none());
    assert!(play.cycle().is_empty(), "Jobs are not listed");
}

#[tokio::test]
async fn a_job_is_queued_and_admitted_by_replies_alone() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a"), job("b")]);
    let created = play.cycle();
    assert_eq!(created.len(), 2);
    assert!(created.iter().all(is_created), "{created:?}");
    assert!(play.cycle().is_empty(), "each has one write in flight");
    for (write, revision) in created.into_iter().zip(8..) {
        let stored = stored(&write, revision);
        play.end(write, Reply::Done(Some(Box::new(stored))));
    }
    let admitted = play.cycle();
    assert_eq!(admitted.len(), 1, "there is quota for one: {admitted:?}");
    assert!(is_admitted(&admitted[0]));
    assert_eq!(admitted[0].subject, Subject::Job("uid-a".into()));
}

/// Others that are pending get its quota only if its admission fails once more.
#[tokio::test]
async fn an_admission_that_fails_is_tried_again_at_once() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a"), job("b")]);
    for (write, revision) in play.cycle().into_iter().zip(8..) {
        let stored = stored(&write, revision);
        play.end(write, Reply::Done(Some(Box::new(stored))));
    }
    for subject in ["uid-a", "uid-a", "uid-b"] {
        let admitted = play.cycle().remove(0);
        assert!(is_admitted(&admitted));
        assert_eq!(admitted.subject, Subject::Job(subject.into()));
        play.end(admitted, Reply::Refused("no webhook is there".to_owned()));
    }
}

/// A reply that shows the Workload as it is after its status was set.
fn with_status(object: &DynamicObject, write: &InFlightWrite, revision: u64) -> Reply {
    let Write::SetWorkloadStatus { status, .. } = &write.write else {
        panic!("no status is set by {write:?}");
    };
    let mut object = object.clone();
    object.metadata.resource_version = Some(revision.to_string());
    object.data["status"] = serde_json::to_value(status).unwrap();
    Reply::Done(Some(Box::new(object)))
}

#[tokio::test]
async fn an_admission_is_counted_once_whoever_shows_it() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    let created = play.cycle().remove(0);
    let workload = stored(&created, 8);
    play.end(created, Reply::Done(Some(Box::new(workload.clone()))));
    let admission = play.cycle().remove(0);
    assert!(is_admitted(&admission));
    let reply = with_status(&workload, &admission, 9);
    let Reply::Done(Some(shown)) = with_status(&workload, &admission, 9) else {
        panic!("it is done");
    };
    play.end(admission, reply);
    // The watch shows the same, and then a later revision of it.
    let mut later = (*shown).clone();
    later.metadata.resource_version = Some("12".to_owned());
    for object in [*shown, later] {
        let seen = Seen::Object(Box::new(object));
        play.observe(&Source::Workload, Change::Applied(seen));
    }
    let told = play
        .controller
        .metrics
        .text(crate::process::metrics::Exposition::Text);
    let counted = |line: &str| assert!(told.lines().any(|told| told == line), "{line}: {told}");
    let labels = "{cluster_queue=\"q\",priority_class=\"\"}";
    counted(&format!("sluice_admitted_workloads_total{labels} 1"));
    counted(&format!(
        "sluice_admission_wait_time_seconds_count{labels} 1"
    ));
}

#[tokio::test]
async fn a_late_reply_about_a_workload_that_is_gone_is_not_about_its_successor() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    let created = play.cycle().remove(0);
    let first = stored(&created, 8);
    let mut second = stored(&created, 10);
    second.metadata.uid = Some("another".to_owned());
    play.end(created, Reply::Done(Some(Box::new(first.clone()))));
    let admission = play.cycle().remove(0);
    assert!(is_admitted(&admission));
    play.observe(&Source::Workload, Change::Deleted(Box::new(first)));
    let second = Seen::Object(Box::new(second));
    play.observe(&Source::Workload, Change::Applied(second));
    play.end(admission, Reply::Conflict(None));
    let mut known = play.controller.objects.workloads();
    let uid = known.next().map(|(_, record)| record.uid.to_string());
    assert_eq!(uid.as_deref(), Some("another"));
}

#[tokio::test]
async fn a_write_without_an_answer_is_tried_again_after_its_backoff_and_not_before() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    let write = play.cycle().remove(0);
    play.end(write, Reply::Unknown("no answer in time".to_owned()));
    assert!(play.cycle().is_empty(), "it backs off");
    let due = play.controller.due(play.now).unwrap();
    assert!(Duration::from_millis(50) <= due, "{due:?}");
    let almost = due.saturating_sub(Duration::from_millis(1));
    play.pass(almost);
    assert!(play.cycle().is_empty(), "it still backs off");
    play.pass(Duration::from_millis(1));
    let again = play.cycle();
    assert_eq!(again.len(), 1);
    assert!(is_created(&again[0]));
}

#[tokio::test]
async fn the_number_of_writes_in_flight_is_bounded() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs((0..60).map(|number| job(&format!("job-{number}"))));
    let mut in_flight = play.cycle();
    assert_eq!(in_flight.len(), 24);
    let ended = in_flight.remove(0);
    play.end(ended, Reply::Refused("no".to_owned()));
    assert_eq!(play.cycle().len(), 1, "the next takes its place");
}

#[tokio::test]
async fn what_a_pod_waits_for_is_told_again_before_its_event_is_forgotten() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.cycle();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "large", "namespace": "blue", "uid": "uid-large", "resourceVersion": "9",
            "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/queue-allocation-gate": "true"},
        },
        "spec": {
            "schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        },
    });
    play.observe(&Source::Pod, Change::Applied(seen(pod)));
    let mut told = Vec::new();
    for minute in 0..70 {
        for _ in 0..2 {
            play.pass(Duration::from_secs(30));
            play.handle(Input::Tick);
            for output in play.controller.cycle(play.now) {
                match output {
                    Output::Tell(object, note) if object.name.as_deref() == Some("large") => {
                        told.push((minute, note.reason));
                    }
                    Output::Write(write) => panic!("{write:?}"),
                    _ => {}
                }
            }
        }
    }
    let minutes: Vec<i32> = told.iter().map(|(minute, _)| *minute).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        minutes.windows(2).all(|pair| pair[1] - pair[0] <= 31),
        "{minutes:?}"
    );
}
