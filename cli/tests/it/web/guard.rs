//! Which requests are answered, without a cluster: nobody answers at the address of the kubeconfig.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sluice_testbed::eventually;

use super::chromium::Browser;
use super::served::Served;
use crate::gates::{kubeconfig, run};

/// A port where nobody answers.
fn nobody() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A folder with a program that is started in place of a browser. It keeps its arguments in the file `arguments`.
fn browser(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder)?;
    let kept = folder.join("arguments");
    if kept.exists() {
        fs::remove_file(&kept)?;
    }
    let program = folder.join("xdg-open");
    let text = format!(
        "#!/bin/sh\necho \"$*\" >'{0}.new'\n/bin/mv '{0}.new' '{0}'\n",
        kept.display()
    );
    fs::write(&program, text)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// What that was started with.
async fn arguments(programs: &Path) -> Result<String> {
    let within = Duration::from_mins(1);
    eventually("the browser to be started", within, async || {
        Ok::<_, anyhow::Error>(fs::read_to_string(programs.join("arguments"))?)
    })
    .await
}

/// Others can see the arguments of the browser. What they name only its owner can read, and who comes second is told.
#[tokio::test]
async fn the_arguments_of_the_browser_open_nothing() -> Result<()> {
    let programs = browser("web-browser")?;
    let mut served = Served::opening(&kubeconfig("web-opens", nobody()?), &programs)?;
    let arguments = arguments(&programs).await?;
    let file = Path::new(arguments.trim());
    ensure!(
        !arguments.contains("token") && file.is_absolute(),
        "{arguments}"
    );
    let folder = file.parent().context("no folder")?;
    for (path, mode) in [(folder, 0o700), (file, 0o600)] {
        let found = fs::metadata(path)?.permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    let page = fs::read_to_string(file)?;
    let address = format!("0; url=http://{}/#token=", served.host);
    let (_, code) = page.split_once(&address).context("no address")?;
    let (code, _) = code.split_once('"').context("no code")?;
    ensure!(code != served.token, "the file has the token itself");
    let ask = |served: &Served, token: &str| {
        let token = format!("Bearer {token}");
        let headers = [("Host", served.host.as_str()), ("Authorization", &token)];
        served.ask("GET", "/api/session", &headers)
    };
    let session: Value = serde_json::from_str(&ask(&served, code)?.body)?;
    assert_eq!(session["token"], served.token.as_str());
    ensure!(!folder.exists(), "the code is spent, and its file stays");
    assert_eq!(ask(&served, code)?.status, 401);
    assert_eq!(ask(&served, &served.token)?.status, 401);
    let told = served.told()?;
    let prefix = format!(
        "note: the code for the browser was presented twice, so another user of this machine may have opened the page. What \
         was open is closed; open http://{}/#token=",
        served.host
    );
    let token = told.trim().strip_prefix(&prefix).context(told.clone())?;
    assert_eq!(ask(&served, token)?.status, 200);
    ensure!(served.end()?.success());
    Ok(())
}

#[tokio::test]
async fn the_file_for_the_browser_goes_away_at_the_end() -> Result<()> {
    let programs = browser("web-browser-ends")?;
    let served = Served::opening(&kubeconfig("web-ends", nobody()?), &programs)?;
    let arguments = arguments(&programs).await?;
    let file = Path::new(arguments.trim());
    ensure!(file.exists(), "{} is not there", file.display());
    // Whoever answers has begun to look for signals.
    served.ask("GET", "/", &[("Host", &served.host)])?;
    ensure!(served.end()?.success());
    ensure!(!file.exists(), "{} stays", file.display());
    Ok(())
}

/// The plugin is started anew at its port. A tab that was open has the token of the run before, and must not hand it on.
#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_an_earlier_run_is_dropped_and_others_are_tried() -> Result<()> {
    let Some(browser) = Browser::start("tokens").await? else {
        return Ok(());
    };
    let kubeconfig = kubeconfig("web-tokens", nobody()?);
    let first = Served::start(&kubeconfig, &[])?;
    let jobs = format!("http://{}/jobs", first.host);
    // The session is open; what is behind it does not answer.
    let open = ["The cluster does not answer"];
    browser.open(&first.address()).await?;
    browser.see(&open).await?;
    let tab = browser.tab().await?;
    let (_, port) = first.host.split_once(':').context("no port")?;
    let port = port.to_owned();
    let dead = first.token.clone();
    ensure!(first.end()?.success());
    let second = Served::start(&kubeconfig, &["--port", &port])?;
    browser.see(&["This page is not open yet"]).await?;
    let kept: Option<String> = browser
        .run("return sessionStorage.getItem('token')")
        .await?;
    ensure!(kept.is_none(), "a dead token is kept");
    // A tab that does not know yet that its token is dead.
    let hands_on = format!(
        "const tabs = new BroadcastChannel('sluice'); \
         tabs.onmessage = ({{ data }}) => {{ if (data === 'token?') tabs.postMessage({{ token: '{dead}' }}); }}"
    );
    browser.run::<()>(&hands_on).await?;
    browser.open_tab(&second.address()).await?;
    browser.see(&open).await?;
    browser.open_tab(&jobs).await?;
    browser.see(&open).await?;
    browser.look_at(tab).await?;
    browser.see(&open).await?;
    browser.end().await
}

/// Method, path and headers of a request, and the status of its answer.
type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, u16);

#[test]
fn only_the_page_is_answered_and_it_may_load_nothing_else() -> Result<()> {
    let served = Served::start(&kubeconfig("web-guard", nobody()?), &[])?;
    let (host, token) = (served.host.clone(), format!("Bearer {}", served.token));
    let host = ("Host", host.as_str());
    let token = ("Authorization", token.as_str());
    let cases: Vec<Case> = vec![
        ("GET", "/", vec![host], 200),
        ("GET", "/jobs/blue/Job/train?search=x", vec![host], 200),
        ("GET", "/assets/main.js", vec![host], 200),
        ("GET", "/assets/../main.rs", vec![host], 404),
        ("GET", "/api/session", vec![host, token], 200),
        ("GET", "/api/v1/secrets", vec![host, token], 404),
        (
            "GET",
            "/apis/sluice.dev/v1alpha1/workloads",
            vec![host, token],
            404,
        ),
        (
            "GET",
            "/api/namespaces/..%2F..%2Fsecrets/jobs",
            vec![host, token],
            404,
        ),
        (
            "GET",
            "/api/namespaces/blue/jobs/Job.batch..sh/train",
            vec![host, token],
            404,
        ),
        // Nobody answers there.
        (
            "GET",
            "/api/namespaces/blue/jobs/Job.batch.volcano.sh/train",
            vec![host, token],
            502,
        ),
        ("POST", "/api/queues", vec![host, token], 405),
        (
            "DELETE",
            "/api/namespaces/blue/jobs/Job/train",
            vec![host, token],
            405,
        ),
        ("GET", "/", vec![("Host", "attacker.example.com")], 421),
        (
            "GET",
            "/api/queues",
            vec![host, token, ("Origin", "http://attacker.example.com")],
            403,
        ),
        ("GET", "/api/queues", vec![host], 401),
        (
            "GET",
            "/api/queues",
            vec![host, ("Authorization", "Bearer 00")],
            401,
        ),
    ];
    for (method, path, headers, status) in cases {
        let answer = served.ask(method, path, &headers)?;
        assert_eq!(
            answer.status, status,
            "{method} {path} {headers:?}: {}",
            answer.body
        );
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: deny",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(
                answer.head.contains(header),
                "{method} {path}: {header}: {}",
                answer.head
            );
        }
        assert!(
            !answer.head.contains("access-control-allow"),
            "{}",
            answer.head
        );
        assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
    }
    assert!(served.end()?.success());
    Ok(())
}

#[test]
fn an_api_server_that_does_not_answer_is_told() -> Result<()> {
    let served = Served::start(&kubeconfig("web-gone", nobody()?), &[])?;
    let answer = served.get("/api/queues")?;
    assert_eq!(answer.status, 502, "{}", answer.body);
    let told: Value = serde_json::from_str(&answer.body)?;
    assert_eq!(told["problem"]["reason"], "Unanswered");
    let message = told["problem"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("can't list clusterqueues"), "{message}");
    Ok(())
}

#[test]
fn a_port_that_is_taken_is_told() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port();
    let (code, stdout, stderr) = run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .args(["web", "--no-open", "--port", &port.to_string()])
        .env("KUBECONFIG", kubeconfig("web-port", nobody()?)));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    let told = format!("error: can't listen on 127.0.0.1:{port}: ");
    assert!(stderr.starts_with(&told), "{stderr}");
    Ok(())
}
