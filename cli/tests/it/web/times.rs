//! How old what is shown is, and what is asked when.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use super::stage::Stage;

const DEADLINE: std::time::Duration = std::time::Duration::from_mins(1);
const FRESHNESS: &str = "document.getElementById('freshness').innerText";

fn no_jobs() -> Value {
    json!({"jobs": [], "problems": []})
}

fn forbidden() -> Value {
    json!({"problem": {"what": "jobs", "reason": "Forbidden", "message": "not for you"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_is_not_called_live() -> Result<()> {
    let answers = json!({"/api/jobs": no_jobs(), "/api/gates": forbidden()});
    let Some(stage) = Stage::start("old", "/jobs", &answers).await? else {
        return Ok(());
    };
    // The tab was hidden for hours.
    let hidden = format!(
        "Object.defineProperty(document, 'hidden', {{ value: true, configurable: true }}); const now = Date.now; \
         Date.now = () => now() + 8 * 3600 * 1000; document.dispatchEvent(new Event('visibilitychange')); \
         const told = {FRESHNESS}; Date.now = now; delete document.hidden; \
         document.dispatchEvent(new Event('visibilitychange')); return told"
    );
    let told: String = stage.browser.run(&hidden).await?;
    ensure!(told.starts_with("As of "), "{told}");
    stage.browser.see(&["Live"]).await?;
    // An answer takes long.
    stage
        .browser
        .run::<()>("delete answers['/api/jobs']")
        .await?;
    stage.browser.see(&["As of "]).await?;
    // What another view was as of is nothing to this one.
    stage.browser.click("Gates").await?;
    stage.browser.see(&["You may not see this"]).await?;
    let told: String = stage.value(FRESHNESS).await?;
    ensure!(told == "No answer", "{told}");
    stage.end().await
}

/// A failure that took half a minute, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_asked_again_soon() -> Result<()> {
    let answers = json!({"/api/jobs": no_jobs()});
    let Some(stage) = Stage::start("fails", "/jobs", &answers).await? else {
        return Ok(());
    };
    stage.answer("/api/jobs", &forbidden()).await?;
    let slow = "let time = 0; performance.now = () => (time += 30000); asked['/api/jobs'] = 0";
    stage.browser.run::<()>(slow).await?;
    eventually("more questions", DEADLINE, async || {
        let asked: usize = stage.value("asked['/api/jobs']").await?;
        ensure!(asked >= 4, "asked {asked} times");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    stage.end().await
}

/// A page may stay open for days.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_leaves_no_listener_behind() -> Result<()> {
    let answers = json!({"/api/jobs": no_jobs()});
    let Some(stage) = Stage::start("listeners", "/jobs", &answers).await? else {
        return Ok(());
    };
    let counting = "const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype; \
        window.listeners = 0; const counts = (one, kind) => one instanceof AbortSignal && kind === 'abort'; \
        EventTarget.prototype.addEventListener = function (kind, ...rest) { \
          if (counts(this, kind)) listeners += 1; return add.call(this, kind, ...rest); }; \
        EventTarget.prototype.removeEventListener = function (kind, ...rest) { \
          if (counts(this, kind)) listeners -= 1; return remove.call(this, kind, ...rest); }; \
        asked['/api/jobs'] = 0";
    stage.browser.run::<()>(counting).await?;
    eventually("more questions", DEADLINE, async || {
        let asked: usize = stage.value("asked['/api/jobs']").await?;
        ensure!(asked >= 4, "asked {asked} times");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let listeners: i32 = stage.value("listeners").await?;
    ensure!(listeners <= 1, "{listeners} listeners are left");
    stage.end().await
}

fn pending(name: &str) -> Value {
    let job = json!({"namespace": "blue", "group": "batch", "kind": "Job", "name": name, "queue": "main",
        "state": "Pending", "priority": 0, "reason": "", "message": ""});
    let explained = json!({"job": job, "requests": {}, "ahead": [], "told": []});
    json!({"explained": explained, "gates": [], "turns": [], "problems": []})
}

/// One estimate is made at a time, so the second job has to wait for its turn. What was estimated stays known.
#[tokio::test(flavor = "multi_thread")]
async fn estimates_wait_for_their_turn_and_are_kept() -> Result<()> {
    let path = |name: &str| format!("/api/namespaces/blue/jobs/Job/{name}");
    let start = |name: &str| format!("{}/start", path(name));
    let estimated = |name: &str, range: &str| {
        let start = json!({"namespace": "blue", "kind": "Job", "name": name, "range": range, "because": "so"});
        json!({"starts": [start], "problems": []})
    };
    let busy =
        json!({"problem": {"what": "the estimate", "reason": "Busy", "message": "another one"}});
    let answers = json!({path("one"): pending("one"), path("two"): pending("two"), start("one"): estimated("one", "at once"),
        start("two"): busy});
    let Some(stage) = Stage::start("estimates", "/jobs/blue/Job/one", &answers).await? else {
        return Ok(());
    };
    stage.browser.see(&["at once", "Estimated at"]).await?;
    let to = |name: &str| {
        format!(
            "history.pushState(null, '', '/jobs/blue/Job/{name}'); dispatchEvent(new PopStateEvent('popstate'))"
        )
    };
    stage.browser.run::<()>(&to("two")).await?;
    let text = stage.browser.see(&["Estimating…"]).await?;
    ensure!(!text.contains("No estimate"), "{text}");
    stage
        .answer(&start("two"), &estimated("two", "in an hour"))
        .await?;
    stage.browser.see(&["in an hour"]).await?;
    stage.browser.run::<()>(&to("one")).await?;
    stage.browser.see(&["at once", "Estimated at"]).await?;
    let asked: usize = stage.value(&format!("asked['{}']", start("one"))).await?;
    ensure!(asked == 1, "asked {asked} times");
    stage.end().await
}
