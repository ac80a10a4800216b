//! Edits by the status of objects without a queue, where one is required: they begin to run by these as by others.

use rstest::rstest;
use serde_json::Value;
use sluice_gates::Exception;

use crate::review;
use crate::tests::enforcement::jobs::{excepting, labelled};
use crate::tests::gates::lift::judge_request;
use crate::tests::*;
use crate::{Permission, Verdict};

const NEEDED: &str = "metadata.labels[sluice.dev/queue-name]: Required value: namespace \"n\" requires a queue: must be the name of a LocalQueue of the namespace";
const OF_POD: &str = "; delete the pod and create it again with the label";

/// The verdict on an edit by the status, by somebody who may lift nothing.
fn judged(old: &Value, new: &Value, policy: &Policy) -> Verdict {
    let mut request = mk_request(USER, Some(old), new);
    request.sub_resource = "status".to_owned();
    let verdict = review::validate(&request, policy);
    if !verdict.is_allowed() {
        return verdict;
    }
    judge_request(policy, &request, Permission::Denied).0
}

#[rstest]
#[case::marked(mk_job(&[], &[], true), mk_job(&[], &[("sluice.dev/held", "true")], true))]
#[case::without_its_controller(
    owned(mk_job(&[], &[], true), "acme.io/v1", "Train"), mk_job(&[], &[], true))]
#[case::without_its_last_gate(
    mk_job(&[], &[(GATES, "acme.io/x")], true), mk_job(&[], &[], true))]
#[case::a_deployment(
    mk_deployment(&[], &[(GATES, "acme.io/x")]), mk_deployment(&[], &[]))]
#[case::a_pod(
    mk_pod(&[], &[(GATES, "acme.io/x")], &["acme.io/x"]), mk_pod(&[], &[], &["acme.io/x"]))]
fn what_begins_to_run_by_its_status_needs_a_queue(#[case] old: Value, #[case] new: Value) {
    let of_pod = if old["kind"] == "Pod" { OF_POD } else { "" };
    for value in ["Default", "Hold", "Refuse"] {
        let told = judged(&old, &new, &labelled(value)).message();
        assert_eq!(told, format!("{NEEDED}{of_pod}"), "{value}");
    }
    for value in ["DryRun", "Ignore"] {
        assert_eq!(judged(&old, &new, &labelled(value)).problems, [], "{value}");
    }
}

/// Nothing grows by it, and a controller writes it all the time.
#[test]
fn what_is_no_exception_any_more_keeps_its_status() {
    let policy = excepting(Exception {
        when: Some("object.metadata.uid == 'u1'".to_owned()),
        ..Exception::default()
    });
    let old = mk_job(&[], &[], false);
    let new = with(old.clone(), "/metadata/uid", "u2".into());
    assert_eq!(judged(&old, &new, &policy).problems, []);
    let verdict = review::validate(&mk_request(USER, Some(&old), &new), &policy);
    assert_eq!(verdict.message(), NEEDED);
}
