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
    let message = "Has finished, and pods \"p\", \"q\" run on: its quota stays in use until they are gone; delete them, or have its controller do so (as by cleanPodPolicy)";
    assert_eq!(told(300), [("PodsRunOn", message.to_owned())]);
}
