//! Objects in any order: what was missing and comes is taken up at once, without a restart.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::objects::{
    self, Job, cluster_queue, condition, flavor, is_admitted, local_queue, own, priority_class,
    quota, with,
};
use crate::support::{DEADLINE, Scene, bed};

#[tokio::test]
async fn a_job_waits_for_its_queue_and_all_below_it() -> Result<()> {
    bed::shared("late-queue", async |scene| {
        let ns = &scene.ns;
        scene.create(&Job::new("early").queue("q").json()).await?;
        let message = format!("LocalQueue \"{ns}/q\" doesn't exist");
        scene.see_waiting("early", "Inadmissible", &message).await?;
        scene.create(&local_queue("q", ns)).await?;
        let message = format!("ClusterQueue \"{ns}\" of LocalQueue \"{ns}/q\" doesn't exist");
        scene.see_waiting("early", "Inadmissible", &message).await?;
        scene
            .create(&cluster_queue(ns, ns, &[quota("cpu", "2")]))
            .await?;
        let message = format!(
            "ClusterQueue \"{ns}\" is inactive: ResourceFlavors that don't exist: \"{ns}\""
        );
        scene.see_waiting("early", "Inadmissible", &message).await?;
        scene.create(&flavor(ns)).await?;
        scene.see_complete("early").await?;
        scene
            .see_condition("LocalQueue", "q", "Active", "True", "Ready")
            .await?;
        scene
            .see_condition("ClusterQueue", ns, "Active", "True", "Ready")
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_waits_for_its_priority_class() -> Result<()> {
    bed::shared("late-class", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let class = scene.name("class");
        scene.create(&Job::new("early").queue("q").priority_class(&class).json()).await?;
        let told = scene.see_event("early", "PriorityClassNotFound").await?;
        assert_eq!(
            told,
            format!(
                "Can't be queued: there is no WorkloadPriorityClass {class:?}; create it, or change the \
                 label sluice.dev/priority-class"
            )
        );
        ensure!(scene.find_workload("early").await?.is_none(), "it is queued without its priority");
        scene.create(&priority_class(&class, 7)).await?;
        let workload = scene.see_admitted("early").await?;
        assert_eq!(workload["spec"]["priority"], 7);
        let reference = &workload["spec"]["priorityClassRef"];
        assert_eq!((&reference["kind"], &reference["name"]), (&json!("WorkloadPriorityClass"), &json!(class)));
        scene.see_complete("early").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_can_come_under_a_selector_and_leave_it() -> Result<()> {
    bed::shared("late-label", async |scene| {
        let ns = &scene.ns;
        let queue = with(
            cluster_queue(ns, ns, &[quota("cpu", "2")]),
            "/spec/namespaceSelector",
            json!({"matchLabels": {"team": "red"}}),
        );
        scene.queue_like(queue).await?;
        scene
            .create(&Job::new("early").queue("q").runs_forever().json())
            .await?;
        let message = format!("ClusterQueue \"{ns}\" doesn't select the namespace \"{ns}\"");
        scene.see_waiting("early", "Inadmissible", &message).await?;
        scene
            .merge(
                "Namespace",
                ns,
                json!({"metadata": {"labels": {"team": "red"}}}),
            )
            .await?;
        scene.see_admitted("early").await?;
        // And out of it: what runs stays and stays charged, what comes waits.
        scene
            .merge(
                "Namespace",
                ns,
                json!({"metadata": {"labels": {"team": null}}}),
            )
            .await?;
        scene.create(&Job::new("late").queue("q").json()).await?;
        scene.see_waiting("late", "Inadmissible", &message).await?;
        let early = scene.find_workload("early").await?.unwrap();
        ensure!(is_admitted(&early), "{early}");
        // The selector changes instead.
        scene
            .merge(
                "ClusterQueue",
                ns,
                json!({"spec": {"namespaceSelector": {"matchLabels": null}}}),
            )
            .await?;
        scene.see_complete("late").await?;
        Ok(())
    })
    .await
}

/// A CRD of a Job-like kind in a group of the test's own, and the role that lets Sluice read it.
fn mk_crd(group: &str) -> [Value; 2] {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
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
            "name": format!("widgets.{group}"),
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

fn mk_widget(group: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"),
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

fn mk_job_kind(name: &str, group: &str) -> Value {
    own(
        "JobKind",
        name,
        json!({
            "group": group,
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

/// Waits until the widget is so.
async fn see_widget(
    scene: &Scene<'_>,
    resource: &str,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(
        &format!("widget {name} to be {what}"),
        DEADLINE,
        async || {
            let output = scene
                .kubectl(&["get", resource, name, "--output=json"], None)
                .await;
            let text = output
                .and_then(sluice_testbed::KubectlOutput::ok)
                .map_err(|e| format!("{e:#}"))?;
            let widget: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if is_so(&widget) {
                Ok(widget)
            } else {
                Err(widget.to_string())
            }
        },
    )
    .await
}

/// The life of a widget, once it is let go.
async fn see_widget_through(scene: &Scene<'_>, group: &str, name: &str) -> Result<()> {
    let resource = format!("widgets.{group}");
    see_widget(scene, &resource, name, "let go", |w| {
        w["spec"]["halted"] == false
    })
    .await?;
    let done = json!({"status": {"done": true}}).to_string();
    let args = [
        "patch",
        &resource,
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        &done,
    ];
    scene.kubectl(&args, None).await?.ok()?;
    eventually(
        "the Workload of the widget to be finished",
        DEADLINE,
        async || {
            let workloads = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            let of_widget = workloads
                .iter()
                .find(|w| objects::name_of(w).starts_with(name));
            let told = of_widget.and_then(|w| condition(w, "Finished"));
            if told == Some(("True", "Succeeded", "all widgets are made")) {
                Ok(())
            } else {
                Err(format!("{of_widget:?}"))
            }
        },
    )
    .await
}

/// Objects first, then the JobKind that makes them Sluice's: a kind that Sluice knows nothing of.
#[tokio::test]
async fn objects_are_taken_over_when_their_job_kind_comes() -> Result<()> {
    bed::shared("late-kind", async |scene| {
        let group = format!("{}.example.com", scene.ns);
        scene.queue(&[quota("cpu", "2")]).await?;
        for object in mk_crd(&group) {
            scene.apply(&object).await?;
        }
        let crd = format!("crd/widgets.{group}");
        scene
            .kubectl(&["wait", "--for=condition=Established", &crd], None)
            .await?
            .ok()?;
        let widget = with(mk_widget(&group, "early"), "/spec/halted", json!(false));
        scene.apply(&widget).await?;
        scene.create(&mk_job_kind(&scene.ns, &group)).await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        see_widget_through(scene, &group, "early").await?;
        // The next waits until the one before it is done.
        scene.apply(&mk_widget(&group, "a")).await?;
        see_widget(scene, &format!("widgets.{group}"), "a", "let go", |w| {
            w["spec"]["halted"] == false
        })
        .await?;
        scene.apply(&mk_widget(&group, "b")).await?;
        eventually("b to wait", DEADLINE, async || {
            let workloads = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            let b = workloads
                .iter()
                .find(|w| objects::name_of(w).starts_with("b-"));
            let told = b.and_then(|w| condition(w, "QuotaReserved"));
            told.filter(|(status, ..)| *status == "False")
                .map(drop)
                .ok_or(format!("{b:?}"))
        })
        .await?;
        see_widget_through(scene, &group, "a").await?;
        see_widget_through(scene, &group, "b").await?;
        scene.kubectl(&["delete", &crd], None).await?.ok()?;
        // Its CRD gone, it says so, and the other kinds go on.
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "KindNotServed")
            .await?;
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// A JobKind whose objects Sluice may not read: it says so, everything else goes on, also after a
/// restart; and with the right it is taken up.
#[tokio::test]
async fn a_job_kind_waits_for_its_role() -> Result<()> {
    bed::own_running("late-role", async |bed, scene| {
        let group = format!("{}.example.com", scene.ns);
        scene.queue(&[quota("cpu", "2")]).await?;
        let [crd, role] = mk_crd(&group);
        scene.apply(&crd).await?;
        let crd = format!("crd/widgets.{group}");
        scene
            .kubectl(&["wait", "--for=condition=Established", &crd], None)
            .await?
            .ok()?;
        scene.create(&mk_job_kind(&scene.ns, &group)).await?;
        let told = scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Forbidden")
            .await?;
        ensure!(
            told.contains("widgets") && told.contains("sluice.dev/aggregate-to-controller"),
            "{told}"
        );
        scene.create(&Job::new("before").queue("q").json()).await?;
        scene.see_complete("before").await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene.create(&Job::new("after").queue("q").json()).await?;
        scene.see_complete("after").await?;
        scene.apply(&role).await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        scene.apply(&mk_widget(&group, "late")).await?;
        see_widget_through(scene, &group, "late").await?;
        // Taken away again, it says so again.
        scene
            .kubectl(
                &["delete", "clusterrole", &format!("widgets.{group}")],
                None,
            )
            .await?
            .ok()?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Forbidden")
            .await?;
        Ok(())
    })
    .await
}

/// The JobKind first, then the CRD that it speaks of.
#[tokio::test]
async fn a_job_kind_waits_for_its_crd() -> Result<()> {
    bed::shared("late-crd", async |scene| {
        let group = format!("{}.example.com", scene.ns);
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&mk_job_kind(&scene.ns, &group)).await?;
        let told = scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "KindNotServed")
            .await?;
        assert_eq!(
            told,
            format!("Widget is not served in {group}/v1; install its CRD, or correct spec.version")
        );
        for object in mk_crd(&group) {
            scene.apply(&object).await?;
        }
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        scene.apply(&mk_widget(&group, "late")).await?;
        see_widget_through(scene, &group, "late").await?;
        scene.delete("JobKind", &scene.ns).await?;
        scene
            .kubectl(&["delete", &format!("crd/widgets.{group}")], None)
            .await?
            .ok()?;
        Ok(())
    })
    .await
}
