//! A real Chromium without a window, driven by its own driver. Both are Debian's packages; where they are missing, a test
//! says so and is skipped.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail, ensure};
use fantoccini::wd::{WebDriverCompatibleCommand, WindowHandle};
use fantoccini::{Client, ClientBuilder};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluice_testbed::eventually;
use url::{ParseError, Url};

const DEADLINE: std::time::Duration = std::time::Duration::from_mins(2);
/// What looks at the page as those do who can't see it.
const AXE_PACKAGE: &str = "axe-core@4.14.1";
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
];

/// A browser with one page.
pub(super) struct Browser {
    driver: Child,
    page: Client,
    profile: PathBuf,
}

impl Browser {
    /// A browser, or None and a line that says what is missing.
    pub(super) async fn start(test: &str) -> Result<Option<Self>> {
        let started = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn();
        let mut driver = match started {
            Ok(driver) => driver,
            Err(error) => {
                eprintln!(
                    "skipped: chromedriver can't be started, which the packages chromium and chromium-driver bring: {error}"
                );
                return Ok(None);
            }
        };
        let stdout = driver.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        // What it says later must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
        let profile_flag = format!("--user-data-dir={}", profile.display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([&*profile_flag]).collect();
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": {"args": flags}});
        let port = port.context("chromedriver names no port")?;
        let page = ClientBuilder::new(HttpConnector::new())
            .capabilities(serde_json::from_value(wanted)?)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await?;
        Ok(Some(Self {
            driver,
            page,
            profile,
        }))
    }

    pub(super) async fn open(&self, address: &str) -> Result<()> {
        Ok(self.page.goto(address).await?)
    }

    pub(super) async fn reload(&self) -> Result<()> {
        Ok(self.page.refresh().await?)
    }

    /// Opens an address in another tab, and looks at that.
    pub(super) async fn open_tab(&self, address: &str) -> Result<()> {
        let tab = self.page.new_window(true).await?;
        self.page.switch_to_window(tab.handle).await?;
        self.open(address).await
    }

    /// The tab that is looked at.
    pub(super) async fn tab(&self) -> Result<WindowHandle> {
        Ok(self.page.window().await?)
    }

    /// Looks at another tab.
    pub(super) async fn look_at(&self, tab: WindowHandle) -> Result<()> {
        Ok(self.page.switch_to_window(tab).await?)
    }

    /// What a function in the page returns.
    pub(super) async fn run<T: DeserializeOwned>(&self, body: &str) -> Result<T> {
        let returned = self.page.execute(body, Vec::new()).await?;
        Ok(serde_json::from_value(returned)?)
    }

    /// The text of the page, as it is shown.
    pub(super) async fn text(&self) -> Result<String> {
        self.run("return document.body.innerText").await
    }

    /// Waits until the page shows all of this.
    pub(super) async fn see(&self, wanted: &[&str]) -> Result<String> {
        eventually("the page to show it", DEADLINE, async || {
            let text = self.text().await?;
            for part in wanted {
                ensure!(text.contains(part), "{part:?} is not in:\n{text}");
            }
            Ok::<_, anyhow::Error>(text)
        })
        .await
    }

    /// Clicks the first link or button with this text.
    pub(super) async fn click(&self, text: &str) -> Result<()> {
        let clicked = format!(
            "const found = [...document.querySelectorAll('a, button, summary')].find((one) => one.innerText.trim() === {}); \
             found?.click(); return Boolean(found);",
            json!(text)
        );
        ensure!(
            self.run::<bool>(&clicked).await?,
            "{text:?} is not to be clicked: {}",
            self.text().await?
        );
        Ok(())
    }

    /// Types into the search field, by the key that leads there.
    pub(super) async fn search(&self, text: &str) -> Result<()> {
        let typed = format!(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: '/', bubbles: true }})); \
             const field = document.activeElement; if (field.type !== 'search') return false; \
             field.value = {}; field.dispatchEvent(new Event('input', {{ bubbles: true }})); return true;",
            json!(text)
        );
        ensure!(
            self.run::<bool>(&typed).await?,
            "the key / leads to no search field"
        );
        Ok(())
    }

    /// Has the page this wide, and in these colors.
    pub(super) async fn look(&self, width: u32, colors: &str) -> Result<()> {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await?;
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": colors}]});
        self.devtools("Emulation.setEmulatedMedia", media).await
    }

    async fn devtools(&self, command: &'static str, arguments: Value) -> Result<()> {
        let command = DevtoolsCommand { command, arguments };
        self.page.issue_cmd(command).await?;
        Ok(())
    }

    /// What axe-core finds against the page, if it is there: `source` is its script.
    pub(super) async fn violations(&self, source: &str) -> Result<Vec<String>> {
        let script = format!(
            "{source}; const done = arguments[arguments.length - 1]; axe.run(document).then((found) => done(found.violations \
             .map(({{ id, nodes }}) => `${{id}}: ${{nodes.map(({{ html }}) => html).join(', ')}}`)), (error) => done([String(error)]));"
        );
        let returned = self.page.execute_async(&script, Vec::new()).await?;
        Ok(serde_json::from_value(returned)?)
    }

    /// Keeps a picture of the page, where the environment says that somebody wants to look at it.
    pub(super) async fn picture(&self, name: &str) -> Result<()> {
        let Some(folder) = std::env::var_os("SLUICE_WEB_PICTURES") else {
            return Ok(());
        };
        let path = PathBuf::from(folder).join(format!("{name}.png"));
        Ok(std::fs::write(path, self.page.screenshot().await?)?)
    }

    pub(super) async fn end(self) -> Result<()> {
        Ok(self.page.clone().close().await?)
    }
}

/// A command of the DevTools protocol, which chromedriver passes on.
#[derive(Debug)]
struct DevtoolsCommand {
    command: &'static str,
    arguments: Value,
}

impl WebDriverCompatibleCommand for DevtoolsCommand {
    fn endpoint(&self, driver: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        driver.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _url: &Url) -> (Method, Option<String>) {
        let body = json!({"cmd": self.command, "params": self.arguments});
        (Method::POST, Some(body.to_string()))
    }
}

/// The script of axe-core, which npm brings once for all tests; None and a line where there is no npm.
pub(super) fn axe() -> Result<Option<&'static str>> {
    static AXE: OnceLock<Result<Option<String>, String>> = OnceLock::new();
    match AXE.get_or_init(|| brought().map_err(|error| format!("{error:#}"))) {
        Ok(script) => Ok(script.as_deref()),
        Err(error) => bail!("{AXE_PACKAGE}: {error}"),
    }
}

fn brought() -> Result<Option<String>> {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe");
    std::fs::create_dir_all(&folder)?;
    let script = folder.join("package/axe.min.js");
    if !script.exists() {
        let packed = Command::new("npm")
            .args(["pack", "--silent", AXE_PACKAGE])
            .current_dir(&folder)
            .output();
        let packed = match packed {
            Ok(packed) if packed.status.success() => String::from_utf8(packed.stdout)?,
            failed => {
                eprintln!(
                    "skipped: axe-core does not look at the page, as npm can't bring it: {failed:?}"
                );
                return Ok(None);
            }
        };
        let unpack = Command::new("tar")
            .args(["-xzf", packed.trim(), "package/axe.min.js"])
            .current_dir(&folder)
            .status()?;
        ensure!(unpack.success(), "{AXE_PACKAGE} can't be unpacked");
    }
    Ok(Some(std::fs::read_to_string(script)?))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its driver.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
