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

/// A job that stands so, and has its state as its name.
fn job(state: &str) -> Value {
    json!({"namespace": "blue", "group": "batch", "kind": "Job", "name": state.to_lowercase(), "queue": "main",
        "state": state, "priority": 0, "reason": "", "message": ""})
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
    // Of the whole table: the header is its first row.
    let rows = "[...document.querySelector('table').rows].map((row) => row.ariaRowIndex).join()";
    let rows: String = stage.value(rows).await?;
    ensure!(rows == "1,102", "{rows}");
    stage.browser.search("q-00").await?;
    stage.browser.see(&["\nq-000"]).await?;
    let query: String = stage.value("location.search").await?;
    ensure!(query == "?search=q-00", "{query}");
    stage.end().await
}

/// The first job leaves the list, while the reader is at another.
#[tokio::test(flavor = "multi_thread")]
async fn focus_and_selection_stay_when_the_head_of_a_list_leaves() -> Result<()> {
    let jobs = |states: &[&str]| {
        let jobs: Vec<Value> = states.iter().map(|state| job(state)).collect();
        json!({"jobs": jobs, "problems": []})
    };
    let answers = json!({"/api/jobs": jobs(&["Gated", "Pending", "Admitted"])});
    let Some(stage) = Stage::start("leaves", "/jobs", &answers).await? else {
        return Ok(());
    };
    let chosen = "const link = [...document.querySelectorAll('tbody a')].find((one) => one.innerText === 'admitted'); \
        link.focus(); getSelection().selectAllChildren(link)";
    stage.browser.run::<()>(chosen).await?;
    stage
        .answer("/api/jobs", &jobs(&["Pending", "Admitted"]))
        .await?;
    stage.browser.see(&["2 jobs"]).await?;
    let now = "[document.activeElement.innerText, getSelection().toString()]";
    let now: [String; 2] = stage.value(now).await?;
    ensure!(now == ["admitted", "admitted"], "{now:?}");
    stage.end().await
}

/// What is chosen by the keyboard keeps the focus, and does not become something else under it.
#[tokio::test(flavor = "multi_thread")]
async fn the_focus_stays_on_what_was_chosen() -> Result<()> {
    let answers = json!({"/api/queues": queues(201), "/api/jobs": {"jobs": [job("Pending")], "problems": []}});
    let Some(stage) = Stage::start("focus", "/queues", &answers).await? else {
        return Ok(());
    };
    let next = "const link = [...document.querySelectorAll('a')].find((one) => one.innerText === 'Next'); link.focus(); link.click()";
    stage.browser.run::<()>(next).await?;
    stage.browser.see(&["101–200 of 201 rows"]).await?;
    let focused = "document.activeElement.innerText";
    let text: String = stage.value(focused).await?;
    ensure!(text == "Next", "{text:?} has the focus");
    stage.browser.click("Jobs").await?;
    stage.browser.see(&["Pending 1"]).await?;
    let pending = "const link = [...document.querySelectorAll('.filters a')].at(-1); link.focus(); return link.innerText";
    let text: String = stage.browser.run(pending).await?;
    ensure!(text == "Pending 1", "{text:?}");
    let jobs = json!({"jobs": [job("Pending"), job("Gated")], "problems": []});
    stage.answer("/api/jobs", &jobs).await?;
    stage.browser.see(&["Gated 1"]).await?;
    let text: String = stage.value(focused).await?;
    ensure!(text == "Pending 1", "{text:?} has the focus");
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
    let cohort = json!({"kind": "Cohort", "queue": "family", "flavor": "own", "name": "cpu", "nominal": "7"});
    let own = json!({"name": "own", "spec": {}, "quotas": [cohort]});
    let flavors = json!([flavor("spot"), flavor("fixed"), own]);
    let answers = json!({"/api/flavors": {"flavors": flavors, "problems": []}});
    let Some(stage) = Stage::start("flavors", "/flavors", &answers).await? else {
        return Ok(());
    };
    stage.browser.click("Next").await?;
    stage
        .browser
        .see(&[
            "101–101 of 101 quotas",
            "1–100 of 101 quotas",
            "q-100",
            "family cohort",
        ])
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

/// Who waits is known only as far as the reader may list it.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_seen_in_full_shows_no_places() -> Result<()> {
    let waits = json!({"namespace": "blue", "kind": "Job", "name": "train", "queue": "main", "priority": 0,
        "requests": {}, "reason": "", "message": ""});
    let queue = json!({"localQueues": [], "pending": [waits], "holding": [], "problems": []});
    let answers = json!({"/api/clusterqueues/team-a": queue});
    let Some(stage) = Stage::start("unseen", "/clusterqueues/team-a", &answers).await? else {
        return Ok(());
    };
    stage
        .browser
        .see(&["Those that you may list (1)", "train"])
        .await?;
    ensure!(
        !stage.has("Place").await?,
        "{}",
        stage.browser.text().await?
    );
    stage.end().await
}

/// Two groups have a kind Job, and a job `train` of each waits.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_kinds_of_one_name_stand_beside_each_other() -> Result<()> {
    let waits = |group: &str, place: usize| {
        json!({"namespace": "blue", "group": group, "kind": "Job", "name": "train", "queue": "main", "priority": 0,
            "place": place, "requests": {}, "reason": "", "message": ""})
    };
    let queue = |reason: &str| {
        let pending = json!([waits("batch", 1), waits("batch.volcano.sh", 2)]);
        let note = json!({"what": "", "reason": "Note", "message": reason});
        json!({"localQueues": [], "total": 2, "pending": pending, "holding": [], "problems": [note]})
    };
    let start = |group: &str, range: &str| json!({"namespace": "blue", "group": group, "kind": "Job", "name": "train", "range": range, "because": ""});
    let starts = json!([
        start("batch", "at once"),
        start("batch.volcano.sh", "in an hour")
    ]);
    let path = "/api/clusterqueues/team-a";
    let answers =
        json!({path: queue("first"), format!("{path}/starts"): {"starts": starts, "problems": []}});
    let Some(stage) = Stage::start("two", "/clusterqueues/team-a", &answers).await? else {
        return Ok(());
    };
    stage.browser.click("Estimate when they start").await?;
    stage.browser.see(&["at once", "in an hour"]).await?;
    stage.answer(path, &queue("second")).await?;
    let told = "document.querySelector('details.notes').open = true";
    stage.browser.run::<()>(told).await?;
    stage
        .browser
        .see(&["second", "at once", "in an hour"])
        .await?;
    let links = "[...document.querySelectorAll('tbody a')].map((one) => one.pathname)";
    let links: Vec<String> = stage.value(links).await?;
    ensure!(
        links.contains(&"/jobs/blue/Job.batch/train".to_owned()),
        "{links:?}"
    );
    ensure!(
        links.contains(&"/jobs/blue/Job.batch.volcano.sh/train".to_owned()),
        "{links:?}"
    );
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tree_is_searched_with_what_is_in_it() -> Result<()> {
    let node = |kind: &str, name: &str, depth: usize| json!({"kind": kind, "name": name, "depth": depth, "resources": []});
    let local = json!({"namespace": "blue", "name": "main", "clusterQueue": "team-a", "gated": 0, "pending": 0, "admitted": 0});
    let nodes = json!([
        node("Cohort", "family", 0),
        node("ClusterQueue", "team-a", 1),
        node("ClusterQueue", "alone", 0)
    ]);
    let answers = json!({"/api/queues": {"nodes": nodes, "localQueues": [local], "problems": []}});
    let Some(stage) = Stage::start("tree", "/queues", &answers).await? else {
        return Ok(());
    };
    let rows = "[...document.querySelectorAll('tbody th .name')].map((one) => one.innerText)";
    for (search, shown) in [
        ("family", vec!["family", "team-a"]),
        ("team", vec!["family", "team-a", "main"]),
        ("alone", vec!["alone"]),
    ] {
        stage.browser.search(search).await?;
        let found: Vec<String> = stage.value(rows).await?;
        ensure!(found == shown, "{search}: {found:?}");
    }
    stage.browser.search("nothing").await?;
    stage
        .browser
        .see(&[
            "No ClusterQueue or cohort is like that.",
            "No LocalQueue is like that.",
        ])
        .await?;
    stage.browser.search("").await?;
    let cohort = json!({"nodes": [node("Cohort", "family", 0)], "localQueues": [], "problems": []});
    stage.answer("/api/queues", &cohort).await?;
    stage
        .browser
        .see(&["family cohort", "There is no LocalQueue here."])
        .await?;
    stage.end().await
}

/// The answer about one namespace does not name the others.
#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_can_be_chosen_at_once() -> Result<()> {
    let of = |namespace: &str| {
        let mut job = job("Pending");
        job["namespace"] = json!(namespace);
        job
    };
    let jobs = |jobs: Value| json!({"jobs": jobs, "problems": []});
    let answers = json!({"/api/jobs": jobs(json!([of("blue"), of("red")])),
        "/api/namespaces/blue/jobs": jobs(json!([of("blue")])), "/api/namespaces/red/jobs": jobs(json!([]))});
    let Some(stage) = Stage::start("namespaces", "/jobs", &answers).await? else {
        return Ok(());
    };
    let choose = |namespace: &str| {
        format!(
            "const field = document.querySelector('select'); field.value = '{namespace}'; \
             field.dispatchEvent(new Event('change', {{ bubbles: true }}))"
        )
    };
    stage.browser.see(&["2 jobs"]).await?;
    stage.browser.run::<()>(&choose("blue")).await?;
    stage.browser.see(&["1 job"]).await?;
    stage.browser.run::<()>(&choose("red")).await?;
    stage.browser.see(&["There is no job here."]).await?;
    let options = "[...document.querySelectorAll('option')].map((one) => one.value)";
    let options: Vec<String> = stage.value(options).await?;
    ensure!(options == ["", "blue", "red"], "{options:?}");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_flavor_and_the_first_hour_are_told() -> Result<()> {
    let needed = json!({"name": "cpu", "requested": "4", "free": "1", "lacking": "3", "most": "2", "limitedBy": "Cohort"});
    let tried = json!({"podSet": "main", "name": "spot", "reason": "ExceedsMaxQuota", "resources": [needed]});
    let explained = json!({"job": job("Gated"), "requests": {}, "ahead": [], "told": [], "explanation": {"flavors": [tried]}});
    let path = "/api/namespaces/blue/jobs/Job.batch/gated";
    let life = json!({"explained": explained, "gates": [], "turns": [], "problems": []});
    let Some(stage) =
        Stage::start("limit", "/jobs/blue/Job.batch/gated", &json!({path: life})).await?
    else {
        return Ok(());
    };
    stage.browser.see(&["Limit", "Cohort"]).await?;
    let midnight = format!(
        "answers[{}].turns = [{{ at: new Date(2026, 2, 1, 0, 5).toISOString(), what: 'Created', title: 'Job created' }}]",
        json!(path)
    );
    stage.browser.run::<()>(&midnight).await?;
    stage.browser.see(&["00:05:00", "Job created"]).await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_sluice_is_told() -> Result<()> {
    let unserved = json!({"problem": {"what": "clusterqueues", "reason": "Unserved", "message": "can't list clusterqueues"}});
    let answers = json!({"/api/jobs": {"jobs": [], "problems": []}, "/api/queues": unserved});
    let Some(stage) = Stage::start("unserved", "/jobs", &answers).await? else {
        return Ok(());
    };
    stage.browser.click("Queues").await?;
    stage
        .browser
        .see(&[
            "Sluice is not installed, or not all of it",
            "can't list clusterqueues",
        ])
        .await?;
    stage.end().await
}
