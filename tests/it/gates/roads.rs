//! Edits of the gates of a job: each row by each road of the API, with the same words.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use json_patch::Patch as JsonPatch;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES, Job, is_suspended};
use crate::support::persist::{answered, persist};
use crate::support::{Scene, into_value, refusal};

both_ways!(
    gates_can_not_be_added_later,
    a_removed_gate_can_not_be_put_back,
    gates_can_be_removed_by_every_road,
    the_spec_of_a_gated_job_can_be_edited_by_every_road,
);

pub const AT_GATED: &str = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]";
pub const AT_GATES: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]";
pub const NAMES_NO_GATE: &str = "must name a gate, a domain-prefixed path (such as \"acme.io/foo\"); \
     leave the annotation out to have no gate";
pub const PREFIXED: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
pub const CREATE_ONLY: &str = "Forbidden: may only be set at creation and removed later";

/// Gate annotations, as they are or shall be.
pub type Gates<'a> = &'a [(&'a str, &'a str)];

/// A way to write an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    JsonPatch,
    MergePatch,
    StrategicPatch,
    ServerSideApply,
    Replace,
}

pub const ROADS: [Road; 5] = [
    Road::JsonPatch,
    Road::MergePatch,
    Road::StrategicPatch,
    Road::ServerSideApply,
    Road::Replace,
];

/// What of the object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Object,
    Status,
}

pub const PARTS: [Part; 2] = [Part::Object, Part::Status];

/// A job of the queue `nowhere`, which there is not: what is released by its gates stays pending.
pub fn mk_job(name: &str, gates: Gates<'_>) -> Job {
    let job = Job::new(name)
        .queue("nowhere")
        .annotation("tests/kept", "yes");
    gates
        .iter()
        .fold(job, |job, (key, value)| job.annotation(key, value))
}

fn params(dry_run: bool) -> PatchParams {
    PatchParams {
        dry_run,
        force: true,
        field_manager: Some("road".to_owned()),
        ..PatchParams::default()
    }
}

/// Applies a job on the server's side. Made so, it can be edited by every road.
pub async fn apply(scene: &Scene<'_>, job: &Job, dry_run: bool) -> kube::Result<Value> {
    let job = job.json();
    let name = job["metadata"]["name"].as_str().unwrap();
    scene
        .api("Job")
        .patch(name, &params(dry_run), &Patch::Apply(&job))
        .await
        .map(into_value)
}

/// Makes the gate annotations of the job `name` be `to`, by this road.
pub async fn edit(
    scene: &Scene<'_>,
    (road, part, dry_run): (Road, Part, bool),
    name: &str,
    from: Gates<'_>,
    to: Gates<'_>,
) -> kube::Result<Value> {
    let removed = from
        .iter()
        .filter(|(key, _)| !to.iter().any(|(k, _)| k == key));
    let params = params(dry_run);
    let patch = match road {
        Road::JsonPatch => {
            let pointer = |key: &str| format!("/metadata/annotations/{}", key.replace('/', "~1"));
            let sets = to
                .iter()
                .map(|(k, v)| json!({"op": "add", "path": pointer(k), "value": v}));
            let removals = removed.map(|(k, _)| json!({"op": "remove", "path": pointer(k)}));
            let operations: Value = sets.chain(removals).collect();
            Patch::Json(serde_json::from_value::<JsonPatch>(operations).unwrap())
        }
        Road::MergePatch | Road::StrategicPatch => {
            let sets = to.iter().map(|(k, v)| ((*k).to_owned(), json!(v)));
            let removals = removed.map(|(k, _)| ((*k).to_owned(), Value::Null));
            let annotations: serde_json::Map<_, _> = sets.chain(removals).collect();
            let patch = json!({"metadata": {"annotations": annotations}});
            if road == Road::MergePatch {
                Patch::Merge(patch)
            } else {
                Patch::Strategic(patch)
            }
        }
        Road::ServerSideApply => Patch::Apply(mk_job(name, to).json()),
        Road::Replace => return replace(scene, part, dry_run, name, to).await,
    };
    let params = match road {
        Road::ServerSideApply => params,
        _ => PatchParams {
            force: false,
            ..params
        },
    };
    let api = scene.api("Job");
    match part {
        Part::Object => api.patch(name, &params, &patch).await,
        Part::Status => api.patch_status(name, &params, &patch).await,
    }
    .map(into_value)
}

/// Replaces the job as a whole. Repeats after a conflict: controllers write to it too.
async fn replace(
    scene: &Scene<'_>,
    part: Part,
    dry_run: bool,
    name: &str,
    to: Gates<'_>,
) -> kube::Result<Value> {
    let params = PostParams {
        dry_run,
        field_manager: None,
    };
    let api = scene.api("Job");
    loop {
        let mut job = api.get(name).await?;
        let annotations = job.metadata.annotations.get_or_insert_default();
        annotations.retain(|key, _| key != GATED && key != GATES);
        annotations.extend(to.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let replaced = match part {
            Part::Object => api.replace(name, &params, &job).await,
            Part::Status => api.replace_status(name, &params, &job).await,
        };
        match replaced {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => return other.map(into_value),
        }
    }
}

pub fn gates_of(job: &Value) -> BTreeMap<&str, &str> {
    let annotations = job["metadata"]["annotations"].as_object().unwrap();
    let gates = annotations
        .iter()
        .filter(|(key, _)| *key == GATED || *key == GATES);
    gates
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
        .collect()
}

pub fn invalid(at: &str, value: &str, rule: &str) -> String {
    format!("{at}: Invalid value: {value:?}: {rule}")
}

async fn gates_can_not_be_added_later(admission: Admission) -> Result<()> {
    let at = |field: &str| format!("{field}: {CREATE_ONLY}");
    let rows: [(&str, Gates<'_>, Gates<'_>, String); 12] = [
        ("add", &[], &[(GATED, "a.io/x")], at(AT_GATED)),
        ("add-list", &[], &[(GATES, "a.io/x")], at(AT_GATES)),
        ("add-empty", &[], &[(GATED, "")], at(AT_GATED)),
        (
            "change",
            &[(GATED, "a.io/x")],
            &[(GATED, "a.io/y")],
            at(AT_GATED),
        ),
        (
            "bad",
            &[(GATED, "a.io/x")],
            &[(GATED, "mygate")],
            at(AT_GATED),
        ),
        (
            "to-list",
            &[(GATED, "a.io/x")],
            &[(GATED, "a.io/x,b.io/y")],
            at(AT_GATED),
        ),
        (
            "swap",
            &[(GATES, "a.io/x,b.io/y")],
            &[(GATES, "a.io/x,c.io/z")],
            at(AT_GATES),
        ),
        (
            "grow",
            &[(GATES, "a.io/x")],
            &[(GATES, "a.io/x,b.io/y")],
            at(AT_GATES),
        ),
        (
            "move",
            &[(GATED, "a.io/x")],
            &[(GATES, "a.io/x")],
            at(AT_GATES),
        ),
        (
            "add-second",
            &[(GATED, "a.io/x")],
            &[(GATED, "a.io/x"), (GATES, "b.io/y")],
            at(AT_GATES),
        ),
        (
            "repeat",
            &[(GATES, "a.io/x")],
            &[(GATES, "a.io/x,a.io/x")],
            format!("{AT_GATES}: Duplicate value: \"a.io/x\""),
        ),
        (
            "hole",
            &[(GATES, "a.io/x")],
            &[(GATES, "a.io/x,")],
            invalid(AT_GATES, "a.io/x,", NAMES_NO_GATE),
        ),
    ];
    play(admission, "roads-add", async |scene| {
        for (name, stored, wanted, problem) in &rows {
            persist(async || apply(scene, &mk_job(name, stored), false).await)
                .await
                .context(*name)?;
            for road in ROADS {
                for part in PARTS {
                    for dry_run in [true, false] {
                        let road = (road, part, dry_run);
                        let answer =
                            answered(async || edit(scene, road, name, stored, wanted).await)
                                .await?;
                        let told =
                            refusal(answer).with_context(|| format!("{name} by {road:?}"))?;
                        assert_eq!(told, admission.of_job(problem), "{name} by {road:?}");
                    }
                }
            }
            let job = scene.get("Job", name).await?;
            assert_eq!(gates_of(&job), stored.iter().copied().collect(), "{name}");
        }
        Ok(())
    })
    .await
}

async fn a_removed_gate_can_not_be_put_back(admission: Admission) -> Result<()> {
    let gated: Gates<'_> = &[(GATED, "a.io/x")];
    play(admission, "roads-again", async |scene| {
        persist(async || apply(scene, &mk_job("again", gated), false).await).await?;
        let removal = (Road::MergePatch, Part::Object, false);
        persist(async || edit(scene, removal, "again", gated, &[]).await).await?;
        for road in ROADS {
            for part in PARTS {
                let road = (road, part, false);
                let answer =
                    answered(async || edit(scene, road, "again", &[], gated).await).await?;
                let told = refusal(answer)?;
                assert_eq!(
                    told,
                    admission.of_job(&format!("{AT_GATED}: {CREATE_ONLY}")),
                    "{road:?}"
                );
            }
        }
        Ok(())
    })
    .await
}

async fn gates_can_be_removed_by_every_road(admission: Admission) -> Result<()> {
    let rows: [(&str, Gates<'_>, Gates<'_>); 6] = [
        ("one", &[(GATED, "a.io/x")], &[]),
        ("list", &[(GATES, "a.io/x,b.io/y")], &[]),
        ("both", &[(GATED, "a.io/x"), (GATES, "b.io/y")], &[]),
        (
            "one-of-both",
            &[(GATED, "a.io/x"), (GATES, "b.io/y")],
            &[(GATES, "b.io/y")],
        ),
        ("shrink", &[(GATES, "a.io/x,b.io/y")], &[(GATES, "b.io/y")]),
        (
            "reorder",
            &[(GATES, "a.io/x,b.io/y")],
            &[(GATES, " b.io/y , a.io/x")],
        ),
    ];
    play(admission, "roads-remove", async |scene| {
        let mut lifted = Vec::new();
        let mut held = Vec::new();
        for (row, stored, wanted) in rows {
            for road in ROADS {
                for part in PARTS {
                    // What was applied to the object is not taken back by applying to its status.
                    if (road, part) == (Road::ServerSideApply, Part::Status) && row != "reorder" {
                        continue;
                    }
                    let name = format!("{row}-{road:?}-{part:?}").to_lowercase();
                    persist(async || apply(scene, &mk_job(&name, stored), false).await).await?;
                    for dry_run in [true, false] {
                        let what = || format!("{name}, dry run: {dry_run}");
                        let road = (road, part, dry_run);
                        let answer =
                            persist(async || edit(scene, road, &name, stored, wanted).await);
                        let job = answer.await.with_context(what)?;
                        assert_eq!(gates_of(&job), wanted.iter().copied().collect(), "{name}");
                        ensure!(is_suspended(&job), "{name} is not held");
                        let kept = &job["metadata"]["annotations"]["tests/kept"];
                        ensure!(kept == "yes", "{name} lost an annotation");
                    }
                    if wanted.is_empty() {
                        &mut lifted
                    } else {
                        &mut held
                    }
                    .push(name);
                }
            }
        }
        for name in &lifted {
            scene.see_workload(name, "there", |_| true).await?;
        }
        for name in &held {
            let workload = scene.find_workload(name).await?;
            ensure!(
                workload.is_none(),
                "{name} has a gate left and a Workload: {workload:?}"
            );
        }
        Ok(())
    })
    .await
}

async fn the_spec_of_a_gated_job_can_be_edited_by_every_road(admission: Admission) -> Result<()> {
    let gated: Gates<'_> = &[(GATED, "a.io/x")];
    play(admission, "roads-spec", async |scene| {
        for road in ROADS {
            let name = format!("{road:?}").to_lowercase();
            let job = mk_job(&name, gated).cpu("100m");
            persist(async || apply(scene, &job, false).await).await?;
            let pointer = "/spec/template/spec/containers/0/resources/requests/cpu";
            let operations = json!([{"op": "replace", "path": pointer, "value": "200m"}]);
            let mut container =
                json!({"name": "main", "resources": {"requests": {"cpu": "200m"}}});
            let api = scene.api("Job");
            let plain = PatchParams::default();
            let spec = |container: &Value| {
                json!({"spec": {"template": {"spec": {"containers": [container]}}}})
            };
            match road {
                Road::JsonPatch => {
                    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
                    persist(async || api.patch(&name, &plain, &patch).await).await?;
                }
                Road::MergePatch => {
                    container["image"] = json!("example.com/none");
                    let patch = Patch::Merge(spec(&container));
                    persist(async || api.patch(&name, &plain, &patch).await).await?;
                }
                Road::StrategicPatch => {
                    let patch = Patch::Strategic(spec(&container));
                    persist(async || api.patch(&name, &plain, &patch).await).await?;
                }
                Road::ServerSideApply => {
                    let job = job.cpu("200m");
                    persist(async || apply(scene, &job, false).await).await?;
                }
                // Again after a conflict: controllers write to it too.
                Road::Replace => loop {
                    let mut stored = scene.get("Job", &name).await?;
                    *stored.pointer_mut(pointer).unwrap() = json!("200m");
                    let stored: DynamicObject = serde_json::from_value(stored)?;
                    let params = PostParams::default();
                    match answered(async || api.replace(&name, &params, &stored).await).await? {
                        Err(kube::Error::Api(status)) if status.code == 409 => {}
                        other => break drop(other?),
                    }
                },
            }
            let lift = (Road::MergePatch, Part::Object, false);
            persist(async || edit(scene, lift, &name, gated, &[]).await).await?;
            let workload = scene.see_workload(&name, "there", |_| true).await?;
            assert_eq!(workload["spec"]["podSets"][0]["requests"]["cpu"], "200m", "{road:?}");
        }
        Ok(())
    })
    .await
}
