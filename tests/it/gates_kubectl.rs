//! What kubectl shows of the rules for gates: the same words, whichever command is used.

use anyhow::Result;
use serde_json::{Value, json};

use crate::gates_roads::{AT_GATED, CREATE_ONLY, PREFIXED, invalid, mk_job};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES};

both_ways!(kubectl_shows_the_same_words,);

async fn kubectl_shows_the_same_words(admission: Admission) -> Result<()> {
    play(admission, "roads-kubectl", async |scene| {
        let bad = mk_job("bad", &[(GATED, "mygate")]).manifest();
        for args in [
            &["create", "-f", "-"][..],
            &["create", "-f", "-", "--dry-run=server"],
            &["apply", "-f", "-"],
            &["apply", "-f", "-", "--dry-run=server"],
            &["apply", "-f", "-", "--server-side"],
        ] {
            let told = scene.kubectl(args, Some(&bad)).await?.err()?;
            check_words(
                admission,
                &told,
                &invalid(AT_GATED, "mygate", PREFIXED),
                args,
            );
        }

        let plain = mk_job("plain", &[]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&plain))
            .await?
            .ok()?;
        let late = mk_job("plain", &[(GATED, "a.io/x")]).manifest();
        let stored = mk_stored(&scene.get("Job", "plain").await?, (GATED, "a.io/x"));
        let merge = json!({"metadata": {"annotations": {(GATED): "a.io/x"}}}).to_string();
        let pointer = format!("/metadata/annotations/{}", GATED.replace('/', "~1"));
        let operations = json!([{"op": "add", "path": pointer, "value": "a.io/x"}]).to_string();
        let annotation = format!("{GATED}=a.io/x");
        let patch = ["patch", "job", "plain"];
        for (args, stdin) in [
            (vec!["apply", "-f", "-"], Some(&late)),
            (vec!["apply", "-f", "-", "--dry-run=server"], Some(&late)),
            (
                vec!["apply", "-f", "-", "--server-side", "--force-conflicts"],
                Some(&late),
            ),
            (vec!["replace", "-f", "-"], Some(&stored)),
            (vec!["annotate", "job", "plain", &annotation], None),
            (
                [&patch[..], &["--type=json", "-p", &operations]].concat(),
                None,
            ),
            ([&patch[..], &["--type=merge", "-p", &merge]].concat(), None),
            (
                [&patch[..], &["--type=strategic", "-p", &merge]].concat(),
                None,
            ),
            (
                [
                    &patch[..],
                    &["--type=merge", "-p", &merge, "--dry-run=server"],
                ]
                .concat(),
                None,
            ),
            (
                [
                    &patch[..],
                    &["--type=merge", "-p", &merge, "--subresource=status"],
                ]
                .concat(),
                None,
            ),
        ] {
            let told = scene
                .kubectl(&args, stdin.map(String::as_str))
                .await?
                .err()?;
            check_words(
                admission,
                &told,
                &format!("{AT_GATED}: {CREATE_ONLY}"),
                &args,
            );
        }

        // And the way that is open: apply with the gate, apply without it.
        let gated = mk_job("gated", &[(GATES, "a.io/x")]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&gated))
            .await?
            .ok()?;
        let lifted = mk_job("gated", &[]).manifest();
        scene
            .kubectl(&["apply", "-f", "-"], Some(&lifted))
            .await?
            .ok()?;
        scene.see_workload("gated", "there", |_| true).await?;
        Ok(())
    })
    .await
}

/// A stored job as `kubectl get` gives it, with one more annotation.
fn mk_stored(job: &Value, (key, value): (&str, &str)) -> String {
    let mut job = job.clone();
    job["metadata"]["annotations"][key] = json!(value);
    // Another writer may come between.
    job["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    job.to_string()
}

/// The words of the refusal end what kubectl says, and who refuses is named once.
fn check_words(admission: Admission, told: &str, problem: &str, args: &[&str]) {
    let expected = admission.of_job(problem);
    assert!(
        told.trim_end().ends_with(&expected),
        "kubectl {args:?} said: {told}"
    );
    assert_eq!(
        told.matches("denied").count(),
        1,
        "kubectl {args:?} said: {told}"
    );
}
