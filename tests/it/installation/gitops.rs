//! Manifests that a GitOps controller applies again and again: Sluice has changed nothing of them, so nothing is taken
//! back, and nothing is unheld meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{Job, here, is_suspended, quota};
use crate::support::pods::{Pod, has_queue_gate};
use crate::support::scale::scaled;
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene};

/// A label that names a queue where it is configured.
const ALIAS: &str = "kueue.x-k8s.io/queue-name";

/// A control plane where a kind of its own is declared, and held.
pub async fn declare<'a>(scene: &'a Scene<'a>) -> Result<Widgets<'a>> {
    let widgets = Widgets::new(scene);
    widgets.serve().await?;
    widgets.manage(&widgets.job_kind()).await?;
    see_born_held(scene, &widgets, "widgets to be born held").await?;
    Ok(widgets)
}

/// Waits until a new widget is held, which says that the rules `what` tells of are judged by.
pub async fn see_born_held(scene: &Scene<'_>, widgets: &Widgets<'_>, what: &str) -> Result<()> {
    eventually(what, DEADLINE, async || {
        let widget = widgets.create_running("probe", true).await?;
        scene
            .kubectl(&["delete", "widgets", "probe"], None)
            .await?
            .ok()?;
        ensure!(widget["spec"]["halted"] == true, "{widget}");
        Ok(())
    })
    .await
}

/// All webhook configurations, as they are stored.
async fn configurations(scene: &Scene<'_>) -> Result<Vec<Value>> {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let text = scene
        .kubectl(&["get", kinds, "-o", "json"], None)
        .await?
        .ok()?;
    let all: Value = serde_json::from_str(&text)?;
    let all = all["items"].as_array().context("no items")?.clone();
    ensure!(all.len() == 4, "{all:?}");
    Ok(all)
}

/// Applies what was applied before, and returns what was not "unchanged".
pub async fn apply(bed: &Bed, manifests: &str) -> Result<Vec<String>> {
    let applied = bed.cp.kubectl(["apply", "-f", "-"], Some(manifests));
    let applied = applied.await?.ok()?;
    let lines = applied.lines().filter(|line| !line.ends_with(" unchanged"));
    Ok(lines.map(str::to_owned).collect())
}

/// How long work comes and goes: one round of it, or as many minutes as `make churn` says.
fn churn() -> Result<Duration> {
    let minutes = match std::env::var("CHURN_MINUTES") {
        Ok(minutes) => minutes.parse().context("CHURN_MINUTES")?,
        Err(_) => 0,
    };
    Ok(Duration::from_mins(minutes))
}

/// A Gate that new StatefulSets here are born with.
fn gate(scene: &Scene<'_>, name: &str) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Gate",
        "metadata": {"name": name},
        "spec": {"appliesTo": {
            "namespaceSelector": here(&scene.ns),
            "kinds": [{"group": "apps", "kind": "StatefulSet"}],
        }},
    })
}

/// Work of several kinds, through a queue and behind a gate, some of it to its end. Then it is deleted.
async fn work(scene: &Scene<'_>, widgets: &Widgets<'_>, round: usize) -> Result<()> {
    let name = |what: &str| format!("{what}-{round}");
    let of_gate = scene.name(&name("budget.example.com"));
    scene.create(&gate(scene, &of_gate)).await?;
    let [short, gated, alone, made] = ["short", "gated", "alone", "made"].map(name);
    scene.create(&Job::new(&short).queue("q").json()).await?;
    scene
        .create(&Job::new(&gated).queue("q").gate("acme.io/x").json())
        .await?;
    scene.create(&Pod::new(&alone).queue("q").json()).await?;
    widgets.create_running(&made, true).await?;
    scene.see_complete(&short).await?;
    widgets.see_released(&made).await?;
    scene.see_event(&gated, "Gated").await?;
    for job in [&short, &gated] {
        scene.delete("Job", job).await?;
    }
    scene.delete("Pod", &alone).await?;
    scene.delete("Gate", &of_gate).await?;
    let args = ["delete", "widgets", &made];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

#[tokio::test]
async fn what_is_applied_again_is_unchanged() -> Result<()> {
    let churn = churn()?;
    bed::own_running("gitops", async |bed, scene| {
        let widgets = declare(scene).await?;
        scene.queue(&[quota("cpu", "8")]).await?;
        let begin = Instant::now();
        for round in 0.. {
            work(scene, &widgets, round).await?;
            if churn <= begin.elapsed() {
                eprintln!("{} rounds in {:.0?}", round + 1, begin.elapsed());
                break;
            }
        }
        let manifests = bed.sluice.manifests(&bed.cp).await?;
        let changed = apply(bed, &manifests).await?;
        ensure!(changed.is_empty(), "{changed:#?}");
        let diff = bed
            .cp
            .kubectl(["diff", "-f", "-"], Some(&manifests))
            .await?;
        ensure!(diff.code == 0 && diff.stdout.is_empty(), "{diff:?}");
        Ok(())
    })
    .await
}

/// A Gate whose selector the API server stores without its empty list, and its webhooks.
async fn see_gate(scene: &Scene<'_>) -> Result<()> {
    let name = scene.name("empty.example.com");
    let gate = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Gate",
        "metadata": {"name": name},
        "spec": {"appliesTo": {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "nowhere"},
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists", "values": []}],
            },
            "kinds": [{"group": "apps", "kind": "StatefulSet"}],
        }},
    });
    scene.create(&gate).await?;
    eventually("the webhooks of the Gate", DEADLINE, async || {
        let all = configurations(scene).await?;
        let webhooks = all.iter().filter_map(|found| found["webhooks"].as_array());
        let of_gate = format!("{name}.gates.sluice.dev");
        let count = webhooks
            .flatten()
            .filter(|webhook| webhook["name"] == of_gate)
            .count();
        ensure!(count == 2, "{count}");
        Ok(())
    })
    .await
}

/// Applies the manifests all the time, while objects of all kinds are created: jobs, pods and a declared kind, which name
/// their queue by this label.
async fn self_heal(bed: &Bed, scene: &Scene<'_>, label: &str) -> Result<()> {
    let widgets = declare(scene).await?;
    let manifests = bed.sluice.manifests(&bed.cp).await?;
    let job = |name: &str| Job::new(name).label(label, "q").json();
    eventually("jobs to be held", DEADLINE, async || {
        let probe = scene.create(&job("probe")).await?;
        scene.delete("Job", "probe").await?;
        ensure!(is_suspended(&probe), "{probe}");
        Ok(())
    })
    .await?;
    see_gate(scene).await?;
    let before = configurations(scene).await?;
    for round in 0..scaled(10) {
        let name = format!("job-{round}");
        let (job, pod) = (job(&name), Pod::new(&name).label(label, "q").json());
        let (applied, job, pod, widget) = tokio::join!(
            apply(bed, &manifests),
            scene.create_once(&job),
            scene.create_once(&pod),
            widgets.create_running(&name, true),
        );
        let (applied, job, pod, widget) = (applied?, job?, pod?, widget?);
        ensure!(applied.is_empty(), "{applied:#?}");
        ensure!(is_suspended(&job), "{job}");
        ensure!(has_queue_gate(&pod), "{pod}");
        ensure!(widget["spec"]["halted"] == true, "{widget}");
    }
    let after = configurations(scene).await?;
    assert_eq!(before, after, "somebody has written");
    Ok(())
}

#[tokio::test]
async fn self_healing_opens_no_hole_and_starts_no_fight() -> Result<()> {
    bed::own_running("self-heal", async |bed, scene| {
        self_heal(bed, scene, "sluice.dev/queue-name").await
    })
    .await
}

/// The shipped webhooks can't know which they are.
#[tokio::test]
async fn nor_does_it_where_objects_carry_only_an_alias() -> Result<()> {
    let sluice = SluiceOptions {
        config: Some(format!("queueLabelAliases: [{ALIAS}]\n")),
        ..SluiceOptions::new(BINARY)
    };
    bed::own_running_with("self-heal-alias", sluice, async |bed, scene| {
        self_heal(bed, scene, ALIAS).await
    })
    .await
}

/// The configurations of Sluice's own, by whoever is to own them now, each with these webhooks and a CA.
async fn see_own(scene: &Scene<'_>, expected: &[Vec<String>]) -> Result<()> {
    eventually("Sluice's own configurations", DEADLINE, async || {
        let (shipped, own): (Vec<_>, Vec<_>) = configurations(scene)
            .await?
            .into_iter()
            .partition(|found| found["metadata"]["name"] == "sluice");
        for ((shipped, own), expected) in shipped.iter().zip(&own).zip(expected) {
            let owner = &own["metadata"]["ownerReferences"][0]["uid"];
            ensure!(owner == &shipped["metadata"]["uid"], "{own}");
            ensure!(&names_of(own) == expected, "{own}");
            let mut webhooks = own["webhooks"].as_array().into_iter().flatten();
            ensure!(
                webhooks.all(|webhook| webhook["clientConfig"]["caBundle"].is_string()),
                "{own}"
            );
        }
        Ok(())
    })
    .await
}

fn names_of(configuration: &Value) -> Vec<String> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    webhooks
        .map(|webhook| webhook["name"].to_string())
        .collect()
}

/// By a tool that prunes what it has not applied, or that replaces what it applies: Kubernetes deletes what belonged to it.
/// As on OpenShift, only those may say who owns an object who may delete it.
#[tokio::test]
async fn what_somebody_deletes_is_made_anew() -> Result<()> {
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned();
    let options = Options {
        api_server_args: vec![plugin],
        ..Options::with_crds()?
    };
    bed::own(
        "gitops-prune",
        SluiceOptions::new(BINARY),
        options,
        async |bed, scene| {
            bed.sluice.start().await?;
            let widgets = declare(scene).await?;
            let own = configurations(scene).await?.into_iter();
            let own = own.filter(|found| found["metadata"]["name"] == "sluice-declared");
            let expected: Vec<_> = own.map(|own| names_of(&own)).collect();
            let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
            let args = ["delete", kinds, "sluice-declared"];
            scene.kubectl(&args, None).await?.ok()?;
            see_own(scene, &expected).await?;

            let shipped = configurations(scene).await?.into_iter();
            let shipped = shipped.filter(|found| found["metadata"]["name"] == "sluice");
            for mut shipped in shipped {
                let (kind, name) = (shipped["kind"].to_string(), json!("sluice"));
                shipped["metadata"] =
                    json!({"name": name, "labels": shipped["metadata"]["labels"]});
                for webhook in shipped["webhooks"].as_array_mut().context("no webhooks")? {
                    let client = webhook["clientConfig"]
                        .as_object_mut()
                        .context(kind.clone())?;
                    client.remove("caBundle");
                }
                let args = ["replace", "--force", "-f", "-"];
                scene
                    .kubectl(&args, Some(&shipped.to_string()))
                    .await?
                    .ok()?;
            }
            see_own(scene, &expected).await?;
            eventually("widgets to be born held again", DEADLINE, async || {
                let widget = widgets.create_running("held", true).await?;
                ensure!(widget["spec"]["halted"] == true, "{widget}");
                Ok(())
            })
            .await?;

            // Who has no webhook for jobs wants none for other kinds.
            for kind in kinds.split(',') {
                let removal = json!([{"op": "remove", "path": "/webhooks/0"}]).to_string();
                let args = ["patch", kind, "sluice", "--type=json", "-p", &removal];
                scene.kubectl(&args, None).await?.ok()?;
            }
            see_own(scene, &[Vec::new(), Vec::new()]).await?;
            // Nor do the shipped manifests, which bring it back, leave anything out.
            apply(bed, &bed.sluice.manifests(&bed.cp).await?).await?;
            see_own(scene, &expected).await
        },
    )
    .await
}
