//! What Sluice logs as JSON: each line is one object, and no key comes twice in it. Readers of logs drop such
//! lines, or take the last of the two.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use sluice_testbed::{SluiceOptions, eventually};

use crate::support::objects::{GATED, Job, holds_quota, quota};
use crate::support::persist::answered;
use crate::support::pods::Pod;
use crate::support::{DEADLINE, bed};

/// Any JSON in which no key comes twice.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a key that comes twice")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Strict)) = map.next_entry::<String, Strict>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key:?} comes twice")));
            }
        }
        Ok(Strict)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strict, A::Error> {
        while list.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict)
    }
}

#[test]
fn a_key_that_comes_twice_is_found() {
    assert!(serde_json::from_str::<Strict>(r#"{"a": [{"b": 1, "c": null}]}"#).is_ok());
    assert!(serde_json::from_str::<Strict>(r#"{"a": [{"b": 1, "b": 1}]}"#).is_err());
}

/// A line about a turn of a job's life. Nothing else is in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    #[serde(rename = "message")]
    word: String,
    kind: String,
    namespace: String,
    name: String,
    queue: String,
    flavor: String,
    waited_seconds: Option<f64>,
    reason: String,
}

/// All turns of a log.
fn turns(log: &str) -> Result<Vec<Turn>> {
    let lines = log
        .lines()
        .filter(|line| line.contains(r#""target":"sluice::turns""#));
    let turns = lines.map(|line| {
        let value: serde_json::Value = serde_json::from_str(line)?;
        ensure!(value["level"] == "INFO", "{line}");
        serde_json::from_value(value["fields"].clone()).with_context(|| line.to_owned())
    });
    turns.collect()
}

/// Each turn in the life of a job, a pod and a gated job makes one line.
#[tokio::test]
async fn each_turn_of_a_jobs_life_is_one_line() -> Result<()> {
    let mut options = SluiceOptions::new(bed::BINARY);
    options.args.push("--log-format=json".to_owned());
    bed::own_running_with("turns", options, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gated = Job::new("gated").queue("q").gate("acme.io/budget");
        scene.create(&gated.json()).await?;
        scene.see_event("gated", "Gated").await?;
        let lifted = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Job", "gated", lifted).await?;
        scene.see_complete("gated").await?;
        let stopped = Job::new("stopped").queue("q").runs_forever();
        scene.create(&stopped.json()).await?;
        let admitted = scene.see_admitted("stopped").await?;
        scene.see_pods("Running", 1).await?;
        let workload = admitted["metadata"]["name"].as_str().unwrap_or_default();
        for active in [false, true] {
            let edit = json!({"spec": {"active": active}});
            scene.merge("Workload", workload, edit).await?;
            scene
                .see_workload("stopped", "as it is to be", |workload| {
                    holds_quota(workload) == active
                })
                .await?;
        }
        scene
            .create(&Pod::new("single").queue("q").runs("0").json())
            .await?;
        scene.delete("Job", "stopped").await?;
        let finished = |turns: &[Turn]| {
            turns
                .iter()
                .any(|t| t.name == "single" && t.word == "finished")
        };
        let log = bed.sluice.process().log();
        let turns = eventually("the pod to be told of", DEADLINE, async || {
            let turns = turns(&std::fs::read_to_string(log)?)?;
            ensure!(finished(&turns), "{turns:?}");
            Ok(turns)
        })
        .await?;
        let lives = [
            (
                "Job",
                "gated",
                "gated, lifted, queued, admitted, released, finished Succeeded",
            ),
            (
                "Job",
                "stopped",
                "queued, admitted, released, deactivated User, evicted Deactivated, \
                 requeued Deactivated, reactivated, admitted, released, deleted",
            ),
            ("Pod", "single", "admitted, finished Succeeded"),
        ];
        for (kind, name, life) in lives {
            let of_it: Vec<&Turn> = turns.iter().filter(|turn| turn.name == name).collect();
            let told: Vec<String> = of_it
                .iter()
                .filter(|turn| turn.word != "ready")
                .map(|turn| match turn.word.as_str() {
                    "gated" | "lifted" => turn.word.clone(),
                    word => format!("{word} {}", turn.reason).trim_end().to_owned(),
                })
                .collect();
            assert_eq!(told.join(", "), life, "{name}");
            for turn in of_it {
                assert_eq!(
                    (turn.kind.as_str(), &*turn.namespace),
                    (kind, &*scene.ns),
                    "{turn:?}"
                );
                assert_eq!(turn.queue, scene.ns, "{turn:?}");
                assert!(
                    turn.waited_seconds.is_some_and(|waited| 0.0 <= waited),
                    "{turn:?}"
                );
                let has_flavor = [
                    "admitted",
                    "released",
                    "ready",
                    "deactivated",
                    "evicted",
                    "requeued",
                    "finished",
                    "deleted",
                ];
                assert_eq!(
                    !turn.flavor.is_empty(),
                    has_flavor.contains(&&*turn.word),
                    "{turn:?}"
                );
            }
        }
        Ok(())
    })
    .await
}

/// Jobs that are told of problems, a write that is refused, a leader that takes over, and the end.
#[tokio::test]
async fn each_line_is_json_in_which_no_key_comes_twice() -> Result<()> {
    let mut options = SluiceOptions::new(bed::BINARY);
    options.args.push("--log-format=json".to_owned());
    options.log_level = Some("info,sluice=debug,sluice_webhooks=debug".to_owned());
    bed::own_running_with("logs", options, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = |name: &str| Job::new(name).queue("q");
        scene.create(&job("well").json()).await?;
        scene.see_complete("well").await?;
        scene
            .create(&job("unknown").priority_class("none").json())
            .await?;
        scene.see_event("unknown", "PriorityClassNotFound").await?;
        let bad = job("bad").gate("nonsense").json();
        let told = answered(async || scene.try_create(&bad).await).await?;
        ensure!(told.is_err(), "it was taken");
        let refuses = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-workloads"},
            "spec": {"hard": {"count/workloads.sluice.dev": "0", "count/configmaps": "0"}},
        });
        scene.apply(&refuses).await?;
        // A quota counts once its controller has looked at it.
        let metadata = json!({"generateName": "probe-"});
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        eventually("the quota to count", DEADLINE, async || {
            match scene.try_create(&probe).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
        scene.create(&job("refused").json()).await?;
        scene.see_event("refused", "WriteRefused").await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        bed.sluice.stop().await?;

        let log = std::fs::read_to_string(bed.sluice.process().log())?;
        let lines = log.lines().filter(|line| !line.is_empty());
        let mut count = 0;
        for line in lines {
            serde_json::from_str::<Strict>(line).with_context(|| line.to_owned())?;
            count += 1;
        }
        for said in ["\"problem\"", "refuses a write", "admission refused"] {
            ensure!(log.contains(said), "{said} was not logged");
        }
        ensure!(10 < count, "{count} lines");
        Ok(())
    })
    .await
}
