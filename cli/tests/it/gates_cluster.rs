//! `kubectl sluice gates` on a real control plane, without Sluice: a policy stands for its webhook, and refuses to
//! lift gates to those who have not the verb lift.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Component, ControlPlane, Options, eventually};

use crate::gates::{Run, run};

const DEADLINE: std::time::Duration = std::time::Duration::from_mins(3);
/// The refusal of the policy.
const REFUSAL: &str = "the gate acme.io/budget may be lifted only by its owners: ask #finops";

fn gates(kubeconfig: &Path, arguments: &str) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .arg("gates")
        .args(arguments.split(' '))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG"))
}

/// The output of a run that is well.
fn ok(kubeconfig: &Path, arguments: &str) -> String {
    let (code, stdout, stderr) = gates(kubeconfig, arguments);
    assert_eq!(
        (code, stderr.as_str()),
        (Some(0), ""),
        "{arguments}: {stdout}"
    );
    stdout
}

/// A suspended Job, behind gates and with the labels of those that have a Gate.
fn job(namespace: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"gate.sluice.dev/budget.acme.io": "true"},
            "annotations": annotations,
        },
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/none"}],
        }}},
    })
}

fn setting(a: &str, b: &str) -> Vec<Value> {
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": a}});
    let role = |name: &str, rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
               "rules": rules})
    };
    let binding = |kind: &str, role: &str, user: &str, namespace: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
               "metadata": {"name": format!("{role}-{user}"), "namespace": namespace},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
               "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": a}]})
    };
    let lift = json!([{"apiGroups": ["sluice.dev"], "resources": ["gates"], "verbs": ["lift"],
                       "resourceNames": ["budget.acme.io"]}]);
    let see = json!([
        {"apiGroups": ["sluice.dev"], "resources": ["gates", "jobkinds"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "patch"]},
    ]);
    let expression = "!has(oldObject.metadata.annotations) || ['scheduling', 'admission'].all(word, \
         !('kueue.x-k8s.io/' + word + '-gated-by' in oldObject.metadata.annotations) || \
         (has(object.metadata.annotations) && object.metadata.annotations[?'kueue.x-k8s.io/' + word + '-gated-by'] \
          == oldObject.metadata.annotations[?'kueue.x-k8s.io/' + word + '-gated-by'])) || \
         authorizer.group('sluice.dev').resource('gates').namespace(request.namespace).name('budget.acme.io')\
         .check('lift').allowed()";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "lifting"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["UPDATE"],
            }]},
            "validations": [{"expression": expression, "message": REFUSAL, "reason": "Forbidden"}],
        },
    });
    let bound = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "lifting"},
        "spec": {"policyName": "lifting", "validationActions": ["Deny"]},
    });
    let gate = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Gate", "metadata": {"name": "budget.acme.io"},
        "spec": {"description": "Waits for a budget", "contact": "#finops", "deadline": {"seconds": 86400}},
    });
    let kind = |name: &str, group: &str, kind: &str| {
        json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "JobKind", "metadata": {"name": name},
               "spec": {"group": group, "version": "v1", "kind": kind, "suspend": ".spec.suspend", "active": "false",
                        "podSets": [{"name": "main", "template": ".spec.template"}]}})
    };
    let one = |gate: &str| json!({"kueue.x-k8s.io/scheduling-gated-by": gate});
    let list = |gates: &str| json!({"kueue.x-k8s.io/admission-gated-by": gates});
    vec![
        account("owner"),
        account("user"),
        role("gate-owner", lift),
        role("sees-all", see),
        binding("RoleBinding", "gate-owner", "owner", json!(a)),
        binding("ClusterRoleBinding", "sees-all", "owner", Value::Null),
        binding("ClusterRoleBinding", "sees-all", "user", Value::Null),
        policy,
        bound,
        gate,
        kind("job", "batch", "Job"),
        kind("rayjob", "ray.io", "RayJob"),
        job(a, "both", &list("acme.io/budget, acme.io/data")),
        job(a, "one", &one("acme.io/budget")),
        job(a, "other", &one("acme.io/data")),
        job(b, "far", &one("acme.io/budget")),
    ]
}

#[tokio::test]
async fn gates_are_lifted_with_the_rights_of_the_caller() -> Result<()> {
    let options = Options {
        without: vec![Component::Scheduler, Component::Kwok],
        ..Options::with_crds()?
    };
    let cp = ControlPlane::start(options).await?;
    let (a, b) = (
        cp.create_namespace("a").await?,
        cp.create_namespace("b").await?,
    );
    let list = json!({"apiVersion": "v1", "kind": "List", "items": setting(&a, &b)});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&list.to_string())).await?.ok()?;
    let owner = cp.service_account_kubeconfig(&a, "owner").await?;
    let user = cp.service_account_kubeconfig(&a, "user").await?;
    // The API server hears of policies and bindings by watches of its own.
    eventually("the policy to refuse", DEADLINE, async || {
        let (.., stderr) = gates(&user, "lift acme.io/budget job/one --dry-run");
        ensure!(stderr.contains(REFUSAL), "{stderr}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    eventually("the owner to be one", DEADLINE, async || {
        let shown = ok(&owner, "show acme.io/budget");
        ensure!(
            shown.contains(&format!("You May Lift:  yes, in namespace {a}\n")),
            "{shown}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    listed_and_shown(&owner, &user, &b);
    one_by_one(&cp, &a, &owner, &user).await?;
    all_at_once(&a, &b, &owner, cp.kubeconfig());
    Ok(())
}

fn listed_and_shown(owner: &Path, user: &Path, b: &str) {
    let table = ok(user, "list");
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "GATE",
            "HELD",
            "OLDEST",
            "OPENS",
            "DEADLINE",
            "LIFTING",
            "DESCRIPTION"
        ]
    );
    assert_eq!(
        lines[1].join(" "),
        "acme.io/budget 0 <none> Approval 24h Notify Owners Waits for a budget"
    );
    let json: Value = serde_json::from_str(&ok(user, "list -o json")).unwrap();
    assert_eq!(json["items"][0]["spec"]["contact"], "#finops");
    assert_eq!(json["items"][0]["kind"], "Gate");
    let yaml: Value = serde_saphyr::from_str(&ok(user, "list -o yaml")).unwrap();
    assert_eq!(json, yaml);
    let yaml: Value = serde_saphyr::from_str(&ok(user, "show budget.acme.io -o yaml")).unwrap();
    assert_eq!(json["items"][0], yaml);
    for (kubeconfig, arguments, expected) in [
        (
            user,
            "show budget.acme.io".to_owned(),
            "You May Lift:  no, not in namespace a-".to_owned(),
        ),
        (
            owner,
            format!("show acme.io/budget -n {b}"),
            format!("no, not in namespace {b}"),
        ),
        (
            owner,
            "show acme.io/budget -A".to_owned(),
            "no, not in all namespaces".to_owned(),
        ),
        (
            user,
            "show acme.io/none".to_owned(),
            "    name: none.acme.io\n".to_owned(),
        ),
    ] {
        let shown = ok(kubeconfig, &arguments);
        assert!(shown.contains(&expected), "{arguments}: {shown}");
    }
    for gate in ["acme.io/none", "acme.io/No_Label"] {
        let json: Value = serde_json::from_str(&ok(user, &format!("show {gate} -o json"))).unwrap();
        assert_eq!(json, json!({"gate": gate, "object": null}));
    }
}

async fn one_by_one(cp: &ControlPlane, a: &str, owner: &Path, user: &Path) -> Result<()> {
    let refused = gates(user, "lift acme.io/budget job/one");
    assert!(
        refused
            .2
            .starts_with("error: jobs.batch \"one\" is forbidden: "),
        "{}",
        refused.2
    );
    assert!(refused.2.contains(REFUSAL), "{}", refused.2);
    assert_eq!((refused.0, refused.1.as_str()), (Some(1), ""));
    for (arguments, code, expected) in [
        (
            "lift acme.io/data job/one",
            1,
            "error: job.batch/one does not have the gate acme.io/data: 1 gate is left: acme.io/budget\n",
        ),
        (
            "lift acme.io/budget job/none",
            1,
            "error: jobs.batch \"none\" not found\n",
        ),
        (
            "lift acme.io/budget rayjob/one",
            2,
            "error: the server doesn't have a resource type \"rayjob\"\n",
        ),
        (
            "lift acme.io/budget secret/one",
            1,
            "error: secrets \"one\" is forbidden: ",
        ),
    ] {
        let (found, stdout, stderr) = gates(owner, arguments);
        assert!(stderr.starts_with(expected), "{arguments}: {stderr}");
        let code = if arguments.contains("secret") {
            1
        } else {
            code
        };
        assert_eq!((found, stdout.as_str()), (Some(code), ""), "{arguments}");
    }
    let tried = ok(owner, "lift acme.io/budget job/one --dry-run");
    assert_eq!(
        tried,
        "job.batch/one: acme.io/budget lifted (server dry run); no gate is left\n"
    );
    let lifted = ok(owner, "lift budget.acme.io jobs.v1.batch/both");
    assert_eq!(
        lifted,
        "job.batch/both: acme.io/budget lifted; 1 gate is left: acme.io/data\n"
    );
    let get = ["-n", a, "get", "jobs", "-o", "json"];
    let jobs: Value = serde_json::from_str(&cp.kubectl(get, None).await?.ok()?)?;
    let annotations = |index: usize| &jobs["items"][index]["metadata"]["annotations"];
    assert_eq!(
        annotations(0)["kueue.x-k8s.io/admission-gated-by"],
        "acme.io/data"
    );
    assert_eq!(
        annotations(1)["kueue.x-k8s.io/scheduling-gated-by"],
        "acme.io/budget"
    );
    Ok(())
}

fn all_at_once(a: &str, b: &str, owner: &Path, admin: &Path) {
    // Pods the owner may not list; in the other namespace the gate is not his.
    let (code, stdout, stderr) = gates(owner, "lift acme.io/budget --all -A");
    let expected = format!(
        "job.batch/both in {a}: does not have acme.io/budget any more\n\
         job.batch/one in {a}: acme.io/budget lifted; no gate is left\n\
         job.batch/other in {a}: does not have acme.io/budget any more\n\
         acme.io/budget lifted from 1 object, not from 1 object\n"
    );
    assert_eq!(stdout, expected, "{stderr}");
    let told: Vec<&str> = stderr.lines().collect();
    assert!(told[0].starts_with("note: pods is forbidden: "), "{stderr}");
    assert!(
        told[1].starts_with(&format!("error: job.batch/far in {b}: ")),
        "{stderr}"
    );
    assert!(told[1].ends_with(REFUSAL), "{stderr}");
    assert_eq!((code, told.len()), (Some(1), 2), "{stderr}");

    let lifted = ok(admin, &format!("lift acme.io/budget --all -n {b}"));
    let expected = format!(
        "job.batch/far in {b}: acme.io/budget lifted; no gate is left\nacme.io/budget lifted from 1 object\n"
    );
    assert_eq!(lifted, expected);
    let nothing = ok(admin, "lift acme.io/none --all");
    assert!(
        nothing.starts_with("gate acme.io/none: no objects found with label "),
        "{nothing}"
    );
}
