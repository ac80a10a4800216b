//! Which Workload stands for which job.

use super::*;
use crate::cache::Subject;

#[test]
fn a_workload_that_only_looks_like_ours_stands_for_no_job() {
    let forged = with(admitted(), "/metadata/name", json!("train"));
    let (_, record) = WorkloadRecord::read(serde_json::from_value(forged).unwrap()).unwrap();
    assert_eq!(record.owner, None);
}

#[test]
fn a_workload_whose_job_was_orphaned_is_known_by_the_uid() {
    let orphaned = |name: &str, uid: &str| {
        let mut workload = with(admitted(), "/metadata/name", json!(name));
        workload["metadata"]["ownerReferences"] = json!([]);
        workload["metadata"]["labels"] = json!({"sluice.dev/job-uid": uid});
        let (_, record) = WorkloadRecord::read(serde_json::from_value(workload).unwrap()).unwrap();
        record.owner
    };
    let uid = "11111111-2222-3333";
    let found = orphaned("train-1111111122223333", uid).unwrap();
    assert!(
        found.is_nameless() && found.subject == Subject::Job(uid.into()),
        "{found:?}"
    );
    for (name, uid) in [
        ("train", uid),
        ("train-1111111122224444", uid),
        ("train-", ""),
        ("train-1111111122223333", "pod-group/blue/g"),
    ] {
        assert_eq!(orphaned(name, uid), None, "{name} of {uid}");
    }
}

#[test]
fn a_job_takes_the_place_of_its_own_creation() {
    let created = |at: &str| with(queued(true), "/metadata/creationTimestamp", json!(at));
    let old = "2026-01-01T00:00:00Z";
    let case = Case {
        job: created(old),
        workload: None,
    };
    let Some(Write::CreateWorkload(workload)) = planned(&case).write else {
        panic!("no Workload");
    };
    let at = workload.spec.job_creation_timestamp.clone();
    assert_eq!(serde_json::to_value(at).unwrap(), json!(old));
    // A Workload that does not say so yet is told; one that does needs no write.
    let case = Case {
        workload: Some(mk_workload(json!({}))),
        ..case
    };
    let Some(Write::UpdateWorkloadSpec { spec, .. }) = planned(&case).write else {
        panic!("no update");
    };
    let case = Case {
        workload: Some(with(
            mk_workload(json!({})),
            "/spec",
            serde_json::to_value(spec).unwrap(),
        )),
        ..case
    };
    assert!(planned(&case).write.is_none());
}
