//! The commands that look at a cluster, and the page, where Sluice works: what they say is so, and what changes on the
//! cluster comes to the page that is open.

use anyhow::{Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use super::chromium::Browser;
use super::governed::{GATE, Governed};
use super::served::Served;
use crate::live_cluster::DEADLINE;

/// What waits in a queue, and who holds its quota.
const WAITING: &str = "Waiting, in order";
const HOLDING: &str = "Holding quota";

/// The page in a browser. It is loaded once.
struct Page<'a> {
    browser: Browser,
    served: &'a Served,
}

impl<'a> Page<'a> {
    /// None if there is no browser.
    async fn open(served: &'a Served) -> Result<Option<Self>> {
        let Some(browser) = Browser::start("end-to-end").await? else {
            return Ok(None);
        };
        browser.open(&served.address()).await?;
        browser.see(&["Live"]).await?;
        browser.run::<()>("window.isFirst = true").await?;
        Ok(Some(Self { browser, served }))
    }

    /// Goes to a view as its links do: the page is not loaded again.
    async fn go(&self, view: &str) -> Result<()> {
        let goes = format!(
            "history.pushState(null, '', {}); dispatchEvent(new PopStateEvent('popstate'))",
            json!(format!("http://{}{view}", self.served.host))
        );
        self.browser.run(&goes).await
    }

    /// Waits until the page shows all of this and lacks nothing.
    async fn see(&self, wanted: &[&str]) -> Result<()> {
        let text = self.browser.see(wanted).await?;
        ensure!(!text.contains("Not everything is shown"), "{text}");
        Ok(())
    }

    /// Waits until an expression in the page is so.
    async fn see_value<T>(&self, expression: &str, wanted: &T) -> Result<()>
    where
        T: DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        eventually("the page to show it", DEADLINE, async || {
            let found: T = self.browser.run(&format!("return {expression}")).await?;
            if found == *wanted {
                return Ok(());
            }
            let text = self.browser.text().await?;
            anyhow::bail!("{found:?} instead of {wanted:?}:\n{text}")
        })
        .await
    }

    /// Waits until a table lists these, in this order.
    async fn see_rows(&self, table: &str, names: &[&str]) -> Result<()> {
        let rows = format!(
            "[...document.querySelectorAll('table[aria-label={}] tbody tr')].map((row) => row.querySelector('a.name').innerText)",
            json!(table)
        );
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.see_value(&rows, &names).await
    }

    /// Waits until the life of the job that is shown has these turns.
    async fn see_life(&self, turns: &[&str]) -> Result<()> {
        let life = "[...document.querySelectorAll('.life li')].map((turn) => turn.dataset.what)";
        let turns: Vec<String> = turns.iter().map(|turn| (*turn).to_owned()).collect();
        self.see_value(life, &turns).await
    }

    async fn picture(&self, name: &str) -> Result<()> {
        self.browser.picture(&format!("end-to-end-{name}")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sluice_does_is_said_by_the_commands_and_followed_by_the_page() -> Result<()> {
    let cluster = Governed::start().await?;
    tokio::select! {
        told = told(&cluster) => told,
        supervised = cluster.supervise() => supervised,
    }
}

async fn told(cluster: &Governed) -> Result<()> {
    cluster.jobs().await?;
    let served = Served::start(cluster.admin(), &[])?;
    let page = Page::open(&served).await?;
    commands_tell(cluster).await?;
    seen_by_a_viewer(cluster).await?;
    if let Some(page) = &page {
        shows_queues_and_jobs(page, cluster).await?;
    }
    follows_a_gate(page.as_ref(), cluster).await?;
    follows_the_end_of_a_job(page.as_ref(), cluster).await?;
    let Some(page) = page else {
        return Ok(());
    };
    page.see_value("window.isFirst", &true).await?;
    page.browser.end().await
}

async fn commands_tell(cluster: &Governed) -> Result<()> {
    let Governed { blue, red, .. } = cluster;
    cluster
        .see_told(
            "status",
            &[
                "QUEUE GATED PENDING ADMITTED RESOURCE USED QUOTA BORROWED LENT USAGE",
                "family (cohort) 1 2 cpu 8 8 ####################",
                "team-a 1 2 2 cpu 5 4 1 ################++++",
                "team-b 0 0 1 cpu 3 4 1 ###############.....",
            ],
        )
        .await?;
    cluster
        .see_told(
            &format!("list -n {blue}"),
            &[
                "KIND NAME QUEUE STATE PLACE AHEAD SINCE REASON",
                "Job held main Gated <none> <none>",
                "Job waits main Pending 1/2 0",
                "Job low main Pending 2/2 1",
                "Job urgent main Admitted <none> <none>",
                "Job borrows main Admitted <none> <none>",
            ],
        )
        .await?;
    let main = [format!("{blue}/main 2 5"), format!("{red}/main 1 3")];
    let namespaces = [format!("{blue} 2 5"), format!("{red} 1 3")];
    for (by, lines) in [
        ("queue", [&*main[0], &main[1]]),
        ("namespace", [&*namespaces[0], &namespaces[1]]),
        ("cluster-queue", ["team-a 2 5", "team-b 1 3"]),
    ] {
        cluster
            .see_told(&format!("top -A --by {by}"), &lines)
            .await?;
    }
    for (job, lines) in [
        (
            "waits",
            &[
                "Queue: main (ClusterQueue team-a)",
                "State: Pending for",
                "Place: 1 of 2",
                "Ahead: none in the ClusterQueue",
                "Requests: cpu 2",
                "Lacking: cpu 2 in flavor default",
                "QuotaReserved=False (WaitingForQuota)",
            ][..],
        ),
        (
            "low",
            &[
                "Place: 2 of 2",
                "Ahead: 1 in the ClusterQueue: Job/waits",
                "Preempted=True (InClusterQueue)",
                "Requeued=True (Evicted)",
            ],
        ),
        (
            "urgent",
            &["State: Admitted for", "Flavors: main: cpu from default"],
        ),
        (
            "held",
            &[
                "Reason: Gated: Held until these gates are removed: acme.io/budget (Waits for a budget; ask #finops)",
            ],
        ),
    ] {
        cluster
            .see_told(&format!("explain job/{job} -n {blue}"), lines)
            .await?;
    }
    Ok(())
}

/// Who has the role `view` in a namespace sees its queue as Sluice tells it, and nothing of others.
async fn seen_by_a_viewer(cluster: &Governed) -> Result<()> {
    let Governed { blue, red, .. } = cluster;
    let viewer = Served::start(&cluster.viewer().await?, &[])?;
    let path = format!("/api/namespaces/{blue}/localqueues/main");
    // The API server hears of bindings by a watch of its own.
    let queue = eventually("the viewer to see the queue", DEADLINE, async || {
        let queue = viewer.json(&path)?;
        ensure!(queue["total"] == 2, "{queue}");
        anyhow::Ok(queue)
    })
    .await?;
    let names = |list: &str| -> Vec<Value> {
        let jobs = queue[list].as_array().into_iter().flatten();
        jobs.map(|job| job["name"].clone()).collect()
    };
    assert_eq!(names("pending"), ["waits", "low"], "{queue}");
    assert_eq!(names("holding"), ["urgent", "borrows"], "{queue}");
    for job in ["waits", "held", "urgent"] {
        let life = viewer.get(&format!("/api/namespaces/{blue}/jobs/Job/{job}"))?;
        ensure!(life.status == 200, "{job}: {}", life.body);
        ensure!(!life.body.contains(&**red), "{}", life.body);
    }
    let other = viewer.get(&format!("/api/namespaces/{red}/jobs/Job/runs"))?;
    ensure!(other.status != 200, "{}", other.body);
    Ok(())
}

async fn shows_queues_and_jobs(page: &Page<'_>, cluster: &Governed) -> Result<()> {
    let blue = &cluster.blue;
    page.see(&[
        "2 ClusterQueues · 2 pending · 3 admitted · 1 gated",
        "family cohort",
        "8 of 8",
        "5 of 4",
        "1 borrowed",
        "3 of 4",
        "1 lent",
    ])
    .await?;
    page.picture("queues").await?;
    page.browser.click("team-a").await?;
    page.see(&[
        "Waiting, in order (2)",
        "WaitingForQuota",
        "Holding quota (2)",
    ])
    .await?;
    page.see_rows(WAITING, &["waits", "low"]).await?;
    page.see_rows(HOLDING, &["urgent", "borrows"]).await?;
    page.picture("queue").await?;
    page.browser.click("low").await?;
    page.see(&[
        "Place\n2 of 2",
        "Why it waits",
        "Job created",
        "Queued in LocalQueue main",
        "Preempted",
    ])
    .await?;
    page.picture("preempted").await?;
    page.see_life(&[
        "Created", "Queued", "Admitted", "Evicted", "Requeued", "Waiting",
    ])
    .await?;
    page.go(&format!("/jobs/{blue}/Job/borrows")).await?;
    page.see(&[
        "Admitted to ClusterQueue team-a",
        "1 × main: cpu from default",
        "What it got",
    ])
    .await?;
    page.see_life(&["Created", "Queued", "Admitted", "Ready"])
        .await?;
    page.picture("admitted").await?;
    page.go("/jobs").await?;
    page.see(&["Not finished 6", "Gated 1", "Pending 2", "Admitted 3", GATE])
        .await?;
    page.picture("jobs").await
}

/// The gate is lifted while the page shows it, and the job that it held.
async fn follows_a_gate(page: Option<&Page<'_>>, cluster: &Governed) -> Result<()> {
    let blue = &cluster.blue;
    if let Some(page) = page {
        page.go(&format!("/jobs/{blue}/Job/held")).await?;
        page.see(&["Held by gates", GATE]).await?;
        page.see_life(&["Created", "Gated"]).await?;
        page.picture("held").await?;
        page.go("/gates").await?;
        page.see(&[
            GATE,
            "1 held",
            "Waits for a budget",
            "#finops",
            "0 lifted, 0 expired",
        ])
        .await?;
        page.picture("gates").await?;
    }
    cluster.lift("held")?;
    if let Some(page) = page {
        page.see(&["0 held", "1 lifted, 0 expired"]).await?;
        page.go(&format!("/jobs/{blue}/Job/held")).await?;
        page.see(&["Pending", "Place\n3 of 3", "Gate acme.io/budget lifted by"])
            .await?;
        page.see_life(&["Created", "Gated", "Lifted", "Queued", "Waiting"])
            .await?;
        page.picture("lifted").await?;
    }
    let list = format!("list -n {blue}");
    let last = "Job held main Pending 3/3 2";
    cluster.see_told(&list, &[last]).await
}

/// The job of the other team ends, and what that frees is borrowed: the page that shows the queue follows.
async fn follows_the_end_of_a_job(page: Option<&Page<'_>>, cluster: &Governed) -> Result<()> {
    let Governed { blue, red, .. } = cluster;
    if let Some(page) = page {
        page.go("/clusterqueues/team-a").await?;
        page.see_rows(WAITING, &["waits", "low", "held"]).await?;
    }
    cluster.end(red, "runs").await?;
    if let Some(page) = page {
        page.see_rows(WAITING, &["low"]).await?;
        page.see(&[
            "Waiting, in order (1)",
            "Holding quota (4)",
            "8 of 4",
            "4 borrowed",
        ])
        .await?;
        page.picture("freed").await?;
        page.go(&format!("/jobs/{blue}/Job/waits")).await?;
        page.see(&["Admitted to ClusterQueue team-a"]).await?;
        page.see_life(&["Created", "Queued", "Waiting", "Admitted", "Ready"])
            .await?;
        page.go(&format!("/jobs/{red}/Job/runs")).await?;
        page.see_life(&["Created", "Queued", "Admitted", "Ready", "Finished"])
            .await?;
        page.picture("finished").await?;
        page.go("/jobs?state=Finished").await?;
        page.see_rows("Jobs", &["runs"]).await?;
    }
    cluster.see("runs", "Finished").await?;
    for (job, lines) in [
        ("waits", &["State: Admitted for"][..]),
        ("low", &["Place: 1 of 1", "Ahead: none in the ClusterQueue"]),
    ] {
        cluster
            .see_told(&format!("explain job/{job} -n {blue}"), lines)
            .await?;
    }
    let main = format!("{blue}/main 4 8");
    cluster.see_told("top -A", &[&main]).await?;
    cluster
        .see_told(
            "status",
            &[
                "team-a 0 1 4 cpu 8 4 4 ##########++++++++++",
                "team-b 0 0 0 cpu 0 4 4",
            ],
        )
        .await
}
