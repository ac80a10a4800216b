use serde_json::{Value, json};
use sluice_crds::JobKind;

use self::Expected::{Held, MadeBy, Nothing, Would};
use super::*;
use crate::rules::shipped::SHIPPED;

fn kind(group: &str, kind: &str, counts: CountingLabel) -> Kind {
    let api_version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    let name = format!("{}.{group}", kind.to_lowercase());
    Kind {
        resource: Resource {
            api: kube::core::ApiResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
            },
            name: name.trim_end_matches('.').to_owned(),
            is_namespaced: true,
        },
        counts,
        rules: None,
    }
}

/// A kind that Sluice ships a JobKind for.
fn shipped(name: &str) -> Kind {
    let (_, text) = SHIPPED.iter().find(|(of, _)| *of == name).unwrap();
    let job_kind: JobKind = serde_saphyr::from_str(text).unwrap();
    let rules = CompiledKind::compile(&job_kind).unwrap();
    let mut shipped = kind(&rules.group, &rules.kind, CountingLabel::Own);
    shipped.rules = Some(rules);
    shipped
}

fn found(kind: &Kind, metadata: Value, rest: Value, label: Option<&str>) -> Option<ObjectState> {
    let mut object = rest;
    object["metadata"] = metadata;
    object["metadata"]["name"] = json!("x");
    object["metadata"]["namespace"] = json!("n");
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let label = label.map(|value| (ENFORCEMENT_LABEL.to_owned(), value.to_owned()));
    let namespaces = BTreeMap::from([("n".to_owned(), label.into_iter().collect())]);
    let declared = [self::kind("batch", "Job", CountingLabel::Own)];
    let auditor = Auditor::new(
        namespaces,
        &declared,
        Unlabelled::Ignore,
        "infra".to_owned(),
        QueueKeys::default(),
    );
    auditor.find(kind, &object).map(|finding| finding.state)
}

fn owned(api_version: &str, kind: &str) -> Value {
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u", "controller": true});
    json!({"ownerReferences": [owner]})
}

type Case<'a> = (&'a str, &'a Kind, Value, Value, Option<&'a str>, Expected);

fn check(cases: &[Case<'_>]) {
    for (name, kind, metadata, rest, label, expected) in cases {
        let state = found(kind, metadata.clone(), rest.clone(), *label);
        assert_eq!(state, expected.state(), "{name}");
    }
}

#[derive(Clone, Copy)]
enum Expected {
    Nothing,
    Held,
    MadeBy(&'static str),
    Would(ObjectFate),
}

impl Expected {
    fn state(self) -> Option<ObjectState> {
        match self {
            Self::Nothing => None,
            Self::Held => Some(ObjectState::Held),
            Self::MadeBy(kind) => Some(ObjectState::MadeBy(kind.to_owned())),
            Self::Would(fate) => Some(ObjectState::WouldBe(fate)),
        }
    }
}

fn queue() -> Value {
    json!({"labels": {QUEUE_NAME_LABEL: "q"}})
}

#[test]
fn jobs_without_a_queue_are_found() {
    let job = &kind("batch", "Job", CountingLabel::Own);
    let none = || json!({});
    let gate =
        json!({"annotations": {gates::ADMISSION_GATED_BY: "a.io/x,sluice.dev/queue-required"}});
    let complete = || json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let of_cron = owned("batch/v1", "CronJob");
    check(&[
        (
            "alone",
            job,
            none(),
            none(),
            None,
            Would(ObjectFate::Ignored),
        ),
        (
            "by default",
            job,
            none(),
            none(),
            Some("Default"),
            Would(ObjectFate::Queued),
        ),
        (
            "to be held",
            job,
            none(),
            none(),
            Some("Hold"),
            Would(ObjectFate::Held),
        ),
        (
            "dry run",
            job,
            none(),
            none(),
            Some("DryRun"),
            Would(ObjectFate::Held),
        ),
        (
            "to be refused",
            job,
            none(),
            none(),
            Some("Refuse"),
            Would(ObjectFate::Refused),
        ),
        ("held", job, gate, none(), Some("Hold"), Held),
        ("queued", job, queue(), none(), Some("Hold"), Nothing),
        (
            "ended",
            &shipped("job"),
            none(),
            complete(),
            Some("Hold"),
            Nothing,
        ),
        (
            "ended in the way of its kind",
            &shipped("sparkapplication"),
            none(),
            json!({"status": {"applicationState": {"state": "COMPLETED"}}}),
            Some("Hold"),
            Nothing,
        ),
        (
            "of a kind that ends in another way",
            &shipped("sparkapplication"),
            none(),
            complete(),
            Some("Hold"),
            Would(ObjectFate::Held),
        ),
        (
            "of a pod",
            job,
            owned("v1", "Pod"),
            none(),
            Some("Hold"),
            Nothing,
        ),
        (
            "of a CronJob",
            job,
            of_cron,
            none(),
            None,
            Would(ObjectFate::Ignored),
        ),
    ]);
}

#[test]
fn pods_and_what_makes_them_are_found() {
    let pod = &kind("", "Pod", CountingLabel::OfPod);
    let path = "/spec/jobTemplate/metadata";
    let cron = &kind("batch", "CronJob", CountingLabel::OfTemplate(path));
    let path = "/spec/template/metadata";
    let set = &kind("apps", "ReplicaSet", CountingLabel::OfTemplate(path));
    let (none, spec) = (|| json!({}), || json!({"spec": {}}));
    let made = json!({"spec": {"jobTemplate": {"metadata": queue()}}});
    let of = |kind: &str| owned("apps/v1", kind);
    check(&[
        (
            "a pod",
            pod,
            none(),
            none(),
            Some("Hold"),
            Would(ObjectFate::Held),
        ),
        (
            "of a Job",
            pod,
            owned("batch/v1", "Job"),
            none(),
            Some("Hold"),
            Nothing,
        ),
        (
            "of a StatefulSet without a JobKind",
            pod,
            of("StatefulSet"),
            none(),
            Some("Hold"),
            MadeBy("StatefulSet"),
        ),
        (
            "of a DaemonSet",
            pod,
            of("DaemonSet"),
            none(),
            Some("Hold"),
            Nothing,
        ),
        (
            "of a Train",
            pod,
            of("Train"),
            none(),
            None,
            MadeBy("Train"),
        ),
        (
            "outer label",
            cron,
            queue(),
            spec(),
            Some("Hold"),
            Would(ObjectFate::Held),
        ),
        ("a CronJob", cron, none(), made, Some("Hold"), Nothing),
        (
            "a ReplicaSet",
            set,
            none(),
            spec(),
            Some("Default"),
            Would(ObjectFate::Refused),
        ),
        (
            "of a Deployment without a JobKind",
            set,
            of("Deployment"),
            spec(),
            Some("Hold"),
            MadeBy("Deployment"),
        ),
        (
            "of an earlier revision",
            set,
            of("Deployment"),
            json!({"spec": {"replicas": 0}}),
            Some("Hold"),
            Nothing,
        ),
        (
            "a CronJob of an operator",
            cron,
            of("Train"),
            spec(),
            Some("Hold"),
            Nothing,
        ),
    ]);
}

/// The queue of a template is named by an alias as that of an object is.
#[test]
fn an_alias_names_a_queue_where_the_label_does() {
    let job = kind("batch", "Job", CountingLabel::Own);
    let cron = kind(
        "batch",
        "CronJob",
        CountingLabel::OfTemplate("/spec/jobTemplate/metadata"),
    );
    let metadata =
        json!({"name": "x", "namespace": "n", "labels": {"kueue.x-k8s.io/queue-name": "q"}});
    let object = |value: Value| -> DynamicObject { serde_json::from_value(value).unwrap() };
    let of_job = object(json!({"metadata": metadata}));
    let of_template = object(
        json!({"metadata": {"name": "x", "namespace": "n"}, "spec": {"jobTemplate": {"metadata": metadata}}}),
    );
    for (keys, is_found) in [(QueueKeys::default(), true), (QueueKeys::of_kueue(), false)] {
        let namespaces = BTreeMap::from([("n".to_owned(), BTreeMap::new())]);
        let auditor = Auditor::new(namespaces, &[], Unlabelled::Hold, "infra".to_owned(), keys);
        let found = [(&job, &of_job), (&cron, &of_template)]
            .map(|(kind, object)| auditor.find(kind, object).is_some());
        assert_eq!(found, [is_found; 2]);
    }
}
