//! The commands that ask and steer a cluster, on a real control plane without Sluice: statuses are written by hand.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Component, ControlPlane, Options, eventually};

use crate::gates::{Run, run};
use crate::{live_forms, live_refused};

pub(crate) const DEADLINE: std::time::Duration = std::time::Duration::from_mins(3);

pub(crate) fn sluice(kubeconfig: &Path, arguments: &str) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .args(arguments.split(' '))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("KUBECONFIG"))
}

/// The output of a run that is well.
pub(crate) fn ok(kubeconfig: &Path, arguments: &str) -> String {
    let (code, stdout, stderr) = sluice(kubeconfig, arguments);
    assert_eq!(
        (code, stderr.as_str()),
        (Some(0), ""),
        "{arguments}: {stdout}"
    );
    stdout
}

/// The output of a run that says in one line that it knows less, and why.
pub(crate) fn less(kubeconfig: &Path, arguments: &str, lacks: &str, why: &str) -> String {
    let (code, stdout, stderr) = sluice(kubeconfig, arguments);
    assert_eq!(code, Some(0), "{arguments}: {stderr}");
    let is_told = stderr.starts_with(&format!("note: {lacks}: ")) && stderr.contains(why);
    assert!(is_told && stderr.lines().count() == 1, "{stderr}");
    stdout
}

const COUNTED: &str = "places are counted among the jobs listed here";
const NOT_KNOWN: &str = "what it lacks and who is ahead in its ClusterQueue is not known";
const LENT: &str = "what cohorts use and queues lend is not known";
pub(crate) const NOT_INSTALLED: &str = "visibility.sluice.dev is not installed";
const FORBIDDEN: &str = "cannot get resource \"localqueues/pendingworkloads\"";

/// The words of each line.
fn words(text: &str) -> Vec<String> {
    let lines = text.lines();
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

pub(crate) fn own(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

pub(crate) fn job(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/none"}],
        }}},
    })
}

/// A pod of a group, as Sluice's webhook would make it.
fn member(namespace: &str, group: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {"sluice.dev/managed": "true", "sluice.dev/queue-name": "main", "sluice.dev/pod-group-name": group},
            "annotations": {"sluice.dev/pod-group-total-count": "2"},
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/none"}]},
    })
}

/// The Workload of a job, as Sluice would make it.
pub(crate) fn workload(namespace: &str, job: &str, uid: &str, priority: i32) -> Value {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": true});
    let metadata =
        json!({"name": format!("{job}-1"), "namespace": namespace, "ownerReferences": [owner]});
    let sets = json!([{"name": "main", "count": 2, "requests": {"cpu": "500m", "memory": "1Gi"}}]);
    own(
        "Workload",
        &metadata,
        &json!({"queueName": "main", "priority": priority, "podSets": sets}),
    )
}

pub(crate) async fn set_status(
    cp: &ControlPlane,
    namespace: &str,
    object: &str,
    status: &Value,
) -> Result<()> {
    let patch = json!({ "status": status }).to_string();
    let args = [
        "patch",
        object,
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    cp.kubectl(args, None).await?.ok().map(drop)
}

/// Queues with usage, a job that is admitted, and two that wait; a tenant who may see the objects of the namespace.
pub(crate) async fn setting(cp: &ControlPlane, ns: &str) -> Result<()> {
    let quotas = json!([{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": [
        {"name": "cpu", "nominalQuota": "4"}, {"name": "memory", "nominalQuota": "8Gi"},
    ]}]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "tenant", "namespace": ns},
        "rules": [
            {"apiGroups": ["sluice.dev"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
            {"apiGroups": ["acme.io"], "resources": ["trains"], "verbs": ["get", "patch"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "tenant", "namespace": ns},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": ns}],
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": ns}});
    let items = json!([
        own("ResourceFlavor", &json!({"name": "default"}), &json!({})),
        own(
            "ClusterQueue",
            &json!({"name": "team-a"}),
            &json!({"cohortName": "family", "namespaceSelector": {}, "resourceGroups": quotas})
        ),
        own(
            "LocalQueue",
            &json!({"name": "main", "namespace": ns}),
            &json!({"clusterQueue": "team-a"})
        ),
        job(ns, "runs"),
        job(ns, "waits"),
        job(ns, "urgent"),
        job(ns, "free"),
        member(ns, "gang", "gang-1"),
        account,
        role,
        binding,
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&list.to_string())).await?.ok()?;
    let mut workloads = Vec::new();
    for (name, priority) in [("runs", 0), ("waits", 0), ("urgent", 100)] {
        let uid = [
            "get",
            "job",
            name,
            "-n",
            ns,
            "-o",
            "jsonpath={.metadata.uid}",
        ];
        let uid = cp.kubectl(uid, None).await?.ok()?;
        workloads.push(workload(ns, name, uid.trim(), priority));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": workloads});
    cp.kubectl(apply, Some(&list.to_string())).await?.ok()?;
    let said = |kind: &str, is_true: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": is_true, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let admission =
        json!({"clusterQueue": "team-a", "podSetAssignments": [{"name": "main", "count": 2}]});
    let admitted =
        json!({"admission": admission, "conditions": [said("Admitted", "True", "Admitted", "")]});
    set_status(cp, ns, "workload/runs-1", &admitted).await?;
    let waits = said(
        "QuotaReserved",
        "False",
        "WaitingForQuota",
        "3 more cpu is needed",
    );
    set_status(cp, ns, "workload/waits-1", &json!({"conditions": [waits]})).await?;
    let usage = json!([{"name": "default", "resources": [
        {"name": "cpu", "total": "5", "borrowed": "1"}, {"name": "memory", "total": "2Gi", "borrowed": "0"},
    ]}]);
    let status = json!({"pendingWorkloads": 2, "reservingWorkloads": 1, "admittedWorkloads": 1, "flavorsUsage": usage,
        "usage": "cpu 5/4, memory 2Gi/8Gi"});
    set_status(cp, ns, "clusterqueue/team-a", &status).await?;
    set_status(cp, ns, "localqueue/main", &status).await
}

#[tokio::test]
async fn queues_and_jobs_are_shown_and_steered_with_the_rights_of_the_caller() -> Result<()> {
    let options = Options {
        without: vec![Component::Scheduler, Component::Kwok],
        ..Options::with_crds()?
    };
    let cp = ControlPlane::start(options).await?;
    let ns = cp.create_namespace("blue").await?;
    setting(&cp, &ns).await?;
    let admin = cp.kubeconfig();
    let tenant = cp.service_account_kubeconfig(&ns, "tenant").await?;
    shown(admin, &tenant, &ns).await?;
    live_forms::all(&cp, admin, &ns).await?;
    explained(admin, &ns);
    live_refused::unqueued(&cp, admin, &ns).await?;
    estimated(admin, &tenant, &ns)?;
    simulated(admin, &tenant, &ns);
    steered(&cp, admin, &tenant, &ns).await?;
    live_refused::not_steered(&cp, admin, &tenant, &ns).await?;
    checked(admin);
    steered_by_job_kinds(&cp, admin, &tenant, &ns).await?;
    Ok(())
}

async fn shown(admin: &Path, tenant: &Path, ns: &str) -> Result<()> {
    let tree = [
        "QUEUE PENDING ADMITTED RESOURCE USED QUOTA BORROWED USAGE",
        "family (cohort)",
        "team-a 2 1 cpu 5 4 1 ################++++",
        "memory 2Gi 8Gi #####...............",
    ];
    assert_eq!(words(&less(admin, "status", LENT, NOT_INSTALLED)), tree);
    // The API server hears of roles by a watch of its own.
    eventually("the tenant to see its queue", DEADLINE, async || {
        let (code, stdout, stderr) = sluice(tenant, &format!("status -n {ns}"));
        ensure!(code == Some(0), "{stderr}");
        let local = format!("{ns} main team-a 0 2 1 cpu 5/4, memory 2Gi/8Gi");
        ensure!(words(&stdout)[1] == local, "{stdout}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let standing_for =
        format!("these are the LocalQueues of namespace {ns}, as ClusterQueues may not be listed");
    let forbidden = "clusterqueues.sluice.dev is forbidden";
    let json = less(
        tenant,
        &format!("status -n {ns} -o json"),
        &standing_for,
        forbidden,
    );
    let queues: Value = serde_json::from_str(&json)?;
    let cpu = json!({"flavor": "default", "name": "cpu", "used": "5"});
    assert_eq!(
        (&queues[0]["kind"], &queues[0]["resources"][0]),
        (&json!("LocalQueue"), &cpu)
    );
    let listed = words(&less(tenant, &format!("list -n {ns}"), COUNTED, FORBIDDEN));
    let without_ages: Vec<String> = listed
        .iter()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            [&words[..5], &words[6..]].concat().join(" ")
        })
        .collect();
    assert_eq!(
        without_ages,
        [
            "KIND NAME QUEUE STATE PLACE REASON",
            "Job urgent main Pending 1/2 <none>",
            "Job waits main Pending 2/2 WaitingForQuota",
            "Job runs main Admitted <none> Admitted",
        ]
    );
    let json: Value = serde_json::from_str(&less(
        tenant,
        &format!("list -n {ns} -o json"),
        COUNTED,
        FORBIDDEN,
    ))?;
    assert_eq!(json[1]["message"], "3 more cpu is needed");
    let top = words(&ok(tenant, &format!("top -n {ns}")));
    assert_eq!(
        top,
        [
            "QUEUE WORKLOADS CPU MEMORY".to_owned(),
            format!("{ns}/main 1 5 2Gi")
        ]
    );
    live_refused::refused(tenant, "list -A", "is forbidden");
    Ok(())
}

fn explained(admin: &Path, ns: &str) {
    let told = words(&less(
        admin,
        &format!("explain job/waits -n {ns}"),
        NOT_KNOWN,
        NOT_INSTALLED,
    ));
    let is_told = |line: &str| assert!(told.iter().any(|told| told == line), "{line}: {told:#?}");
    for line in [
        "Job: Job/waits",
        "Queue: main (ClusterQueue team-a)",
        "Place: 2 of 2",
        "Ahead: Job/urgent",
        "Requests: cpu 1, memory 2Gi",
        "QuotaReserved=False (WaitingForQuota) 3 more cpu is needed",
        "team-a 2 1 cpu 5 4 1 ################++++ default",
    ] {
        is_told(line);
    }
    let (code, stdout, stderr) = sluice(admin, &format!("explain job/free -n {ns}"));
    let expected = format!(
        "error: Job \"free\" is not queued: Sluice has no Workload for it in namespace {ns}\n"
    );
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", expected));
    // A member is explained by its group.
    let (code, stdout, stderr) = sluice(admin, &format!("explain pod/gang-1 -n {ns}"));
    let expected = format!(
        "error: Pod \"gang-1\" is not queued: Sluice has no Workload for its pod group \"gang\" in namespace {ns}\n"
    );
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", expected));
}

/// When each job will start, as far as the caller may see what that depends on.
fn estimated(admin: &Path, tenant: &Path, ns: &str) -> Result<()> {
    let command = format!("list -n {ns} --start --duration 1m");
    let (code, json, stderr) = sluice(admin, &format!("{command} -o json"));
    ensure!(
        code == Some(0) && !stderr.contains("can't be estimated"),
        "{stderr}"
    );
    let jobs: Value = serde_json::from_str(&json)?;
    for job in [&jobs[0], &jobs[1]] {
        ensure!(job["start"]["plays"] == 100, "{job}");
    }
    ensure!(jobs[2].get("start").is_none(), "{jobs}");
    let (code, table, stderr) = sluice(tenant, &command);
    assert_eq!(code, Some(0), "{stderr}");
    let why = "note: the start of 2 jobs can't be estimated: clusterqueues.sluice.dev is forbidden";
    ensure!(stderr.contains(why), "{stderr}");
    let lines = words(&table);
    assert_eq!(lines[0], "KIND NAME QUEUE STATE PLACE START SINCE REASON");
    ensure!(
        lines[1].starts_with("Job urgent main Pending 1/2 unknown "),
        "{lines:?}"
    );
    ensure!(
        lines[3].starts_with("Job runs main Admitted <none> <none> "),
        "{lines:?}"
    );
    let (code, _, stderr) = sluice(tenant, &format!("{command} --watch"));
    ensure!(
        code == Some(2) && stderr.contains("cannot be used with"),
        "{stderr}"
    );
    Ok(())
}

/// The job that runs and the two that wait, in a queue with quota for four at a time.
fn simulated(admin: &Path, tenant: &Path, ns: &str) {
    let (code, json, stderr) = sluice(admin, "simulate --from-cluster --duration 1m -o json");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stderr, "note: durations: 3 from --duration\n");
    let figures: Value = serde_json::from_str(&json).unwrap();
    let all = &figures["all"];
    assert_eq!(
        (&all["jobs"], &all["finished"]),
        (&json!(3), &json!(3)),
        "{json}"
    );
    // Two of the three began in the play, at once.
    assert_eq!(all["wait"]["maxSeconds"], 0, "{json}");
    let (code, stdout, stderr) = sluice(admin, "simulate --from-cluster");
    let why = format!("error: the cluster: how long 3 jobs run is not known ({ns}/");
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.starts_with(&why) && stderr.contains("set --duration"),
        "{stderr}"
    );
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/jobs/evaluate.yaml");
    for command in [
        "simulate --from-cluster --duration 1m".to_owned(),
        format!("what-if -f {}", job.display()),
    ] {
        let (code, stdout, stderr) = sluice(tenant, &command);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{command}");
        let refused = "error: clusterqueues.sluice.dev is forbidden";
        assert!(stderr.starts_with(refused), "{command}: {stderr}");
    }
    let (code, stdout, _) = sluice(tenant, &format!("explain job/waits -n {ns}"));
    let unknown = "Start: can't be estimated: clusterqueues.sluice.dev is forbidden";
    let told = words(&stdout);
    assert_eq!(code, Some(0));
    assert!(
        told.iter().any(|line| line.starts_with(unknown)),
        "{told:#?}"
    );
}

async fn steered(cp: &ControlPlane, admin: &Path, tenant: &Path, ns: &str) -> Result<()> {
    let read = async |object: &str, path: &str| {
        let path = format!("jsonpath={{{path}}}");
        cp.kubectl(["get", object, "-n", ns, "-o", &path], None)
            .await?
            .ok()
    };
    let cases = [
        (
            "hold localqueue/main",
            "localqueue.sluice.dev/main held",
            "localqueue/main",
            ".spec.stopPolicy",
            "Hold",
        ),
        (
            "hold cq/team-a --drain",
            "clusterqueue.sluice.dev/team-a held",
            "cq/team-a",
            ".spec.stopPolicy",
            "HoldAndDrain",
        ),
        (
            "resume cq/team-a",
            "clusterqueue.sluice.dev/team-a resumed",
            "cq/team-a",
            ".spec.stopPolicy",
            "None",
        ),
        (
            "resume job/free",
            "job.batch/free resumed",
            "job/free",
            ".spec.suspend",
            "false",
        ),
        (
            "hold job/free",
            "job.batch/free held",
            "job/free",
            ".spec.suspend",
            "true",
        ),
        (
            "evict job/runs",
            "Job/runs evicted",
            "workload/runs-1",
            ".spec.active",
            "false",
        ),
        (
            "reactivate job/runs",
            "Job/runs reactivated",
            "workload/runs-1",
            ".spec.active",
            "true",
        ),
        (
            "evict workload/runs-1",
            "Job/runs evicted",
            "workload/runs-1",
            ".spec.active",
            "false",
        ),
        (
            "reactivate workload/runs-1",
            "Job/runs reactivated",
            "workload/runs-1",
            ".spec.active",
            "true",
        ),
    ];
    for (command, told, object, path, value) in cases {
        assert_eq!(
            ok(admin, &format!("{command} -n {ns}")),
            format!("{told}\n"),
            "{command}"
        );
        assert_eq!(read(object, path).await?.trim(), value, "{command}");
    }
    let (code, stdout, stderr) = sluice(tenant, &format!("evict podgroup/none -n {ns}"));
    let expected =
        format!("error: PodGroup \"none\" has no Workload in namespace {ns}: it is not queued\n");
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", expected));
    let (code, _, stderr) = sluice(tenant, &format!("evict job/runs -n {ns}"));
    assert_eq!(code, Some(1), "{stderr}");
    ensure!(
        stderr.contains("cannot patch resource \"workloads\""),
        "{stderr}"
    );
    misused(admin);
    Ok(())
}

/// What is wrong usage, and why.
fn misused(admin: &Path) {
    for (command, told) in [
        (
            "hold main",
            "error: \"main\" names no object: say KIND/NAME, as in localqueue/main or job/train\n",
        ),
        (
            "hold job/free --drain",
            "error: --drain does not go with job/free: it is for clusterqueue/NAME and localqueue/NAME; hold job/free stops it if it runs\n",
        ),
        (
            "hold nothing/x",
            "error: the server doesn't have a resource type \"nothing\"\n",
        ),
    ] {
        let (code, stdout, stderr) = sluice(admin, command);
        assert_eq!(
            (code, stdout.as_str(), stderr.as_str()),
            (Some(2), "", told),
            "{command}"
        );
    }
}

/// A job is suspended by the field that its JobKind names; what no field suspends is told.
async fn steered_by_job_kinds(
    cp: &ControlPlane,
    admin: &Path,
    tenant: &Path,
    ns: &str,
) -> Result<()> {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": any}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "trains.acme.io"},
        "spec": {
            "group": "acme.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Train", "plural": "trains", "singular": "train"},
        },
    });
    let kind = |group: &str, kind: &str, more: Value| {
        let sets = json!([{"name": "main", "template": ".spec.template", "count": "1"}]);
        let mut spec = json!({"group": group, "version": "v1", "kind": kind, "podSets": sets});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        own("JobKind", &json!({"name": kind.to_lowercase()}), &spec)
    };
    let way = json!({
        "suspend": ".spec.run.paused",
        "finished": {"when": "false", "succeeded": "false"},
        "active": "!object.spec.run.paused",
    });
    let train = json!({
        "apiVersion": "acme.io/v1", "kind": "Train", "metadata": {"name": "ice", "namespace": ns},
        "spec": {"run": {"paused": false}, "suspend": false},
    });
    let mut bare = train.clone();
    bare["metadata"]["name"] = json!("tgv");
    bare["spec"] = json!({"run": {"paused": false}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": ns},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "example.com/none"}]},
        }},
    });
    let kinds = [
        kind("acme.io", "Train", way),
        kind("apps", "Deployment", json!({"admission": "PerPod"})),
    ];
    for object in [&crd, &kinds[0], &kinds[1], &deployment] {
        let object = object.to_string();
        cp.kubectl(["apply", "-f", "-"], Some(&object))
            .await?
            .ok()?;
    }
    eventually("the kind to be served", DEADLINE, async || {
        let train = train.to_string();
        cp.kubectl(["apply", "-f", "-"], Some(&train)).await?.ok()
    })
    .await?;
    for (command, told, paused) in [
        ("hold train/ice", "train.acme.io/ice held", "true"),
        ("resume train/ice", "train.acme.io/ice resumed", "false"),
    ] {
        let told = format!("{told}\n");
        assert_eq!(ok(admin, &format!("{command} -n {ns}")), told, "{command}");
        let fields = "jsonpath={.spec.run.paused} {.spec.suspend}";
        let read = cp.kubectl(["get", "train", "ice", "-n", ns, "-o", fields], None);
        let read = read.await?.ok()?;
        assert_eq!(read, format!("{paused} false"), "{command}");
    }
    // Which JobKinds there are is not for everybody to see.
    let bare = bare.to_string();
    cp.kubectl(["apply", "-f", "-"], Some(&bare)).await?.ok()?;
    let unknown = "which field suspends train.acme.io tgv is not known to you: jobkinds.sluice.dev is forbidden";
    live_refused::refused(tenant, &format!("hold train/tgv -n {ns}"), unknown);
    let (code, stdout, stderr) = sluice(admin, &format!("hold deploy/d -n {ns}"));
    let told = "error: deployment.apps d has no field that suspends it\n";
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (Some(1), "", told)
    );
    Ok(())
}

/// There is no Sluice here.
fn checked(admin: &Path) {
    let (code, stdout, stderr) = sluice(admin, "check");
    assert_eq!((code, stderr.as_str()), (Some(1), ""), "{stdout}");
    let found = words(&stdout);
    for line in [
        "kubernetes ok version 1.36",
        "kinds ok all 8 kinds are served",
        "replicas FAILED there is no Deployment of Sluice in sluice-system",
        "visibility ok not installed: nothing says who waits in which queue",
        "job kinds ok 0 are ready, 0 wait for their CRD",
        "admission FAILED a pod with a bad gate is not refused: neither a webhook nor a policy looks at pods",
    ] {
        assert!(
            found.iter().any(|found| found == line),
            "{line}: {found:#?}"
        );
    }
    let version = ok(admin, "version --client");
    assert_eq!(version, format!("Client:  {}\n", env!("CARGO_PKG_VERSION")));
}
