//! What is printed of queues and jobs, from objects.

use std::convert::Infallible;

use clap::Subcommand as _;
use http::{Request, Response};
use insta::assert_snapshot;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use sluice_crds::{ClusterQueue, Cohort, LocalQueue, Workload};

use super::jobs::{Called, Job, State, jobs as in_order, meant, of_pod, of_workload, read};
use super::queues::trees;
use super::{list, status};
use crate::rules::queue_names::QueueNames;

/// A cluster that has nothing, and refuses to tell what is at `path`.
pub(super) fn refusing(path: &'static str) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (code, body) = if request.uri().path() == path {
            let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "not for you"});
            (403, status)
        } else {
            (200, json!({"metadata": {}, "items": []}))
        };
        let body = Body::from(body.to_string().into_bytes());
        Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
    });
    Client::new(service, "default")
}

/// A cluster in which nothing is but a pod of a Deployment with Kueue's queue label, beside which the webhooks write no
/// label of Sluice's own.
pub fn with_a_pod_of_kueue() -> Client {
    let service = tower::service_fn(async |request: Request<Body>| {
        let gate = "sluice.dev/queue-allocation-gate";
        let labels = json!({"kueue.x-k8s.io/queue-name": "main", "sluice.dev/managed": "true"});
        let pod = json!({
            "metadata": {"name": "web-1", "namespace": "blue", "uid": "u", "labels": labels, "annotations": {gate: "true"}},
            "spec": {"schedulingGates": [{"name": gate}], "containers": [{"name": "c"}]},
        });
        let is_pods = request.uri().path() == "/api/v1/namespaces/blue/pods";
        let items = if is_pods { json!([pod]) } else { json!([]) };
        let body = json!({"metadata": {}, "items": items}).to_string();
        Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
    });
    Client::new(service, "default")
}

/// A job that waits in LocalQueue main of namespace blue.
pub(super) fn waiting(kind: &str, name: &str, workload: Option<&str>) -> Job {
    Job {
        namespace: "blue".to_owned(),
        group: "batch".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        workload: workload.map(str::to_owned),
        queue: "main".to_owned(),
        state: State::Pending,
        priority: 0,
        place: None,
        pending: None,
        ahead: None,
        since: None,
        reason: String::new(),
        message: String::new(),
        start: None,
        no_estimate: None,
        order: (0, String::new()),
    }
}

/// The jobs of these objects.
fn jobs(
    workloads: &[Workload],
    queues: &[LocalQueue],
    pods: &[Pod],
    names: &QueueNames,
) -> Vec<Job> {
    let pods = pods.iter();
    let of_pods = pods.filter_map(|pod| of_pod(pod, &read(pod, names)?.1));
    let all = workloads.iter().map(of_workload).chain(of_pods);
    in_order(all.collect(), queues)
}

/// An object is in one namespace.
#[test]
fn what_is_about_one_object_is_not_for_all_namespaces() {
    let parsed = |line: &str| {
        let command = super::Live::augment_subcommands(clap::Command::new("sluice"));
        command
            .try_get_matches_from(format!("sluice {line}").split(' '))
            .is_ok()
    };
    for command in [
        "explain job/a",
        "hold job/a",
        "resume job/a",
        "evict job/a",
        "reactivate job/a",
        "what-if -f job.yaml",
    ] {
        assert!(parsed(&format!("{command} -n blue")), "{command}");
        assert!(!parsed(&format!("{command} -A")), "{command}");
    }
    assert!(parsed("list -A") && parsed("status -A") && parsed("top -A"));
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn workload(name: &str, priority: i32, minute: u32, status: &Value) -> Workload {
    let created = format!("2026-03-01T11:{minute:02}:00Z");
    serde_json::from_value(json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {
            "name": format!("{name}-1"), "namespace": "blue", "uid": name, "creationTimestamp": created,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": true}],
        },
        "spec": {"queueName": "main", "priority": priority, "podSets": [], "active": name != "idle"},
        "status": status,
    }))
    .unwrap()
}

fn said(kind: &str, is_true: bool, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": if is_true { "True" } else { "False" }, "reason": reason, "message": message,
        "lastTransitionTime": "2026-03-01T11:58:30Z"})
}

fn pod(name: &str, gates: &[&str]) -> Pod {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "blue", "uid": name, "creationTimestamp": "2026-03-01T11:20:00Z",
            "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/queue-allocation-gate": "true"},
        },
        "spec": {"schedulingGates": gates, "containers": [{"name": "c"}]},
    }))
    .unwrap()
}

/// One of each state that a Workload shows.
fn workloads_of_all_states() -> [Workload; 9] {
    let admission = json!({"clusterQueue": "team-a", "podSetAssignments": []});
    let waits = json!({"conditions": [said("QuotaReserved", false, "WaitingForQuota", "Needs 2 more cpu")]});
    [
        workload(
            "late",
            0,
            40,
            &json!({"conditions": [
                said("QuotaReserved", false, "WaitingForQuota", "Needs 2 more cpu"),
                said("Evicted", false, "QuotaReserved", ""),
            ]}),
        ),
        workload("early", 0, 10, &waits),
        workload("urgent", 100, 50, &json!({})),
        workload(
            "paused",
            200,
            20,
            &json!({"conditions": [said("QuotaReserved", false, "OnHold", "")]}),
        ),
        workload(
            "runs",
            0,
            5,
            &json!({"admission": admission, "conditions": [said("Admitted", true, "Admitted", "")]}),
        ),
        workload(
            "stops",
            0,
            6,
            &json!({"admission": admission, "conditions": [
                said("Evicted", true, "Preempted", "Preempted by Job \"urgent\""),
            ]}),
        ),
        workload(
            "idle",
            0,
            7,
            &json!({"conditions": [said("QuotaReserved", false, "Deactivated", "")]}),
        ),
        workload(
            "goes",
            0,
            9,
            &json!({"conditions": [said("QuotaReserved", false, "Deleted", "")]}),
        ),
        workload(
            "done",
            0,
            8,
            &json!({"admission": admission, "conditions": [said("Finished", true, "Succeeded", "")]}),
        ),
    ]
}

#[test]
fn jobs_are_listed_in_the_order_of_their_queue() {
    let workloads = workloads_of_all_states();
    let queue: LocalQueue = serde_json::from_value(json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
        "metadata": {"name": "main", "namespace": "blue"}, "spec": {"clusterQueue": "team-a"},
        "status": {"oldestGated": [
            {"kind": "Job.batch", "name": "held", "gates": ["acme.io/budget"], "since": "2026-03-01T10:00:00Z"},
            {"kind": "Pod", "name": "gated", "gates": ["acme.io/data"], "since": "2026-03-01T11:20:00Z"},
        ]},
    }))
    .unwrap();
    let pods = [
        pod("single", &["sluice.dev/queue-allocation-gate"]),
        pod(
            "gated",
            &["sluice.dev/queue-allocation-gate", "acme.io/data"],
        ),
    ];
    let jobs = jobs(&workloads, &[queue], &pods, &QueueNames::default());
    assert_snapshot!(list::table(&jobs, false, false, now()), @r"
    KIND   NAME     QUEUE   STATE      PLACE    SINCE   REASON
    Job    held     main    Gated      <none>   120m    Gated
    Pod    gated    main    Gated      <none>   40m     SchedulingGated
    Job    paused   main    OnHold     <none>   40m     OnHold
    Job    urgent   main    Pending    1/4      10m     <none>
    Job    early    main    Pending    2/4      50m     WaitingForQuota
    Pod    single   main    Pending    3/4      40m     <none>
    Job    late     main    Pending    4/4      90s     WaitingForQuota
    Job    runs     main    Admitted   <none>   90s     Admitted
    Job    stops    main    Evicted    <none>   90s     Preempted
    Job    idle     main    Inactive   <none>   53m     Deactivated
    Job    goes     main    Inactive   <none>   51m     Deleted
    Job    done     main    Finished   <none>   90s     Succeeded
    ");
    let waiting: Vec<_> = jobs
        .into_iter()
        .filter(|job| job.place == Some(2))
        .collect();
    assert_snapshot!(list::table(&waiting, true, true, now()), @r"
    NAMESPACE   KIND   NAME    QUEUE   STATE     PLACE   SINCE   REASON            PRIORITY   MESSAGE
    blue        Job    early   main    Pending   2/4     50m     WaitingForQuota   0          Needs 2 more cpu
    ");
    let mut estimated = waiting;
    estimated[0].no_estimate = Some("no job has finished".to_owned());
    let mut runs = estimated[0].clone();
    (runs.state, runs.no_estimate) = (State::Admitted, None);
    estimated.push(runs);
    assert_snapshot!(list::table(&estimated, false, false, now()), @r"
    KIND   NAME    QUEUE   STATE      PLACE   START     SINCE   REASON
    Job    early   main    Pending    2/4     unknown   50m     WaitingForQuota
    Job    early   main    Admitted   2/4     <none>    50m     WaitingForQuota
    ");
    assert_eq!(list::table(&[], false, false, now()), list::NO_JOBS);
}

/// In the controller's order, who has a higher priority is first, then who came first, then whose name in the engine is
/// smaller: `kubectl apply` creates many in one second.
#[test]
fn jobs_of_one_second_are_ordered_as_the_controller_orders_them() {
    let of_job = |name: &str, own: &str, job: &str| {
        let mut workload = workload(name, 0, 20, &json!({}));
        workload.metadata.uid = Some(own.to_owned());
        let owners = workload.metadata.owner_references.as_mut().unwrap();
        owners[0].uid = job.to_owned();
        workload
    };
    let mut crew = workload("crew", 0, 20, &json!({}));
    crew.metadata.uid = Some("0".to_owned());
    crew.metadata.owner_references = None;
    let labels = [("sluice.dev/pod-group-name".to_owned(), "crew".to_owned())];
    crew.metadata.labels = Some(labels.into());
    let workloads = [
        crew,
        of_job("second", "1", "b"),
        of_job("first", "2", "a"),
        of_job("last", "3", "q"),
    ];
    let queue_gate = ["sluice.dev/queue-allocation-gate"];
    let jobs = jobs(
        &workloads,
        &[],
        &[pod("0", &queue_gate)],
        &QueueNames::default(),
    );
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "crew", "0", "last"]);
}

/// A pod that runs keeps the priority that it was admitted with, which is no field of its spec.
#[test]
fn a_pod_has_the_priority_that_it_was_admitted_with() {
    let mut runs = pod("runs", &[]);
    let admitted = json!({"at": "2026-03-01T11:30:00Z", "clusterQueue": "team-a", "flavors": {},
        "priority": 1000});
    let annotations = runs.metadata.annotations.as_mut().unwrap();
    annotations.insert("sluice.dev/admitted".to_owned(), admitted.to_string());
    let jobs = jobs(&[], &[], &[runs], &QueueNames::default());
    let found: Vec<_> = jobs.iter().map(|job| (job.state, job.priority)).collect();
    assert_eq!(found, [(State::Admitted, 1000)]);
}

fn cluster_queue(name: &str, cohort: Option<&str>, used: &str, borrowed: &str) -> ClusterQueue {
    let mut queue = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]},
        ]}]},
        "status": {"pendingWorkloads": 2, "admittedWorkloads": 1, "flavorsUsage": [{"name": "default", "resources": [
            {"name": "cpu", "total": used, "borrowed": borrowed},
        ]}]},
    });
    if let Some(cohort) = cohort {
        queue["spec"]["cohortName"] = json!(cohort);
    }
    serde_json::from_value(queue).unwrap()
}

#[test]
fn queues_are_shown_as_a_tree() {
    let mut stopped = cluster_queue("alone", None, "0", "0");
    stopped.status.as_mut().unwrap().conditions = vec![
        serde_json::from_value(said(
            "Active",
            false,
            "Stopped",
            "Can't admit: it is stopped",
        ))
        .unwrap(),
    ];
    let queues = [
        cluster_queue("team-b", Some("family"), "500m", "0"),
        cluster_queue("team-a", Some("family"), "6", "2"),
        stopped,
    ];
    let cohort = |name: &str, parent: &str| -> Cohort {
        serde_json::from_value(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Cohort", "metadata": {"name": name},
            "spec": {"parentName": parent, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "2"}]},
            ]}]},
        }))
        .unwrap()
    };
    let nodes = trees(&queues, &[cohort("family", "all")]);
    assert_snapshot!(status::tree(&nodes, true), @r#"
    QUEUE               PENDING   ADMITTED   RESOURCE   USED   QUOTA   BORROWED   USAGE                  FLAVOR
    all (cohort)
      family (cohort)                        cpu               2                                         default
        team-a          2         1          cpu        6      4       2          #############+++++++   default
        team-b          2         1          cpu        500m   4                  ###.................   default
    alone               2         1          cpu        0      4                  ....................   default
    ClusterQueue "alone" admits nothing: Can't admit: it is stopped
    "#);
    // Cohorts that are each other's parents are shown all the same, each once.
    let circle = trees(&[], &[cohort("a", "b"), cohort("b", "a")]);
    let names: Vec<_> = circle.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

/// Volcano has a Job, too.
#[test]
fn a_kind_of_one_name_is_told_apart_by_its_group() {
    let of_group = |api_version: &str| {
        let mut workload = workload("same", 0, 10, &json!({}));
        let owners = workload.metadata.owner_references.as_mut().unwrap();
        owners[0].api_version = api_version.to_owned();
        workload
    };
    let workloads = [of_group("batch.volcano.sh/v1alpha1"), of_group("batch/v1")];
    let all = jobs(&workloads, &[], &[], &QueueNames::default());
    for (group, found) in [
        (Some("batch"), [false, true]),
        (Some("batch.volcano.sh"), [true, false]),
        (Some(""), [false, false]),
        (None, [true, true]),
    ] {
        let called = Called {
            group,
            kind: "Job",
            name: "same",
        };
        let is_of = workloads.each_ref().map(|workload| called.is_of(workload));
        assert_eq!(is_of, found, "{group:?}");
        assert_eq!(
            all.iter().filter(|job| called.is_job(job)).count(),
            found.iter().filter(|is| **is).count()
        );
    }
    assert_snapshot!(list::table(&all, false, false, now()), @r"
    KIND                   NAME   QUEUE   STATE     PLACE   SINCE   REASON
    Job.batch.volcano.sh   same   main    Pending   1/2     50m     <none>
    Job.batch              same   main    Pending   2/2     50m     <none>
    ");
}

#[test]
fn a_workload_means_what_it_stands_for() {
    let of = |group: &str, kind: &str, name: &str| [group, kind, name].map(str::to_owned).into();
    let cases = [
        (
            ("sluice.dev", "Workload", "train-1"),
            ("batch", "Job", "train"),
        ),
        (
            ("sluice.dev", "Workload", "nosuch"),
            ("sluice.dev", "Workload", "nosuch"),
        ),
        (
            ("kueue.x-k8s.io", "Workload", "train-1"),
            ("kueue.x-k8s.io", "Workload", "train-1"),
        ),
        (("batch", "Job", "train-1"), ("batch", "Job", "train-1")),
    ];
    let jobs = [of_workload(&workload("train", 0, 10, &json!({})))];
    for ((group, kind, name), expected) in cases {
        let found: (String, String, String) = meant(&jobs, (group, kind), name);
        assert_eq!(
            found,
            of(expected.0, expected.1, expected.2),
            "{group} {kind} {name}"
        );
    }
}
