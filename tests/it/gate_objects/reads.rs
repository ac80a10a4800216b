//! Gates that have Sluice read other objects: whoever writes one must be allowed to read these himself.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::after::{object, rule};
use crate::support::objects::{own, own_gate};
use crate::support::{DEADLINE, Scene, refusal};

both_ways!(nobody_reads_through_a_gate_what_he_may_not_read);

/// Gives `user` this right: in the namespace of the scene, or in all.
async fn give(scene: &Scene<'_>, user: &str, kind: &str, verb: &str, resource: &str) -> Result<()> {
    let role = scene.name(&format!("{verb}-{}", resource.replace('.', "-")));
    let (verb, resource) = (format!("--verb={verb}"), format!("--resource={resource}"));
    let made = ["create", "clusterrole", &role, &verb, &resource];
    let made = scene.kubectl(&made, None).await?;
    let is_there = made.code == 0 || made.stderr.contains("AlreadyExists");
    ensure!(is_there, "{}", made.stderr);
    let (name, user) = (format!("{role}-{kind}"), format!("--user={user}"));
    let bound = [
        "create",
        kind,
        &name,
        &format!("--clusterrole={role}"),
        &user,
    ];
    scene.kubectl(&bound, None).await?.ok().map(drop)
}

async fn nobody_reads_through_a_gate_what_he_may_not_read(admission: Admission) -> Result<()> {
    play(admission, "gate-reads", async |scene| {
        let user = format!("author-{}", scene.ns);
        give(scene, &user, "clusterrolebinding", "create,update,patch,get,delete", "gates.sluice.dev").await?;
        let author = scene.acting_as(&user)?;
        let (_, name) = own_gate(&scene.ns, "data");
        let secret = rule("", "ConfigMap", "object.data.secret.startsWith('a')");
        let here = json!({"after": object(secret.clone(), "app", Some(&scene.ns))});
        let everywhere = json!({"after": {"kinds": [secret]}});
        let told = |field: &str, what: &str| {
            format!("{field}: Forbidden: user {user:?} may not \"get\" configmaps{what}, which Sluice would read for this Gate: whoever writes spec.after needs that right")
        };
        let of_object = told("spec.after.object", &format!(" \"app\" in namespace {:?}", scene.ns));
        let of_kinds = told("spec.after.kinds[0]", " cluster-wide");
        let create = async |spec: &Value| author.try_create(&own("Gate", &name, spec.clone())).await;
        let answer = eventually("the right to write Gates to be known", DEADLINE, async || {
            let refused = refusal(create(&here).await)?;
            ensure!(!refused.contains("cannot create resource"), "{refused}");
            Ok::<_, anyhow::Error>(refused)
        })
        .await?;
        ensure!(answer.ends_with(&of_object), "{answer}");
        let answer = refusal(create(&everywhere).await)?;
        ensure!(answer.ends_with(&of_kinds), "{answer}");
        // He gets the right in this namespace, and may have Sluice read what he may read there.
        give(scene, &user, "rolebinding", "get", "configmaps").await?;
        eventually("the right to be known", DEADLINE, async || {
            create(&here).await.map(drop)
        })
        .await?;
        let answer = refusal(create(&everywhere).await)?;
        ensure!(answer.contains(&of_kinds) || answer.contains("already exists"), "{answer}");
        let answer = refusal(author.try_merge("Gate", &name, json!({"spec": {"after": {"kinds": everywhere["after"]["kinds"], "object": null}}})).await)?;
        ensure!(answer.ends_with(&of_kinds), "{answer}");
        // Who may read nothing edits all else of the Gate, and no expression.
        let other = format!("other-{}", scene.ns);
        let role = scene.name("create,update,patch,get,delete-gates-sluice-dev");
        let bound = format!("--clusterrole={role}");
        let as_user = format!("--user={other}");
        scene.kubectl(&["create", "clusterrolebinding", &scene.name("other"), &bound, &as_user], None).await?.ok()?;
        let stranger = scene.acting_as(&other)?;
        eventually("the right to write Gates to be known", DEADLINE, async || {
            stranger.try_merge("Gate", &name, json!({"spec": {"description": "of somebody else"}})).await.map(drop)
        })
        .await?;
        let told = of_object.replace(&user, &other);
        let edit = json!({"spec": {"after": {"object": {"condition": "object.data.secret.startsWith('b')"}}}});
        let answer = refusal(stranger.try_merge("Gate", &name, edit.clone()).await)?;
        ensure!(answer.ends_with(&told), "{answer}");
        // So it is while the Gate is being deleted.
        author.merge("Gate", &name, json!({"metadata": {"finalizers": ["acme.io/stays"]}})).await?;
        author.kubectl(&["delete", "gate", &name, "--wait=false"], None).await?.ok()?;
        let answer = refusal(stranger.try_merge("Gate", &name, edit).await)?;
        ensure!(answer.ends_with(&told), "{answer}");
        author.merge("Gate", &name, json!({"metadata": {"finalizers": null}})).await?;
        scene.see_gone("Gate", &name).await
    })
    .await
}
