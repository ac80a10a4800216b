//! What an admitted pod requests in all, before and after a resize.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};
use sluice_kinds::requests::{PodDefaults, pod_requests};

use crate::tests::*;

/// An admitted pod with these requests of its own, and of its containers.
fn mk_admitted(pod_level: &Value, containers: &[Value]) -> Value {
    let containers: Vec<_> = containers
        .iter()
        .map(|requests| json!({"resources": {"requests": requests}}))
        .collect();
    let pod = with(
        mk_pod(
            &[("sluice.dev/managed", "true"), (QUEUE, "a")],
            &[(GATE, "true")],
            &[],
        ),
        "/spec/containers",
        json!(containers),
    );
    with(pod, "/spec/resources", json!({"requests": pod_level}))
}

fn resize(old: &Value, new: &Value) -> String {
    let mut review = mk_review(USER, Some(old), new);
    review["request"]["subResource"] = json!("resize");
    let request = Request::parse(review.to_string().as_bytes()).unwrap();
    crate::review::validate(&request, &mk_policy()).message()
}

fn cpus(amounts: &[&str]) -> Vec<Value> {
    amounts
        .iter()
        .map(|amount| json!({"cpu": amount}))
        .collect()
}

#[rstest]
#[case::below_a_pod_level_request("4", &["1", "1"], "4", &["2", "1"], "")]
#[case::from_one_to_another("", &["3", "1"], "", &["2", "2"], "")]
#[case::a_pod_level_request_for_what_they_have("", &["1", "1"], "2", &["1", "1"], "")]
#[case::a_pod_level_request_for_more("", &["1", "1"], "3", &["1", "1"],
    "spec.resources.requests[cpu]: Forbidden: may not grow from 0 to 3 while the pod is admitted")]
#[case::a_pod_level_request_that_grows("4", &["1", "1"], "5", &["1", "1"],
    "spec.resources.requests[cpu]: Forbidden: may not grow from 4 to 5 while the pod is admitted")]
#[case::one_more_than_the_other_less("", &["3", "1"], "", &["2", "3"],
    "spec.containers[1].resources.requests[cpu]: Forbidden: may not grow from 1 to 3 while the pod is admitted")]
#[case::without_a_pod_level_request("4", &["1", "3"], "", &["1", "3"], "")]
fn what_counts_is_the_pod(
    #[case] pod_level_before: &str,
    #[case] before: &[&str],
    #[case] pod_level: &str,
    #[case] containers: &[&str],
    #[case] expected: &str,
) {
    let pod = |pod_level: &str, containers: &[&str]| {
        let pod_level = match pod_level {
            "" => json!({}),
            amount => json!({"cpu": amount}),
        };
        mk_admitted(&pod_level, &cpus(containers))
    };
    assert_eq!(
        resize(&pod(pod_level_before, before), &pod(pod_level, containers)),
        expected
    );
}

fn amounts() -> impl Strategy<Value = Value> {
    let resource = prop::sample::select(vec!["cpu", "memory", "acme.io/x"]);
    prop::collection::btree_map(resource, 0_u32..4, 0..3).prop_map(|amounts| {
        let amounts = amounts.into_iter();
        let amounts = amounts.map(|(name, amount)| (name.to_owned(), json!(amount.to_string())));
        amounts.collect::<Map<_, _>>().into()
    })
}

/// What may change: pod-level requests, and those of three containers and three init containers.
fn requests() -> impl Strategy<Value = (Value, Vec<Value>, Vec<Value>)> {
    let of_containers = || prop::collection::vec(amounts(), 3);
    (amounts(), of_containers(), of_containers())
}

proptest! {
    #[test]
    fn refused_is_what_grows_in_any_resource(
        (old, new, are_sidecars) in (requests(), requests(), prop::collection::vec(any::<bool>(), 3)),
    ) {
        let pod = |(pod_level, containers, starting): (Value, Vec<Value>, Vec<Value>)| {
            let starting = starting.into_iter().zip(&are_sidecars).map(|(requests, is_sidecar)| {
                let policy = is_sidecar.then_some("Always");
                json!({"restartPolicy": policy, "resources": {"requests": requests}})
            });
            let starting: Vec<_> = starting.collect();
            with(mk_admitted(&pod_level, &containers), "/spec/initContainers", json!(starting))
        };
        let (old, new) = (pod(old), pod(new));
        let sum = |pod: &Value| pod_requests(&pod["spec"], "spec", &PodDefaults::default()).unwrap();
        let (before, after) = (sum(&old), sum(&new));
        let grows = after.iter().any(|(name, amount)| before.get(name).copied().unwrap_or(0) < *amount);
        let told = resize(&old, &new);
        prop_assert_eq!(!told.is_empty(), grows, "{}", told);
    }
}
