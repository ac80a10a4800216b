//! What is read again as something else is added to its pods.

use super::pod_usage::owned_by;
use super::*;
use crate::api::lookup::FoundJob;
use crate::controller::intake::rereads::ReadAgain;

/// A TrainJob that waits suspended.
fn train() -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {
            "name": "train", "namespace": "blue", "uid": "uid-train", "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/queue-name": "main"}, "annotations": {"sluice.dev/held": "true"},
        },
        "spec": {"suspend": true},
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    })
}

/// The JobSet that has its pods: one of this spec.
fn set(pod: &Value) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {
            "name": "train", "namespace": "blue", "uid": "uid-set", "generation": 1,
            "resourceVersion": "8", "creationTimestamp": "2026-11-23T11:00:01Z",
            "ownerReferences": [owned_by("trainer.kubeflow.org/v1alpha1", "TrainJob", "train")],
        },
        "spec": {"suspend": true, "replicatedJobs": [
            {"name": "node", "template": {"spec": {"template": {"spec": pod}}}},
        ]},
        "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
    })
}

impl Play {
    /// Everything is listed, with a TrainJob whose JobSet has a pod of this spec.
    fn list_train(&mut self, pod: &Value) {
        self.list_settings();
        self.list_jobs([]);
        for (name, kind, object) in [
            (
                "trainjob",
                include_str!("../../../config/jobkinds/trainjob.yaml"),
                train(),
            ),
            (
                "jobset",
                include_str!("../../../config/jobkinds/jobset.yaml"),
                set(pod),
            ),
        ] {
            let kind = serde_saphyr::from_str(kind).unwrap();
            self.observe(&Source::JobKind, Change::Applied(seen(kind)));
            let source = self.find_jobs_by(name);
            self.list(&source, [object]);
        }
    }

    /// This has come, and what is read again for it is as it was.
    fn add(&mut self, source: &Source, object: Value, pod: &Value) {
        self.observe(source, Change::Applied(seen(object)));
        let outputs = self.controller.cycle(self.now).into_iter();
        let asked = outputs.filter_map(|output| match output {
            Output::ReadAgain(reread) => Some(reread),
            _ => None,
        });
        for reread in asked.collect::<Vec<_>>() {
            let object = match &*reread.key.kind {
                "jobset" => set(pod),
                _ => train(),
            };
            let found = FoundJob::Object(Box::new(serde_json::from_value(object).unwrap()));
            self.handle(Input::ReadAgain(ReadAgain { reread, found }));
        }
    }
}

#[tokio::test]
async fn a_job_whose_pods_are_those_of_its_child_is_queued_once_their_runtime_class_exists() {
    let mut play = Play::new();
    let pod = json!({"runtimeClassName": "kata", "containers": [{"name": "c"}]});
    play.list_train(&pod);
    assert!(play.cycle().is_empty(), "there is no such class");
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc",
        "metadata": {"name": "kata", "uid": "class-kata", "resourceVersion": "9"},
    });
    play.add(&Source::RuntimeClass, class, &pod);
    assert!(play.cycle().iter().any(is_created));
}

#[tokio::test]
async fn a_job_whose_pods_are_those_of_its_child_asks_for_what_a_limit_range_adds() {
    let mut play = Play::new();
    let pod = json!({"containers": [{"name": "c"}]});
    play.list_train(&pod);
    let created = play.cycle().remove(0);
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "blue", "resourceVersion": "9"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]},
    });
    play.add(&Source::LimitRange, limits, &pod);
    let workload = stored(&created, 10);
    play.end(created, Reply::Done(Some(Box::new(workload))));
    let write = play.cycle().remove(0);
    let Write::UpdateWorkloadSpec { spec, .. } = &write.write else {
        panic!("it asks for more: {write:?}");
    };
    let requests = serde_json::to_value(&spec.pod_sets[0].requests).unwrap();
    assert_eq!(requests, json!({"cpu": "1"}));
}
