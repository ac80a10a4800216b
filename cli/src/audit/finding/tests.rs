use serde_json::{Value, json};
use sluice_configuration::{Configuration, parse};
use sluice_crds::JobKind;
use sluice_webhooks::Surroundings;

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
    shipped.rules = Some(Arc::new(rules));
    shipped
}

/// What is found of an object in a namespace with this label, by a configuration with these fields. Jobs are declared.
fn found_by(fields: &str, kind: &Kind, object: &Value, label: Option<&str>) -> Option<ObjectState> {
    let header = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n";
    let configuration = parse(&format!("{header}{fields}")).unwrap();
    let mut object = object.clone();
    object["metadata"]["name"] = json!("x");
    object["metadata"]["namespace"] = json!("n");
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let label = label.map(|value| (ENFORCEMENT_LABEL.to_owned(), value.to_owned()));
    let labels = Arc::new(label.into_iter().collect::<BTreeMap<_, _>>());
    let namespaces = BTreeMap::from([("n".to_owned(), labels)]);
    let declared = [shipped("job")];
    let auditor = auditor(namespaces, &declared, &configuration);
    auditor.find(kind, &object).map(|finding| finding.state)
}

fn auditor(
    namespaces: NamespaceLabels,
    declared: &[Kind],
    configuration: &Configuration,
) -> Auditor {
    let surroundings = Surroundings {
        namespaces: namespaces.clone(),
        ..Surroundings::default()
    };
    let rules: Vec<_> = declared
        .iter()
        .filter_map(|kind| kind.rules.clone())
        .collect();
    let judge = Judge::new(
        configuration,
        None,
        "infra".to_owned(),
        &rules,
        surroundings,
    );
    Auditor::new(namespaces, declared, judge)
}

fn found(kind: &Kind, metadata: Value, rest: Value, label: Option<&str>) -> Option<ObjectState> {
    let mut object = rest;
    object["metadata"] = metadata;
    found_by("", kind, &object, label)
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
    let job = &shipped("job");
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

fn cron() -> Kind {
    let path = "/spec/jobTemplate/metadata";
    kind("batch", "CronJob", CountingLabel::OfTemplate(path))
}

fn template(cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({"spec": {"restartPolicy": "Never", "containers": [container]}})
}

fn job(cpu: &str) -> Value {
    json!({"metadata": {}, "spec": {"template": template(cpu)}})
}

/// The queue of a template is named by an alias as that of an object is.
#[test]
fn an_alias_names_a_queue_where_the_label_does() {
    let cases = [
        ("labels", "kueue.x-k8s.io/queue-name"),
        ("annotations", "scheduling.volcano.sh/queue-name"),
        ("labels", "a.io/queue"),
    ];
    for (map, key) in cases {
        let metadata = json!({map: {key: "q"}});
        let of_job = json!({"metadata": metadata});
        let of_template = json!({"metadata": {}, "spec": {"jobTemplate": {"metadata": metadata}}});
        let aliases = "aliasPresets: [Kueue, Volcano]\nqueueLabelAliases: [a.io/queue]";
        for (fields, is_found) in [("", true), (aliases, false)] {
            let fields = format!("managedNamespaces: {{selector: {{}}}}\n{fields}");
            let found = [(shipped("job"), &of_job), (cron(), &of_template)]
                .map(|(kind, object)| found_by(&fields, &kind, object, None).is_some());
            assert_eq!(found, [is_found; 2], "{key}");
        }
    }
}

#[test]
fn the_configuration_says_what_is_required() {
    let managed = |fields: &str| format!("managedNamespaces: {{{fields}}}");
    let job = |fields: &str, label| found_by(&managed(fields), &shipped("job"), &job("2"), label);
    for (fields, label, expected) in [
        ("", None, ObjectFate::Ignored),
        ("unlabelled: Refuse", None, ObjectFate::Ignored),
        ("selector: {}", None, ObjectFate::Held),
        (
            "selector: {}, unlabelled: Refuse",
            None,
            ObjectFate::Refused,
        ),
        (
            "selector: {}, unlabelled: Default",
            None,
            ObjectFate::Queued,
        ),
        (
            "selector: {}, unlabelled: Ignore",
            None,
            ObjectFate::Ignored,
        ),
        (
            "selector: {}, unlabelled: Refuse",
            Some("Default"),
            ObjectFate::Queued,
        ),
        (
            "selector: {}, unlabelled: Refuse",
            Some("Ignore"),
            ObjectFate::Ignored,
        ),
        // What would be done.
        (
            "selector: {}, unlabelled: Refuse, dryRun: true",
            None,
            ObjectFate::Refused,
        ),
        ("unlabelled: Refuse", Some("DryRun"), ObjectFate::Refused),
        (
            "selector: {matchLabels: {team: a}}",
            None,
            ObjectFate::Ignored,
        ),
    ] {
        assert_eq!(
            job(fields, label),
            Some(ObjectState::WouldBe(expected)),
            "{fields}"
        );
    }
}

#[test]
fn exceptions_count_as_far_as_they_can_be_known() {
    let of_cron = || {
        let mut job = job("2");
        job["metadata"] = owned("batch/v1", "CronJob");
        job
    };
    let cron_job =
        || json!({"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": template("2")}}}});
    let by_cron = "users: ['system:serviceaccount:kube-system:cronjob-controller']";
    let held = ObjectState::WouldBe(ObjectFate::Held);
    let unless = ObjectState::WouldBeUnlessExcepted(ObjectFate::Held);
    let excepted = ObjectState::WouldBe(ObjectFate::Excepted);
    for (exception, kind, object, expected) in [
        (
            "when: 'pods == 1 && requests.cpu <= 2.0'",
            shipped("job"),
            job("2"),
            &excepted,
        ),
        (
            "when: 'pods == 1 && requests.cpu <= 2.0'",
            shipped("job"),
            job("3"),
            &held,
        ),
        ("users: [ann]", shipped("job"), job("2"), &unless),
        (
            "groups: [ops]",
            kind("", "Pod", CountingLabel::OfPod),
            json!({"metadata": {}}),
            &unless,
        ),
        ("when: 'user == \"ann\"'", shipped("job"), job("2"), &unless),
        (
            "users: [ann], when: 'requests.cpu <= 2.0'",
            shipped("job"),
            job("2"),
            &unless,
        ),
        (
            "users: [ann], when: 'requests.cpu <= 2.0'",
            shipped("job"),
            job("3"),
            &held,
        ),
        // Their author is known.
        ("users: [ann]", shipped("job"), of_cron(), &held),
        (by_cron, shipped("job"), of_cron(), &excepted),
        (by_cron, cron(), cron_job(), &excepted),
        ("users: [ann]", cron(), cron_job(), &held),
    ] {
        let fields =
            format!("managedNamespaces: {{selector: {{}}, exceptions: [{{{exception}}}]}}");
        let state = found_by(&fields, &kind, &object, None);
        assert_eq!(state.as_ref(), Some(expected), "{exception}");
    }
}

/// Of one that Sluice does not manage the webhooks are not asked.
#[test]
fn system_namespaces_are_left_out() {
    let configuration = parse(
        "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\nmanagedNamespaces: {selector: {}}\n",
    );
    for (namespace, is_found) in [("team-a", true), ("infra", false), ("kube-system", false)] {
        let known = BTreeMap::from([(namespace.to_owned(), Arc::default())]);
        let kinds = [shipped("job")];
        let auditor = auditor(known, &kinds, configuration.as_ref().unwrap());
        let object = json!({"metadata": {"name": "x", "namespace": namespace}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let [job] = &kinds;
        assert_eq!(
            auditor.find(job, &object).is_some(),
            is_found,
            "{namespace}"
        );
    }
}
