//! Reads the history of a cluster out of etcd. Nothing is recorded while things happen: the test bed
//! never compacts etcd, so a watch from an old revision on gives everything that ever was, in order,
//! whatever API server wrote it and whatever was killed meanwhile. Spoken is etcd's HTTP/JSON gateway.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::history::{Key, Revision};

/// etcd keeps the store of Kubernetes below this.
const FIRST_KEY: &[u8] = b"/registry/";
/// The first key that is not below it.
const LAST_KEY: &[u8] = b"/registry0";
/// The longest silence in an answer: everything asked for is there already.
const SILENCE: Duration = Duration::from_secs(30);

/// A client of one etcd.
#[derive(Clone, Debug)]
pub struct Etcd {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// What etcd has told of its history.
#[derive(Debug, Default)]
pub struct Chapter {
    /// The changes that checks look at.
    pub revisions: Vec<Revision>,
    /// How many revisions there were in all, those of other kinds too.
    pub read: usize,
    /// The last revision of it.
    pub last: u64,
}

impl Etcd {
    /// A client of the etcd at this address, such as `http://127.0.0.1:2379`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// The revision of the last change.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn last_revision(&self) -> Result<u64> {
        let body = json!({"key": BASE64.encode(FIRST_KEY), "limit": "1", "keys_only": true});
        let answer = self.post("/v3/kv/range", &body).await?;
        let text = tokio::time::timeout(SILENCE, answer.collect())
            .await??
            .to_bytes();
        let answer: Value = serde_json::from_slice(&text)?;
        number(&answer["header"]["revision"]).context("etcd's answer has no revision")
    }

    /// All changes after the revision `after`, up to now. From 0 on these are all that ever were.
    ///
    /// # Errors
    /// When etcd does not answer, or an object is not stored as JSON.
    pub async fn read(&self, after: u64) -> Result<Chapter> {
        let last = self.last_revision().await?;
        let mut chapter = Chapter {
            last,
            ..Chapter::default()
        };
        if last <= after {
            return Ok(chapter);
        }
        let watch = json!({"create_request": {
            "key": BASE64.encode(FIRST_KEY),
            "range_end": BASE64.encode(LAST_KEY),
            "start_revision": (after + 1).to_string(),
            // Told of at least every ten minutes otherwise; it says how far the watch has come.
            "progress_notify": true,
        }});
        let mut answer = self.post("/v3/watch", &watch).await?;
        let mut buffer = Vec::new();
        loop {
            let frame = tokio::time::timeout(SILENCE, answer.frame()).await;
            let frame = frame.context("etcd's watch fell silent")?;
            let frame = frame.context("etcd's watch ended early")??;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                if chapter.add(&serde_json::from_slice(&line)?)? {
                    return Ok(chapter);
                }
            }
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Incoming> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.url))
            .body(Full::from(body.to_string()))?;
        let answer = tokio::time::timeout(SILENCE, self.client.request(request))
            .await
            .with_context(|| format!("no answer from etcd to {path}"))??;
        ensure!(
            answer.status() == StatusCode::OK,
            "etcd says {} to {path}",
            answer.status()
        );
        Ok(answer.into_body())
    }
}

impl Chapter {
    /// Takes in one message of a watch. Whether it was the last one that is of interest.
    fn add(&mut self, message: &Value) -> Result<bool> {
        if !message["error"].is_null() || message["result"]["canceled"] == true {
            bail!("etcd ended the watch: {message}");
        }
        let mut come_to = 0;
        for event in message["result"]["events"].as_array().into_iter().flatten() {
            let stored = &event["kv"];
            let revision =
                number(&stored["mod_revision"]).context("an event without a revision")?;
            come_to = revision;
            if self.last < revision {
                return Ok(true);
            }
            self.read += 1;
            let path = decode(&stored["key"])?;
            let Some(key) = Key::parse(&String::from_utf8_lossy(&path)) else {
                continue;
            };
            let object = if event["type"] == "DELETE" {
                None
            } else {
                let text = decode(&stored["value"])?;
                let object = serde_json::from_slice(&text);
                Some(object.with_context(|| format!("{key} is not stored as JSON"))?)
            };
            self.revisions.push(Revision {
                number: revision,
                key,
                object,
                author: None,
            });
        }
        Ok(self.last <= come_to)
    }
}

/// A number as JSON of protobuf has it: in quotes.
fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

fn decode(value: &Value) -> Result<Vec<u8>> {
    Ok(BASE64.decode(value.as_str().unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, key: &str, value: Option<&str>) -> Value {
        let mut kv = json!({"key": BASE64.encode(key), "mod_revision": revision.to_string()});
        let Some(value) = value else {
            return json!({"type": "DELETE", "kv": kv});
        };
        kv["value"] = json!(BASE64.encode(value));
        json!({"kv": kv})
    }

    fn message(events: &[Value]) -> Value {
        json!({"result": {"header": {"revision": "9"}, "events": events}})
    }

    #[test]
    fn a_watch_is_read_up_to_the_last_revision_and_no_further() -> Result<()> {
        let mut chapter = Chapter {
            last: 5,
            ..Chapter::default()
        };
        let created = json!({"result": {"header": {"revision": "5"}, "created": true}});
        assert!(!chapter.add(&created)?);
        let first = [
            event(3, "/registry/jobs/ns/a", Some("{\"spec\":1}")),
            event(4, "/registry/leases/ns/l", Some("not looked at")),
        ];
        assert!(!chapter.add(&message(&first))?);
        let second = [
            event(5, "/registry/jobs/ns/a", None),
            event(6, "/registry/jobs/ns/b", Some("{}")),
        ];
        assert!(chapter.add(&message(&second))?);
        assert_eq!(chapter.read, 3);
        let seen: Vec<_> = chapter
            .revisions
            .iter()
            .map(|r| (r.number, r.object.is_some()))
            .collect();
        assert_eq!(seen, [(3, true), (5, false)]);
        Ok(())
    }

    #[test]
    fn what_etcd_refuses_is_an_error() {
        let mut chapter = Chapter {
            last: 9,
            ..Chapter::default()
        };
        assert!(
            chapter
                .add(&json!({"result": {"canceled": true, "compact_revision": "7"}}))
                .is_err()
        );
        assert!(
            chapter
                .add(&message(&[event(
                    1,
                    "/registry/jobs/ns/a",
                    Some("k8s\0binary")
                )]))
                .is_err()
        );
    }
}
