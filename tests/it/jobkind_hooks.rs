//! The webhook configurations follow the JobKinds: an object of a kind that Sluice has just been told
//! of is held at its creation, and nobody has to touch a configuration for it.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions, eventually};

use crate::support::objects::{Job, is_suspended, own};
use crate::support::{DEADLINE, Scene, bed, into_value, refusal};

const VALIDATING: &str = "validatingwebhookconfiguration";
const MUTATING: &str = "mutatingwebhookconfiguration";
const CONFIGURATIONS: [&str; 2] = [VALIDATING, MUTATING];
/// Where `kubectl apply` keeps what was applied.
const APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// A kind of the test's own, in a group of its own: `Widget`.
struct Widgets<'a> {
    scene: &'a Scene<'a>,
    group: String,
    has_suspend: bool,
}

impl<'a> Widgets<'a> {
    /// Serves the kind, and lets Sluice read it.
    async fn serve(scene: &'a Scene<'a>, has_suspend: bool) -> Result<Self> {
        let widgets = Self {
            scene,
            group: format!("{}.example.com", scene.ns),
            has_suspend,
        };
        scene.apply(&widgets.crd()).await?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": scene.name("widgets"),
                "labels": {"sluice.dev/aggregate-to-controller": "true"},
            },
            "rules": [{
                "apiGroups": [widgets.group],
                "resources": ["widgets"],
                "verbs": ["get", "list", "patch", "watch"],
            }],
        });
        scene.apply(&role).await?;
        let crd = format!("crd/widgets.{}", widgets.group);
        let established = ["wait", "--for=condition=Established", &crd];
        scene.kubectl(&established, None).await?.ok()?;
        Ok(widgets)
    }

    fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group)},
            "spec": {
                "group": self.group,
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
                            "template": open,
                        }},
                        "status": open,
                    }}},
                }],
            },
        })
    }

    /// Tells Sluice of the kind and waits until it says that it is ready.
    async fn declare(&self, name: &str) -> Result<()> {
        let mut spec = json!({
            "group": self.group,
            "version": "v1",
            "kind": "Widget",
            "podSets": [{"name": "main", "template": ".spec.template"}],
        });
        if self.has_suspend {
            spec["suspend"] = json!(".spec.halted");
            spec["active"] = json!("false");
        }
        self.scene.create(&own("JobKind", name, spec)).await?;
        self.scene
            .see_condition("JobKind", name, "Ready", "True", "Watched")
            .await?;
        Ok(())
    }

    fn api(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: self.group.clone(),
            version: "v1".to_owned(),
            api_version: format!("{}/v1", self.group),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
        };
        Api::namespaced_with(self.scene.client.clone(), &self.scene.ns, &resource)
    }

    /// Creates a widget and returns it as the API server answers: nobody has written to it since.
    async fn create(&self, name: &str, labels: Value) -> Result<Value> {
        let widget = json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": "Widget",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "halted": false,
                "template": {"spec": {"containers": [{"name": "main", "image": "example.com/none"}]}},
            },
        });
        let widget = self
            .api()
            .create(&PostParams::default(), &serde_json::from_value(widget)?)
            .await?;
        Ok(into_value(widget))
    }

    async fn merge(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        let params = PatchParams::default();
        self.api().patch(name, &params, &Patch::Merge(patch)).await
    }

    /// The rules for the kind in a configuration.
    async fn rules(&self, configuration: &str) -> Result<Vec<Value>> {
        let mut rules = rules(&get(self.scene, configuration).await?);
        rules.retain(|rule| rule["apiGroups"] == json!([self.group]));
        Ok(rules)
    }

    async fn see_rules_gone(&self) -> Result<()> {
        eventually("the rules to be gone", DEADLINE, async || {
            for configuration in CONFIGURATIONS {
                let rules = self.rules(configuration).await?;
                ensure!(rules.is_empty(), "{configuration}: {rules:?}");
            }
            Ok(())
        })
        .await
    }

    async fn see_rules(&self) -> Result<()> {
        eventually("the rules to be there", DEADLINE, async || {
            for configuration in CONFIGURATIONS {
                let rules = self.rules(configuration).await?;
                ensure!(rules.len() == 1, "{configuration}: {rules:?}");
            }
            Ok(())
        })
        .await
    }

    fn rule(&self, operations: &[&str], resources: &[&str]) -> Value {
        json!({"apiGroups": [self.group], "apiVersions": ["v1"], "operations": operations,
            "resources": resources, "scope": "Namespaced"})
    }
}

fn queued() -> Value {
    json!({"sluice.dev/queue-name": "q"})
}

async fn get(scene: &Scene<'_>, configuration: &str) -> Result<Value> {
    let args = ["get", configuration, "sluice", "--output=json"];
    Ok(serde_json::from_str(
        &scene.kubectl(&args, None).await?.ok()?,
    )?)
}

/// The webhook of a configuration for jobs: the first one.
fn for_jobs(configuration: &Value) -> &Value {
    let webhook = &configuration["webhooks"][0];
    assert!(
        webhook["name"]
            .as_str()
            .unwrap()
            .ends_with(".jobs.sluice.dev")
    );
    webhook
}

fn rules(configuration: &Value) -> Vec<Value> {
    for_jobs(configuration)["rules"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

#[tokio::test]
async fn what_can_be_suspended_is_born_so_once_its_kind_is_ready() -> Result<()> {
    bed::shared("hooks-suspend", async |scene| {
        let widgets = Widgets::serve(scene, true).await?;
        let before = widgets.create("before", queued()).await?;
        assert_eq!(before["spec"]["halted"], false, "held by whom?");
        widgets.declare(&scene.ns).await?;
        assert_eq!(
            widgets.rules(VALIDATING).await?,
            [widgets.rule(&["CREATE", "UPDATE"], &["widgets", "widgets/status"])]
        );
        assert_eq!(
            widgets.rules(MUTATING).await?,
            [widgets.rule(&["CREATE"], &["widgets"])]
        );
        let held = widgets.create("held", queued()).await?;
        assert_eq!(held["spec"]["halted"], true, "{held}");
        let plain = widgets.create("plain", json!({})).await?;
        assert_eq!(plain["spec"]["halted"], false, "{plain}");
        let told = refusal(
            widgets
                .merge("held", json!({"spec": {"halted": false}}))
                .await,
        )?;
        ensure!(
            told.contains("validate.jobs.sluice.dev") && told.contains("spec.halted"),
            "{told}"
        );

        scene.delete("JobKind", &scene.ns).await?;
        widgets.see_rules_gone().await?;
        // The API server hears of it a moment later.
        eventually("widgets to be nobody's business", DEADLINE, async || {
            let freed = widgets
                .merge("held", json!({"spec": {"halted": false}}))
                .await?;
            ensure!(freed.data["spec"]["halted"] == false);
            anyhow::Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn what_can_not_be_suspended_is_born_behind_gates_once_its_kind_is_ready() -> Result<()> {
    bed::shared("hooks-gates", async |scene| {
        let widgets = Widgets::serve(scene, false).await?;
        widgets.declare(&scene.ns).await?;
        assert_eq!(
            widgets.rules(MUTATING).await?,
            [widgets.rule(&["CREATE", "UPDATE"], &["widgets"])]
        );
        let gates = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
        let held = widgets.create("held", queued()).await?;
        assert_eq!(
            held["spec"]["template"]["spec"]["schedulingGates"], gates,
            "{held}"
        );
        // One that joins later is held from then on.
        let plain = widgets.create("plain", json!({})).await?;
        assert_eq!(
            plain["spec"]["template"]["spec"]["schedulingGates"],
            Value::Null,
            "{plain}"
        );
        let joined = json!({"metadata": {"labels": queued()}});
        let joined = into_value(widgets.merge("plain", joined).await?);
        assert_eq!(
            joined["spec"]["template"]["spec"]["schedulingGates"], gates,
            "{joined}"
        );
        scene.delete("JobKind", &scene.ns).await?;
        widgets.see_rules_gone().await
    })
    .await
}

/// What an administrator has made of the configurations stays; what `kubectl apply` of the shipped
/// manifests takes away is put back; and each change is one write.
#[tokio::test]
async fn only_the_rules_are_touched() -> Result<()> {
    bed::own_running("hooks-admin", async |_, scene| {
        let widgets = Widgets::serve(scene, true).await?;
        let selector = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
        ]});
        let edit = |name: &str| {
            json!({"webhooks": [{
                "name": name,
                "failurePolicy": "Ignore",
                "timeoutSeconds": 7,
                "namespaceSelector": {"$patch": "replace", "matchExpressions": selector["matchExpressions"]},
                "matchConditions": [{"name": "ours", "expression": "request.name != 'spared'"}],
            }]})
            .to_string()
        };
        for (configuration, name) in
            [(VALIDATING, "validate.jobs.sluice.dev"), (MUTATING, "mutate.jobs.sluice.dev")]
        {
            let args = ["patch", configuration, "sluice", "-p", &edit(name)];
            scene.kubectl(&args, None).await?.ok()?;
        }
        let generations = async || -> Result<Vec<i64>> {
            let mut generations = Vec::new();
            for configuration in CONFIGURATIONS {
                let generation = &get(scene, configuration).await?["metadata"]["generation"];
                generations.push(generation.as_i64().context("no generation")?);
            }
            Ok(generations)
        };
        let before = generations().await?;
        widgets.declare(&scene.ns).await?;
        widgets.see_rules().await?;
        let after = generations().await?;
        assert_eq!(after, before.iter().map(|g| g + 1).collect::<Vec<_>>(), "writes");
        for configuration in CONFIGURATIONS {
            let found = get(scene, configuration).await?;
            let webhook = for_jobs(&found);
            assert_eq!(webhook["failurePolicy"], "Ignore");
            assert_eq!(webhook["timeoutSeconds"], 7);
            assert_eq!(webhook["namespaceSelector"], selector);
            let conditions = webhook["matchConditions"].as_array().context("no conditions")?;
            ensure!(conditions.iter().any(|c| c["name"] == "ours"), "{conditions:?}");
            ensure!(webhook["clientConfig"]["caBundle"].is_string(), "{webhook}");
            // All kinds that were there have kept their rules.
            assert_eq!(rules(&found).len(), 4, "{found}");
        }

        for configuration in CONFIGURATIONS {
            let found = get(scene, configuration).await?;
            let applied = found.pointer(APPLIED).and_then(Value::as_str).context("not applied")?;
            ensure!(!applied.contains("widgets"), "{applied}");
            scene.kubectl(&["apply", "-f", "-"], Some(applied)).await?.ok()?;
        }
        widgets.see_rules().await?;
        let held = eventually("a widget to be held again", DEADLINE, async || {
            let held = widgets.create("held", queued()).await?;
            if held["spec"]["halted"] != true {
                scene.kubectl(&["delete", "widgets", "held"], None).await?.ok()?;
            }
            ensure!(held["spec"]["halted"] == true, "{held}");
            Ok(held)
        });
        held.await?;
        Ok(())
    })
    .await
}

/// The configured aliases come into the match conditions by themselves.
#[tokio::test]
async fn aliases_need_no_edit_of_the_configurations() -> Result<()> {
    let sluice = SluiceOptions {
        config: Some("queueLabelAliases: [kueue.x-k8s.io/queue-name]\n".to_owned()),
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own(
        "hooks-alias",
        sluice,
        Options::with_crds()?,
        async |bed, scene| {
            bed.sluice.start().await?;
            bed::see_leading(scene).await?;
            let job = Job::new("moved")
                .label("kueue.x-k8s.io/queue-name", "q")
                .json();
            let job = scene.create(&job).await?;
            ensure!(is_suspended(&job), "{job}");
            Ok(())
        },
    )
    .await
}

/// A cluster with admission policies, or with nothing, in place of webhooks.
#[tokio::test]
async fn without_webhooks_a_kind_is_ready_and_says_so() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own("hooks-none", sluice, Options::with_crds()?, async |bed, scene| {
        bed.sluice.start().await?;
        let told = scene
            .see_condition("JobKind", "job", "Ready", "True", "Watched")
            .await?;
        assert_eq!(
            told,
            "Objects of this kind are looked after, but not held at their creation unless an admission \
             policy does it: there is no ValidatingWebhookConfiguration \"sluice\" with a webhook for \
             jobs and no MutatingWebhookConfiguration \"sluice\" with a webhook for jobs"
        );
        Ok(())
    })
    .await
}
