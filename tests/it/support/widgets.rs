//! Widgets: a Job-like kind that nobody works on. Their status says what the test makes it say, and
//! their pods are the test's own.

use anyhow::Result;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use super::objects::{name_of, own};
use super::persist::{judged, persist};
use super::{DEADLINE, Scene, into_value};

/// The widgets of a test, in an API group of its own.
pub struct Widgets<'a> {
    scene: &'a Scene<'a>,
    pub group: String,
}

impl<'a> Widgets<'a> {
    /// In the group of the test, which is not served yet.
    pub fn new(scene: &'a Scene<'a>) -> Self {
        Self {
            scene,
            group: format!("{}.example.com", scene.ns),
        }
    }

    /// Their CRD, and the role that lets Sluice read them.
    pub fn crd(&self) -> [Value; 2] {
        let Self { group, .. } = self;
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.resource()},
            "spec": {
                "group": group,
                "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {
                            "halted": {"type": "boolean"},
                            "size": {"type": "integer"},
                            "template": open,
                        }},
                        "status": open,
                    }}},
                }],
            },
        });
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": self.resource(),
                "labels": {"sluice.dev/aggregate-to-controller": "true"},
            },
            "rules": [{
                "apiGroups": [group],
                "resources": ["widgets"],
                "verbs": ["get", "list", "patch", "watch"],
            }],
        });
        [crd, role]
    }

    /// Applies the CRD and waits until it is served.
    pub async fn serve(&self) -> Result<()> {
        for object in self.crd() {
            self.scene.apply(&object).await?;
        }
        self.see_served().await
    }

    pub async fn see_served(&self) -> Result<()> {
        self.scene.cp.crd_established(&self.resource()).await
    }

    /// Deletes the CRD and all widgets.
    pub async fn delete_crd(&self) -> Result<()> {
        let crd = format!("crd/{}", self.resource());
        self.scene.kubectl(&["delete", &crd], None).await?.ok()?;
        Ok(())
    }

    /// How Sluice reads them: a JobKind with the name of the namespace.
    pub fn job_kind(&self) -> Value {
        own(
            "JobKind",
            &self.scene.ns,
            json!({
                "group": self.group,
                "version": "v1",
                "kind": "Widget",
                "suspend": ".spec.halted",
                "podSets": [{"name": "main", "template": ".spec.template", "count": "object.spec.size"}],
                "finished": {
                    "when": "has(object.status) && has(object.status.done) && object.status.done",
                    "succeeded": "true",
                    "message": "'all widgets are made'",
                },
                "active": "has(object.status) && has(object.status.active) && object.status.active > 0",
            }),
        )
    }

    /// Creates a JobKind of them and waits until they are looked after.
    pub async fn manage(&self, job_kind: &Value) -> Result<()> {
        self.scene.create(job_kind).await?;
        let name = name_of(job_kind);
        self.scene
            .see_condition("JobKind", name, "Ready", "True", "Watched")
            .await?;
        Ok(())
    }

    /// One of two pods with 1 cpu each, in the LocalQueue `q`.
    pub fn widget(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": "Widget",
            "metadata": {"name": name, "labels": {"sluice.dev/queue-name": "q"}},
            "spec": {
                "halted": true,
                "size": 2,
                "template": {"spec": {"containers": [
                    {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}},
                ]}},
            },
        })
    }

    /// Creates a widget that is not suspended, in the LocalQueue `q` or in none, and returns it as the
    /// API server answers: nobody has written to it since.
    pub async fn create_running(&self, name: &str, is_queued: bool) -> Result<Value> {
        let mut widget = self.widget(name);
        widget["spec"]["halted"] = json!(false);
        if !is_queued {
            widget["metadata"]["labels"] = json!({});
        }
        let widget = serde_json::from_value(widget)?;
        let (api, params) = (self.api(), PostParams::default());
        let created = persist(async || api.create(&params, &widget).await).await?;
        Ok(into_value(created))
    }

    /// Merges a patch into a widget.
    pub async fn merge(&self, name: &str, patch: Value) -> kube::Result<Value> {
        let (api, params) = (self.api(), PatchParams::default());
        let patch = Patch::Merge(patch);
        let patched = judged(async || api.patch(name, &params, &patch).await).await;
        patched.map(into_value)
    }

    /// Merges this into the status of a widget.
    pub async fn set_status(&self, name: &str, status: Value) -> Result<Value> {
        let patch = Patch::Merge(json!({ "status": status }));
        let (api, params) = (self.api(), PatchParams::default());
        let patched = persist(async || api.patch_status(name, &params, &patch).await).await?;
        Ok(into_value(patched))
    }

    /// Waits until a widget is so.
    pub async fn see(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("widget {name} to be {what}");
        eventually(&what, DEADLINE, async || {
            let widget = self.api().get(name).await.map_err(|e| e.to_string())?;
            let widget = into_value(widget);
            if is_so(&widget) {
                Ok(widget)
            } else {
                Err(widget.to_string())
            }
        })
        .await
    }

    pub async fn see_released(&self, name: &str) -> Result<Value> {
        self.see(name, "released", |w| w["spec"]["halted"] == false)
            .await
    }

    /// Waits until the Workload of a widget is so.
    pub async fn see_workload(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("the Workload of widget {name} to be {what}");
        eventually(&what, DEADLINE, async || {
            let workloads = self.scene.list("Workload").await;
            let workloads = workloads.map_err(|e| format!("{e:#}"))?;
            let mut of_widget = workloads.into_iter();
            let of_widget = of_widget.find(|w| w["metadata"]["ownerReferences"][0]["name"] == name);
            match of_widget {
                Some(workload) if is_so(&workload) => Ok(workload),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    pub fn api(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: self.group.clone(),
            version: "v1".to_owned(),
            api_version: format!("{}/v1", self.group),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
        };
        Api::namespaced_with(self.scene.client.clone(), &self.scene.ns, &resource)
    }

    fn resource(&self) -> String {
        format!("widgets.{}", self.group)
    }
}
