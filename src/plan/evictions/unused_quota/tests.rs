use serde_json::json;

use super::*;
use crate::plan::fixtures::{mk_group_workload, mk_pod, release};

fn at(minute: u32) -> Timestamp {
    format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap()
}

#[test]
fn a_pod_does_not_use_its_quota_from_its_admission_until_it_is_bound() {
    let admitted = |pod: &mut serde_json::Value| {
        release(pod);
        let record = r#"{"clusterQueue":"cq","flavors":{},"at":"2026-01-01T00:05:00Z"}"#;
        pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(record);
    };
    let bound = |pod: &mut serde_json::Value| {
        admitted(pod);
        pod["spec"]["nodeName"] = json!("n1");
    };
    let deleted = |pod: &mut serde_json::Value| {
        admitted(pod);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:06:00Z");
    };
    let since = |change: &dyn Fn(&mut serde_json::Value)| {
        let (_, pod) = mk_pod("p", 1, &[], change);
        pod_unused_since(&pod)
    };
    assert_eq!(since(&|_| ()), None, "it still waits");
    assert_eq!(since(&admitted), Some(at(5)));
    assert_eq!(since(&bound), None);
    assert_eq!(since(&deleted), None, "it goes");
    let gates = |names: &'static [&str]| {
        move |pod: &mut serde_json::Value| {
            let gates = names.iter().map(|name| json!({"name": name}));
            pod["spec"]["schedulingGates"] = gates.collect();
        }
    };
    let others = gates(&["acme.io/licence"]);
    assert_eq!(since(&others), Some(at(1)), "a gate of others holds it");
    let both = gates(&["acme.io/licence", "sluice.dev/queue-allocation-gate"]);
    assert_eq!(since(&both), None, "it waits for quota, too");
    assert_eq!(
        since(&release),
        Some(at(1)),
        "without a record, from its creation on"
    );
}

#[test]
fn a_workload_does_not_use_its_quota_while_a_pod_waits_or_none_is_made() {
    let condition = json!({"type": "Admitted", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:10:00Z"});
    let (_, record) = mk_group_workload(&json!([]), &json!({"conditions": [condition]}));
    let (_, waits) = mk_pod("p", 0, &[], release);
    let (_, late) = mk_pod("q", 11, &[], release);
    let (_, bound) = mk_pod("r", 0, &[], |pod| {
        release(pod);
        pod["spec"]["nodeName"] = json!("n1");
    });
    let since = |pods: &[&PodRecord], empty_since: Option<u32>| {
        unused_since(&record, pods.iter().copied(), empty_since.map(at))
    };
    assert_eq!(
        since(&[&waits, &bound], None),
        Some(at(10)),
        "not before it was admitted"
    );
    assert_eq!(since(&[&bound], None), None);
    assert_eq!(
        since(&[&bound, &late], None),
        Some(at(11)),
        "made anew later"
    );
    assert_eq!(
        since(&[&late, &waits], None),
        Some(at(10)),
        "the first counts"
    );
    assert_eq!(since(&[], Some(12)), Some(at(12)), "no pods were made");
    assert_eq!(
        since(&[], None),
        None,
        "its pods can't be seen, or it wants none"
    );
    let (_, not_admitted) = mk_group_workload(&json!([]), &json!({}));
    assert_eq!(
        unused_since(&not_admitted, [&waits].into_iter(), None),
        None
    );
}
