//! What Sluice logs as JSON: each line is one object, and no key comes twice in it. Readers of logs drop such
//! lines, or take the last of the two.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use sluice_testbed::{SluiceOptions, eventually};

use crate::support::objects::{Job, quota};
use crate::support::persist::answered;
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
