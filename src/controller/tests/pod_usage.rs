//! Whose quota pods use that run.

use super::*;
use crate::api::lookup::Found;
use crate::cache::Uid;
use crate::cache::pod::OwnerRef;
use crate::controller::intake::owners::Answer;

/// A pod that runs and asks for a cpu, with these labels.
fn running(name: &str, labels: &Value, owner: Option<Value>) -> Value {
    let mut labels = labels.clone();
    labels["sluice.dev/managed"] = json!("true");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "blue", "uid": format!("uid-{name}"), "resourceVersion": "20",
            "creationTimestamp": "2026-11-23T11:59:00Z", "labels": labels,
            "annotations": {"sluice.dev/pod-set": "main"},
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    })
}

fn owned_by(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name,
        "uid": format!("uid-{name}"), "controller": true})
}

impl Play {
    /// A job is queued and admitted. Returns its Workload.
    fn admit(&mut self, name: &str) -> DynamicObject {
        self.list_settings();
        self.list_jobs([job(name)]);
        let created = self.cycle().remove(0);
        let mut workload = stored(&created, 8);
        self.end(created, Reply::Done(Some(Box::new(workload.clone()))));
        let admitted = self.cycle().remove(0);
        let Write::SetWorkloadStatus { status, .. } = &admitted.write else {
            panic!("not admitted: {admitted:?}");
        };
        workload.data["status"] = serde_json::to_value(status).unwrap();
        workload.metadata.resource_version = Some("9".to_owned());
        self.end(admitted, Reply::Done(Some(Box::new(workload.clone()))));
        workload
    }

    fn see_pod(&mut self, pod: Value) {
        self.observe(&Source::Pod, Change::Applied(seen(pod)));
    }

    /// Answers all questions about owners.
    fn answer(&mut self, answer: impl Fn(&OwnerRef) -> Found) {
        for output in self.controller.cycle(self.now) {
            if let Output::LookUpOwner(question) = output {
                let found = answer(&question.owner);
                self.handle(Input::OwnerFound(Answer { question, found }));
            }
        }
    }

    /// Whose quota is used: that of the pod itself, or of this job.
    fn usage(&self, pod: &str, job: &str) -> [bool; 2] {
        let uid = |name: &str| Uid::from(format!("uid-{name}"));
        let holds = |subject: Subject| self.controller.engine.admission(&subject.id()).is_some();
        [holds(Subject::Pod(uid(pod))), holds(Subject::Job(uid(job)))]
    }
}

fn found(owner: Option<Value>) -> Found {
    let metadata = json!({"ownerReferences": owner.into_iter().collect::<Vec<_>>()});
    Found::Object(serde_json::from_value(metadata).unwrap())
}

/// A pod: what it is, its labels, its owner, what is found of that, and whose quota it uses.
type Row<'a> = (
    &'a str,
    Value,
    Option<Value>,
    fn(&OwnerRef) -> Found,
    [bool; 2],
);

/// Whatever a pod says of itself: one that runs in a queue has usage, and once.
#[tokio::test]
async fn a_pod_that_runs_is_counted_once() {
    let queued = json!({"sluice.dev/queue-name": "main"});
    let (with_job, by_itself) = ([false, true], [true, true]);
    let above = || Some(owned_by("batch/v1", "Job", "a"));
    let rows: [Row<'_>; 7] = [
        (
            "of an admitted job",
            json!({}),
            above(),
            |_| Found::Gone,
            with_job,
        ),
        (
            "of nobody",
            queued.clone(),
            None,
            |_| Found::Gone,
            by_itself,
        ),
        (
            "of an object that is gone",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| Found::Gone,
            by_itself,
        ),
        (
            "of an object in no queue",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| found(None),
            by_itself,
        ),
        (
            "of a Job that names an admitted one, which makes none",
            queued.clone(),
            Some(owned_by("batch/v1", "Job", "big")),
            |_| found(Some(owned_by("batch/v1", "Job", "a"))),
            by_itself,
        ),
        (
            "of an object that can't be read",
            queued.clone(),
            Some(owned_by("example.com/v1", "Thing", "thing")),
            |_| Found::Unreadable,
            by_itself,
        ),
        (
            "of a part of an admitted job",
            queued,
            Some(owned_by("example.com/v1", "Part", "part")),
            |_| found(Some(owned_by("batch/v1", "Job", "a"))),
            with_job,
        ),
    ];
    for (name, labels, owner, answer, expected) in rows {
        let mut play = Play::new();
        play.admit("a");
        play.see_pod(running("p", &labels, owner));
        play.answer(answer);
        assert_eq!(play.usage("p", "a"), expected, "{name}");
    }
}

/// Nothing that is done while an owner can't be read lasts.
#[tokio::test]
async fn an_owner_that_could_not_be_read_is_believed_once_it_can_be() {
    let mut play = Play::new();
    play.admit("a");
    let queued = json!({"sluice.dev/queue-name": "main"});
    play.see_pod(running(
        "p",
        &queued,
        Some(owned_by("example.com/v1", "Part", "part")),
    ));
    play.answer(|_| Found::Unreadable);
    assert_eq!(play.usage("p", "a"), [true, true]);
    for _ in 0..60 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        assert_eq!(
            play.usage("p", "a"),
            [true, true],
            "while it is asked again"
        );
    }
    play.answer(|_| found(Some(owned_by("batch/v1", "Job", "a"))));
    assert_eq!(play.usage("p", "a"), [false, true]);
}

/// It takes its share along, and says so itself.
#[tokio::test]
async fn a_pod_that_leaves_its_job_is_counted_beside_it() {
    let mut play = Play::new();
    play.admit("a");
    let labels = json!({"batch.kubernetes.io/controller-uid": "uid-a"});
    play.see_pod(running(
        "p",
        &labels,
        Some(owned_by("batch/v1", "Job", "a")),
    ));
    assert_eq!(play.usage("p", "a"), [false, true]);
    let mut left = running("p", &json!({"of": "nobody"}), None);
    left["metadata"]["resourceVersion"] = json!("21");
    play.see_pod(left);
    assert_eq!(play.usage("p", "a"), [true, true]);
    let writes = play.cycle();
    let record = writes.iter().find_map(|write| match &write.write {
        Write::PatchPod { patch, .. } => {
            patch.pointer("/metadata/annotations/sluice.dev~1admitted")
        }
        _ => None,
    });
    assert!(
        record
            .unwrap()
            .as_str()
            .unwrap()
            .contains("\"clusterQueue\":\"q\"")
    );
}
