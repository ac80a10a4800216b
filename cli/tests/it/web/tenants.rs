//! The page has the rights of its user and no others: an administrator sees all, a tenant nothing of others, by
//! whichever address.

use anyhow::{Result, ensure};
use sluice_testbed::eventually;

use super::cluster::Cluster;
use super::served::Served;

const DEADLINE: std::time::Duration = std::time::Duration::from_mins(3);

#[tokio::test]
async fn a_tenant_sees_nothing_of_others_by_any_address() -> Result<()> {
    let cluster = Cluster::start().await?;
    let (own, other) = (&cluster.own, &cluster.other);
    let admin = Served::start(cluster.cp.kubeconfig(), &[])?;
    let tenant = Served::start(&cluster.tenant, &["-n", own])?;
    // The API server hears of roles by a watch of its own.
    eventually("the tenant to see his jobs", DEADLINE, async || {
        let jobs = tenant.json("/api/jobs")?;
        ensure!(jobs.to_string().contains("\"urgent\""), "{jobs}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    // Each with what the administrator sees by it of the other tenant.
    let paths = [
        ("/api/queues".to_owned(), "hidden-queue"),
        ("/api/jobs".to_owned(), "hidden-job"),
        ("/api/clusterqueues/team-a".to_owned(), "hidden-job"),
        ("/api/clusterqueues/team-a/starts".to_owned(), "hidden-job"),
        ("/api/gates".to_owned(), "acme.io/hidden"),
        ("/api/flavors".to_owned(), "team-a"),
        (format!("/api/namespaces/{other}/jobs"), "hidden-job"),
        (
            format!("/api/namespaces/{other}/localqueues/hidden-queue"),
            "hidden-job",
        ),
        (
            format!("/api/namespaces/{other}/localqueues/hidden-queue/starts"),
            "hidden-job",
        ),
        (
            format!("/api/namespaces/{other}/jobs/Job/hidden-job"),
            "Queued in LocalQueue hidden-queue",
        ),
        (
            format!("/api/namespaces/{other}/jobs/Job/hidden-job/start"),
            "hidden-job",
        ),
    ];
    for (path, seen) in &paths {
        let all = admin.json(path)?.to_string();
        ensure!(
            all.contains(seen),
            "{path} hides {seen} from the administrator: {all}"
        );
        let answer = tenant.get(path)?;
        // What is in the address he knows himself.
        let told = answer.body.replace("/hidden-queue", "");
        let names = [
            "hidden-queue",
            "hidden-job",
            "hidden-gated",
            "acme.io/hidden",
        ];
        let named = names
            .iter()
            .find(|name| told.contains(**name) && !path.contains(**name));
        ensure!(named.is_none(), "{path} shows {named:?}: {told}");
    }
    not_even_whether_it_is_there(&tenant, other)?;
    what_is_lacking_is_told(&tenant, own)
}

/// What is there is answered as what is not there.
fn not_even_whether_it_is_there(tenant: &Served, other: &str) -> Result<()> {
    for (path, known, unknown) in [
        (
            format!("/api/namespaces/{other}/jobs/Job/NAME"),
            "hidden-job",
            "no-job",
        ),
        (
            format!("/api/namespaces/{other}/localqueues/NAME"),
            "hidden-queue",
            "no-queue",
        ),
        (
            "/api/clusterqueues/NAME".to_owned(),
            "hidden-cluster",
            "no-queue",
        ),
        (
            format!("/api/namespaces/{other}/jobs/Job/NAME/start"),
            "hidden-job",
            "no-job",
        ),
        (
            format!("/api/namespaces/{other}/localqueues/NAME/starts"),
            "hidden-queue",
            "no-queue",
        ),
        (
            "/api/clusterqueues/NAME/starts".to_owned(),
            "hidden-cluster",
            "no-queue",
        ),
    ] {
        let answer = |name: &str| -> Result<(u16, String)> {
            let answer = tenant.get(&path.replace("NAME", name))?;
            Ok((answer.status, answer.body.replace(name, "NAME")))
        };
        assert_eq!(answer(known)?, answer(unknown)?, "{path}");
    }
    Ok(())
}

/// What is his is shown, with the rights that are lacking for more.
fn what_is_lacking_is_told(tenant: &Served, own: &str) -> Result<()> {
    let queues = tenant.json("/api/queues")?;
    assert_eq!(queues["nodes"], serde_json::json!([]));
    assert_eq!(queues["localQueues"][0]["name"], "main");
    let told = queues["problems"].to_string();
    for lacking in [
        "cannot list resource \\\"clusterqueues\\\" in API group \\\"sluice.dev\\\" at the cluster scope",
        "cannot list resource \\\"localqueues\\\" in API group \\\"sluice.dev\\\" at the cluster scope",
    ] {
        ensure!(told.contains(lacking), "{lacking}: {told}");
    }
    let queue = tenant.json(&format!("/api/namespaces/{own}/localqueues/main"))?;
    let names: Vec<&str> = queue["pending"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["urgent", "waits"]);
    assert_eq!(queue["pending"][1]["requests"]["cpu"], "1");
    assert_eq!(queue["holding"][0]["name"], "runs");
    let jobs = tenant.get("/api/jobs")?;
    let mark = jobs
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "));
    let mark = mark.map(str::to_owned).unwrap_or_default();
    let token = format!("Bearer {}", tenant.token);
    let headers = [
        ("Host", tenant.host.as_str()),
        ("Authorization", &token),
        ("If-None-Match", &mark),
    ];
    let again = tenant.ask("GET", "/api/jobs", &headers)?;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    Ok(())
}
