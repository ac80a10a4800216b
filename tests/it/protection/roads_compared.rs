//! Every edit by every road, judged by webhooks and by admission policies: the same verdicts, in the
//! same words.

use std::cell::RefCell;

use anyhow::{Result, anyhow, bail, ensure};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_crds::{ADMITTED_ANNOTATION, JobKindSpec, MANAGED_LABEL, QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_testbed::{KubectlOutput, eventually};
use sluice_webhooks::manifests::policies::{HeldKind, Validating, validating};
use sluice_webhooks::manifests::{ManagedResource, Options};

use crate::gates::kubectl::kubectl_answered;
use crate::support::admission::{Admission, play};
use crate::support::made_up::MadeUp;
use crate::support::objects::{GATED, Job, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, replicated};
use crate::support::{DEADLINE, Scene, into_value};

/// A way to write an object that is there.
#[derive(Clone, Copy, Debug)]
enum Road {
    Merge,
    Strategic,
    Apply,
    Replace,
    Status,
    ReplaceStatus,
    EphemeralContainers,
    DryRun,
    DryRunOfStatus,
}

const ROADS: [Road; 9] = [
    Road::Merge,
    Road::Strategic,
    Road::Apply,
    Road::Replace,
    Road::Status,
    Road::ReplaceStatus,
    Road::EphemeralContainers,
    Road::DryRun,
    Road::DryRunOfStatus,
];

const CREATE_ONLY: &str = "may only be set at creation";
const BY_SLUICE: &str = "is set by Sluice alone";

/// What is done to a pod.
struct Edit {
    name: &'static str,
    patch: Value,
    /// A gate that goes, which a patch by itself can't say.
    without_gate: Option<&'static str>,
}

fn edits() -> Vec<Edit> {
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {(key): value}}});
    let note = |key: &str, value: Value| json!({"metadata": {"annotations": {(key): value}}});
    let edit = |name, patch| Edit {
        name,
        patch,
        without_gate: None,
    };
    let without = |name, gate| Edit {
        without_gate: Some(gate),
        ..edit(name, json!({}))
    };
    vec![
        edit("any label", label("tests/seen", json!("yes"))),
        edit("a late gate", note(GATED, json!("acme.io/late"))),
        edit("a bad gate", note(GATED, json!("late"))),
        edit("a late queue", label(QUEUE_NAME_LABEL, json!("other"))),
        edit("no mark", label(MANAGED_LABEL, Value::Null)),
        edit("a mark", label(MANAGED_LABEL, json!("true"))),
        edit("another mark", label(MANAGED_LABEL, json!("false"))),
        edit("a record", note(ADMITTED_ANNOTATION, json!("{}"))),
        edit(
            "another list",
            note("sluice.dev/propagated-gates", json!("acme.io/x")),
        ),
        without("the queue gate off", QUEUE_GATE),
        without("a propagated gate off", "acme.io/budget"),
        without("a gate of somebody else off", "example.com/data"),
    ]
}

/// The pod as the edit would have it.
fn edited(pod: &Value, edit: &Edit) -> Value {
    let mut pod = pod.clone();
    json_patch::merge(&mut pod, &edit.patch);
    if let (Some(gone), Some(gates)) = (
        edit.without_gate,
        pod["spec"]["schedulingGates"].as_array_mut(),
    ) {
        gates.retain(|gate| gate["name"] != gone);
    }
    pod
}

/// The pod without what nobody can apply.
fn applied(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let metadata = pod["metadata"].as_object_mut().unwrap();
    for field in ["managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    pod.as_object_mut().unwrap().remove("status");
    pod
}

async fn write(scene: &Scene<'_>, road: Road, pod: &Value, edit: &Edit) -> kube::Result<Value> {
    let api = scene.api("Pod");
    let name = pod["metadata"]["name"].as_str().unwrap();
    let new = edited(pod, edit);
    let patch = match edit.without_gate {
        Some(gate) => json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}),
        None => edit.patch.clone(),
    };
    let merge = match edit.without_gate {
        Some(_) => json!({"spec": {"schedulingGates": new["spec"]["schedulingGates"]}}),
        None => edit.patch.clone(),
    };
    let params = |dry_run| PatchParams {
        dry_run,
        ..PatchParams::default()
    };
    let object = || serde_json::from_value::<DynamicObject>(new.clone()).unwrap();
    match road {
        Road::Merge => api.patch(name, &params(false), &Patch::Merge(merge)).await,
        Road::Strategic => {
            api.patch(name, &params(false), &Patch::Strategic(patch))
                .await
        }
        Road::DryRun => {
            api.patch(name, &params(true), &Patch::Strategic(patch))
                .await
        }
        Road::Apply => {
            let params = PatchParams::apply("road").force();
            api.patch(name, &params, &Patch::Apply(applied(&new))).await
        }
        Road::Replace => api.replace(name, &PostParams::default(), &object()).await,
        Road::Status => {
            api.patch_status(name, &params(false), &Patch::Merge(merge))
                .await
        }
        Road::DryRunOfStatus => {
            api.patch_status(name, &params(true), &Patch::Merge(merge))
                .await
        }
        Road::ReplaceStatus => {
            api.replace_status(name, &PostParams::default(), &object())
                .await
        }
        Road::EphemeralContainers => {
            api.patch_subresource(
                "ephemeralcontainers",
                name,
                &params(false),
                &Patch::Strategic(patch),
            )
            .await
        }
    }
    .map(into_value)
}

/// What is told, whoever tells it; and of what was taken, whether it brought anything.
pub(super) fn verdict(answer: kube::Result<Value>, before: &Value) -> String {
    match answer {
        Ok(after) => {
            let same = |field: &str| after["metadata"][field] == before["metadata"][field];
            let gates = after["spec"]["schedulingGates"] == before["spec"]["schedulingGates"];
            let is_same = same("labels") && same("annotations") && gates;
            (if is_same {
                "taken, and nothing changed"
            } else {
                "taken"
            })
            .to_owned()
        }
        Err(kube::Error::Api(status)) => {
            let told = &status.message;
            let by_sluice = ["denied the request: ", "denied request: "];
            let rule = by_sluice.iter().find_map(|by| told.split_once(by));
            rule.map_or_else(
                || format!("the API server: {}", status.code),
                |(_, rule)| rule.to_owned(),
            )
        }
        Err(error) => format!("no answer: {error}"),
    }
}

/// The pods that there are, by what they are: a name, and how to make one.
fn pods() -> Vec<(&'static str, Value)> {
    let data = "example.com/data";
    vec![
        ("plain", Pod::new("plain").json()),
        ("of others", Pod::new("others").scheduling_gate(data).json()),
        (
            "waits",
            Pod::new("waits")
                .queue("q")
                .cpu("9")
                .scheduling_gate(data)
                .json(),
        ),
        (
            "gated",
            Pod::new("gated")
                .annotation(GATED, "acme.io/budget")
                .scheduling_gate(data)
                .json(),
        ),
    ]
}

/// The verdict on each edit of each pod by each road.
async fn table(admission: Admission) -> Result<Vec<(String, String)>> {
    let table = RefCell::new(Vec::new());
    play(admission, "roads", async |scene| {
        let mut rows = Vec::new();
        scene.queue(&[quota("cpu", "1")]).await?;
        let mut deployment = replicated(
            "Deployment",
            "owner",
            1,
            Pod::new("owned").scheduling_gate("example.com/data"),
        );
        deployment["metadata"]["annotations"] = json!({(GATED): "acme.io/budget"});
        scene.create(&deployment).await?;
        scene.see_so_many("there", 1, |_| true).await?;
        let owned = scene.list("Pod").await?.remove(0);
        let owned = owned["metadata"]["name"].as_str().unwrap().to_owned();
        let mut subjects = vec![("owned", owned, None)];
        for (what, pod) in pods() {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            subjects.push((what, name, Some(pod)));
        }
        for (what, name, manifest) in &subjects {
            if let Some(manifest) = manifest {
                scene.create(manifest).await?;
            }
            for edit in edits() {
                for road in ROADS {
                    let answer = judged(scene, (road, &edit), name, manifest.as_ref()).await?;
                    rows.push((format!("{what}: {} by {road:?}", edit.name), answer));
                    if let Some(manifest) = manifest {
                        renew(scene, name, manifest).await?;
                    }
                }
            }
        }
        table.replace(rows);
        Ok(())
    })
    .await?;
    Ok(table.into_inner())
}

/// The verdict on one edit; asked again while controllers write in between, and while a webhook does not
/// answer. A pod that is away is made again: where a request to delete it was repeated, the first may have
/// come late.
async fn judged(
    scene: &Scene<'_>,
    (road, edit): (Road, &Edit),
    name: &str,
    manifest: Option<&Value>,
) -> Result<String> {
    loop {
        let pod = match (scene.find("Pod", name).await?, manifest) {
            (Some(pod), _) => pod,
            (None, Some(manifest)) => scene.create(manifest).await?,
            (None, None) => bail!("the pod {name} is gone"),
        };
        match answered(async || write(scene, road, &pod, edit).await).await? {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            answer => return Ok(verdict(answer, &pod)),
        }
    }
}

/// Makes the pod as it was, if it has changed.
async fn renew(scene: &Scene<'_>, name: &str, manifest: &Value) -> Result<()> {
    let Some(pod) = scene.find("Pod", name).await? else {
        return Ok(());
    };
    let fresh = |map: &str| {
        let wanted = manifest["metadata"][map].as_object().into_iter().flatten();
        wanted
            .clone()
            .all(|(key, value)| pod["metadata"][map][key] == *value)
    };
    let has_late = ["tests/seen", QUEUE_NAME_LABEL, MANAGED_LABEL]
        .iter()
        .any(|key| {
            manifest["metadata"]["labels"][key].is_null() && pod["metadata"]["labels"][key] == "yes"
        });
    let count = |pod: &Value| {
        pod["spec"]["schedulingGates"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let is_new =
        fresh("labels") && fresh("annotations") && !has_late && count(manifest) <= count(&pod);
    if !is_new {
        scene.delete("Pod", name).await?;
        scene.see_gone("Pod", name).await?;
        scene.create(manifest).await?;
    }
    Ok(())
}

#[tokio::test]
async fn webhooks_and_policies_judge_every_road_the_same() -> Result<()> {
    let (by_webhooks, by_policies) =
        tokio::try_join!(table(Admission::Webhooks), table(Admission::Policies))?;
    ensure!(by_webhooks.len() == by_policies.len());
    let mut parted = Vec::new();
    for ((row, webhook), (_, policy)) in by_webhooks.iter().zip(&by_policies) {
        if webhook != policy {
            parted.push(format!(
                "{row}\n  webhooks: {webhook}\n  policies: {policy}"
            ));
        }
    }
    ensure!(parted.is_empty(), "{}", parted.join("\n"));
    let refused = [
        ("plain: a late gate by", CREATE_ONLY),
        ("plain: a late queue by", CREATE_ONLY),
        ("plain: a mark by", BY_SLUICE),
        ("waits: a late gate by", CREATE_ONLY),
        ("waits: no mark by", BY_SLUICE),
        ("waits: another mark by", BY_SLUICE),
        ("plain: another mark by", BY_SLUICE),
        ("waits: a record by", BY_SLUICE),
        ("gated: another list by", BY_SLUICE),
        (
            "gated: a propagated gate off by",
            "stands for a gate annotation on the pod itself",
        ),
        (
            "owned: a propagated gate off by",
            "stands for a gate annotation on the object",
        ),
    ];
    for (edit, rule) in refused {
        let rows = by_webhooks.iter().filter(|(row, _)| row.starts_with(edit));
        let mut count = 0;
        for (row, told) in rows {
            count += 1;
            // A road that can't carry the edit, by a rule of the API server.
            let is_lost =
                told == "taken, and nothing changed" || told.starts_with("the API server");
            ensure!(told.contains(rule) || is_lost, "{row}: {told}");
        }
        ensure!(count == ROADS.len(), "{edit}: {count} rows");
        let told = |road: &str| {
            let row = format!("{edit} {road}");
            by_webhooks
                .iter()
                .find(|(known, _)| *known == row)
                .map(|(_, told)| told.as_str())
        };
        ensure!(
            told("Merge").is_some_and(|told| told.contains(rule)),
            "{edit}: {:?}",
            told("Merge")
        );
        if !edit.contains("off by") {
            let status = told("Status");
            ensure!(
                status.is_some_and(|told| told.contains(rule)),
                "{edit}: {status:?}"
            );
        }
    }
    Ok(())
}

/// A kind whose template may change while its objects run, which that of a batch Job may not.
#[tokio::test]
async fn webhooks_and_policies_judge_growth_the_same() -> Result<()> {
    for admission in [Admission::Webhooks, Admission::Policies] {
        play(admission, "growth-table", async |scene| {
            scene.queue(&[quota("cpu", "1")]).await?;
            let kind = MadeUp::new(scene, "Render");
            kind.install(scene).await?;
            if admission == Admission::Policies {
                for object in policy_of(&kind)? {
                    scene.apply(&object).await?;
                }
            }
            // On a machine that is busy enough a webhook does not answer in time.
            let object = kind.queued("a");
            eventually("an object to be taken", DEADLINE, async || kind.create(scene, &object).await)
                .await?;
            kind.see_released(scene, "a").await?;
            let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "eight"}]);
            for (spec, what) in [
                (json!({"size": 2}), "pod set \"main\": Forbidden: may not grow from 1 to 2 pods"),
                (
                    json!({"template": {"spec": {"runtimeClassName": "kata"}}}),
                    "spec.template.spec.runtimeClassName: Forbidden: may not change",
                ),
                (
                    json!({"template": {"spec": {"resourceClaims": claims}}}),
                    "pod set \"main\": Forbidden: the resourceClaims of its pods may not change",
                ),
                (
                    json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}),
                    "pod set \"main\": Forbidden: the nodeSelector and the required node affinity of its pods may not change, nor may tolerations be added",
                ),
            ] {
                let expected = format!(
                    "denied {}request: {what} while the job is admitted; suspend the job in the same update, and it is queued with the new value",
                    if admission == Admission::Webhooks { "the " } else { "" }
                );
                let try_merge = async |spec: &Value| {
                    let params = PatchParams {
                        dry_run: true,
                        ..PatchParams::default()
                    };
                    let patch = Patch::Merge(json!({ "spec": spec }));
                    kind.api(scene).patch("a", &params, &patch).await
                };
                // The API server hears of a policy, and of its own kind, a moment later.
                eventually("the edit to be refused", DEADLINE, async || {
                    match try_merge(&spec).await {
                        Err(kube::Error::Api(status)) if status.message.contains(&expected) => Ok(()),
                        other => Err(format!("{other:?}")),
                    }
                })
                .await?;
                let mut advised = spec;
                advised["halted"] = json!(true);
                persist(async || try_merge(&advised).await).await?;
            }
            kind.delete_crd(scene).await
        })
        .await?;
    }
    Ok(())
}

/// The validating policy of a made-up kind, by the generator that is there for kinds of one's own.
fn policy_of(kind: &MadeUp) -> Result<Vec<Value>> {
    let spec: JobKindSpec = serde_json::from_value(kind.job_kind()["spec"].clone())?;
    let resource = ManagedResource {
        group: kind.group.clone(),
        version: kind.version.to_owned(),
        resource: kind.plural(),
        subresources: vec!["status".to_owned()],
        pod_metadata: Vec::new(),
    };
    let kind = HeldKind::new(resource, spec).map_err(|problem| anyhow!("{problem}"))?;
    let policies = validating(&Options::default(), &[kind]).into_iter();
    let own = policies.take(1).flat_map(|Validating { policy, binding }| {
        [serde_json::to_value(policy), serde_json::to_value(binding)]
    });
    Ok(own.collect::<Result<_, _>>()?)
}

/// Creates an object as this user; again while the API server has not heard of the user's rights, or could
/// not answer.
async fn create_as(scene: &Scene<'_>, user: &str, object: &Value) -> Result<KubectlOutput> {
    eventually("the user to have rights", DEADLINE, async || {
        let output = kubectl_answered(async || scene.try_as(user, object).await).await?;
        let has_rights = !output.stderr.contains("cannot create resource");
        ensure!(has_rights, "{}", output.stderr);
        Ok(output)
    })
    .await
}

/// What names an owner at its creation, by somebody who may edit one namespace.
#[tokio::test]
async fn webhooks_and_policies_hold_the_same_children() -> Result<()> {
    for admission in [Admission::Webhooks, Admission::Policies] {
        play(admission, "children-table", async |scene| {
            let user = scene.editor("tenant").await?;
            let owner = |api_version: &str, kind: &str| {
                json!([{"apiVersion": api_version, "kind": kind, "name": "o", "controller": true,
                    "uid": "00000000-0000-4000-8000-000000000000"}])
            };
            let mk = |owner: Value| {
                let mut job = Job::new("j").queue("nowhere").json();
                job["metadata"]["ownerReferences"] = owner;
                job
            };
            for (api_version, kind) in [("batch/v1", "Job"), ("apps/v1", "Deployment"), ("acme.io/v1", "Thing")] {
                let stored = create_as(scene, &user, &mk(owner(api_version, kind))).await?.ok()?;
                let stored: Value = serde_json::from_str(&stored)?;
                ensure!(stored["spec"]["suspend"] == true, "{admission:?} {kind}: {stored}");
            }
            let of_job_set = mk(owner("jobset.x-k8s.io/v1alpha2", "JobSet"));
            let told = create_as(scene, &user, &of_job_set).await?.err()?;
            let rule = format!(
                "metadata.ownerReferences: Forbidden: children of a JobSet are queued with it, and only its controller may name it as the owner; remove the owner reference, or the label {QUEUE_NAME_LABEL}"
            );
            ensure!(told.contains(&rule), "{admission:?}: {told}");
            let controller = "system:serviceaccount:jobset-system:jobset-controller-manager";
            scene.let_edit(controller).await?;
            let stored = create_as(scene, controller, &of_job_set).await?.ok()?;
            let stored: Value = serde_json::from_str(&stored)?;
            ensure!(stored["spec"]["suspend"] != true, "{admission:?}: {stored}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
