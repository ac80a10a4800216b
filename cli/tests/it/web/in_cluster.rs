//! The page as a pod of a cluster serves it: each user with his own token, and nothing of anybody else.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{ControlPlane, eventually};

use super::browser::flawless;
use super::chromium::Browser;
use super::cluster::Cluster;
use super::served::{Answer, ask};
use crate::gates::run;

const DEADLINE: std::time::Duration = std::time::Duration::from_mins(3);

/// Opening a pipe that nobody reads does not wait, but fails: `O_NONBLOCK` and `ENXIO` of Linux.
const WITHOUT_WAITING: i32 = 0o4000;
const NOBODY_READS: i32 = 6;

/// What a pod finds of its account: the CA, and a token that tells whether somebody reads it.
struct Account {
    folder: PathBuf,
}

impl Account {
    fn new(test: &str, authority: &str) -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("ca.crt"), authority)?;
        let made = Command::new("mkfifo").arg(folder.join("token")).status()?;
        ensure!(made.success(), "no pipe");
        Ok(Self { folder })
    }

    /// That nobody reads the token, or waits for it.
    fn nobody_reads_its_token(&self) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(WITHOUT_WAITING);
        let opened = options.open(self.folder.join("token"));
        let error = opened.err().context("the token of the pod is read")?;
        assert_eq!(error.raw_os_error(), Some(NOBODY_READS), "{error}");
        Ok(())
    }
}

/// A server in a pod. It ends when this is dropped.
struct Pod {
    child: Child,
    /// Where it listens.
    address: String,
    /// What its users call it.
    host: String,
    account: Account,
}

impl Pod {
    /// Serves at a public address, with the API server at another. Both have ports.
    fn start(account: Account, api_server: &str, url: &str) -> Result<Self> {
        // A browser finds it where its address says.
        let listen = url.strip_prefix("http://").unwrap_or("127.0.0.1:0");
        let mut child = plugin(&account, api_server)
            .args(["--listen", listen, "--public-url", url])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let told = line.trim().strip_prefix(&format!("Serving {url} on "));
        let Some(address) = told.map(str::to_owned) else {
            let output = child.wait_with_output()?;
            anyhow::bail!("{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let (_, host) = url.split_once("://").context("no host")?;
        Ok(Self {
            child,
            address,
            host: host.to_owned(),
            account,
        })
    }

    /// The answer to a user, with further headers.
    fn get(&self, path: &str, token: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        let bearer = format!("Bearer {token}");
        let own = [("Host", self.host.as_str()), ("Authorization", &bearer)];
        ask(&self.address, "GET", path, &[&own, headers].concat())
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plugin(account: &Account, api_server: &str) -> Command {
    let (host, port) = api_server.rsplit_once(':').unwrap_or_default();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"));
    command.args(["web", "--in-cluster", "--certificate-authority"]);
    command.arg(account.folder.join("ca.crt"));
    command.env("KUBERNETES_SERVICE_HOST", host);
    command.env("KUBERNETES_SERVICE_PORT", port);
    // It would name somebody.
    command.env("KUBECONFIG", account.folder.join("kubeconfig"));
    command
}

/// An address where nobody answers.
fn nobody() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Some certificate.
const AUTHORITY: &str = include_str!("../../files/serving.pem");

#[test]
fn nobody_is_answered_without_a_token_or_at_another_address() -> Result<()> {
    let account = Account::new("in-cluster-guard", AUTHORITY)?;
    let pod = Pod::start(account, &nobody()?, "https://sluice.example.com")?;
    let host = ("Host", "sluice.example.com");
    let token = ("Authorization", "Bearer some.token");
    for (method, path, headers, status) in [
        ("GET", "/", vec![host], 200),
        ("GET", "/assets/main.js", vec![host], 200),
        ("GET", "/api/session", vec![host], 401),
        ("GET", "/api/queues", vec![host], 401),
        ("GET", "/api/secrets", vec![host], 401),
        ("POST", "/api/queues", vec![host, token], 405),
        ("GET", "/", vec![("Host", "evil.example.com")], 421),
        ("GET", "/", vec![("Host", &*pod.address)], 421),
        (
            "GET",
            "/api/queues",
            vec![host, token, ("Origin", "https://evil.example.com")],
            403,
        ),
        (
            "GET",
            "/api/queues",
            vec![host, token, ("Origin", "http://sluice.example.com")],
            403,
        ),
        (
            "GET",
            "/api/queues",
            vec![host, token, ("Sec-Fetch-Site", "same-site")],
            403,
        ),
        // Nobody answers there.
        ("GET", "/api/queues", vec![host, token], 502),
    ] {
        let answer = ask(&pod.address, method, path, &headers)?;
        let what = format!("{method} {path} {headers:?}: {}", answer.head);
        assert_eq!(answer.status, status, "{what}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "cache-control: no-store",
            "strict-transport-security: max-age=31536000",
        ] {
            assert!(answer.head.contains(header), "{header}: {what}");
        }
        assert!(!answer.head.contains("set-cookie"), "{what}");
        assert!(!answer.head.contains("access-control-allow"), "{what}");
    }
    // As a kubelet asks.
    let alive = ask(
        &pod.address,
        "GET",
        "/healthz",
        &[("Host", "10.1.2.3:8443")],
    )?;
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok"));
    pod.account.nobody_reads_its_token()
}

#[test]
fn what_would_show_tokens_to_others_is_not_served() -> Result<()> {
    let account = Account::new("in-cluster-options", AUTHORITY)?;
    let url = "--public-url=https://sluice.example.com";
    let missing = account.folder.join("missing");
    let authority = format!("--certificate-authority={}", missing.display());
    let serving = "cli/tests/files/serving.pem";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (arguments, told) in [
        (vec![], "--public-url <URL>"),
        (
            vec![url, "--listen=0.0.0.0:0"],
            "error: --listen 0.0.0.0:0: tokens would pass in the clear: give --tls-cert and --tls-key, or --plain-http",
        ),
        (
            vec!["--public-url=http://sluice.example.com"],
            "invalid value 'http://sluice.example.com' for '--public-url <URL>': must begin with https://",
        ),
        (
            vec!["--public-url=https://example.com/sluice"],
            "must have nothing behind the host",
        ),
        (vec![url, "--tls-cert=a"], "--tls-key <FILE>"),
        (
            vec![url, "--tls-cert=missing", "--tls-key=missing"],
            "error: --tls-cert and --tls-key: missing: ",
        ),
        (
            vec![url, "--tls-cert", serving, "--tls-key", serving],
            "error: --tls-cert and --tls-key: ",
        ),
        (
            vec![url, "--plain-http", "--tls-cert=a", "--tls-key=b"],
            "cannot be used with",
        ),
        (vec![url, "--context=x"], "cannot be used with"),
        (vec![url, "--kubeconfig=x"], "cannot be used with"),
        (vec![url, "--port=1"], "cannot be used with"),
        (vec![url, "--open"], "cannot be used with"),
        (vec![url, &authority], "missing, the CA of the API server: "),
        (vec![url, "-n=A"], "error: --namespace \"A\": "),
    ] {
        let mut command = plugin_without_authority(&account, &arguments)?;
        let (code, stdout, stderr) = run(command.args(&arguments).current_dir(root));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
    }
    // None of its options counts without the one that says where it is.
    let (code, _, stderr) =
        run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice")).args(["web", "--plain-http"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--in-cluster"), "{stderr}");
    Ok(())
}

/// In a pod, with the CA where the arguments don't name one.
fn plugin_without_authority(account: &Account, arguments: &[&str]) -> Result<Command> {
    let names_one = |argument: &&str| argument.starts_with("--certificate-authority");
    if !arguments.iter().any(names_one) {
        return Ok(plugin(account, &nobody()?));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"));
    command.args(["web", "--in-cluster"]);
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
    command.env("KUBERNETES_SERVICE_PORT", "1");
    Ok(command)
}

/// A tenant in the other namespace, too, with the same role.
async fn second_tenant(cp: &ControlPlane, ns: &str) -> Result<()> {
    let rbac = |kind: &str, more: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "tenant", "namespace": ns}});
        let fields = more.as_object().cloned().unwrap_or_default();
        object.as_object_mut().unwrap().extend(fields);
        object
    };
    let rules = json!([
        {"apiGroups": ["sluice.dev"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
    ]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"});
    let subjects = json!([{"kind": "ServiceAccount", "name": "tenant", "namespace": ns}]);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": ns}});
    let items = [
        account,
        rbac("Role", json!({"rules": rules})),
        rbac(
            "RoleBinding",
            json!({"roleRef": role, "subjects": subjects}),
        ),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&list.to_string()))
        .await?
        .ok()
        .map(drop)
}

async fn token(cp: &ControlPlane, ns: &str) -> Result<String> {
    let made = cp.kubectl(["create", "token", "tenant", "-n", ns], None);
    Ok(made.await?.ok()?.trim().to_owned())
}

/// A pod of this cluster.
async fn pod(cluster: &Cluster, test: &str, url: &str) -> Result<Pod> {
    let ca = ["get", "configmap", "kube-root-ca.crt", "-n", "default"];
    let ca = [&ca[..], &["-o", "jsonpath={.data.ca\\.crt}"]].concat();
    let ca = cluster.cp.kubectl(ca, None).await?.ok()?;
    let (_, api_server) = cluster.cp.server().split_once("://").context("no host")?;
    Pod::start(Account::new(test, &ca)?, api_server, url)
}

const OWN: [&str; 3] = ["\"urgent\"", "\"waits\"", "\"runs\""];
const HIDDEN: [&str; 3] = ["hidden-queue", "hidden-job", "hidden-gated"];

#[tokio::test]
async fn users_see_what_they_may_and_never_what_others_were_told() -> Result<()> {
    let cluster = Cluster::start().await?;
    let (own, other) = (&cluster.own, &cluster.other);
    second_tenant(&cluster.cp, other).await?;
    let pod = pod(&cluster, "in-cluster-users", "https://sluice.example.com").await?;
    let (blue, red) = (
        token(&cluster.cp, own).await?,
        token(&cluster.cp, other).await?,
    );
    // The API server hears of roles by a watch of its own.
    eventually("both to see their jobs", DEADLINE, async || {
        for (token, name) in [(&blue, OWN[0]), (&red, HIDDEN[1])] {
            let answer = pod.get("/api/jobs", token, &[])?;
            ensure!(answer.body.contains(name), "{}", answer.body);
        }
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let session: Value = serde_json::from_str(&pod.get("/api/session", &blue, &[])?.body)?;
    assert_eq!(
        session["user"],
        format!("system:serviceaccount:{own}:tenant")
    );
    // A token that a proxy has added must not come into the page.
    ensure!(!session.to_string().contains(&blue) && session["token"].is_null());
    let paths = [
        "/api/queues".to_owned(),
        "/api/jobs".to_owned(),
        "/api/clusterqueues/team-a".to_owned(),
        "/api/clusterqueues/team-a/starts".to_owned(),
        "/api/gates".to_owned(),
        format!("/api/namespaces/{own}/jobs"),
        format!("/api/namespaces/{other}/jobs"),
    ];
    for path in paths.iter().chain(&paths) {
        for (token, hidden) in [(&blue, HIDDEN), (&red, OWN)] {
            let answer = pod.get(path, token, &[])?;
            let named = hidden.iter().find(|name| answer.body.contains(**name));
            ensure!(named.is_none(), "{path} shows {named:?}: {}", answer.body);
        }
    }
    // Nor where he says that he looks there.
    let there = [("Sluice-Namespace", other.as_str())];
    let queues = pod.get("/api/queues", &blue, &there)?;
    ensure!(!queues.body.contains(HIDDEN[0]) && queues.status == 200);
    let there = [("Sluice-Namespace", "../secrets")];
    assert_eq!(pod.get("/api/queues", &blue, &there)?.status, 404);
    // The mark of one's answer says nothing of another's.
    let jobs = pod.get("/api/jobs", &blue, &[])?;
    let mark = jobs
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "));
    let mark = [("If-None-Match", mark.context("no mark")?)];
    assert_eq!(pod.get("/api/jobs", &blue, &mark)?.status, 304);
    let others = pod.get("/api/jobs", &red, &mark)?;
    ensure!(others.status == 200 && others.body.contains(HIDDEN[1]));
    nobody_else_is_answered(&cluster, &pod, &blue).await?;
    pod.account.nobody_reads_its_token()
}

/// A token that the API server does not know, or knows no more.
async fn nobody_else_is_answered(cluster: &Cluster, pod: &Pod, blue: &str) -> Result<()> {
    let refused = |token: &str| {
        let answer = pod.get("/api/jobs", token, &[])?;
        let told = "the cluster does not accept the token: it may have expired";
        ensure!(
            (answer.status, answer.body.as_str()) == (401, told),
            "{}: {}",
            answer.status,
            answer.body
        );
        Ok::<_, anyhow::Error>(())
    };
    refused("no.such.token")?;
    refused(&format!("{blue}x"))?;
    let delete = ["delete", "serviceaccount", "tenant", "-n", &cluster.own];
    cluster.cp.kubectl(delete, None).await?.ok()?;
    // It is remembered here, and the API server remembers tokens for some seconds as well.
    eventually("the token to be refused", DEADLINE, async || refused(blue)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_who_the_user_is() -> Result<()> {
    let Some(browser) = Browser::start("sign-in").await? else {
        return Ok(());
    };
    let cluster = Cluster::start().await?;
    let token = token(&cluster.cp, &cluster.own).await?;
    let url = format!("http://{}", nobody()?);
    let pod = pod(&cluster, "in-cluster-page", &url).await?;
    browser.open(&format!("http://{}/jobs", pod.host)).await?;
    browser
        .see(&["Sign in", "no token of the cluster came with the request"])
        .await?;
    flawless(&browser, "sign-in").await?;
    let sign_in = async |token: &str| {
        let typed = format!(
            "document.querySelector('input[name=token]').value = {}; document.querySelector('form button').click();",
            json!(token)
        );
        browser.run::<()>(&typed).await
    };
    sign_in("no.such.token").await?;
    browser
        .see(&["Sign in", "the cluster does not accept the token"])
        .await?;
    let kept: Option<String> = browser
        .run("return sessionStorage.getItem('token')")
        .await?;
    ensure!(kept.is_none(), "a token that is refused is kept");
    sign_in(&token).await?;
    browser.see(&["urgent", "Live", "Account"]).await?;
    browser.click("Account").await?;
    let user = format!("You are system:serviceaccount:{}:tenant.", cluster.own);
    browser.see(&[&user, "Sign out"]).await?;
    flawless(&browser, "account").await?;
    // Another namespace stays when the page is loaded again, and shows nothing that its user may not see.
    let there = format!(
        "document.querySelector('input[name=namespace]').value = {}; document.querySelector('form button').click();",
        json!(cluster.other)
    );
    browser.run::<()>(&there).await?;
    let lacks = format!("namespace \"{}\"", cluster.other);
    browser
        .see(&["There is no job here", "Not everything is shown"])
        .await?;
    browser
        .run::<()>("document.querySelector('summary').click()")
        .await?;
    browser.see(&[&lacks]).await?;
    browser.click("Account").await?;
    browser.see(&[&user]).await?;
    browser.click("Sign out").await?;
    browser.see(&["no token of the cluster came"]).await?;
    ensure!(!browser.text().await?.contains("urgent"));
    browser.end().await
}
