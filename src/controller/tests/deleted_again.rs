//! Pods that somebody deletes again and again: each ignores the signal and runs on for the default grace period, while its
//! replacement runs already.

use k8s_openapi::jiff::Timestamp;

use super::pod_usage::{of_job, running};
use super::*;

/// A pod that is deleted, and may run until then.
fn deleted(mut pod: Value, until: Timestamp) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(until.to_string());
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    pod["metadata"]["resourceVersion"] = json!("21");
    pod
}

impl Play {
    /// Which of these pods have usage of their own.
    fn own_usage(&self, pods: &[&str]) -> Vec<bool> {
        let usage = pods.iter().map(|pod| self.usage(pod, "a")[0]);
        usage.collect()
    }
}

/// The job was admitted with one pod: that many are left out, and not more.
#[tokio::test]
async fn no_more_pods_than_its_job_was_admitted_with_terminate_uncounted() {
    let mut play = Play::new();
    play.admit("a");
    let names = ["p0", "p1", "p2", "p3", "p4"];
    for name in names {
        play.see_pod(of_job(name, None));
        play.cycle();
        play.pass(Duration::from_secs(3));
        let until = play.now.wall + Duration::from_secs(30);
        play.see_pod(deleted(of_job(name, None), until));
        play.cycle();
    }
    play.see_pod(of_job("last", None));
    play.cycle();
    assert_eq!(play.own_usage(&names), [true, true, true, true, false]);
    assert_eq!(play.usage("last", "a"), [false, true]);
    for name in ["p0", "p1", "p4"] {
        let gone = serde_json::from_value(of_job(name, Some(0))).unwrap();
        play.observe(&Source::Pod, Change::Deleted(Box::new(gone)));
    }
    play.cycle();
    assert_eq!(play.own_usage(&names), [false, false, true, false, false]);
    assert_eq!(play.usage("last", "a"), [false, true]);
}

/// Who names a job that is gone, or says nothing but its pod set, has them made by a controller of his own.
#[tokio::test]
async fn no_more_pods_than_a_job_has_left_terminate_uncounted() {
    for labels in [
        json!({}),
        json!({"batch.kubernetes.io/controller-uid": "uid-a"}),
    ] {
        let workload = serde_json::to_value(Play::new().admit("a")).unwrap();
        let mut play = Play::new();
        play.list_settings();
        play.list(&Source::Workload, [workload]);
        let names = ["first", "second", "third"];
        let deleted = names.into_iter().zip([5, 10, 15]).map(|(name, second)| {
            let until = play.now.wall + Duration::from_secs(second);
            deleted(running(name, &labels, None), until)
        });
        let stays = running("stays", &labels, None);
        let pods: Vec<_> = deleted.chain([stays]).collect();
        play.list(&Source::Pod, pods);
        play.list_jobs([]);
        play.cycle();
        assert_eq!(play.own_usage(&names), [true, true, false], "{labels}");
        assert_eq!(play.usage("stays", "a"), [false, true], "{labels}");
    }
}
