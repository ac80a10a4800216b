//! The rules for gate annotations (design, 3.1): the same by every road, with the same words.
//! Roads by the API first, each row by each road; then kubectl's own commands, as a user sees them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use json_patch::Patch as JsonPatch;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::objects::{GATED, GATES, Job, is_suspended};
use crate::support::{Scene, bed, by_jobs_webhook, into_value, refusal};

const AT_GATED: &str = "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]";
const AT_GATES: &str = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]";
const NAMES_NO_GATE: &str = "must name a gate, a domain-prefixed path (such as \"acme.io/foo\"); \
     leave the annotation out to have no gate";
const PREFIXED: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
const ONE_GATE_ONLY: &str =
    "must be exactly one gate; kueue.x-k8s.io/admission-gated-by takes a comma-separated list";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const CREATE_ONLY: &str = "Forbidden: may only be set at creation and removed later";

/// Gate annotations, as they are or shall be.
type Gates<'a> = &'a [(&'a str, &'a str)];

/// A way to write an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Road {
    JsonPatch,
    MergePatch,
    StrategicPatch,
    ServerSideApply,
    Replace,
}

const ROADS: [Road; 5] = [
    Road::JsonPatch,
    Road::MergePatch,
    Road::StrategicPatch,
    Road::ServerSideApply,
    Road::Replace,
];

/// What of the object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Object,
    Status,
}

const PARTS: [Part; 2] = [Part::Object, Part::Status];

/// A job of the queue `nowhere`, which there is not: what is let go by its gates stays pending.
fn mk_job(name: &str, gates: Gates<'_>) -> Job {
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
async fn apply(scene: &Scene<'_>, job: &Job, dry_run: bool) -> kube::Result<Value> {
    let job = job.json();
    let name = job["metadata"]["name"].as_str().unwrap();
    scene
        .api("Job")
        .patch(name, &params(dry_run), &Patch::Apply(&job))
        .await
        .map(into_value)
}

/// Posts a job.
async fn post(scene: &Scene<'_>, job: &Job, dry_run: bool) -> kube::Result<Value> {
    let object: DynamicObject = serde_json::from_value(job.json()).unwrap();
    let params = PostParams {
        dry_run,
        field_manager: None,
    };
    scene
        .api("Job")
        .create(&params, &object)
        .await
        .map(into_value)
}

/// Makes the gate annotations of the job `name` be `to`, by this road.
async fn edit(
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

fn gates_of(job: &Value) -> BTreeMap<&str, &str> {
    let annotations = job["metadata"]["annotations"].as_object().unwrap();
    let gates = annotations
        .iter()
        .filter(|(key, _)| *key == GATED || *key == GATES);
    gates
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
        .collect()
}

fn invalid(at: &str, value: &str, rule: &str) -> String {
    format!("{at}: Invalid value: {value:?}: {rule}")
}

fn count(count: usize) -> String {
    (0..count)
        .map(|i| format!("a.io/{i}"))
        .collect::<Vec<_>>()
        .join(",")
}

#[tokio::test]
async fn a_bad_gate_is_refused_at_creation() -> Result<()> {
    let too_long_name = format!("acme.io/{}", "x".repeat(56));
    let seventeen = count(17);
    let thousands = count(4000);
    let one =
        |value: &'static str, rule: &str| (vec![(GATED, value)], invalid(AT_GATED, value, rule));
    let part = |value: &'static str, part: &str, rule: &str| {
        (vec![(GATED, value)], invalid(AT_GATED, part, rule))
    };
    let hole = || invalid(AT_GATES, "", NAMES_NO_GATE);
    let duplicate = || format!("{AT_GATES}: Duplicate value: \"a.io/x\"");
    let rows = [
        one("", NAMES_NO_GATE),
        one(" \t", NAMES_NO_GATE),
        one("mygate", PREFIXED),
        one("/foo", PREFIXED),
        one("acme.io/", PREFIXED),
        one("//", PREFIXED),
        part("Acme.io/x", "Acme.io", SUBDOMAIN),
        part("ac_me.io/x", "ac_me.io", SUBDOMAIN),
        part("acme..io/x", "acme..io", SUBDOMAIN),
        part("bücher.de/x", "bücher.de", SUBDOMAIN),
        part(" acme.io/x", " acme.io", SUBDOMAIN),
        part("acme.io/a b", "a b", PATH),
        part("acme.io/x\n", "x\n", PATH),
        part("acme.io/\0", "\0", PATH),
        part("acme.io/ü", "ü", PATH),
        one("a.io/x,b.io/y", ONE_GATE_ONLY),
        (
            vec![(GATED, too_long_name.as_str())],
            format!("{AT_GATED}: Too long: may not be more than 63 bytes"),
        ),
        (vec![(GATES, "")], invalid(AT_GATES, "", NAMES_NO_GATE)),
        (
            vec![(GATES, "mygate")],
            invalid(AT_GATES, "mygate", PREFIXED),
        ),
        (
            vec![(GATES, "a.io/x,mygate")],
            invalid(AT_GATES, "mygate", PREFIXED),
        ),
        (vec![(GATES, ",")], format!("{}; {}", hole(), hole())),
        (vec![(GATES, "a.io/x,")], hole()),
        (vec![(GATES, "a.io/x,,b.io/y")], hole()),
        (vec![(GATES, "a.io/x,a.io/x")], duplicate()),
        (vec![(GATES, " a.io/x ,a.io/x")], duplicate()),
        (
            vec![(GATES, seventeen.as_str())],
            format!("{AT_GATES}: Too many: 17: must have at most 16 items"),
        ),
        (
            vec![(GATES, thousands.as_str())],
            format!("{AT_GATES}: Too long: may not be more than 1024 bytes"),
        ),
        (
            vec![(GATED, "one"), (GATES, "two")],
            format!(
                "{}; {}",
                invalid(AT_GATED, "one", PREFIXED),
                invalid(AT_GATES, "two", PREFIXED)
            ),
        ),
    ];
    bed::shared("roads-create", async |scene| {
        for (gates, problem) in &rows {
            let job = mk_job("refused", gates);
            for dry_run in [false, true] {
                let expected = by_jobs_webhook(problem);
                let told = refusal(post(scene, &job, dry_run).await)?;
                assert_eq!(told, expected, "POST {gates:?}");
                let told = refusal(apply(scene, &job, dry_run).await)?;
                assert_eq!(told, expected, "apply {gates:?}");
            }
        }
        let jobs = scene.list("Job").await?;
        ensure!(jobs.is_empty(), "a refused job was stored: {jobs:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_good_gate_holds_from_the_first_moment() -> Result<()> {
    let longest_name = format!("acme.io/{}", "x".repeat(55));
    let sixteen = count(16);
    let rows: [Gates<'_>; 7] = [
        &[(GATED, "acme.io/foo")],
        &[(GATED, "acme.io/a%2fb:~1")],
        &[(GATED, &longest_name)],
        &[(GATES, "b.io/x,a.io/y")],
        &[(GATES, " b.io/x ,\ta.io/y\n")],
        &[(GATES, &sixteen)],
        &[(GATED, "c.io/z"), (GATES, "a.io/y")],
    ];
    bed::shared("roads-held", async |scene| {
        for (index, gates) in rows.iter().enumerate() {
            let (posted, applied) = (format!("posted-{index}"), format!("applied-{index}"));
            for dry_run in [true, false] {
                for job in [
                    post(scene, &mk_job(&posted, gates), dry_run).await?,
                    apply(scene, &mk_job(&applied, gates), dry_run).await?,
                ] {
                    ensure!(is_suspended(&job), "it is not held: {job}");
                    assert_eq!(gates_of(&job), gates.iter().copied().collect(), "{job}");
                }
                let stored = scene.list("Job").await?.len();
                assert_eq!(
                    stored,
                    2 * (index + usize::from(!dry_run)),
                    "dry run: {dry_run}"
                );
            }
        }
        // By the time that a later job has its Workload, the others would have had theirs.
        scene.create(&mk_job("ungated", &[]).json()).await?;
        scene.see_workload("ungated", "there", |_| true).await?;
        let workloads = scene.list("Workload").await?;
        ensure!(
            workloads.len() == 1,
            "a gated job has a Workload: {workloads:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gates_can_not_be_added_later() -> Result<()> {
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
    bed::shared("roads-add", async |scene| {
        for (name, stored, wanted, problem) in &rows {
            apply(scene, &mk_job(name, stored), false)
                .await
                .context(*name)?;
            for road in ROADS {
                for part in PARTS {
                    for dry_run in [true, false] {
                        let road = (road, part, dry_run);
                        let answer = edit(scene, road, name, stored, wanted).await;
                        let told =
                            refusal(answer).with_context(|| format!("{name} by {road:?}"))?;
                        assert_eq!(told, by_jobs_webhook(problem), "{name} by {road:?}");
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

#[tokio::test]
async fn a_removed_gate_can_not_be_put_back() -> Result<()> {
    let gated: Gates<'_> = &[(GATED, "a.io/x")];
    bed::shared("roads-again", async |scene| {
        apply(scene, &mk_job("again", gated), false).await?;
        edit(
            scene,
            (Road::MergePatch, Part::Object, false),
            "again",
            gated,
            &[],
        )
        .await?;
        for road in ROADS {
            for part in PARTS {
                let road = (road, part, false);
                let told = refusal(edit(scene, road, "again", &[], gated).await)?;
                assert_eq!(
                    told,
                    by_jobs_webhook(&format!("{AT_GATED}: {CREATE_ONLY}")),
                    "{road:?}"
                );
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gates_can_be_removed_by_every_road() -> Result<()> {
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
    bed::shared("roads-remove", async |scene| {
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
                    apply(scene, &mk_job(&name, stored), false).await?;
                    for dry_run in [true, false] {
                        let what = || format!("{name}, dry run: {dry_run}");
                        let answer = edit(scene, (road, part, dry_run), &name, stored, wanted);
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

#[tokio::test]
async fn the_spec_of_a_gated_job_can_be_edited_by_every_road() -> Result<()> {
    let gated: Gates<'_> = &[(GATED, "a.io/x")];
    bed::shared("roads-spec", async |scene| {
        for road in ROADS {
            let name = format!("{road:?}").to_lowercase();
            let job = mk_job(&name, gated).cpu("100m");
            apply(scene, &job, false).await?;
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
                    api.patch(&name, &plain, &patch).await?;
                }
                Road::MergePatch => {
                    container["image"] = json!("example.com/none");
                    api.patch(&name, &plain, &Patch::Merge(spec(&container))).await?;
                }
                Road::StrategicPatch => {
                    api.patch(&name, &plain, &Patch::Strategic(spec(&container))).await?;
                }
                Road::ServerSideApply => {
                    apply(scene, &job.cpu("200m"), false).await?;
                }
                Road::Replace => {
                    let mut stored = scene.get("Job", &name).await?;
                    *stored.pointer_mut(pointer).unwrap() = json!("200m");
                    let stored: DynamicObject = serde_json::from_value(stored)?;
                    api.replace(&name, &PostParams::default(), &stored).await?;
                }
            }
            let lift = (Road::MergePatch, Part::Object, false);
            edit(scene, lift, &name, gated, &[]).await?;
            let workload = scene.see_workload(&name, "there", |_| true).await?;
            assert_eq!(workload["spec"]["podSets"][0]["requests"]["cpu"], "200m", "{road:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn kubectl_shows_the_same_words() -> Result<()> {
    bed::shared("roads-kubectl", async |scene| {
        let bad = mk_job("bad", &[(GATED, "mygate")]).manifest();
        for args in [
            &["create", "-f", "-"][..],
            &["create", "-f", "-", "--dry-run=server"],
            &["apply", "-f", "-"],
            &["apply", "-f", "-", "--dry-run=server"],
            &["apply", "-f", "-", "--server-side"],
        ] {
            let told = scene.kubectl(args, Some(&bad)).await?.err()?;
            check_words(&told, &invalid(AT_GATED, "mygate", PREFIXED), args);
        }

        let plain = mk_job("plain", &[]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&plain))
            .await?
            .ok()?;
        let late = mk_job("plain", &[(GATED, "a.io/x")]).manifest();
        let stored = mk_stored(&scene.get("Job", "plain").await?, (GATED, "a.io/x"));
        let merge = json!({"metadata": {"annotations": {(GATED): "a.io/x"}}}).to_string();
        let pointer = format!("/metadata/annotations/{}", GATED.replace('/', "~1"));
        let operations = json!([{"op": "add", "path": pointer, "value": "a.io/x"}]).to_string();
        let annotation = format!("{GATED}=a.io/x");
        let patch = ["patch", "job", "plain"];
        for (args, stdin) in [
            (vec!["apply", "-f", "-"], Some(&late)),
            (vec!["apply", "-f", "-", "--dry-run=server"], Some(&late)),
            (
                vec!["apply", "-f", "-", "--server-side", "--force-conflicts"],
                Some(&late),
            ),
            (vec!["replace", "-f", "-"], Some(&stored)),
            (vec!["annotate", "job", "plain", &annotation], None),
            (
                [&patch[..], &["--type=json", "-p", &operations]].concat(),
                None,
            ),
            ([&patch[..], &["--type=merge", "-p", &merge]].concat(), None),
            (
                [&patch[..], &["--type=strategic", "-p", &merge]].concat(),
                None,
            ),
            (
                [
                    &patch[..],
                    &["--type=merge", "-p", &merge, "--dry-run=server"],
                ]
                .concat(),
                None,
            ),
            (
                [
                    &patch[..],
                    &["--type=merge", "-p", &merge, "--subresource=status"],
                ]
                .concat(),
                None,
            ),
        ] {
            let told = scene
                .kubectl(&args, stdin.map(String::as_str))
                .await?
                .err()?;
            check_words(&told, &format!("{AT_GATED}: {CREATE_ONLY}"), &args);
        }

        // And the way that is open: apply with the gate, apply without it.
        let gated = mk_job("gated", &[(GATES, "a.io/x")]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&gated))
            .await?
            .ok()?;
        let lifted = mk_job("gated", &[]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&lifted))
            .await?
            .ok()?;
        scene.see_workload("gated", "there", |_| true).await?;
        Ok(())
    })
    .await
}

/// A stored job as `kubectl get` gives it, with one more annotation.
fn mk_stored(job: &Value, (key, value): (&str, &str)) -> String {
    let mut job = job.clone();
    job["metadata"]["annotations"][key] = json!(value);
    // Another writer may come between.
    job["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    job.to_string()
}

/// The words of the refusal end what kubectl says, and the webhook is named once.
fn check_words(told: &str, problem: &str, args: &[&str]) {
    let expected = by_jobs_webhook(problem);
    assert!(
        told.trim_end().ends_with(&expected),
        "kubectl {args:?} said: {told}"
    );
    assert_eq!(
        told.matches("admission webhook").count(),
        1,
        "kubectl {args:?} said: {told}"
    );
}
