//! Long lists and lists that change: pages, focus and selection.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::stage::Stage;

/// Queues `q-000`, `q-001` and so on: ClusterQueues, and a LocalQueue of each.
fn queues(count: usize) -> Value {
    let names = (0..count).map(|number| format!("q-{number:03}"));
    let nodes = names.clone().map(|name| {
        json!({"kind": "ClusterQueue", "name": name, "depth": 0, "pending": 0, "admitted": 0, "resources": []})
    });
    let local = names.map(|name| {
        json!({"namespace": "blue", "name": format!("local-{name}"), "clusterQueue": "all", "gated": 0, "pending": 0,
            "admitted": 0})
    });
    json!({"nodes": nodes.collect::<Vec<_>>(), "localQueues": local.collect::<Vec<_>>(), "problems": []})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_list_of_a_view_has_pages_of_its_own() -> Result<()> {
    let answers = json!({"/api/queues": queues(101)});
    let Some(stage) = Stage::start("pages", "/queues", &answers).await? else {
        return Ok(());
    };
    stage
        .browser
        .see(&["1–100 of 101 rows", "1–100 of 101 LocalQueues"])
        .await?;
    ensure!(!stage.has("\nq-100").await?, "more than a page is shown");
    // The first is that of the tree.
    stage.browser.click("Next").await?;
    stage
        .browser
        .see(&["101–101 of 101 rows", "\nq-100", "1–100 of 101 LocalQueues"])
        .await?;
    ensure!(!stage.has("\nq-000").await?, "two pages are shown");
    stage.browser.search("q-00").await?;
    stage.browser.see(&["\nq-000"]).await?;
    let query: String = stage.value("location.search").await?;
    ensure!(query == "?search=q-00", "{query}");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_flavor_has_pages_of_its_own() -> Result<()> {
    let quota = |number: usize| {
        json!({"kind": "ClusterQueue", "queue": format!("q-{number:03}"), "flavor": "spot", "name": "cpu", "nominal": "1",
            "used": "0", "borrowed": "0"})
    };
    let flavor = |name: &str| {
        let quotas: Vec<Value> = (0..101).map(quota).collect();
        json!({"name": name, "spec": {}, "quotas": quotas})
    };
    let flavors = json!([flavor("spot"), flavor("fixed")]);
    let answers = json!({"/api/flavors": {"flavors": flavors, "problems": []}});
    let Some(stage) = Stage::start("flavors", "/flavors", &answers).await? else {
        return Ok(());
    };
    stage.browser.click("Next").await?;
    stage
        .browser
        .see(&["101–101 of 101 quotas", "1–100 of 101 quotas", "q-100"])
        .await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flavors_that_were_tried_have_pages() -> Result<()> {
    let tried = |number: usize| json!({"podSet": "main", "name": format!("f-{number:03}"), "reason": "NoMatchingNodes", "message": ""});
    let tried: Vec<Value> = (0..101).map(tried).collect();
    let job = json!({"namespace": "blue", "group": "batch", "kind": "Job", "name": "train", "queue": "main",
        "state": "Gated", "priority": 0, "reason": "", "message": ""});
    let explained = json!({"job": job, "requests": {}, "ahead": [], "told": [], "explanation": {"flavors": tried}});
    let life = json!({"explained": explained, "gates": [], "turns": [], "problems": []});
    let answers = json!({"/api/namespaces/blue/jobs/Job/train": life});
    let Some(stage) = Stage::start("tried", "/jobs/blue/Job/train", &answers).await? else {
        return Ok(());
    };
    stage.browser.see(&["f-099"]).await?;
    stage.browser.click("Next").await?;
    stage.browser.see(&["f-100"]).await?;
    stage.end().await
}
