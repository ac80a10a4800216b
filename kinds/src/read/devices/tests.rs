//! What templates and claims come to, and what is told of those that can't be counted.
#![allow(clippy::needless_pass_by_value)]

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::fixtures::{batch_job, job_kind};
use crate::jobkind::kind::CompiledKind;
use crate::read::requests::PodDefaults;

fn classes() -> DeviceClasses {
    let classes = [
        ("gpu.example.com", "example.com/gpu"),
        ("big-gpu.example.com", "example.com/gpu"),
        ("nic.example.com", "example.com/nic"),
    ];
    DeviceClasses::new(classes.map(|(class, resource)| (class.to_owned(), resource.to_owned())))
}

fn template(requests: Value) -> Value {
    json!({"spec": {"spec": {"devices": {"requests": requests}}}})
}

fn shown(devices: &Amounts) -> String {
    let shown = devices
        .iter()
        .map(|(name, amount)| format!("{name}={}", amount / NANOS));
    shown.collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case::one_by_default(json!([{"name": "a", "exactly": {"deviceClassName": "gpu.example.com"}}]), "example.com/gpu=1")]
#[case::a_count(
    json!([{"name": "a", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 4}}]),
    "example.com/gpu=4"
)]
#[case::classes_of_one_resource(
    json!([
        {"name": "a", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "big-gpu.example.com"}},
        {"name": "c", "exactly": {"deviceClassName": "nic.example.com", "adminAccess": false}},
    ]),
    "example.com/gpu=3 example.com/nic=1"
)]
#[case::nothing(json!([]), "")]
#[case::no_requests(Value::Null, "")]
fn a_template_is_counted(#[case] requests: Value, #[case] expected: &str) {
    let counted = classes().count(&template(requests)).unwrap();
    assert_eq!(shown(&counted), expected);
}

#[rstest]
#[case::class(
    json!({"exactly": {"deviceClassName": "x.example.com"}}),
    "deviceClasses in Sluice's configuration names no resource for device class \"x.example.com\""
)]
#[case::all(
    json!({"exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "All"}}),
    "allocationMode \"All\" leaves open how many devices are allocated: must be \"ExactCount\""
)]
#[case::mode_to_come(
    json!({"exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "Some"}}),
    "allocationMode \"Some\" leaves open how many devices are allocated: must be \"ExactCount\""
)]
#[case::first_available(
    json!({"firstAvailable": [{"name": "b", "deviceClassName": "gpu.example.com"}]}),
    "firstAvailable leaves open which devices are allocated: use exactly"
)]
#[case::admin(
    json!({"exactly": {"deviceClassName": "gpu.example.com", "adminAccess": true}}),
    "adminAccess grants devices that are allocated to others: must be false"
)]
#[case::neither(json!({}), "exactly must be set")]
#[case::zero(
    json!({"exactly": {"deviceClassName": "gpu.example.com", "count": 0}}),
    "count must be a number greater than zero"
)]
#[case::text(
    json!({"exactly": {"deviceClassName": "gpu.example.com", "count": "2"}}),
    "count must be a number greater than zero"
)]
fn what_can_not_be_counted_is_reported(#[case] mut request: Value, #[case] rule: &str) {
    request["name"] = json!("r");
    let fine = json!({"name": "a", "exactly": {"deviceClassName": "gpu.example.com"}});
    let told = classes().count(&template(json!([fine, request])));
    assert_eq!(
        told.unwrap_err().to_string(),
        format!("can't be counted, because of its request \"r\": {rule}")
    );
}

#[test]
fn there_are_so_many_requests_at_most() {
    let request = json!({"name": "a", "exactly": {"deviceClassName": "gpu.example.com"}});
    let many = template(json!(vec![request; REQUESTS_MAX + 1]));
    assert_eq!(
        classes().count(&many).unwrap_err().to_string(),
        "has more than 64 requests"
    );
}

/// The one pod set of a Job whose pods have these claims and ask for two GPUs besides.
fn pod_set(claims: &Value) -> PodSetView {
    pod_set_with(|pod| {
        pod["resourceClaims"] = claims.clone();
        pod["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!("2");
    })
}

/// The one pod set of a Job whose pod spec is changed by `change`.
fn pod_set_with(change: impl FnOnce(&mut Value)) -> PodSetView {
    let mut job = batch_job();
    change(&mut job["spec"]["template"]["spec"]);
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    kind.pod_sets(&job, &PodDefaults::default())
        .unwrap()
        .remove(0)
}

fn told(set: &PodSetView) -> Vec<String> {
    let problems = uncounted(std::slice::from_ref(set));
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn devices_that_are_requested_by_the_name_of_their_class_count_as_its_resource() {
    let used = |name: &str| {
        let limits = json!({name: "2", "example.com/gpu": "1"});
        let mut set = pod_set_with(|pod| {
            pod["containers"][0]["resources"] = json!({ "limits": limits });
        });
        let role = set.role();
        set.count_requested_devices(&classes());
        assert_eq!(set.declared, set.requests);
        assert_eq!(set.role(), role, "it is stored");
        let amounts = set.requests.into_iter();
        amounts
            .map(|(name, amount)| (name, amount / NANOS))
            .collect::<Vec<_>>()
    };
    let gpus = |amount| ("example.com/gpu".to_owned(), amount);
    let known = "deviceclass.resource.kubernetes.io/gpu.example.com";
    assert_eq!(used(known), [gpus(3)]);
    let unknown = "deviceclass.resource.kubernetes.io/x.example.com";
    assert_eq!(used(unknown), [(unknown.to_owned(), 2), gpus(1)]);
}

#[test]
fn the_claims_of_a_pod_add_to_its_requests() {
    let mut set = pod_set(&json!([
        {"name": "a", "resourceClaimTemplateName": "two"},
        {"name": "b", "resourceClaimTemplateName": "nic"},
        {"name": "c", "resourceClaimTemplateName": "two"},
    ]));
    assert_eq!(told(&set).len(), 3, "nobody has counted them yet");
    let of = |resource: &str, count: i128| -> TemplateDevices {
        Ok([(resource.to_owned(), count * NANOS)].into())
    };
    let (two, nic) = (of("example.com/gpu", 2), of("example.com/nic", 1));
    let count = |name: &str| match name {
        "two" => Some(&two),
        _ => Some(&nic),
    };
    set.count_devices(count);
    // Counted again it is the same.
    set.count_devices(count);
    assert!(told(&set).is_empty());
    assert_eq!(set.claimed_templates(), ["nic", "two", "two"]);
    let mut usage = set.usage();
    assert_eq!(usage.remove("cpu"), Some(NANOS));
    assert_eq!(shown(&usage), "example.com/gpu=6 example.com/nic=1");
    assert_eq!(set.requests["example.com/gpu"], 2 * NANOS);
}

#[test]
fn a_pod_without_claims_is_counted_by_nobody() {
    let set = pod_set(&Value::Null);
    assert_eq!(set.devices, Ok(Amounts::new()));
    assert_eq!(set.usage(), set.requests);
}

#[test]
fn claims_that_can_not_be_counted_are_reported() {
    let mut set = pod_set(&json!([
        {"name": "gone", "resourceClaimTemplateName": "none"},
        {"name": "odd", "resourceClaimTemplateName": "odd"},
        {"name": "shared", "resourceClaimName": "mine"},
        {"name": "to-come", "resourceClaimToCome": "x"},
        {"name": "much", "resourceClaimTemplateName": "much"},
    ]));
    let odd: TemplateDevices = Err(Uncountable::Request {
        name: "r".to_owned(),
        rule: RequestRule::NotExactly,
    });
    let much: TemplateDevices = Ok([("example.com/gpu".to_owned(), i128::MAX)].into());
    set.count_devices(|name| match name {
        "odd" => Some(&odd),
        "much" => Some(&much),
        _ => None,
    });
    let at = |index: usize, name: &str, rule: &str| {
        format!("spec.template.spec.resourceClaims[{index}]: Invalid value: {name:?}: {rule}")
    };
    assert_eq!(
        told(&set),
        [
            at(
                0,
                "gone",
                "there is no ResourceClaimTemplate \"none\": create it, and its devices are counted"
            ),
            at(
                1,
                "odd",
                "ResourceClaimTemplate \"odd\" can't be counted, because of its request \"r\": exactly must be set"
            ),
            at(
                2,
                "shared",
                "devices of ResourceClaim \"mine\" can't be counted, as other pods may share them: name a ResourceClaimTemplate instead"
            ),
            at(3, "to-come", "must name a ResourceClaimTemplate"),
            at(
                4,
                "much",
                "requests too many devices of \"example.com/gpu\""
            ),
        ]
    );
}
