//! The webhook configurations follow the JobKinds: an object of a kind that Sluice has just been told
//! of is held at its creation, and nobody has to touch a configuration for it.

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, Options, SluiceOptions, eventually};

use crate::support::objects::{Job, condition, is_suspended};
use crate::support::persist::{answered, persist};
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene, bed, by_declared_webhook, into_value, refusal};

const VALIDATING: &str = "validatingwebhookconfiguration";
const MUTATING: &str = "mutatingwebhookconfiguration";
/// The name of both that are shipped, and of both of Sluice's own making.
const SHIPPED: &str = "sluice";
const OWN: &str = "sluice-declared";
const CONFIGURATIONS: [&str; 2] = [VALIDATING, MUTATING];
/// Where `kubectl apply` keeps what was applied.
const APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// The rules for widgets in the configurations.
struct Rules<'a> {
    scene: &'a Scene<'a>,
    group: &'a str,
}

impl<'a> Rules<'a> {
    fn of(scene: &'a Scene<'a>, widgets: &'a Widgets<'a>) -> Self {
        let group = &widgets.group;
        Self { scene, group }
    }

    async fn within(&self, configuration: &str) -> Result<Vec<Value>> {
        let mut rules = all_rules(self.scene, configuration).await?;
        rules.retain(|rule| rule["apiGroups"] == json!([self.group]));
        Ok(rules)
    }

    /// Waits until both configurations have as many.
    async fn see(&self, count: usize) -> Result<()> {
        eventually(
            &format!("{count} rules for widgets"),
            DEADLINE,
            async || {
                for configuration in CONFIGURATIONS {
                    let rules = self.within(configuration).await?;
                    ensure!(rules.len() == count, "{configuration}: {rules:?}");
                }
                Ok(())
            },
        )
        .await
    }

    fn rule(&self, operations: &[&str], resources: &[&str]) -> Value {
        json!({"apiGroups": [self.group], "apiVersions": ["v1"], "operations": operations,
            "resources": resources, "scope": "Namespaced"})
    }
}

/// The configuration of this kind with this name; null if there is none.
async fn get(scene: &Scene<'_>, configuration: &str, name: &str) -> Result<Value> {
    let args = [
        "get",
        configuration,
        name,
        "--ignore-not-found",
        "--output=json",
    ];
    let text = scene.kubectl(&args, None).await?.ok()?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    Ok(serde_json::from_str(&text)?)
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

/// The webhook for declared kinds, in the configuration of Sluice's own: null if there is none.
fn for_declared(configuration: &Value) -> &Value {
    let mut webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let is_it = |webhook: &&Value| {
        let name = webhook["name"].as_str().unwrap();
        name.ends_with(".jobkinds.sluice.dev")
    };
    webhooks.find(is_it).unwrap_or(&Value::Null)
}

/// The rules for jobs: of the shipped configuration, and of that of Sluice's own.
async fn all_rules(scene: &Scene<'_>, configuration: &str) -> Result<Vec<Value>> {
    let shipped = get(scene, configuration, SHIPPED).await?;
    let own = get(scene, configuration, OWN).await?;
    let webhooks = [for_jobs(&shipped), for_declared(&own)].into_iter();
    let rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
    Ok(rules.cloned().collect())
}

/// Creates a widget that is not suspended; again while the API server does not serve them yet, or a webhook
/// does not answer.
async fn create_running(widgets: &Widgets<'_>, name: &str, is_queued: bool) -> Result<Value> {
    eventually("a widget to be taken", DEADLINE, async || {
        widgets.create_running(name, is_queued).await
    })
    .await
}

/// Waits until widgets that are queued are held so at their creation: the API server hears of a rule a
/// moment after it was written.
async fn see_born(widgets: &Widgets<'_>, is_held: impl Fn(&Value) -> bool) -> Result<()> {
    let mut probe = widgets.widget("probe");
    probe["spec"]["halted"] = json!(false);
    let probe: DynamicObject = serde_json::from_value(probe)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = widgets.api();
    eventually("widgets to be born held", DEADLINE, async || {
        let born = into_value(api.create(&dry_run, &probe).await?);
        ensure!(is_held(&born), "{born}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_can_be_suspended_is_born_so_once_its_kind_is_ready() -> Result<()> {
    bed::shared("hooks-suspend", async |scene| {
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let before = create_running(&widgets, "before", true).await?;
        assert_eq!(before["spec"]["halted"], false, "held by whom?");
        widgets.manage(&widgets.job_kind()).await?;
        see_born(&widgets, |widget| widget["spec"]["halted"] == true).await?;
        let held = create_running(&widgets, "held", true).await?;
        assert_eq!(held["spec"]["halted"], true, "{held}");
        let plain = create_running(&widgets, "plain", false).await?;
        assert_eq!(plain["spec"]["halted"], false, "{plain}");
        let rules = Rules::of(scene, &widgets);
        let all = ["CREATE", "UPDATE"];
        assert_eq!(
            rules.within(VALIDATING).await?,
            [rules.rule(&all, &["widgets", "widgets/status"])]
        );
        assert_eq!(
            rules.within(MUTATING).await?,
            [rules.rule(&all, &["widgets", "widgets/status"])]
        );
        let start = json!({"spec": {"halted": false}});
        let merge = async || widgets.merge("held", start.clone()).await;
        let told = refusal(answered(merge).await?)?;
        let refused = by_declared_webhook("spec.halted: Forbidden: ");
        ensure!(told.starts_with(&refused), "{told}");

        scene.delete("JobKind", &scene.ns).await?;
        rules.see(0).await?;
        // The API server hears of it a moment later.
        eventually("widgets to be nobody's business", DEADLINE, async || {
            widgets.merge("held", start.clone()).await
        })
        .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_can_not_be_suspended_is_born_behind_gates_once_its_kind_is_ready() -> Result<()> {
    bed::shared("hooks-gates", async |scene| {
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let mut kind = widgets.job_kind();
        let spec = kind["spec"].as_object_mut().context("no spec")?;
        spec.retain(|field, _| !["suspend", "active"].contains(&field.as_str()));
        widgets.manage(&kind).await?;
        let gates = |widget: &Value| widget["spec"]["template"]["spec"]["schedulingGates"].clone();
        let queue_gate = json!([{"name": "sluice.dev/queue-allocation-gate"}]);
        see_born(&widgets, |widget| gates(widget) == queue_gate).await?;
        let held = create_running(&widgets, "held", true).await?;
        assert_eq!(gates(&held), queue_gate, "{held}");
        // One that joins later is held from then on.
        let plain = create_running(&widgets, "plain", false).await?;
        assert_eq!(gates(&plain), Value::Null, "{plain}");
        let join = json!({"metadata": {"labels": {"sluice.dev/queue-name": "q"}}});
        let joined = persist(async || widgets.merge("plain", join.clone()).await).await?;
        assert_eq!(gates(&joined), queue_gate, "{joined}");
        let rules = Rules::of(scene, &widgets);
        assert_eq!(
            rules.within(MUTATING).await?,
            [rules.rule(&["CREATE", "UPDATE"], &["widgets", "widgets/status"])]
        );
        scene.delete("JobKind", &scene.ns).await?;
        rules.see(0).await
    })
    .await
}

/// What an administrator has made of the shipped configurations stays, and counts for declared kinds too; whoever applies
/// the shipped manifests again takes no rule away; and a kind makes one write in each configuration of Sluice's own.
#[tokio::test]
async fn only_its_own_configurations_are_written() -> Result<()> {
    bed::own_running("hooks-admin", async |_, scene| {
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let selector = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]},
        ]});
        let rule = |group: &str, resource: &str, operation: &str| {
            json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
                "scope": "Namespaced"})
        };
        let edit = |name: &str| {
            json!({"webhooks": [{
                "name": name,
                "failurePolicy": "Ignore",
                "timeoutSeconds": 7,
                "namespaceSelector": {"$patch": "replace", "matchExpressions": selector["matchExpressions"]},
                "matchConditions": [{"name": "ours", "expression": "request.name != 'spared'"}],
                "rules": [
                    rule("batch", "jobs", "CREATE"),
                    rule("batch", "cronjobs", "CREATE"),
                    rule("apps", "deployments", "CREATE"),
                    rule("apps", "statefulsets", "CREATE"),
                ],
            }]})
            .to_string()
        };
        for (configuration, name) in
            [(VALIDATING, "validate.jobs.sluice.dev"), (MUTATING, "mutate.jobs.sluice.dev")]
        {
            let args = ["patch", configuration, SHIPPED, "-p", &edit(name)];
            scene.kubectl(&args, None).await?.ok()?;
        }
        let follows = async |timeout: i64| {
            eventually("Sluice's own to be as the shipped ones", DEADLINE, async || {
                for configuration in CONFIGURATIONS {
                    let own = get(scene, configuration, OWN).await?;
                    let webhooks = own["webhooks"].as_array().context("no webhooks")?;
                    let mut webhooks = webhooks.iter();
                    ensure!(webhooks.all(|webhook| webhook["timeoutSeconds"] == timeout), "{own}");
                }
                Ok(())
            })
            .await
        };
        follows(7).await?;
        let generations = async |name: &str| -> Result<Vec<i64>> {
            let mut generations = Vec::new();
            for configuration in CONFIGURATIONS {
                let generation = &get(scene, configuration, name).await?["metadata"]["generation"];
                generations.push(generation.as_i64().context("no generation")?);
            }
            Ok(generations)
        };
        let (shipped, own) = (generations(SHIPPED).await?, generations(OWN).await?);
        widgets.manage(&widgets.job_kind()).await?;
        let of_widgets = Rules::of(scene, &widgets);
        of_widgets.see(1).await?;
        assert_eq!(generations(SHIPPED).await?, shipped, "writes to what is shipped");
        let more: Vec<_> = own.iter().map(|g| g + 1).collect();
        assert_eq!(generations(OWN).await?, more, "writes");
        for configuration in CONFIGURATIONS {
            let found = get(scene, configuration, OWN).await?;
            let webhook = for_declared(&found);
            assert_eq!(webhook["failurePolicy"], "Ignore");
            assert_eq!(webhook["timeoutSeconds"], 7);
            assert_eq!(webhook["namespaceSelector"], selector);
            ensure!(webhook["clientConfig"]["caBundle"].is_string(), "{webhook}");
            let webhooks = found["webhooks"].as_array().context("no webhooks")?;
            for webhook in webhooks {
                let conditions = webhook["matchConditions"].as_array().context("no conditions")?;
                ensure!(conditions.iter().any(|c| c["name"] == "ours"), "{webhook}");
            }
            // All kinds that were there have kept their rules, as narrow as they are, and there is no other.
            assert_eq!(all_rules(scene, configuration).await?.len(), 5, "{found}");
        }

        for configuration in CONFIGURATIONS {
            let found = get(scene, configuration, SHIPPED).await?;
            let applied = found.pointer(APPLIED).and_then(Value::as_str).context("not applied")?;
            ensure!(!applied.contains("widgets"), "{applied}");
            scene.kubectl(&["apply", "-f", "-"], Some(applied)).await?.ok()?;
        }
        let widget = widgets.create_running("held", true).await?;
        ensure!(widget["spec"]["halted"] == true, "{widget}");
        follows(3).await?;
        of_widgets.see(1).await
    })
    .await
}

/// A kind whose rule can't be written is not ready, and says why.
#[tokio::test]
async fn a_kind_without_its_rule_is_not_ready() -> Result<()> {
    bed::own_running("hooks-denied", async |_, scene| {
        let role = scene.get("ClusterRole", "sluice-core").await?;
        let rules = role["rules"].as_array().context("no rules")?;
        let fewer: Vec<_> = rules
            .iter()
            .filter(|rule| rule["apiGroups"] != json!(["admissionregistration.k8s.io"]))
            .collect();
        // Those for the shipped configurations, for its own, and to make these.
        ensure!(fewer.len() + 3 == rules.len(), "{role}");
        scene
            .merge("ClusterRole", "sluice-core", json!({ "rules": fewer }))
            .await?;
        let user = format!("--as=system:serviceaccount:{NAMESPACE}:sluice");
        let may = [
            "auth",
            "can-i",
            "get",
            "validatingwebhookconfigurations/sluice",
            &user,
        ];
        eventually("the right to be gone", DEADLINE, async || {
            scene.kubectl(&may, None).await?.err()
        })
        .await?;

        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let kind = widgets.job_kind();
        scene.create(&kind).await?;
        let begin =
            "Objects of this kind are managed, but the webhooks are not called for them yet: ";
        // Something else may be told before, as that the API server did not answer.
        let lacks_right = |kind: &Value| {
            condition(kind, "Ready").is_some_and(|(status, reason, told)| {
                (status, reason) == ("False", "WebhookPending")
                    && told.starts_with(begin)
                    && told.contains("is forbidden")
            })
        };
        scene
            .see("JobKind", &scene.ns, "without the right", lacks_right)
            .await?;
        scene
            .merge("ClusterRole", "sluice-core", json!({ "rules": rules }))
            .await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        Rules::of(scene, &widgets).see(1).await
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
    bed::own_running_with("hooks-alias", sluice, async |_, scene| {
        let job = Job::new("moved")
            .label("kueue.x-k8s.io/queue-name", "q")
            .json();
        let probe: DynamicObject = serde_json::from_value(job.clone())?;
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        // The API server hears of the conditions a moment after they were written.
        eventually("such a job to be held", DEADLINE, async || {
            let held = into_value(scene.api("Job").create(&dry_run, &probe).await?);
            ensure!(is_suspended(&held), "{held}");
            Ok(())
        })
        .await?;
        let job = scene.create(&job).await?;
        ensure!(is_suspended(&job), "{job}");
        Ok(())
    })
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
            "Objects of this kind are managed, but not held at their creation unless an admission \
             policy does it: there is no ValidatingWebhookConfiguration \"sluice\" with a webhook for \
             jobs and no MutatingWebhookConfiguration \"sluice\" with a webhook for jobs"
        );
        Ok(())
    })
    .await
}
