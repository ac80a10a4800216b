//! The page in a browser with answers that a test writes: what a view makes of them, and what happens when they change.
//! There is no cluster.

use std::net::TcpListener;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::chromium::Browser;
use super::served::Served;
use crate::gates::kubeconfig;

/// What answers in place of the plugin.
const ANSWERS: &str = include_str!("stage.js");

/// A page with answers of its own.
pub(super) struct Stage {
    pub(super) browser: Browser,
    _served: Served,
}

impl Stage {
    /// Shows a view with these answers, by their paths. None if there is no browser.
    pub(super) async fn start(test: &str, view: &str, answers: &Value) -> Result<Option<Self>> {
        let test = format!("stage-{test}");
        let Some(browser) = Browser::start(&test).await? else {
            return Ok(None);
        };
        let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let served = Served::start(&kubeconfig(&test, nobody), &[])?;
        browser
            .open(&format!("http://{}{view}", served.host))
            .await?;
        browser.see(&["This page is not open yet"]).await?;
        browser
            .run::<()>(&ANSWERS.replace("ANSWERS", &answers.to_string()))
            .await?;
        browser.see(&["Live"]).await?;
        Ok(Some(Self {
            browser,
            _served: served,
        }))
    }

    /// Answers otherwise from now on.
    pub(super) async fn answer(&self, path: &str, answer: &Value) -> Result<()> {
        let answer = format!("answers[{}] = {answer}", json!(path));
        self.browser.run(&answer).await
    }

    /// The value of an expression in the page.
    pub(super) async fn value<T: DeserializeOwned>(&self, expression: &str) -> Result<T> {
        self.browser.run(&format!("return {expression}")).await
    }

    /// Whether a text is on the page.
    pub(super) async fn has(&self, text: &str) -> Result<bool> {
        Ok(self.browser.text().await?.contains(text))
    }

    pub(super) async fn end(self) -> Result<()> {
        self.browser.end().await
    }
}
