use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::plan::evictions::requeue_backoff;
use crate::plan::fixtures::{mk_group_workload, mk_pod, release};

mod made_again;

type Pod = (PodKey, PodRecord);
type KnownWorkload = (WorkloadKey, WorkloadRecord);

fn member(name: &str, minute: u32, change: impl FnOnce(&mut Value)) -> Pod {
    mk_pod(name, minute, &[], |pod| {
        pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = json!("g");
        pod["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("2");
        change(pod);
    })
}

fn waits(name: &str, minute: u32) -> Pod {
    member(name, minute, |_| ())
}

fn ended(name: &str, minute: u32, phase: &str, is_retriable: bool) -> Pod {
    member(name, minute, |pod| {
        release(pod);
        pod["status"]["phase"] = json!(phase);
        if !is_retriable {
            pod["metadata"]["annotations"]["sluice.dev/retriable-in-group"] = json!("false");
        }
    })
}

fn runs(name: &str, minute: u32) -> Pod {
    member(name, minute, release)
}

fn pod_sets(count: u32) -> Value {
    json!([{"name": role_of(&waits("a", 0).1), "count": count, "requests": {"cpu": "1"}}])
}

fn admitted() -> Value {
    let role = role_of(&waits("a", 0).1);
    json!({"admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": role, "count": 2, "flavors": {}}]}})
}

fn finished() -> Value {
    let condition = json!({"type": "Finished", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"conditions": [condition]})
}

fn planned(pods: &[Pod], workload: Option<Value>) -> String {
    planned_with_gone(pods, workload, 0)
}

/// The plan where so many pods have succeeded and were deleted.
fn planned_with_gone(pods: &[Pod], workload: Option<Value>, gone: u32) -> String {
    let gone = (0 < gone).then(|| (role_of(&waits("a", 0).1), gone));
    let workload = workload.map(|status| mk_group_workload(&pod_sets(2), &status));
    told(&plan_for(pods, workload.as_ref(), |situation| {
        situation.succeeded_and_gone = gone.into_iter().collect();
    }))
}

/// What is known beside the pods and the Workload.
#[derive(Default)]
struct Known {
    succeeded_and_gone: BTreeMap<String, u32>,
    is_terminating: bool,
    absence: Absence,
    lost: LostPods,
}

fn plan_for(pods: &[Pod], workload: Option<&KnownWorkload>, know: impl FnOnce(&mut Known)) -> Plan {
    let pods: Vec<_> = pods.iter().map(|(key, pod)| (key, pod)).collect();
    let mut known = Known::default();
    know(&mut known);
    plan(&GroupSituation {
        key: &GroupKey {
            namespace: "blue".into(),
            name: "g".into(),
        },
        pods: &pods,
        workload: workload.map(|(key, record)| (key, record)),
        namespace_is_terminating: known.is_terminating,
        still_in_use: false,
        lost: known.lost,
        live_pods: pods.iter().filter(|(_, pod)| pod.is_released()).count(),
        succeeded_and_gone: &known.succeeded_and_gone,
        absence: known.absence,
        priority: &|pod| Ok(priority_of(pod)),
        backoff: &|record| requeue_backoff::backoff(record, None),
        place_of: &|_| sluice_crds::QueuePlace::WhenCreated,
        now: Timestamp::UNIX_EPOCH,
    })
}

/// There is one class, that which the label names.
fn priority_of(pod: &PodRecord) -> Priority {
    let class = pod.priority_class_label.as_ref();
    class.map_or_else(Priority::default, |name| Priority {
        value: 10,
        class: Some(sluice_crds::PriorityClassRef {
            group: sluice_crds::GROUP.to_owned(),
            kind: "WorkloadPriorityClass".to_owned(),
            name: name.clone(),
        }),
    })
}

fn told(plan: &Plan) -> String {
    let write = match &plan.write {
        None => "nothing",
        Some(Write::CreateWorkload(_)) => "create workload",
        Some(Write::UpdateWorkloadSpec { .. }) => "update workload",
        Some(Write::DeleteWorkload { .. }) => "delete workload",
        Some(Write::SetWorkloadStatus { purpose, .. }) => match purpose {
            StatusPurpose::Finish => "finish",
            StatusPurpose::Requeue => "requeue",
            StatusPurpose::Report => "report",
            StatusPurpose::Evict => "evict",
            _ => "another status",
        },
        Some(_) => "another write",
    };
    let notes: Vec<_> = plan.notes.iter().map(|note| note.reason).collect();
    format!("{write} {notes:?}")
}

#[test]
fn each_turn_of_a_groups_life() {
    let cases = [
        (
            "one of two is there",
            vec![waits("a", 0)],
            None,
            r#"nothing ["GroupIncomplete"]"#,
        ),
        (
            "both are there",
            vec![waits("a", 0), waits("b", 1)],
            None,
            r#"create workload ["Queued"]"#,
        ),
        (
            "queued",
            vec![waits("a", 0), waits("b", 1)],
            Some(json!({})),
            "nothing []",
        ),
        (
            "queued, one is gone",
            vec![waits("a", 0)],
            Some(json!({})),
            "nothing []",
        ),
        (
            "queued, one too many",
            vec![waits("a", 0), waits("b", 1), waits("c", 2)],
            Some(json!({})),
            "nothing []",
        ),
        (
            "admitted",
            vec![runs("a", 0), waits("b", 1)],
            Some(admitted()),
            "nothing []",
        ),
        (
            "one has ended",
            vec![ended("a", 0, "Succeeded", true), runs("b", 1)],
            Some(admitted()),
            "nothing []",
        ),
        (
            "both have ended",
            vec![
                ended("a", 0, "Succeeded", true),
                ended("b", 1, "Succeeded", true),
            ],
            Some(admitted()),
            r#"finish ["Finished"]"#,
        ),
        (
            "one has failed, and may be replaced",
            vec![
                ended("a", 0, "Failed", true),
                ended("b", 1, "Succeeded", true),
            ],
            Some(admitted()),
            r#"nothing ["WaitsForReplacement"]"#,
        ),
        (
            "one has failed, not to be retried, the other runs",
            vec![ended("a", 0, "Failed", false), runs("b", 1)],
            Some(admitted()),
            "nothing []",
        ),
        (
            "one has failed, not to be retried, the other ended",
            vec![
                ended("a", 0, "Failed", false),
                ended("b", 1, "Succeeded", true),
            ],
            Some(admitted()),
            r#"finish ["Finished"]"#,
        ),
        (
            "ended",
            vec![ended("a", 0, "Succeeded", true)],
            Some(finished()),
            "nothing []",
        ),
        (
            "another group by its name",
            vec![waits("a", 0), waits("b", 1)],
            Some(finished()),
            "delete workload []",
        ),
        (
            "all pods are gone",
            vec![],
            Some(admitted()),
            "delete workload []",
        ),
    ];
    for (name, pods, workload, expected) in cases {
        assert_eq!(planned(&pods, workload), expected, "{name}");
    }
}

/// A pod that has succeeded has done its part, also when it is deleted since.
#[test]
fn a_succeeded_pod_that_is_deleted_counts() {
    let recorded = |count: u32| {
        let mut status = admitted();
        let role = role_of(&waits("a", 0).1);
        status["reclaimablePods"] = json!([{"name": role, "count": count}]);
        status
    };
    let b_succeeded = || vec![ended("b", 1, "Succeeded", true)];
    let b_failed = || vec![ended("b", 1, "Failed", true)];
    let b_runs = || vec![runs("b", 1)];
    let waits_for_another = r#"nothing ["WaitsForReplacement"]"#;
    for (name, pods, workload, gone, expected) in [
        ("noted", b_runs(), admitted(), 1, "report []"),
        ("recorded", b_runs(), recorded(1), 1, "nothing []"),
        (
            "recorded by another process",
            b_runs(),
            recorded(1),
            0,
            "nothing []",
        ),
        (
            "the other succeeds",
            b_succeeded(),
            recorded(1),
            0,
            r#"finish ["Finished"]"#,
        ),
        (
            "before it is recorded",
            b_succeeded(),
            admitted(),
            1,
            r#"finish ["Finished"]"#,
        ),
        (
            "one that runs is not gone",
            vec![runs("a", 0), runs("b", 1)],
            admitted(),
            1,
            "nothing []",
        ),
        (
            "the other fails",
            b_failed(),
            recorded(1),
            1,
            waits_for_another,
        ),
        (
            "it was deleted before it ended",
            b_succeeded(),
            admitted(),
            0,
            waits_for_another,
        ),
    ] {
        assert_eq!(
            planned_with_gone(&pods, Some(workload), gone),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_group_that_was_made_again_for_more_gives_its_quota_back() {
    let more = |name: &str, change: fn(&mut Value)| {
        member(name, 0, |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
            change(pod);
        })
    };
    let both = vec![more("a", |_| ()), more("b", |_| ())];
    assert_eq!(planned(&both, Some(admitted())), r#"evict ["Evicted"]"#);
    let one_runs = vec![more("a", |_| ()), more("b", release)];
    assert_eq!(planned(&one_runs, Some(admitted())), "nothing []");
    let incomplete = vec![more("a", |_| ())];
    assert_eq!(planned(&incomplete, Some(admitted())), "nothing []");
}

#[test]
fn pods_that_ask_for_the_same_play_the_same_role_also_when_they_have_been_placed() {
    let big = |pod: &mut Value| {
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    };
    let role = role_of(&waits("a", 0).1);
    assert_eq!(role_of(&waits("b", 1).1), role);
    assert_ne!(role_of(&member("c", 2, big).1), role);
    let placed = member("d", 3, |pod| {
        release(pod);
        pod["spec"]["nodeSelector"] = json!({"spot": "true"});
        pod["metadata"]["annotations"]["sluice.dev/pod-set"] = json!(role);
    });
    assert_eq!(role_of(&placed.1), role);
    let forged = member("e", 4, |pod| {
        big(pod);
        pod["metadata"]["annotations"]["sluice.dev/pod-set"] = json!(role);
    });
    assert_ne!(
        role_of(&forged.1),
        role,
        "a gated pod is known by what it asks for"
    );
}

#[test]
fn a_group_is_ready_when_it_is_complete_and_free() {
    let ready = |pods: Vec<Pod>| {
        let (_, record) = mk_group_workload(&pod_sets(2), &json!({}));
        let pods: Vec<_> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        is_ready(&pods, &record)
    };
    let gated = |pod: &mut Value| {
        pod["spec"]["schedulingGates"] = json!([{"name": "a.io/x"}]);
    };
    assert!(ready(vec![waits("a", 0), waits("b", 1)]));
    assert!(ready(vec![waits("a", 0), waits("b", 1), waits("c", 2)]));
    assert!(!ready(vec![waits("a", 0)]));
    assert!(!ready(vec![waits("a", 0), member("b", 1, gated)]));
    assert!(!ready(vec![waits("a", 0), ended("b", 1, "Failed", true)]));
}

/// The oldest pod that is left says another total than the one that the group was admitted by.
#[test]
fn a_group_has_not_finished_while_a_member_runs() {
    let of_one = |change: fn(&mut Value)| {
        member("b", 1, |pod| {
            pod["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("1");
            release(pod);
            change(pod);
        })
    };
    let left = |pod: Pod| planned_with_gone(&[pod], Some(admitted()), 1);
    assert_eq!(left(of_one(|_| ())), "report []");
    let succeeded = of_one(|pod| pod["status"]["phase"] = json!("Succeeded"));
    assert!(left(succeeded).starts_with("finish"));
}

#[test]
fn pods_that_do_not_agree_about_their_group_are_told() {
    let other = |name: &str, minute, total: &str, class: &str| {
        member(name, minute, |pod| {
            pod["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!(total);
            pod["metadata"]["labels"]["sluice.dev/priority-class"] = json!(class);
        })
    };
    let disagreement = |pods: &[Pod]| {
        let pods: Vec<_> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        disagreement::told(&pods)
    };
    assert_eq!(disagreement(&[]), None);
    assert_eq!(disagreement(&[waits("a", 0), waits("b", 1)]), None);
    let queue = member("c", 2, |pod| {
        pod["metadata"]["labels"]["sluice.dev/queue-name"] = json!("other");
    });
    let first = waits("a", 0);
    let named = match &first.1.queue {
        LabelledQueue::Named(queue) => format!("{queue:?}"),
        LabelledQueue::None | LabelledQueue::Invalid(_) => "absent".to_owned(),
    };
    assert_eq!(
        disagreement(&[first, queue]).as_deref(),
        Some(&*format!(
            "metadata.labels[sluice.dev/queue-name]: \"other\" in \"c\": must be {named}, as in the oldest pod \"a\""
        ))
    );
    let many = [
        waits("a", 0),
        other("b", 1, "3", "high"),
        other("c", 2, "4", "high"),
        other("d", 3, "3", "high"),
        other("e", 4, "3", "high"),
    ];
    let expected = "metadata.annotations[sluice.dev/pod-group-total-count]: \"3\" in \"b\", \"c\" (\"4\"), \"d\" and 1 more: must be \"2\", as in the oldest pod \"a\"; \
         metadata.labels[sluice.dev/priority-class]: \"high\" in \"b\", \"c\", \"d\" and 1 more: must be absent, as in the oldest pod \"a\"";
    assert_eq!(disagreement(&many).as_deref(), Some(expected));
    assert_eq!(
        planned(&many[..2], None),
        r#"create workload ["Queued", "PodsDisagree"]"#
    );
    let alone = [other("a", 0, "3", "high"), waits("b", 1)];
    assert_eq!(planned(&alone, None), r#"nothing ["PodsDisagree"]"#);
}
