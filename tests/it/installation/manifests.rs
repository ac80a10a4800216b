//! What is installed: that the manifests are complete and accepted, and who may do what with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use serde_json::{Value, json};
use sluice_testbed::{ControlPlane, NAMESPACE, Options, Shared, Sluice, SluiceOptions, eventually};

use crate::gates::kubectl::kubectl_answered;
use crate::support::DEADLINE;
use crate::support::bed::BINARY;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// All that the controller may do anywhere, besides what Kubernetes gives everybody.
const RIGHTS: &str = "\
admissionregistration.k8s.io/mutatingwebhookconfigurations sluice-declared: delete get list patch update watch
admissionregistration.k8s.io/mutatingwebhookconfigurations sluice: get list patch watch
admissionregistration.k8s.io/mutatingwebhookconfigurations: create
admissionregistration.k8s.io/validatingwebhookconfigurations sluice-declared: delete get list patch update watch
admissionregistration.k8s.io/validatingwebhookconfigurations sluice: get list patch watch
admissionregistration.k8s.io/validatingwebhookconfigurations: create
apiregistration.k8s.io/apiservices v1alpha1.visibility.sluice.dev: get patch
apps/deployments: get list patch watch
apps/replicasets: get
apps/statefulsets: get list patch watch
argoproj.io/workflows: get list patch watch
authorization.k8s.io/subjectaccessreviews: create
batch/cronjobs: get
batch/jobs: get list patch watch
batch/jobs/status: patch
core/configmaps extension-apiserver-authentication: get
core/limitranges: get list watch
core/namespaces: get list watch
core/pods: delete get list patch watch
events.k8s.io/events: create patch
jobset.x-k8s.io/jobsets: get list patch watch
kubeflow.org/jaxjobs: get list patch watch
kubeflow.org/mpijobs: get list patch watch
kubeflow.org/paddlejobs: get list patch watch
kubeflow.org/pytorchjobs: get list patch watch
kubeflow.org/tfjobs: get list patch watch
kubeflow.org/xgboostjobs: get list patch watch
leaderworkerset.x-k8s.io/leaderworkersets: get list patch watch
node.k8s.io/runtimeclasses: get list watch
ray.io/rayclusters: get list patch watch
ray.io/rayjobs: get list patch watch
resource.k8s.io/resourceclaimtemplates: get list watch
scheduling.k8s.io/priorityclasses: get list watch
sluice.dev/clusterqueues/status: patch
sluice.dev/clusterqueues: get list watch
sluice.dev/cohorts/status: patch
sluice.dev/cohorts: get list watch
sluice.dev/gates/status: patch
sluice.dev/gates: get list watch
sluice.dev/jobkinds/status: patch
sluice.dev/jobkinds: get list watch
sluice.dev/localqueues/status: patch
sluice.dev/localqueues: get list watch
sluice.dev/resourceflavors: get list watch
sluice.dev/workloadpriorityclasses: get list watch
sluice.dev/workloads/status: patch
sluice.dev/workloads: create delete get list patch watch
sparkoperator.k8s.io/sparkapplications: get list patch watch
trainer.kubeflow.org/trainjobs: get list patch watch
workload.codeflare.dev/appwrappers: get list patch watch
";

/// What it may do besides in its own namespace.
const RIGHTS_AT_HOME: &str = "\
coordination.k8s.io/leases sluice: get update
coordination.k8s.io/leases: create
core/secrets sluice-webhook-certificate: get update
";

/// May (y) or may not (-) somebody with a role of Kubernetes in a namespace: view, edit, admin.
const TENANTS: &str = "\
get workloads: y y y
create workloads: - - -
update workloads: - y y
patch workloads: - y y
delete workloads: - - -
patch workloads/status: - - -
update workloads/finalizers: - - -
get localqueues: y y y
create localqueues: - - y
patch localqueues: - - y
delete localqueues: - - y
patch localqueues/status: - - -
create clusterqueues: - - -
patch clusterqueues: - - -
patch clusterqueues/status: - - -
create cohorts: - - -
create resourceflavors: - - -
get workloadpriorityclasses: y y y
get gates: - - -
create workloadpriorityclasses: - - -
create gates: - - -
get clusterqueues: - - -
get localqueues.visibility.sluice.dev/pendingworkloads: y y y
get workloads.visibility.sluice.dev/estimate: y y y
get pods.visibility.sluice.dev/estimate: y y y
get workloads.visibility.sluice.dev/explanation: y y y
get pods.visibility.sluice.dev/explanation: y y y
get clusterqueues.visibility.sluice.dev/pendingworkloads: - - -
get clusterqueues.visibility.sluice.dev/tree: - - -
get cohorts.visibility.sluice.dev/tree: - - -
create jobkinds: - - -
";

fn shared() -> &'static Shared {
    Sluice::shared(BINARY)
}

fn path(relative: &str) -> String {
    Path::new(ROOT)
        .join(relative)
        .to_string_lossy()
        .into_owned()
}

/// Standard output and standard error of a kubectl that went well.
async fn kubectl(args: &[&str], stdin: Option<&str>) -> Result<(String, String)> {
    let cp = &shared().control_plane;
    let output = kubectl_answered(async || cp.kubectl(args, stdin).await).await?;
    let stderr = output.stderr.clone();
    let stdout = output.ok().with_context(|| args.join(" "))?;
    Ok((stdout, stderr))
}

#[test]
fn every_crd_is_in_the_kustomization() -> Result<()> {
    let kustomization = std::fs::read_to_string(path("crds/Kustomization"))?;
    let listed: BTreeSet<_> = kustomization
        .lines()
        .filter_map(|line| line.strip_prefix("  - "))
        .map(str::to_owned)
        .collect();
    let mut there = BTreeSet::new();
    for entry in std::fs::read_dir(path("crds"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|e| e == "yaml") {
            there.insert(name);
        }
    }
    assert_eq!(listed, there);
    Ok(())
}

#[tokio::test]
async fn the_local_variant_has_every_webhook_on_this_machine() -> Result<()> {
    let (default, _) = kubectl(&["kustomize", &path("config/default")], None).await?;
    let (local, _) = kubectl(&["kustomize", &path("config/local")], None).await?;
    let webhooks = |text: &str| text.matches("  clientConfig:\n").count();
    ensure!(
        webhooks(&default) > 0 && webhooks(&default) == webhooks(&local),
        "{local}"
    );
    ensure!(
        local.matches("    url: https://127.0.0.1:9443/").count() == webhooks(&local),
        "{local}"
    );
    ensure!(
        !local.contains("\n    service:\n") && !local.contains("\nkind: Deployment"),
        "{local}"
    );
    Ok(())
}

#[tokio::test]
async fn the_manifests_are_accepted_and_restricted() -> Result<()> {
    for folder in ["config/default", "config/monitoring", "config/web"] {
        let args = ["apply", "--dry-run=server", "-k", &path(folder)];
        let (_, warnings) = kubectl(&args, None).await?;
        // The namespace warns of pods that are less than restricted.
        ensure!(!warnings.contains("Warning"), "{folder}: {warnings}");
    }
    let privileged = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  \
        selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    \
        spec: {containers: [{name: x, image: x}]}\n";
    let args = ["apply", "--dry-run=server", "-n", NAMESPACE, "-f", "-"];
    let (_, warnings) = kubectl(&args, Some(privileged)).await?;
    ensure!(
        warnings.contains("would violate PodSecurity"),
        "no warning at all: {warnings}"
    );
    Ok(())
}

/// An overlay needs no more than the namespace's name: policies and jail know Sluice's account wherever
/// it is.
#[tokio::test]
async fn an_overlay_may_put_it_elsewhere() -> Result<()> {
    let cp = ControlPlane::start(Options::with_crds()?).await?;
    let kubectl = async |args: &[&str], stdin: Option<&str>| cp.kubectl(args, stdin).await;
    let overlay = cp.dir().join("overlay");
    std::fs::create_dir_all(&overlay)?;
    let up = "../".repeat(overlay.components().count() - 1);
    let folders = ["config/without-webhook", "config/priority"];
    let folders =
        folders.map(|folder| format!("  - {up}{}\n", path(folder).trim_start_matches('/')));
    let text = format!("namespace: elsewhere\nresources:\n{}", folders.concat());
    std::fs::write(overlay.join("kustomization.yaml"), text)?;
    let overlay = overlay.to_string_lossy();
    kubectl(&["apply", "-k", &overlay], None).await?.ok()?;
    let subjects = "jsonpath={.items[*].spec.rules[*].subjects[*].serviceAccount.namespace}";
    let label = "-lapp.kubernetes.io/name=sluice";
    let args = ["get", "flowschemas", label, "-o", subjects];
    let found = kubectl(&args, None).await?.ok()?;
    assert_eq!(found, "elsewhere elsewhere");
    kubectl(&["create", "namespace", "tenant"], None)
        .await?
        .ok()?;
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: tenant, labels: {sluice.dev/queue-name: q}}\n\
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a}]}}}\n";
    eventually("the policies to hold", DEADLINE, async || {
        let held = kubectl(
            &[
                "create",
                "--dry-run=server",
                "-o",
                "jsonpath={.spec.suspend}",
                "-f",
                "-",
            ],
            Some(job),
        )
        .await?
        .ok()?;
        ensure!(held == "true", "not held: {held:?}");
        Ok(())
    })
    .await?;
    kubectl(&["create", "-f", "-"], Some(job)).await?.ok()?;
    let patch = async |account: &str, patch: &str, is_dry: bool| {
        let account = format!("--as={account}");
        let masters = "--as-group=system:masters";
        let group = (account == "--as=admin").then_some(masters);
        let args = [
            "-n",
            "tenant",
            "patch",
            "job",
            "a",
            "--type=merge",
            "-p",
            patch,
            &account,
        ];
        let dry = is_dry.then_some("--dry-run=server");
        let args: Vec<_> = args.into_iter().chain(group).chain(dry).collect();
        kubectl(&args, None).await
    };
    let release = r#"{"spec":{"suspend":false}}"#;
    let sluice = "system:serviceaccount:elsewhere:sluice";
    eventually("its account to get its rights", DEADLINE, async || {
        let mark = r#"{"metadata":{"annotations":{"sluice.dev/held":"true"}}}"#;
        patch(sluice, mark, false).await?.ok()
    })
    .await?;
    for (account, edit, told) in [
        ("admin", release, "spec.suspend: Forbidden"),
        (
            sluice,
            r#"{"spec":{"backoffLimit":1}}"#,
            "spec.backoffLimit: Forbidden: Sluice's account",
        ),
        // Whoever is called like it somewhere else is not it.
        ("system:serviceaccount:tenant:sluice", release, "cannot"),
    ] {
        // The API server hears of one policy after the other: those that refuse come later.
        eventually("the policies to judge", DEADLINE, async || {
            let answer = patch(account, edit, true).await?.err()?;
            ensure!(answer.contains(told), "{account}: {answer}");
            Ok(())
        })
        .await?;
    }
    // Who Sluice is they know by a right of its own.
    eventually("its account to release the job", DEADLINE, async || {
        patch(sluice, release, false).await?.ok()
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_samples_are_accepted() -> Result<()> {
    // What is in them needs their namespaces; nothing else of them is kept.
    kubectl(
        &["apply", "-f", &path("config/samples/namespaces.yaml")],
        None,
    )
    .await?;
    for flags in [["-k", "config/samples"], ["-f", "config/samples/jobs"]] {
        let [flag, folder] = flags;
        let args = ["apply", "--dry-run=server", flag, &path(folder)];
        let (_, told) = kubectl(&args, None).await?;
        // What a dry run creates is not there when its jobs come.
        let is_not_there =
            |line: &str| line.ends_with("until there is") || line.contains("has no Gate");
        let mut warnings = told.lines().filter(|line| line.contains("Warning"));
        let other = warnings.find(|line| !is_not_there(line));
        ensure!(other.is_none(), "{folder}: {told}");
    }
    Ok(())
}

#[tokio::test]
async fn no_role_has_a_wildcard() -> Result<()> {
    let args = [
        "get",
        "clusterroles,roles",
        "-A",
        "-l",
        "app.kubernetes.io/name=sluice",
        "-o",
        "json",
    ];
    let (roles, _) = kubectl(&args, None).await?;
    let roles: Value = serde_json::from_str(&roles)?;
    let items = roles["items"].as_array().context("no items")?;
    ensure!(items.len() >= 7, "only {} roles", items.len());
    for role in items {
        let rules = role["rules"].to_string();
        ensure!(
            rules.contains("verbs"),
            "{} has no rules",
            role["metadata"]["name"]
        );
        ensure!(
            !rules.contains('*'),
            "{}: {rules}",
            role["metadata"]["name"]
        );
        for verb in ["escalate", "bind", "impersonate"] {
            ensure!(!rules.contains(&format!("{verb:?}")), "{rules}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_may_do_this_and_no_more() -> Result<()> {
    // Kubernetes adds the roles of the kinds up one after the other, and its API server hears of it later.
    eventually("its rights to be these", DEADLINE, async || {
        let (rights, wanted) = (rights_in("default").await?, lines(RIGHTS));
        let others: Vec<_> = rights.symmetric_difference(&wanted).collect();
        ensure!(others.is_empty(), "too few or too many: {others:?}");
        Ok(())
    })
    .await?;
    let more: BTreeSet<_> = rights_in(NAMESPACE)
        .await?
        .difference(&lines(RIGHTS))
        .cloned()
        .collect();
    assert_eq!(more, lines(RIGHTS_AT_HOME));
    Ok(())
}

#[tokio::test]
async fn tenants_can_not_admit_their_own_jobs() -> Result<()> {
    let cp = &shared().control_plane;
    let ns = cp.create_namespace("tenants").await?;
    let roles = ["view", "edit", "admin"];
    for role in roles {
        let bind = format!("create rolebinding {role} -n {ns} --clusterrole={role} --user={role}");
        kubectl(&bind.split(' ').collect::<Vec<_>>(), None).await?;
    }
    let may = async |role: &str, verb: &str, resource: &str, subresource: &str| {
        // With a namespace, a review of what is in none would be about something that nobody asks for.
        let (resource, group) = resource.split_once('.').unwrap_or((resource, "sluice.dev"));
        let is_namespaced = ["workloads", "localqueues", "pods"].contains(&resource);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": role, "groups": ["system:authenticated"], "resourceAttributes": {
                "namespace": if is_namespaced { ns.as_str() } else { "" }, "verb": verb, "group": group, "version": "v1alpha1",
                "resource": resource, "subresource": subresource,
            } },
        });
        let args = ["create", "-o", "jsonpath={.status.allowed}", "-f", "-"];
        let (allowed, _) = kubectl(&args, Some(&review.to_string())).await?;
        anyhow::Ok(allowed == "true")
    };
    // The API server hears of the bindings a moment later.
    for role in roles {
        eventually("the binding to count", DEADLINE, async || {
            ensure!(may(role, "get", "workloads", "").await?, "not yet: {role}");
            Ok(())
        })
        .await?;
    }
    let mut table = String::new();
    for line in TENANTS.lines() {
        let (what, _) = line.split_once(':').context("no colon")?;
        let (verb, resource) = what.split_once(' ').context("no verb")?;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        table.push_str(what);
        table.push(':');
        for role in roles {
            let is_allowed = may(role, verb, resource, subresource).await?;
            table += if is_allowed { " y" } else { " -" };
        }
        table += "\n";
    }
    assert_eq!(table, TENANTS);
    // And as a user does it, who has nothing but the role in the namespace.
    for role in roles {
        let user = format!("--as={role}");
        kubectl(&["get", "workloadpriorityclasses", "-n", &ns, &user], None).await?;
        // The status of a Gate names objects of other namespaces.
        for resource in ["clusterqueues", "gates"] {
            let refused = cp.kubectl(&["get", resource, &user], None).await?.err()?;
            ensure!(refused.contains("Forbidden"), "{role}: {refused}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_process_is_small_ends_when_asked_and_comes_back() -> Result<()> {
    let cp = ControlPlane::start(Options::with_crds()?).await?;
    let options = SluiceOptions {
        webhooks: false,
        config: Some("queueLabelAliases: [kueue.x-k8s.io/queue-name]\n".to_owned()),
        ..SluiceOptions::new(BINARY)
    };
    let sluice = Sluice::install(&cp, options).await?;
    sluice.start().await?;
    ensure!(sluice.health("/healthz").await? == 200);
    ensure!(
        sluice
            .metrics()
            .await?
            .contains("\n# TYPE sluice_leader gauge\n")
    );
    // Tens of MiB, a debug build included.
    let memory = sluice.resident_memory()?;
    ensure!(memory < 100 << 20, "{memory} bytes");

    let status = sluice.stop().await?;
    ensure!(status.success(), "{status}: {}", sluice.log_tail());
    sluice.start_again().await?;
    sluice.kill();
    ensure!(
        sluice.pid().is_none() && sluice.metrics().await.is_err(),
        "it lives"
    );
    sluice.start_again().await
}

/// What the API server says that the controller may do in a namespace, one line for each resource.
async fn rights_in(namespace: &str) -> Result<BTreeSet<String>> {
    let Shared {
        control_plane,
        sluice,
        ..
    } = shared();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": namespace },
    });
    // Validation would look at CRDs, which it may not.
    let args = ["create", "--validate=false", "-o", "json", "-f", "-"];
    let answer = control_plane
        .kubectl_as(sluice.kubeconfig(), args, Some(&review.to_string()))
        .await?
        .ok()?;
    let review: SelfSubjectRulesReview = serde_json::from_str(&answer)?;
    let status = review.status.context("no status")?;
    ensure!(!status.incomplete, "{:?}", status.evaluation_error);
    // Several roles may give verbs on the same resource.
    let mut rights: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in status.resource_rules {
        let names = rule.resource_names.unwrap_or_default().join(" ");
        for group in rule.api_groups.iter().flatten() {
            // What everybody may: ask who they are and what they may.
            let asks_of_self = |resource: &String| resource.starts_with("selfsubject");
            if rule.resources.iter().flatten().all(asks_of_self) {
                continue;
            }
            // What other tests declare meanwhile: kinds of their own, and claims that a Gate waits for.
            if group.ends_with(".example.com") {
                continue;
            }
            let group = if group.is_empty() { "core" } else { group };
            let resources = rule.resources.iter().flatten();
            for resource in resources.filter(|resource| *resource != "persistentvolumeclaims") {
                let what = format!("{group}/{resource} {names}");
                let verbs = rights.entry(what.trim_end().to_owned()).or_default();
                verbs.extend(rule.verbs.iter().cloned());
            }
        }
    }
    let line = |(what, verbs): (String, BTreeSet<String>)| {
        format!("{what}: {}", Vec::from_iter(verbs).join(" "))
    };
    Ok(rights.into_iter().map(line).collect())
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}
