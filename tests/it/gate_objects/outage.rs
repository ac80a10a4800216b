//! Whoever lifts a gate with owners while nobody can say what he may do: refused, with what is wrong. With the webhook,
//! which asks the API server; admission policies are evaluated by the API server itself.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, Proxy, Sluice, SluiceOptions, eventually};

use crate::gate_objects::owners::{dry, owner, see_refused, tenant, without};
use crate::support::bed::{self, BINARY, see_leading};
use crate::support::objects::{GATED, Job, own, own_gate};
use crate::support::{DEADLINE, Scene, refusal};

/// What is told when the answer is missing: who asked for what, and why it is.
fn unknown(scene: &Scene<'_>, user: &str, object: &str, why: &str) -> String {
    format!(
        "metadata.annotations[{GATED}]: Forbidden: can't find out whether user \"{user}\" may \"lift\" gates.sluice.dev \"{object}\" in namespace \"{}\": {why}",
        scene.ns
    )
}

/// The rules of Sluice's own role, with or without the one that lets it ask what users may do.
async fn let_ask(scene: &Scene<'_>, rules: &Value, may_ask: bool) -> Result<()> {
    let rules = rules.as_array().into_iter().flatten();
    let is_kept = |rule: &&Value| may_ask || rule["resources"] != json!(["subjectaccessreviews"]);
    let rules: Vec<_> = rules.filter(is_kept).collect();
    let patch = json!({"rules": rules}).to_string();
    let args = [
        "patch",
        "clusterrole",
        "sluice-core",
        "--type=merge",
        "-p",
        &patch,
    ];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

#[tokio::test]
async fn nobody_lifts_a_gate_while_nobody_knows_whether_he_may() -> Result<()> {
    let without_webhooks = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(BINARY)
    };
    let options = Options::with_crds()?;
    bed::own("outage", without_webhooks, options, async |bed, scene| {
        let proxy = Proxy::start(bed.cp.server()).await?;
        let sluice = SluiceOptions {
            server: Some(proxy.server()),
            ..SluiceOptions::new(BINARY)
        };
        let sluice = Sluice::install(&bed.cp, sluice).await?;
        sluice.start().await?;
        see_leading(scene).await?;
        let (gate, object) = own_gate(&scene.ns, "budget");
        scene.apply(&own("Gate", &object, json!({}))).await?;
        let (ann, of_ann) = owner(scene, "ann", &object).await?;
        let (_, of_tenant) = tenant(scene).await?;
        scene.create(&Job::new("j").gate(&gate).json()).await?;
        let lift = async |by: &Scene<'_>| dry(by, "Job", "j", without(GATED)).await;
        let not_hers = format!("in namespace \"{}\"", scene.ns);
        see_refused("the Gate to be known", &not_hers, async || {
            lift(&of_tenant).await
        })
        .await?;
        let see_unknown = async |why: &str| {
            let expected = unknown(scene, &ann, &object, why);
            eventually("nobody to know", DEADLINE, async || {
                let told = refusal(lift(&of_ann).await)?;
                ensure!(
                    told.contains(&expected) && told.ends_with("; try again"),
                    "{told}"
                );
                Ok::<_, anyhow::Error>(())
            })
            .await
        };
        let see_lifted = async || {
            eventually("the owner to lift it", DEADLINE, async || {
                sluice.revive()?;
                lift(&of_ann).await?;
                Ok::<_, anyhow::Error>(())
            })
            .await
        };

        // The API server says nothing to Sluice.
        proxy.hold_all();
        see_unknown("no reply within 1 s").await?;
        proxy.let_through();
        see_lifted().await?;

        // It does not let Sluice ask.
        let role = scene.kubectl(&["get", "clusterrole", "sluice-core", "-o", "json"], None);
        let role: Value = serde_json::from_str(&role.await?.ok()?)?;
        let_ask(scene, &role["rules"], false).await?;
        see_unknown("").await?;
        let_ask(scene, &role["rules"], true).await?;
        see_lifted().await
    })
    .await
}
