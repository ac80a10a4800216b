//! Which pods an object has: their names, counts and requests.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::CompiledKind;
use sluice_kinds::requests::PodDefaults;

use super::{kind, sample, with};

const MILLI: i128 = 1_000_000;
const MEBI: i128 = 1024 * 1024 * 1000 * MILLI;

/// Each set as `name count cpu memory`, cpu in thousandths and memory in Mi; or what is wrong.
fn pod_sets(kind: &CompiledKind, object: &Value) -> Vec<String> {
    match kind.pod_sets(object, &PodDefaults::default()) {
        Ok(sets) => sets
            .iter()
            .map(|set| {
                let amount = |name| set.requests.get(name).copied().unwrap_or_default();
                let (cpu, memory) = (amount("cpu") / MILLI, amount("memory") / MEBI);
                format!("{} {} {cpu}m {memory}Mi", set.name, set.count)
            })
            .collect(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[rstest]
#[case::job("job", &["main 2 500m 128Mi"])]
#[case::jobset("jobset", &["driver 1 500m 128Mi", "workers 4 250m 128Mi"])]
#[case::rayjob("rayjob", &["head 1 500m 2048Mi", "small 2 500m 1024Mi", "submitter 1 250m 256Mi"])]
#[case::raycluster("raycluster", &["head 1 500m 2048Mi", "small 4 250m 1024Mi"])]
#[case::pytorchjob("pytorchjob", &["master 1 500m 128Mi", "worker 3 250m 128Mi"])]
#[case::tfjob("tfjob", &["ps 1 500m 128Mi", "worker 3 250m 128Mi"])]
#[case::xgboostjob("xgboostjob", &["master 1 500m 128Mi", "worker 3 250m 128Mi"])]
#[case::paddlejob("paddlejob", &["master 1 500m 128Mi", "worker 3 250m 128Mi"])]
#[case::jaxjob("jaxjob", &["worker 3 250m 128Mi"])]
#[case::mpijob("mpijob", &["launcher 1 250m 128Mi", "worker 2 500m 128Mi"])]
#[case::appwrapper("appwrapper", &["component-0-0 2 500m 128Mi", "component-1-0 1 250m 128Mi"])]
#[case::leaderworkerset("leaderworkerset", &["leader 2 200m 128Mi", "worker 4 250m 128Mi"])]
#[case::deployment("deployment", &["main 3 250m 128Mi"])]
#[case::statefulset("statefulset", &["main 2 250m 128Mi"])]
fn of_the_sample(#[case] name: &str, #[case] expected: &[&str]) {
    assert_eq!(pod_sets(&kind(name), &sample(name)), expected);
}

/// The pods of a TrainJob are those of its JobSet.
#[test]
fn a_trainjob_names_none() {
    let kind = kind("trainjob");
    assert!(kind.has_pods_of_children());
    assert!(kind.makes("jobset.x-k8s.io", "JobSet"));
    assert!(!kind.makes("batch", "Job"));
}

/// The count of one set of `object`; if there is no such set, all that is read of it.
fn count(name: &str, object: &Value, set: &str) -> String {
    let sets = pod_sets(&kind(name), object);
    let found = sets
        .iter()
        .find_map(|text| text.strip_prefix(&format!("{set} ")));
    let count = found.and_then(|text| text.split(' ').next());
    count.map_or_else(|| sets.join("; "), str::to_owned)
}

#[rstest]
#[case::both_absent(json!({}), "2")]
#[case::parallelism_alone(json!({"parallelism": 3}), "6")]
#[case::fewer_completions(json!({"parallelism": 3, "completions": 2}), "4")]
#[case::more_completions(json!({"parallelism": 3, "completions": 9}), "6")]
#[case::none(json!({"parallelism": 0}), "0")]
fn a_jobset_runs_no_more_pods_than_it_has_completions(
    #[case] numbers: Value,
    #[case] expected: &str,
) {
    let at = "/spec/replicatedJobs/1/template/spec";
    let mut object = sample("jobset");
    for field in ["parallelism", "completions"] {
        object = with(object, &format!("{at}/{field}"), numbers[field].clone());
    }
    assert_eq!(count("jobset", &object, "workers"), expected);
    let one = with(object, "/spec/replicatedJobs/1/replicas", Value::Null);
    let half = expected.parse::<u32>().unwrap() / 2;
    assert_eq!(count("jobset", &one, "workers"), half.to_string());
}

#[rstest]
#[case::as_asked(json!({"replicas": 3, "minReplicas": 0, "maxReplicas": 5}), "3")]
#[case::hosts(json!({"replicas": 3, "maxReplicas": 5, "numOfHosts": 4}), "12")]
#[case::too_few(json!({"replicas": 1, "minReplicas": 2, "maxReplicas": 5}), "2")]
#[case::too_many(json!({"replicas": 9, "minReplicas": 0, "maxReplicas": 5}), "5")]
#[case::unsaid(json!({"minReplicas": 2, "maxReplicas": 5}), "2")]
#[case::nothing_said(json!({}), "0")]
#[case::min_above_max(json!({"replicas": 1, "minReplicas": 7, "maxReplicas": 5}), "5")]
#[case::suspended_group(json!({"replicas": 3, "suspend": true}), "0")]
#[case::autoscaled(json!({"replicas": 1, "maxReplicas": 5, "numOfHosts": 2, "auto": true}), "10")]
#[case::autoscaled_and_suspended(json!({"maxReplicas": 5, "suspend": true, "auto": true}), "0")]
fn ray_workers_count_as_kuberay_makes_them(
    #[case] mut group: Value,
    #[case] expected: &str,
    #[values("rayjob", "raycluster")] name: &str,
) {
    let cluster = match name {
        "rayjob" => "/spec/rayClusterSpec",
        _ => "/spec",
    };
    let object = sample(name);
    let at = format!("{cluster}/workerGroupSpecs/0");
    group["groupName"] = json!("small");
    group["template"] = object.pointer(&format!("{at}/template")).unwrap().clone();
    let auto = group.as_object_mut().unwrap().remove("auto").is_some();
    let object = with(object, &at, group);
    let object = with(
        object,
        &format!("{cluster}/enableInTreeAutoscaling"),
        json!(auto),
    );
    assert_eq!(count(name, &object, "small"), expected);
}

/// By default the CRD puts no limit to what Ray's autoscaler may ask for: such a cluster fits nowhere,
/// and with several hosts in a replica it can't even be counted.
#[test]
fn an_autoscaled_raycluster_without_limit_does_not_fit() {
    let cluster = with(
        sample("raycluster"),
        "/spec/enableInTreeAutoscaling",
        json!(true),
    );
    let cluster = with(
        cluster,
        "/spec/workerGroupSpecs/0/maxReplicas",
        json!(i32::MAX),
    );
    let one_host = with(
        cluster.clone(),
        "/spec/workerGroupSpecs/0/numOfHosts",
        json!(1),
    );
    assert_eq!(count("raycluster", &one_host, "small"), "2147483647");
    let problem = count("raycluster", &cluster, "small");
    assert!(
        problem.contains("must be between 0 and 2147483647"),
        "{problem}"
    );
}

#[rstest]
#[case::unsaid(Value::Null, "1")]
#[case::by_job(json!("K8sJobMode"), "1")]
#[case::by_http(json!("HTTPMode"), "0")]
#[case::by_hand(json!("InteractiveMode"), "0")]
fn a_rayjob_has_a_submitter_in_one_mode_only(#[case] mode: Value, #[case] expected: &str) {
    let object = with(sample("rayjob"), "/spec/submissionMode", mode);
    assert_eq!(count("rayjob", &object, "submitter"), expected);
}

/// KubeRay (v1.7) adds a submitter, a container that waits for the head, and Ray's autoscaler.
#[test]
fn what_kuberay_adds_is_counted_as_it_runs() {
    let small = "/spec/rayClusterSpec/workerGroupSpecs/0/template/spec/containers/0/resources";
    let job = with(sample("rayjob"), "/spec/submitterPodTemplate", Value::Null);
    let job = with(
        job,
        small,
        json!({"requests": {"cpu": "100m", "memory": "1Gi"}}),
    );
    assert_eq!(
        pod_sets(&kind("rayjob"), &job),
        [
            "head 1 500m 2048Mi",
            "small 2 200m 1024Mi",
            "submitter 1 500m 200Mi"
        ]
    );
    let sidecar = with(job.clone(), "/spec/submissionMode", json!("SidecarMode"));
    assert_eq!(
        pod_sets(&kind("rayjob"), &sidecar),
        [
            "head 1 1000m 2248Mi",
            "small 2 200m 1024Mi",
            "submitter 0 500m 200Mi"
        ]
    );
    for (name, prefix) in [("rayjob", "/spec/rayClusterSpec"), ("raycluster", "/spec")] {
        let on = format!("{prefix}/enableInTreeAutoscaling");
        let scaled = with(sample(name), &on, json!(true));
        assert_eq!(pod_sets(&kind(name), &scaled)[0], "head 1 1000m 2560Mi");
        let own = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
        let own = with(
            scaled,
            &format!("{prefix}/autoscalerOptions/resources"),
            own,
        );
        assert_eq!(pod_sets(&kind(name), &own)[0], "head 1 1500m 3072Mi");
    }
}

/// What Sluice can't write to is not written to.
#[test]
fn a_submitter_without_a_template_is_counted_and_left_alone() {
    use sluice_kinds::patch::{Placing, Target};
    use sluice_kinds::suspension::MarkAt;
    let kind = kind("rayjob");
    let mut job = with(sample("rayjob"), "/spec/submitterPodTemplate", Value::Null);
    job["metadata"]["uid"] = json!("u");
    job["metadata"]["annotations"] = json!({});
    job["spec"]["suspend"] = json!(true);
    let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
    let placings: Vec<_> = sets
        .iter()
        .map(|set| {
            let mut to = set.placement.clone();
            to.node_selector
                .insert("spot".to_owned(), "true".to_owned());
            let count = set.count;
            Placing { set, to, count }
        })
        .collect();
    let target = Target {
        uid: "u",
        generation: None,
    };
    json_patch::patch(
        &mut job,
        &kind.release_patch(target, &placings, MarkAt::Annotations),
    )
    .unwrap();
    assert_eq!(job["spec"]["suspend"], json!(false));
    assert_eq!(job["spec"].get("submitterPodTemplate"), None);
    let head = &job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"];
    assert_eq!(head["nodeSelector"]["spot"], "true");
    assert_eq!(head["containers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_ray_need_not_have_is_left_out() {
    let job = with(sample("rayjob"), "/spec/submitterPodTemplate", Value::Null);
    let job = with(job, "/spec/rayClusterSpec/workerGroupSpecs", Value::Null);
    assert_eq!(
        pod_sets(&kind("rayjob"), &job),
        ["head 1 500m 2048Mi", "submitter 1 500m 200Mi"]
    );
    // In somebody else's cluster.
    let job = with(job, "/spec/rayClusterSpec", Value::Null);
    let problems = pod_sets(&kind("rayjob"), &job);
    assert!(
        problems[0].starts_with("spec.rayClusterSpec.headGroupSpec.template: Required value"),
        "{problems:?}"
    );
}

#[rstest]
#[case::with_leaders(2, 3, true, &["leader 2", "worker 4"])]
#[case::all_alike(2, 3, false, &["worker 6"])]
#[case::leaders_alone(2, 1, true, &["leader 2", "worker 0"])]
#[case::alone(1, 1, false, &["worker 1"])]
fn the_size_of_a_group_includes_its_leader(
    #[case] replicas: u32,
    #[case] size: u32,
    #[case] leader: bool,
    #[case] expected: &[&str],
) {
    let object = with(sample("leaderworkerset"), "/spec/replicas", json!(replicas));
    let mut object = with(object, "/spec/leaderWorkerTemplate/size", json!(size));
    if !leader {
        object = with(
            object,
            "/spec/leaderWorkerTemplate/leaderTemplate",
            Value::Null,
        );
    }
    let sets = pod_sets(&kind("leaderworkerset"), &object);
    let counts: Vec<_> = sets
        .iter()
        .map(|text| text.rsplitn(3, ' ').last().unwrap())
        .collect();
    assert_eq!(counts, expected);
}

#[rstest]
#[case::launcher("Launcher", "launcher", "1")]
#[case::worker("Worker", "worker", "0")]
fn the_roles_of_an_mpijob_have_different_defaults(
    #[case] role: &str,
    #[case] set: &str,
    #[case] expected: &str,
) {
    let at = format!("/spec/mpiReplicaSpecs/{role}/replicas");
    let object = with(sample("mpijob"), &at, Value::Null);
    assert_eq!(count("mpijob", &object, set), expected);
}

#[test]
fn a_component_of_an_appwrapper_has_to_say_its_pod_sets() {
    let object = with(
        sample("appwrapper"),
        "/spec/components/1/podSets",
        Value::Null,
    );
    let problems = pod_sets(&kind("appwrapper"), &object);
    assert!(
        problems[0].starts_with("spec.components[1].podSets: Required value"),
        "{problems:?}"
    );
}

/// How many pods of a Job will not come back.
#[rstest]
#[case::no_status((4, Some(8)), json!({}), 0)]
#[case::more_are_left((4, Some(8)), json!({"succeeded": 4, "active": 4}), 0)]
#[case::fewer_are_left((4, Some(8)), json!({"succeeded": 6, "active": 2}), 2)]
#[case::wider_than_its_work((4, Some(2)), json!({"succeeded": 1, "active": 1}), 1)]
#[case::work_queue_none_has_succeeded((4, None), json!({"active": 3, "failed": 1}), 0)]
#[case::work_queue_explicitly_none((4, None), json!({"succeeded": 0, "active": 3}), 0)]
#[case::work_queue_one_has_succeeded((4, None), json!({"succeeded": 1, "active": 3}), 1)]
#[case::work_queue_a_failed_one_is_not_replaced((4, None), json!({"succeeded": 1, "failed": 1, "active": 2}), 2)]
#[case::work_queue_all_have_ended((4, None), json!({"succeeded": 4}), 4)]
#[case::work_queue_made_smaller((2, None), json!({"succeeded": 1, "active": 3}), 0)]
fn pods_of_a_job_that_are_not_made_again_give_back(
    #[case] (parallelism, completions): (u32, Option<u32>),
    #[case] status: Value,
    #[case] expected: u32,
) {
    let object = with(sample("job"), "/spec/parallelism", json!(parallelism));
    let mut object = with(object, "/status", status);
    object["spec"]["completions"] = json!(completions);
    if completions.is_none() {
        object["spec"]
            .as_object_mut()
            .unwrap()
            .remove("completions");
    }
    let sets = kind("job").pod_sets(&object, &PodDefaults::default());
    assert_eq!(sets.unwrap()[0].reclaimable, expected);
}

/// How many pods of an Indexed Job will not come back: 10 at the same time, of 10 or 20.
#[rstest]
#[case::failed_for_good((10, Some(1)), json!({"active": 1, "failedIndexes": "0-8"}), 9)]
#[case::others_have_succeeded((10, Some(0)), json!({"succeeded": 3, "active": 2, "failedIndexes": "1,4-7"}), 8)]
#[case::all((10, Some(0)), json!({"succeeded": 1, "failedIndexes": "1-9"}), 10)]
#[case::none_yet((10, Some(1)), json!({"active": 10, "failedIndexes": ""}), 0)]
#[case::others_are_made_in_their_place((20, Some(1)), json!({"active": 10, "failedIndexes": "0-9"}), 0)]
#[case::some_are((20, Some(1)), json!({"active": 8, "succeeded": 2, "failedIndexes": "0-9"}), 2)]
#[case::without_a_limit_they_are_tried_again((10, None), json!({"active": 1, "failedIndexes": "0-8"}), 0)]
#[case::unreadable((10, Some(1)), json!({"active": 1, "succeeded": 1, "failedIndexes": "many"}), 0)]
fn indexes_of_a_job_that_have_failed_for_good_give_back(
    #[case] (completions, limit): (u32, Option<u32>),
    #[case] status: Value,
    #[case] expected: u32,
) {
    let object = with(sample("job"), "/spec/parallelism", json!(10));
    let mut object = with(object, "/status", status);
    object["spec"]["completions"] = json!(completions);
    object["spec"]["completionMode"] = json!("Indexed");
    if let Some(limit) = limit {
        object["spec"]["backoffLimitPerIndex"] = json!(limit);
    }
    let sets = kind("job").pod_sets(&object, &PodDefaults::default());
    assert_eq!(sets.unwrap()[0].reclaimable, expected);
}

/// How many pods of the workers of a JobSet will not come back.
#[rstest]
#[case::no_status(json!({}), json!({}), 0)]
#[case::one_of_two(json!({}), json!({"succeeded": 1}), 2)]
#[case::both(json!({}), json!({"succeeded": 2}), 4)]
#[case::may_be_restarted(json!({"maxRestarts": 3}), json!({"succeeded": 2}), 0)]
#[case::no_restart_is_allowed(json!({"maxRestarts": 0}), json!({"succeeded": 2}), 4)]
#[case::nor_without_a_number(
    json!({"restartStrategy": "Recreate", "rules": [{"name": "host", "action": "FailJobSet"}]}),
    json!({"succeeded": 2}),
    4
)]
#[case::no_restart_is_left(json!({"maxRestarts": 1}), json!({"succeeded": 2, "restarts": 1}), 4)]
#[case::one_is_left(json!({"maxRestarts": 2}), json!({"succeeded": 2, "restarts": 1}), 0)]
#[case::the_last_one_has_just_begun(
    json!({"maxRestarts": 1}),
    json!({"succeeded": 1, "failed": 1, "restarts": 1}),
    0
)]
#[case::some_restarts_do_not_count(
    json!({"rules": [{"name": "host", "action": "RestartJobSetAndIgnoreMaxRestarts"}]}),
    json!({"succeeded": 2}),
    0
)]
#[case::in_place(json!({"restartStrategy": "InPlaceRestart"}), json!({"succeeded": 2}), 0)]
fn jobs_of_a_jobset_that_succeeded_give_back(
    #[case] failure_policy: Value,
    #[case] status: Value,
    #[case] expected: u32,
) {
    let mut object = sample("jobset");
    if failure_policy != json!({}) {
        object = with(object, "/spec/failurePolicy", failure_policy);
    }
    if let Some(succeeded) = status.get("succeeded") {
        let failed = status.get("failed").cloned().unwrap_or(json!(0));
        let workers = json!({"name": "workers", "ready": 0, "succeeded": succeeded, "failed": failed,
            "active": 0, "suspended": 0});
        object = with(object, "/status/replicatedJobsStatus", json!([workers]));
    }
    if let Some(restarts) = status.get("restarts") {
        object = with(object, "/status/restartsCountTowardsMax", restarts.clone());
    }
    let sets = kind("jobset")
        .pod_sets(&object, &PodDefaults::default())
        .unwrap();
    let reclaimable: Vec<_> = sets.iter().map(|set| set.reclaimable).collect();
    assert_eq!(reclaimable, [0, expected]);
}

/// What others run beside their templates, as the submitter of a RayJob, an AppWrapper around them can't say.
#[test]
fn an_app_wrapper_alone_names_its_templates_itself() {
    let files = std::fs::read_dir(crate::folder("jobkinds")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others = |name: &String| !name.ends_with("-role.yaml") && name != "kustomization.yaml";
    let named: Vec<String> = (names.filter(others))
        .filter(|name| kind(name.trim_end_matches(".yaml")).names_its_templates())
        .collect();
    assert_eq!(named, ["appwrapper.yaml"]);
}
