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
