//! Kinds of Job-like objects that nobody has heard of, each in a group of its test's own: their CRDs,
//! roles, JobKinds and objects. No controller acts on them: the test does.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::eventually;

use super::history::History;
use super::objects::{own, with};
use super::persist::persist;
use super::{DEADLINE, Scene, brief, into_value};

/// A made-up kind.
#[derive(Clone, Debug)]
pub struct MadeUp {
    pub group: String,
    pub kind: String,
    pub version: &'static str,
    /// The name of its JobKind.
    pub name: String,
    children: Vec<Value>,
    has_pods: bool,
}

impl MadeUp {
    pub fn new(scene: &Scene<'_>, kind: &str) -> Self {
        Self {
            group: format!("{}.example.com", scene.ns),
            kind: kind.to_owned(),
            version: "v1",
            name: scene.name(&kind.to_lowercase()),
            children: Vec::new(),
            has_pods: true,
        }
    }

    /// Its pods are those of its children.
    pub fn without_pods(self) -> Self {
        Self {
            has_pods: false,
            ..self
        }
    }

    /// Its controller makes objects of this group and kind.
    pub fn makes(mut self, group: &str, kind: &str) -> Self {
        self.children.push(json!({"group": group, "kind": kind}));
        self
    }

    pub fn plural(&self) -> String {
        format!("{}s", self.kind.to_lowercase())
    }

    /// The name of its CRD.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural(), self.group)
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Its CRD, with the versions v1 and v2 alike.
    pub fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "halted": {"type": "boolean"},
                "size": {"type": "integer"},
                "template": open,
            }},
            "status": open,
        }}});
        let version = |name: &str, is_stored: bool| {
            json!({
                "name": name,
                "served": true,
                "storage": is_stored,
                "subresources": {"status": {}},
                "schema": schema,
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.resource()},
            "spec": {
                "group": self.group,
                "names": {"kind": self.kind, "plural": self.plural()},
                "scope": "Namespaced",
                "versions": [version("v1", true), version("v2", false)],
            },
        })
    }

    /// The role that lets Sluice read and patch its objects.
    pub fn role(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": self.resource(),
                "labels": {"sluice.dev/aggregate-to-controller": "true"},
            },
            "rules": [{
                "apiGroups": [self.group],
                "resources": [self.plural()],
                "verbs": ["get", "list", "patch", "watch"],
            }],
        })
    }

    pub fn job_kind(&self) -> Value {
        let mut spec = json!({
            "group": self.group,
            "version": self.version,
            "kind": self.kind,
            "suspend": ".spec.halted",
            "podSets": [{"name": "main", "template": ".spec.template", "count": "object.spec.size"}],
            "finished": {
                "when": "has(object.status) && has(object.status.done) && object.status.done",
                "succeeded": "true",
            },
            "active": "has(object.status) && has(object.status.active) && object.status.active > 0",
            "children": self.children,
        });
        if !self.has_pods {
            spec.as_object_mut().unwrap().remove("podSets");
        }
        own("JobKind", &self.name, spec)
    }

    /// An object of one pod with 1 cpu, held.
    pub fn object(&self, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version(),
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": {
                "halted": true,
                "size": 1,
                "template": {"spec": {"containers": [
                    {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}},
                ]}},
            },
        });
        if !self.has_pods {
            object["spec"].as_object_mut().unwrap().remove("template");
        }
        object
    }

    /// The same, in the LocalQueue `q`.
    pub fn queued(&self, name: &str) -> Value {
        with(
            self.object(name),
            "/metadata/labels",
            json!({QUEUE_NAME_LABEL: "q"}),
        )
    }

    /// Installs the CRD and waits until it is served.
    pub async fn install_crd(&self, scene: &Scene<'_>) -> Result<()> {
        scene.apply(&self.crd()).await?;
        scene.cp.crd_established(&self.resource()).await
    }

    /// Installs the CRD, the role and the JobKind, and waits until its objects are watched.
    pub async fn install(&self, scene: &Scene<'_>) -> Result<()> {
        self.install_crd(scene).await?;
        scene.apply(&self.role()).await?;
        scene.create(&self.job_kind()).await?;
        self.see_watched(scene).await
    }

    pub async fn see_watched(&self, scene: &Scene<'_>) -> Result<()> {
        let name = &self.name;
        scene
            .see_condition("JobKind", name, "Ready", "True", "Watched")
            .await?;
        Ok(())
    }

    /// Takes the CRD away, with all objects.
    pub async fn delete_crd(&self, scene: &Scene<'_>) -> Result<()> {
        let crd = self.resource();
        scene.kubectl(&["delete", "crd", &crd], None).await?.ok()?;
        Ok(())
    }

    pub fn api(&self, scene: &Scene<'_>) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: self.group.clone(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural(),
        };
        Api::namespaced_with(scene.client.clone(), &scene.ns, &resource)
    }

    /// Records what happens to its objects from now on.
    pub async fn record(&self, scene: &Scene<'_>) -> Result<History> {
        History::start(self.api(scene)).await
    }

    pub async fn create(&self, scene: &Scene<'_>, object: &Value) -> Result<Value> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let (api, params) = (self.api(scene), PostParams::default());
        let created = persist(async || api.create(&params, &object).await).await;
        Ok(into_value(
            created.with_context(|| format!("create {object:?}"))?,
        ))
    }

    /// Merges a patch into an object (RFC 7386).
    pub async fn merge(&self, scene: &Scene<'_>, name: &str, patch: Value) -> Result<Value> {
        let (api, params) = (self.api(scene), PatchParams::default());
        let patch = Patch::Merge(patch);
        let patched = persist(async || api.patch(name, &params, &patch).await).await?;
        Ok(into_value(patched))
    }

    /// What its controller would say about an object.
    pub async fn set_status(&self, scene: &Scene<'_>, name: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let (api, params) = (self.api(scene), PatchParams::default());
        persist(async || api.patch_status(name, &params, &patch).await).await?;
        Ok(())
    }

    pub async fn delete(&self, scene: &Scene<'_>, name: &str) -> Result<()> {
        self.api(scene)
            .delete(name, &kube::api::DeleteParams::background())
            .await?;
        Ok(())
    }

    /// Waits until an object is so.
    pub async fn see(
        &self,
        scene: &Scene<'_>,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let api = self.api(scene);
        let what = format!("{} {name} to be {what}", self.kind);
        eventually(&what, DEADLINE, async || match api.get_opt(name).await {
            Ok(Some(object)) => {
                let object = into_value(object);
                if is_so(&object) {
                    Ok(object)
                } else {
                    Err(brief(&object))
                }
            }
            Ok(None) => Err("it does not exist".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    pub async fn see_released(&self, scene: &Scene<'_>, name: &str) -> Result<Value> {
        self.see(scene, name, "released", |o| o["spec"]["halted"] == false)
            .await
    }

    pub async fn see_held(&self, scene: &Scene<'_>, name: &str) -> Result<Value> {
        self.see(scene, name, "held", |o| o["spec"]["halted"] == true)
            .await
    }
}

/// A reference to an object as its dependent's controller.
pub fn controlled_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
    }])
}

impl Scene<'_> {
    /// The Workload of any object, by its UID.
    pub async fn workload_of(&self, object: &Value) -> Result<Option<Value>> {
        let uid = &object["metadata"]["uid"];
        let workloads = self.list("Workload").await?;
        let mut of_object = workloads
            .into_iter()
            .filter(|w| w["metadata"]["ownerReferences"][0]["uid"] == *uid);
        Ok(of_object.next())
    }

    /// Waits until the Workload of an object is so.
    pub async fn see_workload_of(
        &self,
        object: &Value,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let name = super::name_of(object);
        let what = format!("the Workload of {name} to be {what}");
        eventually(&what, DEADLINE, async || {
            match self
                .workload_of(object)
                .await
                .map_err(|e| format!("{e:#}"))?
            {
                Some(workload) if is_so(&workload) => Ok(workload),
                Some(workload) => Err(brief(&workload)),
                None => Err("it does not exist".to_owned()),
            }
        })
        .await
    }
}
