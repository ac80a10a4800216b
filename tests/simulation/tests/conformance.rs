//! The model answers like a real API server: random series of requests to both, and every answer compared:
//! its code and reason, what the object is, and what a watch tells. What only a real one fills in (defaults,
//! managed fields) is not looked at.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::print_stdout, reason = "a failed test says why")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed assumption is a failed test; only JSON is indexed otherwise"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use sluice_simulation::api::{Reply, Server};
use sluice_testbed::{Component, ControlPlane, Options};

/// Series of requests, each in a namespace of its own, and requests of one.
const SERIES: u64 = 20;
const REQUESTS: usize = 40;
/// Names of objects: few, so that requests meet.
const NAMES: [&str; 2] = ["x", "y"];

/// One of the two servers, and what it said last of each object.
struct Side {
    target: Target,
    known: BTreeMap<String, (String, String)>,
}

enum Target {
    Real(kube::Client),
    Model(Arc<Server>),
}

impl Side {
    /// Sends a request; an answer is its code and body.
    async fn send(&mut self, asked: &Asked) -> Result<(u16, Value)> {
        let path = asked.path();
        let (uid, revision) = self.known.get(&asked.object()).cloned().unwrap_or_default();
        let text = asked.body.to_string();
        let text = text.replace("{uid}", &uid).replace("{revision}", &revision);
        let request = Request::builder()
            .method(asked.method.clone())
            .uri(&path)
            .header("content-type", asked.content_type)
            .header("accept", "application/json");
        let body = if asked.body.is_null() {
            String::new()
        } else {
            text
        };
        let (code, answer) = match &self.target {
            Target::Real(client) => {
                let request = request.body(Body::from(body.into_bytes()))?;
                let response = client.send(request).await?;
                let code = response.status().as_u16();
                let bytes = response.into_body().collect().await?.to_bytes();
                (code, serde_json::from_slice(&bytes).unwrap_or_default())
            }
            Target::Model(server) => {
                let (head, ()) = request.body(())?.into_parts();
                let reply = server.answer(&"admin".into(), &head, body.as_bytes()).await;
                let Reply::Whole(response) = reply else {
                    anyhow::bail!("a watch");
                };
                let code = response.status().as_u16();
                let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
                (code, answer)
            }
        };
        let metadata = &answer["metadata"];
        if let (Some(uid), Some(revision)) = (
            metadata["uid"].as_str(),
            metadata["resourceVersion"].as_str(),
        ) {
            let known = (uid.to_owned(), revision.to_owned());
            self.known.insert(asked.object(), known);
        }
        Ok((code, answer))
    }
}

impl Side {
    /// What a watch of a kind tells from a revision on, within a second.
    async fn watch(&self, namespace: &str, kind: &'static str, from: &str) -> Result<Vec<Value>> {
        let asked = Asked {
            namespace: namespace.to_owned(),
            kind,
            name: None,
            below: "",
            query: "",
            method: Method::GET,
            content_type: "application/json",
            body: Value::Null,
        };
        let query = format!("watch=true&timeoutSeconds=1&resourceVersion={from}");
        let request = Request::get(format!("{}{query}", asked.path()));
        let text = match &self.target {
            Target::Real(client) => {
                let response = client.send(request.body(Body::empty())?).await?;
                let bytes = response.into_body().collect().await?.to_bytes();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Target::Model(server) => {
                let (head, ()) = request.body(())?.into_parts();
                let reply = server.answer(&"admin".into(), &head, &[]).await;
                let Reply::Watch(mut stream) = reply else {
                    anyhow::bail!("no watch");
                };
                let mut lines = Vec::new();
                while let Some(line) = stream.next().await {
                    lines.push(line);
                }
                lines.join("\n")
            }
        };
        let events = text.lines().map(serde_json::from_str::<Value>);
        let events = events.collect::<Result<Vec<_>, _>>()?;
        let told = events
            .iter()
            .map(|event| json!([event["type"], seen(&event["object"])]));
        Ok(told.collect())
    }

    /// The revision of the present.
    async fn revision(&mut self, namespace: &str) -> Result<String> {
        let asked = Asked {
            namespace: namespace.to_owned(),
            kind: "ConfigMap",
            name: None,
            below: "",
            query: "",
            method: Method::GET,
            content_type: "application/json",
            body: Value::Null,
        };
        let (_, list) = self.send(&asked).await?;
        let revision = list["metadata"]["resourceVersion"].as_str();
        Ok(revision.unwrap_or_default().to_owned())
    }
}

/// A request to both.
#[derive(Clone, Debug)]
struct Asked {
    namespace: String,
    kind: &'static str,
    name: Option<&'static str>,
    below: &'static str,
    query: &'static str,
    method: Method,
    content_type: &'static str,
    body: Value,
}

impl Asked {
    fn object(&self) -> String {
        let name = self.name.or_else(|| {
            let name = self.body["metadata"]["name"].as_str()?;
            NAMES.into_iter().find(|known| *known == name)
        });
        format!(
            "{} {} {}",
            self.namespace,
            self.kind,
            name.unwrap_or_default()
        )
    }

    fn path(&self) -> String {
        let (prefix, plural) = match self.kind {
            "Pod" => ("/api/v1", "pods"),
            "ConfigMap" => ("/api/v1", "configmaps"),
            "Job" => ("/apis/batch/v1", "jobs"),
            "Lease" => ("/apis/coordination.k8s.io/v1", "leases"),
            _ => ("/apis/sluice.dev/v1alpha1", "workloads"),
        };
        let name = self.name.map(|name| format!("/{name}")).unwrap_or_default();
        let Self {
            namespace,
            below,
            query,
            ..
        } = self;
        format!("{prefix}/namespaces/{namespace}/{plural}{name}{below}?{query}")
    }
}

const KINDS: [&str; 5] = ["Pod", "ConfigMap", "Job", "Lease", "Workload"];
const MERGE: &str = "application/merge-patch+json";

fn draw(rng: &mut Rng, namespace: &str) -> Asked {
    let kind = rng.choice(KINDS).unwrap();
    let name = rng.choice(NAMES).unwrap();
    let asked = |method: Method, body: Value| Asked {
        namespace: namespace.to_owned(),
        kind,
        name: Some(name),
        below: "",
        query: "",
        method,
        content_type: "application/json",
        body,
    };
    let patch = |content_type, body| Asked {
        content_type,
        ..asked(Method::PATCH, body)
    };
    let label = json!(rng.choice(["1", "2"]).unwrap());
    match rng.u8(0..20) {
        0..5 => Asked {
            name: None,
            ..asked(Method::POST, object(rng, kind, name))
        },
        5 => asked(Method::GET, Value::Null),
        6 => Asked {
            name: None,
            query: rng
                .choice(["", "labelSelector=k%3D1", "limit=1", "labelSelector=%21k"])
                .unwrap(),
            ..asked(Method::GET, Value::Null)
        },
        7 | 8 => patch(MERGE, json!({"metadata": {"labels": {"k": label}}})),
        9 => patch(
            MERGE,
            json!({"metadata": {"labels": {"k": null}, "finalizers": null}}),
        ),
        10 => patch(
            MERGE,
            json!({"metadata": {"resourceVersion": rng.choice(["{revision}", "1"]), "labels": {"k": label}}}),
        ),
        11 => patch(
            MERGE,
            json!({"metadata": {"uid": rng.choice(["{uid}", "00000000-0000-4000-8000-000000000000"]), "annotations": {"a": label}}}),
        ),
        12 => patch(
            "application/json-patch+json",
            json!([
                {"op": "test", "path": "/metadata/name", "value": rng.choice(["x", "y"])},
                {"op": "add", "path": "/metadata/annotations", "value": {"j": label}},
            ]),
        ),
        13 => patch(
            MERGE,
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        ),
        14 => special(rng, kind, &patch),
        15 if ["Job", "Workload"].contains(&kind) => {
            let status = match kind {
                "Job" => json!({"active": rng.u8(0..3)}),
                _ => json!({"reclaimablePods": [{"name": "main", "count": rng.u8(0..3)}]}),
            };
            Asked {
                below: "/status",
                ..patch(
                    MERGE,
                    json!({"metadata": {"labels": {"s": label}}, "status": status}),
                )
            }
        }
        16 => asked(
            Method::DELETE,
            json!({"propagationPolicy": "Background", "preconditions": {"uid": rng.choice(["{uid}", "00000000-0000-4000-8000-000000000000"])}}),
        ),
        17 => asked(
            Method::DELETE,
            json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}),
        ),
        _ => asked(Method::DELETE, json!({"propagationPolicy": "Background"})),
    }
}

/// What is special about a kind.
fn special(rng: &mut Rng, kind: &str, patch: &dyn Fn(&'static str, Value) -> Asked) -> Asked {
    match kind {
        "Pod" => {
            let gate = rng
                .choice(["example.com/a", "example.com/b", "example.com/c"])
                .unwrap();
            let gate = if rng.bool() {
                json!({"name": gate, "$patch": "delete"})
            } else {
                json!({"name": gate})
            };
            patch(
                "application/strategic-merge-patch+json",
                json!({"spec": {"schedulingGates": [gate]}}),
            )
        }
        "Job" => patch(
            MERGE,
            rng.choice([
                json!({"spec": {"suspend": false}}),
                json!({"spec": {"suspend": true}}),
                json!({"spec": {"parallelism": 3}}),
                json!({"spec": {"completions": 9}}),
                json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}),
            ])
            .unwrap(),
        ),
        "Workload" => patch(MERGE, json!({"spec": {"priority": rng.i32(0..3)}})),
        _ => patch(MERGE, json!({"metadata": {"annotations": {"a": "b"}}})),
    }
}

fn object(rng: &mut Rng, kind: &str, name: &str) -> Value {
    let containers = json!([{"name": "main", "image": "example.com/none"}]);
    let mut object = json!({"metadata": {"name": name}});
    if rng.bool() {
        object["metadata"]["labels"] = json!({"k": rng.choice(["1", "2"])});
    }
    match kind {
        "Pod" => {
            object["spec"] = json!({"restartPolicy": "Never", "containers": containers});
            match rng.u8(0..3) {
                0 => object["spec"]["nodeName"] = json!("somewhere"),
                1 => {
                    object["spec"]["schedulingGates"] =
                        json!([{"name": "example.com/a"}, {"name": "example.com/b"}]);
                }
                _ => {}
            }
        }
        "Job" => {
            let spec = json!({"restartPolicy": "Never", "containers": containers});
            object["spec"] = json!({
                "suspend": rng.bool(), "parallelism": 2, "completions": 2,
                "template": {"spec": spec},
            });
        }
        "Lease" => object["spec"] = json!({"holderIdentity": "somebody"}),
        "Workload" => {
            object["spec"] = json!({
                "queueName": "q", "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}],
            });
        }
        _ => object["data"] = json!({"a": "b"}),
    }
    let (group, version) = match kind {
        "Job" => ("batch/", "v1"),
        "Lease" => ("coordination.k8s.io/", "v1"),
        "Workload" => ("sluice.dev/", "v1alpha1"),
        _ => ("", "v1"),
    };
    object["apiVersion"] = json!(format!("{group}{version}"));
    object["kind"] = json!(kind);
    object
}

/// What is compared of an object.
fn seen(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let user_labels = |labels: &Value| {
        let labels = labels.as_object().cloned().unwrap_or_default();
        let own = labels
            .into_iter()
            .filter(|(key, _)| !key.contains("batch.kubernetes.io"));
        own.filter(|(key, _)| !["controller-uid", "job-name"].contains(&key.as_str()))
            .collect::<BTreeMap<_, _>>()
    };
    let spec = &object["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    json!({
        "kind": object["kind"],
        "name": metadata["name"],
        "labels": user_labels(&metadata["labels"]),
        "annotations": user_labels(&metadata["annotations"]),
        "finalizers": list(&metadata["finalizers"]),
        "isDeleted": !metadata["deletionTimestamp"].is_null(),
        "grace": metadata["deletionGracePeriodSeconds"],
        "gates": list(&spec["schedulingGates"]),
        "suspend": spec["suspend"],
        "parallelism": spec["parallelism"],
        "selector": spec["template"]["spec"]["nodeSelector"],
        "priority": spec["priority"],
        "active": object["status"]["active"].as_i64().unwrap_or(0),
        "reclaimable": list(&object["status"]["reclaimablePods"]),
        "generation": if ["Job", "Workload"].contains(&object["kind"].as_str().unwrap_or("")) {
            metadata["generation"].clone()
        } else {
            Value::Null
        },
    })
}

/// What is compared of an answer.
fn told(code: u16, answer: &Value) -> Value {
    if code >= 400 {
        return json!({"code": code, "reason": answer["reason"]});
    }
    if let Some(items) = answer["items"].as_array() {
        let items: Vec<_> = items
            .iter()
            .map(|item| json!([item["metadata"]["name"], item["metadata"]["labels"]["k"]]))
            .collect();
        let has_more = answer["metadata"]["continue"]
            .as_str()
            .is_some_and(|t| !t.is_empty());
        return json!({"code": code, "items": items, "hasMore": has_more});
    }
    if answer["kind"] == "Status" {
        return json!({"code": code, "status": "Success"});
    }
    json!({"code": code, "object": seen(answer)})
}

#[tokio::test]
async fn the_model_answers_like_a_real_api_server() -> Result<()> {
    let mut options = Options::with_crds()?;
    options.without = vec![
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ];
    options.nodes = 0;
    let cp = ControlPlane::start(options).await?;
    let mut differences = Vec::new();
    for series in 0..SERIES {
        let namespace = format!("series-{series}");
        let foundation =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace},
        });
        for object in [&foundation, &account] {
            let text = object.to_string();
            cp.kubectl(["create", "-f", "-"], Some(&text)).await?.ok()?;
        }
        let side = |target| Side {
            target,
            known: BTreeMap::new(),
        };
        let mut real = side(Target::Real(cp.client()?));
        let mut model = side(Target::Model(Server::new(series, &[foundation])));
        let begins = [
            real.revision(&namespace).await?,
            model.revision(&namespace).await?,
        ];
        let mut rng = Rng::with_seed(series);
        let mut history = Vec::new();
        for _ in 0..REQUESTS {
            let asked = draw(&mut rng, &namespace);
            let (code, answer) = real
                .send(&asked)
                .await
                .with_context(|| format!("{asked:?}"))?;
            let expected = told(code, &answer);
            let (model_code, model_answer) = model.send(&asked).await?;
            let found = told(model_code, &model_answer);
            history.push(format!("{} {} {}", asked.method, asked.path(), asked.body));
            if expected != found {
                differences.push(format!(
                    "series {series}:\n  {}\nreal:  {expected} {}\nmodel: {found} {}",
                    history.join("\n  "),
                    answer["message"],
                    model_answer["message"]
                ));
                break;
            }
        }
        let watches = KINDS.map(async |kind| {
            let real = real.watch(&namespace, kind, &begins[0]).await?;
            let model = model.watch(&namespace, kind, &begins[1]).await?;
            anyhow::Ok((kind, real, model))
        });
        for (kind, expected, found) in futures::future::try_join_all(watches).await? {
            // A real one may have begun to remember a kind only now.
            let is_too_old = expected.first().is_some_and(|event| event[0] == "ERROR");
            if !is_too_old && expected != found {
                differences.push(format!(
                    "series {series}: a watch of {kind}\nreal:  {expected:?}\nmodel: {found:?}"
                ));
            }
        }
    }
    for difference in differences.iter().take(20) {
        println!("{difference}\n");
    }
    ensure!(
        differences.is_empty(),
        "{} series differ",
        differences.len()
    );
    Ok(())
}
