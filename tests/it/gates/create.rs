//! Gates at the creation of a job: a bad one is refused by whatever road, a good one holds from the first
//! moment.

use anyhow::{Result, ensure};
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

use crate::gates::roads::{
    AT_GATED, AT_GATES, Gates, NAMES_NO_GATE, PREFIXED, apply, gates_of, invalid, mk_job,
};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, GATES, Job, is_suspended};
use crate::support::persist::{answered, persist};
use crate::support::{Scene, into_value, refusal};

both_ways!(
    a_bad_gate_is_refused_at_creation,
    a_good_gate_holds_from_the_first_moment,
);

const ONE_GATE_ONLY: &str =
    "must be exactly one gate; kueue.x-k8s.io/admission-gated-by takes a comma-separated list";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Posts a job.
async fn post(scene: &Scene<'_>, job: &Job, dry_run: bool) -> kube::Result<Value> {
    let object: DynamicObject = serde_json::from_value(job.json()).unwrap();
    let params = PostParams {
        dry_run,
        field_manager: None,
    };
    scene
        .api("Job")
        .create(&params, &object)
        .await
        .map(into_value)
}

fn count(count: usize) -> String {
    (0..count)
        .map(|i| format!("a.io/{i}"))
        .collect::<Vec<_>>()
        .join(",")
}

async fn a_bad_gate_is_refused_at_creation(admission: Admission) -> Result<()> {
    let too_long_name = format!("acme.io/{}", "x".repeat(56));
    let seventeen = count(17);
    let thousands = count(4000);
    let one =
        |value: &'static str, rule: &str| (vec![(GATED, value)], invalid(AT_GATED, value, rule));
    let part = |value: &'static str, part: &str, rule: &str| {
        (vec![(GATED, value)], invalid(AT_GATED, part, rule))
    };
    let hole = || invalid(AT_GATES, "", NAMES_NO_GATE);
    let duplicate = || format!("{AT_GATES}: Duplicate value: \"a.io/x\"");
    let rows = [
        one("", NAMES_NO_GATE),
        one(" \t", NAMES_NO_GATE),
        one("mygate", PREFIXED),
        one("/foo", PREFIXED),
        one("acme.io/", PREFIXED),
        one("//", PREFIXED),
        part("Acme.io/x", "Acme.io", SUBDOMAIN),
        part("ac_me.io/x", "ac_me.io", SUBDOMAIN),
        part("acme..io/x", "acme..io", SUBDOMAIN),
        part("bücher.de/x", "bücher.de", SUBDOMAIN),
        part(" acme.io/x", " acme.io", SUBDOMAIN),
        part("acme.io/a b", "a b", PATH),
        part("acme.io/x\n", "x\n", PATH),
        part("acme.io/\0", "\0", PATH),
        part("acme.io/ü", "ü", PATH),
        one("a.io/x,b.io/y", ONE_GATE_ONLY),
        (
            vec![(GATED, too_long_name.as_str())],
            format!("{AT_GATED}: Too long: may not be more than 63 bytes"),
        ),
        (vec![(GATES, "")], invalid(AT_GATES, "", NAMES_NO_GATE)),
        (
            vec![(GATES, "mygate")],
            invalid(AT_GATES, "mygate", PREFIXED),
        ),
        (
            vec![(GATES, "a.io/x,mygate")],
            invalid(AT_GATES, "mygate", PREFIXED),
        ),
        (vec![(GATES, ",")], format!("{}; {}", hole(), hole())),
        (vec![(GATES, "a.io/x,")], hole()),
        (vec![(GATES, "a.io/x,,b.io/y")], hole()),
        (vec![(GATES, "a.io/x,a.io/x")], duplicate()),
        (vec![(GATES, " a.io/x ,a.io/x")], duplicate()),
        (
            vec![(GATES, seventeen.as_str())],
            format!("{AT_GATES}: Too many: 17: must have at most 16 items"),
        ),
        (
            vec![(GATES, thousands.as_str())],
            format!("{AT_GATES}: Too long: may not be more than 1024 bytes"),
        ),
        (
            vec![(GATED, "one"), (GATES, "two")],
            format!(
                "{}; {}",
                invalid(AT_GATED, "one", PREFIXED),
                invalid(AT_GATES, "two", PREFIXED)
            ),
        ),
    ];
    play(admission, "roads-create", async |scene| {
        for (gates, problem) in &rows {
            let job = mk_job("refused", gates);
            for dry_run in [false, true] {
                let expected = admission.of_job(problem);
                let told = refusal(answered(async || post(scene, &job, dry_run).await).await?)?;
                assert_eq!(told, expected, "POST {gates:?}");
                let told = refusal(answered(async || apply(scene, &job, dry_run).await).await?)?;
                assert_eq!(told, expected, "apply {gates:?}");
            }
        }
        let jobs = scene.list("Job").await?;
        ensure!(jobs.is_empty(), "a refused job was stored: {jobs:?}");
        Ok(())
    })
    .await
}

async fn a_good_gate_holds_from_the_first_moment(admission: Admission) -> Result<()> {
    let longest_name = format!("acme.io/{}", "x".repeat(55));
    let sixteen = count(16);
    let rows: [Gates<'_>; 7] = [
        &[(GATED, "acme.io/foo")],
        &[(GATED, "acme.io/a%2fb:~1")],
        &[(GATED, &longest_name)],
        &[(GATES, "b.io/x,a.io/y")],
        &[(GATES, " b.io/x ,\ta.io/y\n")],
        &[(GATES, &sixteen)],
        &[(GATED, "c.io/z"), (GATES, "a.io/y")],
    ];
    play(admission, "roads-held", async |scene| {
        for (index, gates) in rows.iter().enumerate() {
            let (posted, applied) = (format!("posted-{index}"), format!("applied-{index}"));
            for dry_run in [true, false] {
                for job in [
                    persist(async || post(scene, &mk_job(&posted, gates), dry_run).await).await?,
                    persist(async || apply(scene, &mk_job(&applied, gates), dry_run).await).await?,
                ] {
                    ensure!(is_suspended(&job), "it is not held: {job}");
                    assert_eq!(gates_of(&job), gates.iter().copied().collect(), "{job}");
                }
                let stored = scene.list("Job").await?.len();
                assert_eq!(
                    stored,
                    2 * (index + usize::from(!dry_run)),
                    "dry run: {dry_run}"
                );
            }
        }
        // By the time that a later job has its Workload, the others would have had theirs.
        scene.create(&mk_job("ungated", &[]).json()).await?;
        scene.see_workload("ungated", "there", |_| true).await?;
        let workloads = scene.list("Workload").await?;
        ensure!(
            workloads.len() == 1,
            "a gated job has a Workload: {workloads:?}"
        );
        Ok(())
    })
    .await
}
