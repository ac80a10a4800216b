//! What kubectl shows of the rules for gates: the same words, whichever command is used.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{KubectlOutput, eventually};

use crate::gates::roads::{AT_GATED, CREATE_ONLY, PREFIXED, invalid, mk_job};
use crate::support::DEADLINE;
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES};

both_ways!(kubectl_shows_the_same_words,);

/// What kubectl says; asked again while the API server, or a webhook that it asked, could not answer, and
/// where another writer came between.
pub async fn kubectl_answered(
    mut attempt: impl AsyncFnMut() -> Result<KubectlOutput>,
) -> Result<KubectlOutput> {
    eventually("kubectl to be answered", DEADLINE, async || {
        let output = attempt().await?;
        let is_answered = output.code == 0 || !could_not_answer(&output.stderr);
        ensure!(is_answered, "{}", output.stderr);
        Ok(output)
    })
    .await
}

/// Whether the same command may succeed a moment later, though nothing else has changed.
fn could_not_answer(told: &str) -> bool {
    let reasons = [
        "(Conflict)",
        "(InternalError)",
        "(ServerTimeout)",
        "(ServiceUnavailable)",
        "(Timeout)",
        "(TooManyRequests)",
        "Unable to connect to the server",
    ];
    reasons.iter().any(|reason| told.contains(reason))
}

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
            let output = kubectl_answered(async || scene.kubectl(args, Some(&bad)).await).await?;
            let told = output.err()?;
            check_words(
                admission,
                &told,
                &invalid(AT_GATED, "mygate", PREFIXED),
                args,
            );
        }

        let plain = mk_job("plain", &[]).manifest();
        let apply = async |job: &str| {
            kubectl_answered(async || scene.kubectl(&["apply", "-f", "-"], Some(job)).await)
                .await?
                .ok()
        };
        apply(&plain).await?;
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
            let stdin = stdin.map(String::as_str);
            let output = kubectl_answered(async || scene.kubectl(&args, stdin).await).await?;
            let told = output.err()?;
            check_words(
                admission,
                &told,
                &format!("{AT_GATED}: {CREATE_ONLY}"),
                &args,
            );
        }

        // And the way that is open: apply with the gate, apply without it.
        let gated = mk_job("gated", &[(GATES, "a.io/x")]).manifest();
        apply(&gated).await?;
        let lifted = mk_job("gated", &[]).manifest();
        apply(&lifted).await?;
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
