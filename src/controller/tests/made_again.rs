//! Pods that are made again after their job has finished.

use super::pod_usage::of_job;
use super::*;

impl Play {
    /// The job of this name is seen to be complete.
    fn complete(&mut self, name: &str) {
        let mut ended = job(name);
        ended["metadata"]["resourceVersion"] = json!("30");
        ended["spec"]["suspend"] = json!(false);
        ended["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        let jobs = self.jobs.clone().unwrap();
        self.observe(&jobs, Change::Applied(seen(ended)));
    }
}

/// Its controller keeps them for a while, as that of a RayJob does, and they keep its quota until they are gone.
#[tokio::test]
async fn pods_made_again_after_the_end_of_their_job_count_by_themselves() {
    let mut play = Play::new();
    let mut workload = play.admit("a");
    play.see_pod(of_job("p", None));
    play.complete("a");
    assert_eq!(play.cycle().len(), 0, "its pod runs");
    assert_eq!(play.usage("p", "a"), [false, true]);

    play.see_pod(of_job("p", Some(30)));
    let finish = play.cycle().remove(0);
    let Write::SetWorkloadStatus {
        status, purpose, ..
    } = &finish.write
    else {
        panic!("not finished: {finish:?}");
    };
    assert_eq!(*purpose, StatusPurpose::Finish);
    workload.data["status"] = serde_json::to_value(status).unwrap();
    workload.metadata.resource_version = Some("31".to_owned());
    // One that is made while that is written.
    play.see_pod(of_job("early", None));
    assert_eq!(play.usage("early", "a"), [false, true]);
    play.end(finish, Reply::Done(Some(Box::new(workload))));
    play.see_pod(of_job("late", None));
    for (pod, has_usage) in [("p", false), ("early", true), ("late", true)] {
        assert_eq!(play.usage(pod, "a"), [has_usage, false], "{pod}");
    }

    let mut told = Vec::new();
    for _ in 0..10 {
        play.pass(Duration::from_secs(1));
        play.handle(Input::Tick);
        let notes = play.cycle().into_iter().flat_map(|write| write.notes);
        told.extend(notes.map(|note| note.message));
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(
        told[0],
        "Runs though its job has finished and its quota was freed: it counts by itself in ClusterQueue \"q\", and is deleted when its quota is reclaimed"
    );

    // Else as many as anybody likes would terminate at the same time.
    play.see_pod(of_job("late", Some(30)));
    assert_eq!(play.usage("late", "a"), [true, false], "until it is gone");
    let gone = serde_json::from_value(of_job("late", Some(0))).unwrap();
    play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    assert_eq!(play.usage("late", "a"), [false, false]);
}

/// The controllers of some kinds leave them running, as that of MPIJobs does by default.
#[tokio::test]
async fn pods_that_outlast_their_job_are_told_of() {
    let mut play = Play::new();
    play.admit("a");
    for pod in ["q", "p", "gone"] {
        play.see_pod(of_job(pod, None));
    }
    play.see_pod(of_job("gone", Some(30)));
    play.complete("a");
    play.cycle();
    let mut told = |seconds: u32| {
        let mut told = Vec::new();
        for _ in 0..seconds {
            play.pass(Duration::from_secs(1));
            play.handle(Input::Tick);
            told.extend(play.told_about("a"));
        }
        told
    };
    assert_eq!(told(60), []);
    let message = "Has finished, and pods \"p\", \"q\" run on: their quota stays in use until they are gone; delete them, or have its controller do so (as by cleanPodPolicy)";
    assert_eq!(told(300), [("PodsRunOn", message.to_owned())]);
}

impl Play {
    /// How many pods the quota is for that job `a` holds.
    fn counted_pods(&self) -> u32 {
        let id = Subject::Job("uid-a".into()).id();
        let admission = self.controller.engine.admission(&id).unwrap();
        admission.pod_sets.iter().map(|set| set.count).sum()
    }
}

/// The pods of some kinds end at different times: those of a parameter server run on. What is made again then counts beside.
#[tokio::test]
async fn of_a_job_that_has_finished_only_those_pods_use_quota_that_run_on() {
    let mut play = Play::new();
    let mut larger = job("a");
    larger["spec"]["parallelism"] = json!(2);
    larger["spec"]["template"]["metadata"] = json!({
        "labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"}});
    let container = &mut larger["spec"]["template"]["spec"]["containers"][0];
    container["resources"]["requests"]["cpu"] = json!("500m");
    let mut workload = play.admit_of(larger.clone(), &job_kind());
    play.see_pod(of_job("p", None));
    play.see_pod(of_job("q", None));
    larger["metadata"]["resourceVersion"] = json!("30");
    larger["spec"]["suspend"] = json!(false);
    larger["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(larger)));
    let written: Vec<_> = (0..5).flat_map(|_| play.second()).collect();
    assert!(written.is_empty(), "both run: {written:?}");

    let mut ended = of_job("q", None);
    ended["metadata"]["resourceVersion"] = json!("31");
    ended["status"]["phase"] = json!("Succeeded");
    play.see_pod(ended);
    let mut report = (0..3).flat_map(|_| play.second()).collect::<Vec<_>>();
    let report = report.remove(0);
    let Reply::Done(Some(shown)) = with_status(&workload, &report, 32) else {
        panic!("it is done");
    };
    workload = (*shown).clone();
    assert_eq!(
        workload.data["status"]["reclaimablePods"],
        json!([{"name": "main", "count": 1}])
    );
    play.end(report, Reply::Done(Some(shown)));
    assert_eq!(play.counted_pods(), 1);
    assert_eq!(play.usage("p", "a"), [false, true]);

    let mut again = of_job("again", None);
    again["metadata"]["creationTimestamp"] = json!("2026-11-23T11:59:30Z");
    play.see_pod(again);
    let told = play.told_about("again");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].1.starts_with("Runs though its job has finished"),
        "{told:?}"
    );
    assert_eq!(play.usage("again", "a"), [true, true]);
    assert_eq!(play.usage("p", "a"), [false, true]);
}

/// Somebody takes a pod off a job whose pods waited behind gates: it keeps its place, and counts nowhere else.
#[tokio::test]
async fn a_pod_that_has_left_its_job_uses_quota_after_the_end_of_that() {
    let mut play = Play::new();
    let mut whole = job("a");
    whole["metadata"]["annotations"] = json!({"sluice.dev/admission": "Whole"});
    whole["spec"]["suspend"] = json!(false);
    whole["spec"]["parallelism"] = json!(2);
    let template = &mut whole["spec"]["template"];
    template["metadata"] = json!({
        "labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"}});
    template["spec"]["schedulingGates"] = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
    template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
    play.admit_of(whole.clone(), &job_kind());
    let record = json!({"clusterQueue": "q", "flavors": {"cpu": "any"}, "at": "2026-11-23T12:00:00Z",
        "job": "uid-a"});
    let [lasts, mut left] = ["p", "q"].map(|name| {
        let mut pod = of_job(name, None);
        pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(record.to_string());
        pod
    });
    play.see_pod(lasts);
    play.see_pod(left.clone());
    left["metadata"]["ownerReferences"] = json!([]);
    left["metadata"]["resourceVersion"] = json!("30");
    play.see_pod(left);
    whole["metadata"]["resourceVersion"] = json!("31");
    whole["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Applied(seen(whole)));
    let written: Vec<_> = (0..5).flat_map(|_| play.second()).collect();
    assert!(written.is_empty(), "both run: {written:?}");
    assert_eq!(play.counted_pods(), 2);
    assert_eq!(play.usage("q", "a"), [false, true]);
}
