//! Admissions that leaders wrote before this one, and that came in late.

use super::pod_usage::running;
use super::*;
use crate::cache::Uid;
use crate::plan::JobPurpose;

/// The Workload of job `a`, which waits.
fn waiting() -> Value {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    serde_json::to_value(stored(&play.cycle().remove(0), 8)).unwrap()
}

/// The same, admitted in this term.
fn admitted(term: &str) -> Value {
    let mut workload = serde_json::to_value(Play::new().admit("a")).unwrap();
    workload["status"]["admission"]["term"] = json!(term);
    workload
}

/// A pod that runs, and was admitted by itself in this term.
pub(super) fn by_itself(name: &str, term: &str) -> Value {
    let mut pod = running(name, &json!({"sluice.dev/queue-name": "main"}), None);
    let record = json!({"clusterQueue": "q", "flavors": {"cpu": "any"}, "term": term,
        "at": "2026-11-23T11:59:30Z"});
    pod["metadata"]["annotations"] = json!({
        "sluice.dev/queue-allocation-gate": "true", "sluice.dev/admitted": record.to_string(),
    });
    pod
}

/// It waits for quota.
pub(super) fn gated(name: &str) -> Value {
    let mut pod = running(name, &json!({"sluice.dev/queue-name": "main"}), None);
    pod["metadata"]["resourceVersion"] = json!("19");
    pod["metadata"]["annotations"] = json!({"sluice.dev/queue-allocation-gate": "true"});
    pod["spec"] = json!({
        "schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}],
        "containers": pod["spec"]["containers"],
    });
    pod["status"] = json!({"phase": "Pending"});
    pod
}

/// What is done to job `a`, or to its Workload.
fn purpose(writes: &[InFlightWrite]) -> Vec<&'static str> {
    let of_job = |write: &InFlightWrite| match &write.write {
        Write::PatchJob {
            purpose: JobPurpose::Release,
            ..
        } => Some("released"),
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::TakeBack,
            ..
        } => Some("taken back"),
        _ => None,
    };
    writes.iter().filter_map(of_job).collect()
}

/// The leader of term 2 gave the quota to a pod, and ended before it could take back what the one of term 1 had written.
#[tokio::test]
async fn a_pod_that_was_admitted_by_itself_tells_of_a_later_term() {
    for (term, expected) in [("2.lease", "taken back"), ("1.lease", "released")] {
        let mut play = Play::new();
        play.list_settings();
        play.list(&Source::Workload, [admitted("1.lease")]);
        play.list(&Source::Pod, [by_itself("p", term)]);
        play.list_jobs([job("a")]);
        assert_eq!(purpose(&play.cycle()), [expected], "{term}");
    }
}

/// The leader waits for the Workload of another job before its first decision.
#[tokio::test]
async fn an_admission_that_comes_in_before_the_first_decision_is_decided_again() {
    let mut play = Play::new();
    play.list_settings();
    play.list(&Source::Workload, [waiting()]);
    play.list(&Source::Pod, [by_itself("p", "2.lease")]);
    play.list_jobs([job("a"), job("new")]);
    let created = play.cycle().remove(0);
    assert!(is_created(&created), "{created:?}");
    play.observe(
        &Source::Workload,
        Change::Applied(seen(admitted("1.lease"))),
    );
    let written = play.cycle();
    assert!(written.is_empty(), "nothing is decided: {written:?}");
    let new = stored(&created, 30);
    play.end(created, Reply::Done(Some(Box::new(new))));
    assert_eq!(purpose(&play.cycle()), ["taken back"]);
}

/// Nobody else would: the engine has not decided to evict it.
#[tokio::test]
async fn a_pod_that_was_ungated_late_is_deleted_however_often_that_fails() {
    let mut play = Play::new();
    play.list_settings();
    play.list(&Source::Pod, [by_itself("other", TERM), gated("late")]);
    play.list_jobs([]);
    assert!(play.cycle().is_empty(), "there is no quota");
    play.see_pod(by_itself("late", "2.lease"));
    let late = Subject::Pod(Uid::from("uid-late"));
    let mut deletion = play.cycle().remove(0);
    for _ in 0..3 {
        assert!(matches!(deletion.write, Write::DeletePod { .. }));
        assert_eq!(deletion.subject, late);
        play.end(deletion, Reply::Unknown("an error".to_owned()));
        assert!(play.controller.engine.admission(&late.id()).is_some());
        assert!(play.cycle().is_empty(), "it backs off");
        play.pass(Duration::from_secs(1));
        deletion = play.cycle().remove(0);
    }
    play.end(deletion, Reply::Done(None));
    assert!(play.cycle().is_empty(), "it is on its way");
    assert!(play.controller.engine.admission(&late.id()).is_some());
}
