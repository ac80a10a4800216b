//! The page in Chromium: each view, each state, at each width and in both colors, and with 5,000 jobs. What is asserted is
//! what a reader sees or a screen reader hears, and no pixels.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, PostParams};
use serde_json::json;
use sluice_crds::Workload;

use super::chromium::{Browser, axe};
use super::cluster::Cluster;
use super::served::Served;

const JOBS: usize = 5000;

/// What no page may have: a heading that is not alone, fields and links without a name, tables without headers, things that
/// stand out at the side, texts that are hard to read, and the token in the address.
const FLAWS: &str = r"
const flaws = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const visible = (element) => element.checkVisibility();
if (all('h1').length !== 1) flaws.push(`${all('h1').length} h1`);
if (all('main').length !== 1 || all('header').length !== 1) flaws.push('landmarks');
for (const one of all('a, button, input, select')) {
  const name = one.getAttribute('aria-label') || one.innerText.trim() || one.closest('label')?.innerText.trim();
  if (visible(one) && !name) flaws.push(`no name: ${one.outerHTML}`);
}
for (const cell of all('th')) if (!cell.getAttribute('scope')) flaws.push(`no scope: ${cell.outerHTML}`);
for (const table of all('table')) if (!table.getAttribute('aria-label')) flaws.push('a table without a name');
const ids = all('[id]').map((one) => one.id);
if (new Set(ids).size !== ids.length) flaws.push('an id twice');
if (document.documentElement.scrollWidth > window.innerWidth) flaws.push(`${document.documentElement.scrollWidth} px wide`);
if (location.href.includes('token')) flaws.push(location.href);
const rgb = (color) => { const canvas = new OffscreenCanvas(1, 1).getContext('2d'); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.push(rgb(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((below, [r, g, b, a]) => [r, g, b].map((c, i) => (c * a + below[i] * (255 - a)) / 255), [255, 255, 255]);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let text = walker.nextNode(); text; text = walker.nextNode()) {
  const element = text.parentElement;
  if (!text.data.trim() || !visible(element) || element.closest('.visually-hidden, noscript, .skip')) continue;
  const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  if (contrast < 4.5) flaws.push(`contrast ${contrast.toFixed(2)}: ${text.data}`);
}
return flaws;
";

/// Each view has no flaws, wide and narrow, light and dark.
pub(super) async fn flawless(browser: &Browser, name: &str) -> Result<()> {
    let axe = axe()?;
    for (width, colors) in [
        (1280, "light"),
        (1280, "dark"),
        (360, "light"),
        (360, "dark"),
    ] {
        browser.look(width, colors).await?;
        browser.picture(&format!("{name}-{width}-{colors}")).await?;
        let flaws: Vec<String> = browser.run(FLAWS).await?;
        ensure!(
            flaws.is_empty(),
            "{name} at {width} px, {colors}: {flaws:#?}"
        );
        if let Some(axe) = &axe {
            let violations = browser.violations(axe).await?;
            ensure!(
                violations.is_empty(),
                "{name} at {width} px, {colors}: {violations:#?}"
            );
        }
    }
    browser.look(1280, "light").await
}

/// A browser, and the page as the administrator of a cluster sees it.
struct Scene {
    browser: Browser,
    served: Served,
    cluster: Cluster,
}

impl Scene {
    /// None if there is no browser.
    async fn start(test: &str) -> Result<Option<Self>> {
        let Some(browser) = Browser::start(test).await? else {
            return Ok(None);
        };
        let cluster = Cluster::start().await?;
        // No job has finished there.
        let served = Served::start(cluster.cp.kubeconfig(), &["--duration", "1m"])?;
        browser.open(&served.address()).await?;
        Ok(Some(Self {
            browser,
            served,
            cluster,
        }))
    }

    /// Opens a view as somebody does who was sent its address.
    async fn open(&self, view: &str) -> Result<()> {
        self.browser
            .open(&format!("http://{}{view}", self.served.host))
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_with_who_waits_in_them() -> Result<()> {
    let Some(Scene {
        browser,
        served: _served,
        cluster: _cluster,
    }) = Scene::start("queues").await?
    else {
        return Ok(());
    };
    browser
        .see(&[
            "Live",
            "family cohort",
            "team-a",
            "5 of 4",
            "1 borrowed",
            "hidden-queue",
        ])
        .await?;
    flawless(&browser, "queues").await?;
    browser.click("team-a").await?;
    browser
        .see(&[
            "Those that you may list (3)",
            "urgent",
            "3 more cpu is needed",
            "Holding quota (1)",
            "runs",
        ])
        .await?;
    flawless(&browser, "queue").await?;
    browser.click("Estimate when they start").await?;
    browser
        .see(&[
            "Estimated at",
            "at once",
            "8 of 10 jobs start within such a range",
        ])
        .await?;
    flawless(&browser, "queue-estimated").await?;
    browser.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_searched_and_their_lives_told() -> Result<()> {
    let Some(scene) = Scene::start("jobs").await? else {
        return Ok(());
    };
    let (browser, own) = (&scene.browser, &scene.cluster.own);
    browser.see(&["Live"]).await?;
    browser.click("Jobs").await?;
    browser
        .see(&[
            "urgent",
            "hidden-job",
            "Held by gates: acme.io/budget",
            "Not finished 6",
        ])
        .await?;
    flawless(browser, "jobs").await?;
    browser.search("URGENT").await?;
    let text = browser.see(&["1 job", "urgent"]).await?;
    ensure!(!text.contains("hidden-job"), "{text}");
    browser.reload().await?;
    let text = browser.see(&["1 job", "urgent"]).await?;
    ensure!(!text.contains("hidden-job"), "{text}");
    browser.search("no such job").await?;
    browser.see(&["No job is like that."]).await?;
    scene.open(&format!("/jobs/{own}/Job/waits")).await?;
    browser
        .see(&[
            "waits",
            "Pending",
            "2 of 2",
            "3 more cpu is needed",
            "Job/urgent",
            "Queued in LocalQueue main",
            "at once",
            "Estimate again",
        ])
        .await?;
    flawless(browser, "job").await?;
    scene.open(&format!("/jobs/{own}/Job/runs")).await?;
    browser
        .see(&[
            "Job created",
            "Gate acme.io/budget lifted by jane",
            "Admitted to ClusterQueue team-a",
        ])
        .await?;
    scene.open(&format!("/jobs/{own}/Job/nothing")).await?;
    browser.see(&["There is no such job"]).await?;
    scene.browser.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_and_flavors_are_shown_and_texts_stay_texts() -> Result<()> {
    let Some(scene) = Scene::start("gates").await? else {
        return Ok(());
    };
    let browser = &scene.browser;
    browser.see(&["Live"]).await?;
    browser.click("Gates").await?;
    browser
        .see(&[
            "acme.io/budget",
            "<img src=x> & <b>no markup</b>",
            "#finops",
            "60m after creation, then Notify",
            "acme.io/hidden",
        ])
        .await?;
    browser.click("Held the longest").await?;
    browser
        .see(&[&format!("Job in {}", scene.cluster.own)])
        .await?;
    flawless(browser, "gates").await?;
    browser.click("Flavors").await?;
    browser.see(&["default", "team-a", "memory", "8Gi"]).await?;
    flawless(browser, "flavors").await?;
    scene.browser.end().await
}

/// A link in another tab is open, as the first tab is; the colors can be chosen; and the keyboard leads to the content.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_in_another_tab_and_nothing_is_stored() -> Result<()> {
    let Some(Scene {
        browser,
        served,
        cluster,
    }) = Scene::start("tabs").await?
    else {
        return Ok(());
    };
    browser.see(&["Live"]).await?;
    browser.click("Jobs").await?;
    browser.see(&["urgent"]).await?;
    browser
        .open_tab(&format!(
            "http://{}/jobs?namespace={}",
            served.host, cluster.own
        ))
        .await?;
    let text = browser.see(&["urgent", "Live"]).await?;
    ensure!(!text.contains("hidden-job"), "{text}");
    let stored: usize = browser
        .run("return localStorage.length + document.cookie.length")
        .await?;
    ensure!(stored == 0, "{stored} things are stored");
    for colors in ["dark", "light"] {
        let before: String = browser
            .run("return document.getElementById('theme').innerText")
            .await?;
        browser.click(&before).await?;
        let chosen: String = browser
            .run("return document.documentElement.dataset.theme")
            .await?;
        ensure!(chosen == colors, "{chosen}");
    }
    browser.click("Light").await?;
    let focus: String = browser
        .run("document.querySelector('[data-view=queues]').click(); return document.activeElement.id")
        .await?;
    ensure!(focus == "main", "{focus:?} has the focus");
    browser.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_which_rights_are_lacking() -> Result<()> {
    let Some(Scene {
        browser,
        served: _served,
        cluster,
    }) = Scene::start("forbidden").await?
    else {
        return Ok(());
    };
    let tenant = Served::start(&cluster.tenant, &["-n", &cluster.own])?;
    browser.open(&tenant.address()).await?;
    let text = browser
        .see(&["1 LocalQueue", "main", "Not everything is shown"])
        .await?;
    ensure!(!text.contains("hidden"), "{text}");
    let lacking =
        "cannot list resource \"clusterqueues\" in API group \"sluice.dev\" at the cluster scope";
    let summary: String = browser.run("const one = document.querySelector('.notes summary'); one.click(); return one.innerText").await?;
    browser.see(&[lacking]).await?;
    ensure!(summary.starts_with("Not everything is shown"), "{summary}");
    flawless(&browser, "forbidden").await?;
    browser.click("Flavors").await?;
    browser
        .see(&[
            "There is no ResourceFlavor that you may see.",
            "Not everything is shown",
        ])
        .await?;
    // A page without a token says what to do.
    browser.run::<()>("sessionStorage.clear()").await?;
    let other = Served::start(&cluster.tenant, &[])?;
    let jobs = format!("http://{}/jobs?namespace={}", other.host, cluster.own);
    browser.open(&jobs).await?;
    browser.see(&["This page is not open yet"]).await?;
    // Its address, put into the tab that is there. This namespace is not the one of the context.
    let token = format!("location.hash = '#token={}'", other.token);
    browser.run::<()>(&token).await?;
    browser.see(&["urgent", "Live"]).await?;
    let address: String = browser.run("return location.href").await?;
    ensure!(address == jobs, "{address}");
    let odd = "history.pushState(null, '', '/clusterqueues/%E0%A4'); dispatchEvent(new PopStateEvent('popstate'))";
    browser.run::<()>(odd).await?;
    browser.see(&["There is no such view"]).await?;
    browser.end().await
}

/// First the API server ends, then the plugin.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_longer_answers_is_told_and_what_was_known_stays() -> Result<()> {
    let Some(Scene {
        browser,
        served,
        cluster,
    }) = Scene::start("gone").await?
    else {
        return Ok(());
    };
    browser.see(&["team-a", "Live"]).await?;
    drop(cluster);
    browser
        .see(&[
            "The cluster does not answer",
            "Shown is what was so at",
            "team-a",
        ])
        .await?;
    flawless(&browser, "gone").await?;
    ensure!(served.end()?.success());
    browser
        .see(&["kubectl sluice web has ended", "team-a"])
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_are_no_burden() -> Result<()> {
    let Some(Scene {
        browser,
        served,
        cluster,
    }) = Scene::start("thousands").await?
    else {
        return Ok(());
    };
    let workloads: Api<Workload> = Api::namespaced(cluster.cp.client()?, &cluster.own);
    futures::stream::iter(0..JOBS)
        .map(|number| {
            let workload = json!({
                "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
                "metadata": {"name": format!("many-{number:04}"), "namespace": cluster.own},
                "spec": {"queueName": "main", "priority": 0, "podSets": [
                    {"name": "main", "count": 1, "requests": {"cpu": "1"}}]},
            });
            let workloads = workloads.clone();
            async move {
                let workload: Workload = serde_json::from_value(workload)?;
                workloads.create(&PostParams::default(), &workload).await?;
                Ok::<_, anyhow::Error>(())
            }
        })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    browser.open(&served.address()).await?;
    browser.see(&["Live"]).await?;
    browser.click("Jobs").await?;
    browser.see(&["1–100 of 5,00"]).await?;
    let rows: usize = browser
        .run("return document.querySelectorAll('tbody tr').length")
        .await?;
    ensure!(rows == 100, "{rows} rows");
    browser.picture("thousands").await?;
    browser.search("many-4321").await?;
    browser.see(&["many-4321", "1 job"]).await?;
    browser.search("").await?;
    browser.see(&["1–100 of 5,00"]).await?;
    browser.click("Next").await?;
    browser.see(&["101–200 of 5,00"]).await?;
    browser.end().await
}
