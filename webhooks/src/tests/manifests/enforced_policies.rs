//! The policies for namespaces that require a queue, made of a configuration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use sluice_gates::{Exception, ManagedNamespacesSpec, Unlabelled};

use crate::manifests::Options;
use crate::manifests::policies::{mutating, unknown_to_policies, validating};
use crate::tests::manifests::policies::mk_kinds;

/// The policies of enforcement, by their names.
fn policies(managed: ManagedNamespacesSpec) -> Vec<(String, Value)> {
    let options = Options {
        managed_namespaces: managed,
        ..Options::default()
    };
    let kinds = mk_kinds();
    let refusing = validating(&options, &kinds).into_iter();
    let refusing = refusing.map(|one| json!([one.policy, one.binding]));
    let giving = mutating(&options, &kinds).into_iter();
    let giving = giving.map(|one| json!([one.policy, one.binding]));
    let named = |policy: Value| {
        let name = policy[0]["metadata"]["name"].as_str().unwrap().to_owned();
        name.starts_with("sluice-enforce").then_some((name, policy))
    };
    refusing.chain(giving).filter_map(named).collect()
}

fn of_team_a() -> ManagedNamespacesSpec {
    ManagedNamespacesSpec {
        selector: Some(LabelSelector {
            match_labels: Some([("team".to_owned(), "a".to_owned())].into()),
            ..LabelSelector::default()
        }),
        unlabelled: Unlabelled::Refuse,
        default_local_queue: "batch".to_owned(),
        ..ManagedNamespacesSpec::default()
    }
}

fn is_selected(name: &str) -> bool {
    name.ends_with("-selected")
}

#[test]
fn namespaces_that_are_selected_have_policies_of_their_own() {
    let shipped = policies(ManagedNamespacesSpec::default());
    assert!(!shipped.iter().any(|(name, _)| is_selected(name)));
    let made = policies(of_team_a());
    let (selected, labelled): (Vec<_>, Vec<_>) =
        made.iter().partition(|(name, _)| is_selected(name));
    // All but that of namespaces where it is only reported.
    assert_eq!(
        (selected.len(), labelled.len()),
        (shipped.len() - 1, shipped.len())
    );
    for (name, policy) in selected {
        let selector = &policy[0]["spec"]["matchConstraints"]["namespaceSelector"];
        assert_eq!(selector["matchLabels"], json!({"team": "a"}), "{name}");
        let unlabelled = json!({"key": "sluice.dev/enforcement", "operator": "DoesNotExist"});
        let expressions = selector["matchExpressions"].as_array().unwrap();
        assert!(expressions.contains(&unlabelled), "{name}");
        assert_eq!(policy[1]["spec"]["policyName"], json!(name));
        assert!(policy.to_string().contains("orValue('Refuse')"), "{name}");
    }
}

#[test]
fn a_dry_run_warns_and_gives_nothing() {
    let managed = ManagedNamespacesSpec {
        dry_run: true,
        ..of_team_a()
    };
    let made = policies(managed);
    let selected: Vec<_> = made.iter().filter(|(name, _)| is_selected(name)).collect();
    let [(name, policy)] = &selected[..] else {
        panic!("{selected:?}");
    };
    assert_eq!(name, "sluice-enforcement-dry-run-selected");
    assert_eq!(policy[1]["spec"]["validationActions"], json!(["Warn"]));
    assert_eq!(policy[0]["spec"]["failurePolicy"], "Ignore");
    assert!(
        policy
            .to_string()
            .contains("this object would be ' +\\n'refused'"),
        "{policy}"
    );
}

#[test]
fn exceptions_are_in_every_policy() {
    let exception = |users: &[&str], groups: &[&str], when: Option<&str>| Exception {
        users: users.iter().map(|&user| user.to_owned()).collect(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        when: when.map(str::to_owned),
    };
    let managed = |exceptions: Vec<Exception>| ManagedNamespacesSpec {
        exceptions,
        ..ManagedNamespacesSpec::default()
    };
    let both = managed(vec![exception(&["it's"], &["ops"], Some("user != 'x'"))]);
    for (name, policy) in policies(both) {
        for part in [
            r"request.userInfo.username in ['it\\'s']",
            "request.userInfo.?groups.orValue([]).exists(g, g in ['ops'])",
            "[request.userInfo.username].exists(user, ",
        ] {
            assert!(policy.to_string().contains(part), "{name}: {part}");
        }
    }
    // Who makes the Jobs of a CronJob is known. What `when` says of them is asked when they are made.
    let cron = "system:serviceaccount:kube-system:cronjob-controller";
    let cron = |when| managed(vec![exception(&[cron], &["system:authenticated"], when)]);
    let makers = |managed| {
        let made = policies(managed).into_iter();
        let mut makers = made.filter(|(name, _)| name == "sluice-enforcement-makers");
        makers.next().unwrap().1.to_string()
    };
    let covered = "!(variables.maker in ['batch/CronJob'])";
    for when in [None, Some("false")] {
        assert!(makers(cron(when)).contains(&format!("!({covered})")));
    }
    let ann = managed(vec![exception(&["ann"], &[], None)]);
    assert!(!makers(ann).contains(&format!("!({covered})")));
}

#[test]
fn an_object_that_is_no_exception_any_more_begins_to_run() {
    let begins = |exceptions: Vec<Exception>| {
        let managed = ManagedNamespacesSpec {
            exceptions,
            ..ManagedNamespacesSpec::default()
        };
        let made = policies(managed).into_iter();
        let mut refusing = made.filter(|(name, _)| name == "sluice-enforcement");
        let (_, policy) = refusing.next().unwrap();
        let variables = policy[0]["spec"]["variables"].as_array().unwrap();
        let mut begins = variables.iter().filter(|one| one["name"] == "begins");
        begins.next().unwrap()["expression"].to_string()
    };
    let was_excepted = "(request.subResource == '' && [oldObject].exists(object, (";
    let small = Exception {
        when: Some("object.spec.replicas == 1".to_owned()),
        ..Exception::default()
    };
    assert!(begins(vec![small]).contains(was_excepted));
    assert!(!begins(Vec::new()).contains("[oldObject]"));
}

#[test]
fn what_can_not_be_evaluated_is_told_by_field() {
    let when = |when: &str| Exception {
        when: Some(when.to_owned()),
        ..Exception::default()
    };
    let managed = ManagedNamespacesSpec {
        exceptions: vec![
            when("object.metadata.name == 'a' && 'ops' in groups"),
            when("requests.cpu <= 1.0"),
        ],
        ..ManagedNamespacesSpec::default()
    };
    let told = unknown_to_policies(&managed, "managedNamespaces");
    let fields: Vec<_> = told.iter().map(|problem| problem.field.as_str()).collect();
    assert_eq!(fields, ["managedNamespaces.exceptions[1].when"]);
}
