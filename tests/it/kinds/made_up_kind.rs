//! A kind that nobody has heard of and that nothing can suspend: its templates lie three levels deep, in
//! a map of roles, and one role writes its count as a string. Its objects wait through gates alone.

use anyhow::{Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_crds::{QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

use crate::support::made_up::controlled_by;
use crate::support::objects::{GATED, condition, is, is_admitted, name_of, own, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::{gates, has_queue_gate, released_at};
use crate::support::{DEADLINE, Scene, bed, by_declared_webhook, into_value, refusal};

/// A gate of somebody else's.
const WEATHER: &str = "acme.io/weather";

/// Voyages, in an API group of the test's own.
struct Voyages<'a> {
    scene: &'a Scene<'a>,
    api: Api<DynamicObject>,
    group: String,
}

impl<'a> Voyages<'a> {
    /// Serves them and tells Sluice how to read them: a CRD, a role and a JobKind, and no more.
    async fn declare(scene: &'a Scene<'a>) -> Result<Self> {
        let group = format!("{}.example.com", scene.ns);
        let resource = ApiResource {
            group: group.clone(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: "Voyage".to_owned(),
            plural: "voyages".to_owned(),
        };
        let api = Api::namespaced_with(scene.client.clone(), &scene.ns, &resource);
        let voyages = Self { scene, api, group };
        scene.apply(&voyages.crd()).await?;
        scene.apply(&voyages.role()).await?;
        scene.create(&voyages.job_kind()).await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        // The API server hears of the webhooks' rule a moment after it was written.
        let probe: DynamicObject = serde_json::from_value(voyages.voyage("probe"))?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("voyages to be born held", DEADLINE, async || {
            let born = into_value(voyages.api.create(&dry_run, &probe).await?);
            let captain = &born["spec"]["plan"]["crew"]["roles"]["Captain"];
            ensure!(has_queue_gate(&captain["pod"]["template"]), "{born}");
            Ok(())
        })
        .await?;
        Ok(voyages)
    }

    fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let role = object(json!({
            "size": {"x-kubernetes-int-or-string": true},
            "pod": object(json!({"template": open})),
        }));
        let roles = json!({"type": "object", "additionalProperties": role});
        let spec = object(json!({
            "port": {"type": "string"},
            "plan": object(json!({"crew": object(json!({"roles": roles}))})),
        }));
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("voyages.{}", self.group)},
            "spec": {
                "group": self.group,
                "names": {"kind": "Voyage", "plural": "voyages"},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": object(json!({"spec": spec, "status": open}))},
                }],
            },
        })
    }

    /// Sluice writes to the pods, and to nothing else.
    fn role(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": self.scene.name("voyages"),
                "labels": {"sluice.dev/aggregate-to-controller": "true"},
            },
            "rules": [{
                "apiGroups": [self.group],
                "resources": ["voyages"],
                "verbs": ["get", "list", "watch"],
            }],
        })
    }

    fn job_kind(&self) -> Value {
        let spec = json!({
            "group": self.group,
            "version": "v1",
            "kind": "Voyage",
            "podSets": [{
                "name": "roles",
                "forEach": ".spec.plan.crew.roles",
                "template": ".pod.template",
                "count": "has(item.size) ? int(item.size) : 1",
            }],
            "finished": {
                "when": "has(object.status) && has(object.status.arrived)",
                "succeeded": "object.status.arrived",
                "message": "'in port: ' + object.spec.port",
            },
        });
        own("JobKind", &self.scene.ns, spec)
    }

    /// With a captain, two mates and three sailors of 1 cpu each, in the LocalQueue `q`.
    fn voyage(&self, name: &str) -> Value {
        let role = |size: Value| {
            let mut role = json!({"pod": {"template": {"spec": {"containers": [{
                "name": "main",
                "image": "example.com/none",
                "resources": {"requests": {"cpu": "1"}},
            }]}}}});
            if !size.is_null() {
                role["size"] = size;
            }
            role
        };
        json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": "Voyage",
            "metadata": {"name": name, "labels": {QUEUE_NAME_LABEL: "q"}},
            "spec": {
                "port": "Bergen",
                "plan": {"crew": {"roles": {
                    "Captain": role(Value::Null),
                    "Mate": role(json!("2")),
                    "Sailor": role(json!(3)),
                }}},
            },
        })
    }

    async fn create(&self, voyage: &Value) -> Result<Value> {
        let voyage: DynamicObject = serde_json::from_value(voyage.clone())?;
        let params = PostParams::default();
        let created = persist(async || self.api.create(&params, &voyage).await).await?;
        Ok(into_value(created))
    }

    /// Makes the pods of a voyage, as its controller would.
    async fn man(&self, voyage: &Value) -> Result<Vec<Value>> {
        let mut pods = Vec::new();
        for (role, count) in [("Captain", 1), ("Mate", 2), ("Sailor", 3)] {
            let template = &voyage["spec"]["plan"]["crew"]["roles"][role]["pod"]["template"];
            for number in 0..count {
                let mut pod = template.clone();
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                let name = format!("{}-{}-{number}", name_of(voyage), role.to_lowercase());
                pod["metadata"]["name"] = json!(name);
                pod["metadata"]["ownerReferences"] = controlled_by(voyage);
                pods.push(self.scene.create(&pod).await?);
            }
        }
        Ok(pods)
    }
}

#[tokio::test]
async fn it_waits_through_gates_and_starts_at_once() -> Result<()> {
    bed::shared("made-up", async |scene| {
        let voyages = Voyages::declare(scene).await?;
        scene.queue(&[quota("cpu", "5")]).await?;
        let pods = scene.record("Pod").await?;
        let workloads = scene.record("Workload").await?;

        let mut voyage = voyages.voyage("north");
        voyage["metadata"]["annotations"] = json!({ GATED: WEATHER });
        let created = voyages.create(&voyage).await?;
        for (role, asked) in voyage["spec"]["plan"]["crew"]["roles"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let made = &created["spec"]["plan"]["crew"]["roles"][role];
            assert_eq!(
                sorted(&made["pod"]["template"]),
                [WEATHER, QUEUE_GATE],
                "{role}"
            );
            assert_eq!(made["size"], asked["size"], "{role}");
        }
        for pod in voyages.man(&created).await? {
            assert_eq!(sorted(&pod), [WEATHER, QUEUE_GATE], "{}", name_of(&pod));
        }
        see_gates(scene, &[WEATHER, QUEUE_GATE]).await?;
        let workload = scene.workload_of(&created).await?;
        ensure!(
            workload.is_none(),
            "it is queued behind a gate: {workload:?}"
        );

        // The gate goes from the object, and so from all pods.
        let open = Patch::Merge(json!({"metadata": {"annotations": {GATED: null}}}));
        let params = PatchParams::default();
        persist(async || voyages.api.patch("north", &params, &open).await).await?;
        see_gates(scene, &[QUEUE_GATE]).await?;
        let workload = scene
            .see_workload_of(&created, "told what it waits for", |workload| {
                condition(workload, "QuotaReserved").is_some()
            })
            .await?;
        let sets: Vec<_> = workload["spec"]["podSets"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|set| (set["name"].as_str(), set["count"].as_u64()))
            .collect();
        assert_eq!(
            sets,
            [("captain", 1), ("mate", 2), ("sailor", 3)].map(|(n, c)| (Some(n), Some(c)))
        );
        ensure!(
            !is_admitted(&workload),
            "six pods in a quota for five: {workload}"
        );

        scene.set_cpu("6").await?;
        see_gates(scene, &[]).await?;
        let admitted = scene
            .history("Workload", &workloads)
            .await?
            .iter()
            .find(|r| is_admitted(&r.object))
            .map(|r| r.number);
        let history = scene.history("Pod", &pods).await?;
        for pod in scene.list("Pod").await? {
            let at = released_at(&history, name_of(&pod));
            ensure!(
                admitted.is_some() && admitted < at,
                "{}: {at:?}",
                name_of(&pod)
            );
        }

        let arrived = Patch::Merge(json!({"status": {"arrived": true}}));
        persist(async || voyages.api.patch_status("north", &params, &arrived).await).await?;
        for pod in scene.list("Pod").await? {
            scene.delete("Pod", name_of(&pod)).await?;
        }
        let workload = scene
            .see_workload_of(&created, "finished", |w| is(w, "Finished"))
            .await?;
        assert_eq!(
            condition(&workload, "Finished"),
            Some(("True", "Succeeded", "in port: Bergen"))
        );
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        Ok(())
    })
    .await
}

/// Waits until all six pods have these gates and no others.
async fn see_gates(scene: &Scene<'_>, expected: &[&str]) -> Result<()> {
    let what = format!("six pods with the gates {expected:?}");
    eventually(&what, DEADLINE, async || {
        let pods = scene.list("Pod").await.map_err(|e| format!("{e:#}"))?;
        let so = pods.iter().filter(|pod| sorted(pod) == expected).count();
        if (so, pods.len()) == (6, 6) {
            Ok(())
        } else {
            let waiting = pods.iter().filter(|pod| has_queue_gate(pod)).count();
            Err(format!("{so} of {} have; {waiting} wait", pods.len()))
        }
    })
    .await
}

/// The scheduling gates of a pod or a template, in the order of the alphabet.
fn sorted(pod: &Value) -> Vec<&str> {
    let mut gates = gates(pod);
    gates.sort_unstable();
    gates
}

#[tokio::test]
async fn a_count_that_is_no_number_is_refused() -> Result<()> {
    bed::shared("made-up-bad", async |scene| {
        let voyages = Voyages::declare(scene).await?;
        let mut bad = voyages.voyage("bad");
        bad["spec"]["plan"]["crew"]["roles"]["Mate"]["size"] = json!("a few");
        let bad: DynamicObject = serde_json::from_value(bad)?;
        let params = PostParams::default();
        let create = async || voyages.api.create(&params, &bad).await;
        let told = refusal(answered(create).await?)?;
        let problem = "the count of pod set \"mate\": Forbidden: the expression does not fit this object: \
                       Error executing function 'int': string parse error: invalid digit found in string";
        assert_eq!(told, by_declared_webhook(problem));
        Ok(())
    })
    .await
}
