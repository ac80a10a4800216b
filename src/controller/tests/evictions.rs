//! What is told of pods that are evicted.

use super::pod_usage::{owned_by, running};
use super::*;
use crate::api::lookup::Found;
use crate::cache::Uid;
use crate::controller::intake::owners::OwnerAnswer;
use crate::plan::evictions::cause::Replacement;

/// Of a Job a deleted pod has failed, and of Spark's driver only the SparkApplication says who makes the next executor.
#[tokio::test]
async fn a_pod_is_told_whether_another_one_comes_for_certain() {
    let spark: Value = serde_saphyr::from_str(include_str!(
        "../../../config/jobkinds/sparkapplication.yaml"
    ))
    .unwrap();
    let application = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {
            "name": "app", "namespace": "blue", "uid": "uid-app", "generation": 1,
            "resourceVersion": "7", "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/queue-name": "main"},
        },
        "spec": {"driver": {}, "executor": {}},
    });
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.observe(&Source::JobKind, Change::Applied(seen(spark)));
    let applications = play.find_jobs_by("sparkapplication");
    play.list(&applications, [application]);

    let of_app = || owned_by("sparkoperator.k8s.io/v1beta2", "SparkApplication", "app");
    let on_retry = |kind: &str| Replacement::OnRetry(kind.to_owned());
    let rows = [
        ("bare", None, Replacement::Nobody),
        (
            "replica",
            Some(owned_by("apps/v1", "ReplicaSet", "web")),
            Replacement::Another,
        ),
        (
            "of-job",
            Some(owned_by("batch/v1", "Job", "train")),
            on_retry("Job"),
        ),
        (
            "of-another-job",
            Some(owned_by("example.com/v1", "Job", "other")),
            Replacement::Another,
        ),
        ("driver", Some(of_app()), on_retry("SparkApplication")),
        (
            "executor",
            Some(owned_by("v1", "Pod", "driver")),
            on_retry("SparkApplication"),
        ),
    ];
    let queued = json!({"sluice.dev/queue-name": "main"});
    for (name, owner, _) in &rows {
        play.see_pod(running(name, &queued, owner.clone()));
    }
    for output in play.controller.cycle(play.now) {
        let Output::LookUpOwner(question) = output else {
            continue;
        };
        let owner = (question.owner.kind == "Pod").then(of_app);
        let metadata = json!({"ownerReferences": owner.into_iter().collect::<Vec<_>>()});
        let found = Found::Object(serde_json::from_value(metadata).unwrap());
        play.handle(Input::OwnerFound(OwnerAnswer { question, found }));
    }
    for (name, _, expected) in rows {
        let uid = Uid::from(format!("uid-{name}"));
        let (key, pod) = play.controller.objects.pods.of(&uid).unwrap();
        let found = play.controller.replacement(pod, &key.namespace);
        assert_eq!(found, expected, "{name}");
    }
}
