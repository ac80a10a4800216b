//! What is made of objects that are about to be created.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::rules::queue_names::{Preset, QueueAliases};
use crate::rules::shipped::SHIPPED;
use crate::simulate::{Terms, WhatIf, estimate};

fn document(value: Value) -> Document {
    Document {
        file: "f.yaml".to_owned(),
        place: "document 1".to_owned(),
        value,
    }
}

fn own(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// A cluster with LocalQueues `default` and `main` in namespace `a`, which has this label of its own, if any.
fn cluster(enforcement: Option<&str>, pod_defaults: PodDefaults) -> Seen {
    let labels = enforcement.map_or_else(
        || json!({}),
        |value| json!({"sluice.dev/enforcement": value}),
    );
    let quota = json!({"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
        {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}]});
    let local = |name: &str| {
        let metadata = json!({"name": name, "namespace": "a"});
        own("LocalQueue", &metadata, &json!({"clusterQueue": "all"}))
    };
    let mut documents: Vec<Document> = [
        own("ResourceFlavor", &json!({"name": "spot"}), &json!({})),
        own("ClusterQueue", &json!({"name": "all"}), &quota),
        local("default"),
        local("main"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": labels}}),
    ]
    .into_iter()
    .map(document)
    .collect();
    for (name, text) in SHIPPED.iter().filter(|(name, _)| *name == "job") {
        documents.extend(crate::input::objects_in(name, text).unwrap());
    }
    Seen {
        at: 1_700_000_000_000,
        documents,
        pod_defaults,
    }
}

fn spec() -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
}

fn job(labels: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "a", "labels": labels},
        "spec": {"template": {"spec": spec()}},
    })
}

fn pod(labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "a", "labels": labels},
        "spec": spec(),
    })
}

/// What is said of these objects in that cluster: the answer with its notes, or what is wrong.
fn asked(seen: Seen, files: &[Value]) -> Result<(Value, Vec<String>), Vec<String>> {
    asked_with(seen, files, QueueNames::default())
}

fn asked_with(
    seen: Seen,
    files: &[Value],
    names: QueueNames,
) -> Result<(Value, Vec<String>), Vec<String>> {
    let given = Given {
        seen: Some(seen),
        files: files.iter().cloned().map(document).collect(),
        ..Given::default()
    };
    let terms = Terms {
        options: Options {
            duration: Some(Duration::from_mins(1)),
            ignores_other_kinds: true,
            creates: true,
            names,
        },
        settings: None,
    };
    match WhatIf::ask(&given, &terms, |plays| plays < 20) {
        Ok((answer, notes)) => Ok((serde_json::to_value(answer).unwrap(), notes)),
        Err(Failure::Problems(problems)) => Err(problems.lines().collect()),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn what_names_no_queue_is_as_its_namespace_has_it() {
    let place = "f.yaml, document 1, Job \"a/train\"";
    let field = "metadata.labels[sluice.dev/queue-name]";
    let of = |value| format!("namespace \"a\" has the label sluice.dev/enforcement={value}");
    let required = |value, rule| {
        let by = of(value);
        format!(
            "{place}: {field}: Required value: the name of a LocalQueue of the namespace: {by}, so {rule}"
        )
    };
    let held = "it would be held until it has one";
    let unqueued = "a/train: names no queue (label sluice.dev/queue-name): it would not be queued";
    let cases = [
        (None, Err(unqueued.to_owned())),
        (Some("Ignore"), Err(unqueued.to_owned())),
        (Some("DryRun"), Err(unqueued.to_owned())),
        (Some("Hold"), Err(required("Hold", held))),
        // Whoever set it meant something like that.
        (Some("Held"), Err(required("Held", held))),
        (
            Some("Refuse"),
            Err(required("Refuse", "it would be refused without one")),
        ),
        (
            Some("Default"),
            Ok(format!(
                "{place}: {field}: set to \"default\", as {}",
                of("Default")
            )),
        ),
    ];
    for (value, expected) in cases {
        let found = asked(cluster(value, PodDefaults::default()), &[job(&json!(null))]);
        let found = match found {
            Ok((answer, notes)) => {
                assert_eq!(answer["localQueue"], "a/default");
                assert_eq!(answer["outcome"], "AdmittedNow");
                Ok(notes.join("\n"))
            }
            Err(problems) => Err(problems.join("\n")),
        };
        assert_eq!(found, expected, "{value:?}");
    }
    let named = job(&json!({"sluice.dev/queue-name": "main"}));
    let (answer, notes) = asked(cluster(Some("Refuse"), PodDefaults::default()), &[named]).unwrap();
    assert_eq!(
        (answer["localQueue"].as_str(), notes.len()),
        (Some("a/main"), 0)
    );
}

/// As in manifests for Kueue.
#[test]
fn a_suspended_job_is_on_hold_only_if_its_user_says_so() {
    let cases = [
        (None, None, false),
        (Some("false"), None, true),
        (Some("true"), None, false),
        // Sluice holds its pods, and leaves the field alone.
        (None, Some("PerPod"), true),
    ];
    for (mark, mode, expected) in cases {
        let mut job = job(&json!({"sluice.dev/queue-name": "main"}));
        job["spec"]["suspend"] = json!(true);
        job["metadata"]["annotations"] =
            json!({"sluice.dev/held": mark, "sluice.dev/admission": mode});
        let (answer, _) = asked(cluster(None, PodDefaults::default()), &[job]).unwrap();
        let found = answer.get("onHold").is_some();
        assert_eq!(found, expected, "{mark:?} {mode:?}");
    }
}

/// No webhook has written Sluice's own keys into objects of files.
#[test]
fn keys_of_presets_count_in_files() {
    let class = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "WorkloadPriorityClass",
        "metadata": {"name": "high"}, "value": 100});
    let mut of_kueue =
        job(&json!({"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "high"}));
    of_kueue["metadata"]["annotations"] = json!({"kueue.x-k8s.io/job-min-parallelism": "3"});
    of_kueue["spec"]["parallelism"] = json!(6);
    let mut of_volcano = job(&json!(null));
    of_volcano["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "main"});
    let ask = |job: &Value, names| {
        let files = [class.clone(), job.clone()];
        asked_with(cluster(None, PodDefaults::default()), &files, names)
    };
    let (answer, _) = ask(&of_kueue, QueueAliases::of_kueue().names()).unwrap();
    assert_eq!(answer["priorityClass"], "high");
    assert_eq!(answer["outcome"], "AdmittedNow", "{answer}");
    assert_eq!(answer["flavors"][0]["count"], 4);
    let names = QueueAliases::of(&[Preset::Kueue, Preset::Volcano]).names();
    let (answer, _) = ask(&of_volcano, names).unwrap();
    assert_eq!(answer["localQueue"], "a/main");
    let unqueued = "a/train: names no queue (label sluice.dev/queue-name): it would not be queued";
    let unknown = ask(&of_volcano, QueueNames::default());
    assert_eq!(unknown.unwrap_err(), [unqueued]);
}

#[test]
fn devices_that_pods_claim_or_request_by_class_are_left_out_with_a_note() {
    let claim = |mut object: Value, spec: &str, claim: Value| {
        *object.pointer_mut(spec).unwrap() = json!({
            "resourceClaims": [claim],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}],
        });
        object
    };
    let by_name = |mut object: Value, spec: &str| {
        let requests =
            json!({"cpu": "1", "deviceclass.resource.kubernetes.io/gpu.example.com": "2"});
        *object.pointer_mut(spec).unwrap() =
            json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
        object
    };
    let label = json!({"sluice.dev/queue-name": "main"});
    let template = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
    let objects = [
        claim(job(&label), "/spec/template/spec", template.clone()),
        claim(pod(&label), "/spec", template),
        by_name(job(&label), "/spec/template/spec"),
        by_name(pod(&label), "/spec"),
    ];
    for object in objects {
        let (answer, notes) = asked(cluster(None, PodDefaults::default()), &[object]).unwrap();
        assert_eq!(answer["outcome"], "AdmittedNow");
        assert_eq!(answer["requests"], json!({"cpu": "1"}));
        assert_eq!(
            notes,
            [
                "left out: devices that 1 job claims, or requests by the name of their class, as deviceClasses in Sluice's \
                 configuration says how they are counted; where it does not name their device classes, the controller \
                 holds a job that claims them"
            ]
        );
    }
    // No configuration counts these.
    let shared = json!({"name": "gpu", "resourceClaimName": "gpu"});
    let shared = claim(job(&label), "/spec/template/spec", shared);
    let refused = asked(cluster(None, PodDefaults::default()), &[shared]).unwrap_err();
    assert!(refused[0].contains("ResourceClaim \"gpu\""), "{refused:?}");
}

#[test]
fn a_pod_that_is_admitted_by_itself_is_a_job() {
    let mut defaults = PodDefaults::default();
    defaults.add_limit_range(&[("memory".to_owned(), 2_000_000_000)].into());
    let mut one = pod(&json!({"sluice.dev/queue-name": "main"}));
    one["metadata"]["annotations"] = json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/a"});
    let quota = cluster(None, PodDefaults::default());
    let (answer, notes) = asked(quota, std::slice::from_ref(&one)).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(
        (&answer["kind"], &answer["job"], &answer["outcome"]),
        (&json!("Pod"), &json!("a/one"), &json!("AdmittedNow"))
    );
    assert_eq!(answer["gates"], json!(["acme.io/a"]));
    assert_eq!(answer["requests"], json!({"cpu": "1"}));
    let (answer, _) = asked(cluster(None, defaults), &[one]).unwrap();
    assert_eq!(answer["requests"], json!({"cpu": "1", "memory": "2"}));
    let by_default = asked(
        cluster(Some("Default"), PodDefaults::default()),
        &[pod(&json!({}))],
    );
    assert_eq!(by_default.unwrap().0["localQueue"], "a/default");
}

#[test]
fn what_nobody_reads_is_told_with_what_is_read() {
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "a"}});
    let member = pod(&json!({"sluice.dev/queue-name": "main", "sluice.dev/pod-group-name": "g"}));
    let none = "the files: there is no job: one is required";
    let cases = [
        (vec![], vec![none]),
        (
            vec![cron.clone(), member],
            vec![
                none,
                "a/nightly: kind: Unsupported value: \"CronJob\": supported values: \"Job.batch\", \"Pod\"",
                "a/one: metadata.labels[sluice.dev/pod-group-name]: Forbidden: the pod is admitted with its pod group, \
                 and groups are not read: must be a pod that is admitted by itself, or an object that a JobKind reads",
            ],
        ),
        (
            vec![pod(&json!({}))],
            vec![
                none,
                "a/one: metadata.labels[sluice.dev/queue-name]: Required value: the LocalQueue in which the pod is \
                 admitted by itself",
            ],
        ),
    ];
    for (files, expected) in cases {
        let found = asked(cluster(None, PodDefaults::default()), &files);
        assert_eq!(found.unwrap_err(), expected);
    }
    // What is no job is passed over beside one.
    let train = job(&json!({"sluice.dev/queue-name": "main"}));
    let beside = asked(
        cluster(None, PodDefaults::default()),
        &[cron, pod(&json!({})), train],
    );
    assert_eq!(beside.unwrap().0["job"], "a/train");
}

#[test]
fn the_job_is_told_from_what_is_beside_it() {
    let seen = cluster(None, PodDefaults::default()).documents;
    let of_b = |mut object: Value| {
        object["metadata"]["namespace"] = json!("b");
        document(object)
    };
    let queue = document(own(
        "LocalQueue",
        &json!({"name": "main", "namespace": "a"}),
        &json!({"clusterQueue": "all"}),
    ));
    let map = document(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "a"}}),
    );
    let (one, train) = (of_b(pod(&json!({}))), of_b(job(&json!({}))));
    let kind = |files: &[&Document]| {
        let files: Vec<Document> = files.iter().copied().cloned().collect();
        let found = job_of(&files, &seen)?;
        Some(settings::name_of(&found.value))
    };
    assert_eq!(
        kind(&[&queue, &map, &one, &train]).as_deref(),
        Some("b/train")
    );
    assert_eq!(kind(&[&queue, &map, &one]).as_deref(), Some("b/one"));
    assert_eq!(kind(&[&queue, &map]), None);
}

/// The Workload of a Job `train` of this API and with this UID.
fn of_train(api_version: &str, uid: &str, spec: &Value) -> Document {
    let owner = json!({"apiVersion": api_version, "kind": "Job", "name": "train", "uid": uid, "controller": true});
    let metadata = json!({"name": format!("train-{uid}"), "namespace": "a", "uid": format!("of-{uid}"),
        "ownerReferences": [owner]});
    document(own("Workload", &metadata, spec))
}

/// That a job takes a minute.
fn a_minute() -> estimate::Assumed {
    estimate::Assumed {
        duration: Some(Duration::from_mins(1)),
        ..estimate::Assumed::default()
    }
}

/// Volcano has a Job, too.
#[test]
fn kinds_of_one_name_have_estimates_of_their_own() {
    let spec = |cpu: &str| {
        let sets = json!([{"name": "main", "count": 1, "requests": {"cpu": cpu}}]);
        json!({"queueName": "main", "podSets": sets})
    };
    let fits = of_train("batch/v1", "u", &spec("1"));
    let never = of_train("batch.volcano.sh/v1alpha1", "v", &spec("100"));
    for documents in [[fits.clone(), never.clone()], [never, fits]] {
        let mut seen = cluster(None, PodDefaults::default());
        seen.documents.extend(documents);
        let estimated = estimate::of_seen(seen, &["u", "v"], &a_minute(), |_| true);
        let (answers, _) = estimated.unwrap();
        assert!(answers[0].is_ok() && answers[1].is_err(), "{answers:?}");
    }
}

/// A job that waits for the quota of a service has no latest start, however soon others finish.
#[test]
fn a_service_never_ends() {
    let at = |minute: u32| format!("2023-11-14T21:{minute:02}:00Z");
    let condition = |kind: &str, minute| json!({"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": at(minute)});
    let needs = |cpu: &str| {
        let sets = json!([{"name": "main", "count": 1, "requests": {"cpu": cpu}}]);
        json!({"queueName": "main", "podSets": sets})
    };
    let mut finished = of_train("batch/v1", "f", &needs("1")).value;
    finished["status"] =
        json!({"conditions": [condition("Admitted", 1), condition("Finished", 2)]});
    let finished = |number: u32| {
        let mut one = finished.clone();
        one["metadata"]["name"] = json!(format!("finished-{number}"));
        document(one)
    };
    let waits = of_train("batch/v1", "u", &needs("1"));
    let admitted = |metadata: Value| {
        let mut workload = own("Workload", &metadata, &needs("4"));
        workload["status"] = json!({
            "conditions": [condition("QuotaReserved", 3), condition("Admitted", 3)],
            "admission": {"clusterQueue": "all", "podSetAssignments": [
                {"name": "main", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "4"}}]},
        });
        document(workload)
    };
    let owner = |api: &str, kind: &str| json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "x", "controller": true}]);
    let of = |api: &str, kind: &str| {
        admitted(
            json!({"name": "x", "namespace": "a", "uid": "w", "ownerReferences": owner(api, kind)}),
        )
    };
    let pod = |policy: &str, marks: &Value| {
        let mut pod = pod(&json!({"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"}));
        pod["metadata"]["uid"] = json!("p");
        pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = marks["group"].clone();
        pod["metadata"]["annotations"] = json!({
            "sluice.dev/queue-allocation-gate": "true", "sluice.dev/pod-group-total-count": marks["total"],
            "sluice.dev/admitted": json!({"clusterQueue": "all", "flavors": {"cpu": "spot"}, "at": at(3)}).to_string(),
        });
        pod["spec"]["restartPolicy"] = json!(policy);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4");
        document(pod)
    };
    let by_itself = json!({});
    let group = || {
        admitted(
            json!({"name": "g", "namespace": "a", "uid": "g", "labels": {"sluice.dev/pod-group-name": "g"}}),
        )
    };
    let in_group = json!({"group": "g", "total": "1"});
    for (name, holds, starts) in [
        ("a Job", vec![of("batch/v1", "Job")], true),
        ("a Deployment", vec![of("apps/v1", "Deployment")], false),
        ("another Deployment", vec![of("x/v1", "Deployment")], true),
        ("a pod", vec![pod("Never", &by_itself)], true),
        ("a service's pod", vec![pod("Always", &by_itself)], false),
        ("a group", vec![group(), pod("Never", &in_group)], true),
        ("services", vec![group(), pod("Always", &in_group)], false),
    ] {
        let mut seen = cluster(None, PodDefaults::default());
        for (name, text) in SHIPPED.iter().filter(|(name, _)| *name == "deployment") {
            (seen.documents).extend(crate::input::objects_in(name, text).unwrap());
        }
        seen.documents.push(waits.clone());
        seen.documents.extend((0..5).map(finished));
        seen.documents.extend(holds);
        let assumed = estimate::Assumed::default();
        let (answers, notes) = estimate::of_seen(seen, &["u"], &assumed, |_| true).unwrap();
        let estimate = answers[0].as_ref().unwrap();
        assert_eq!(estimate.latest_seconds.is_some(), starts, "{name}");
        assert_eq!(notes, [""; 0], "{name}");
    }
}

/// The webhooks write no label of Sluice's own beside an alias of the queue label.
#[test]
fn a_pod_that_is_queued_by_an_alias_is_estimated_or_told_of() {
    let gate = "sluice.dev/queue-allocation-gate";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "a", "uid": "u", "annotations": {gate: "true"},
            "labels": {"kueue.x-k8s.io/queue-name": "main", "sluice.dev/managed": "true"}},
        "spec": {"schedulingGates": [{"name": gate}], "containers": spec()["containers"]},
    });
    let estimated = |names| {
        let mut seen = cluster(None, PodDefaults::default());
        seen.documents.push(document(pod.clone()));
        let assumed = estimate::Assumed {
            names,
            ..a_minute()
        };
        estimate::of_seen(seen, &["pod/u"], &assumed, |_| true).unwrap()
    };
    let (answers, notes) = estimated(QueueNames::default());
    assert!(
        answers[0].is_err() && notes.len() == 1,
        "{answers:?} {notes:?}"
    );
    let (answers, notes) = estimated(QueueAliases::of_kueue().names());
    assert!(
        answers[0].is_ok() && notes.is_empty(),
        "{answers:?} {notes:?}"
    );
}

/// A server that is newer than the plugin has fields that the plugin does not know.
#[test]
fn an_estimate_tells_what_it_leaves_out() {
    let workload = |spec: Value| {
        let mut seen = cluster(None, PodDefaults::default());
        seen.documents.push(of_train("batch/v1", "u", &spec));
        estimate::of_seen(seen, &["u", "nosuch"], &a_minute(), |_| true).unwrap()
    };
    let mut spec = json!({"queueName": "main", "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]});
    let why = |answer: &estimate::Answer| answer.as_ref().err().map(ToString::to_string);
    let (answers, notes) = workload(spec.clone());
    assert_eq!(
        (why(&answers[0]), why(&answers[1]).as_deref()),
        (None, Some("it is not queued"))
    );
    assert_eq!(notes, Vec::<String>::new());
    spec["urgency"] = json!("high");
    let (answers, notes) = workload(spec);
    let unread = "it is not queued, or can't be read: see what is left out";
    assert_eq!(why(&answers[0]).as_deref(), Some(unread));
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].starts_with("left out: ") && notes[0].contains("spec.urgency"),
        "{notes:?}"
    );
}
