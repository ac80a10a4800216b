//! The test bed's API server passes requests for an aggregated API on, as on a real cluster: to a server on this
//! machine, with the certificate of the front proxy and the user's name in headers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::Api;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use sluice_testbed::{ControlPlane, eventually};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const DEADLINE: Duration = Duration::from_mins(1);
const ECHO: &str = "/apis/testbed.sluice.dev/v1/echo";

#[tokio::test]
async fn an_aggregated_api_learns_the_user_from_the_front_proxy_alone() -> Result<()> {
    let cp = ControlPlane::shared();
    let admin = cp.client()?;
    let ns = cp.create_namespace("aggregation").await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "kube-system");
    let map = maps.get("extension-apiserver-authentication").await?;
    let data = map.data.context("no data")?;
    ensure!(data.get("requestheader-allowed-names") == Some(&r#"["front-proxy-client"]"#.into()));
    let authorities = data
        .get("requestheader-client-ca-file")
        .context("no authorities")?;
    let server = EchoServer::start(&ns, authorities).await?;
    register(cp, &ns, &server).await?;
    let answer = eventually("the aggregated API to answer", DEADLINE, async || {
        get(&admin).await.map_err(|e| e.to_string())
    })
    .await?;
    ensure!(answer == r#"{"user":"kubernetes-admin"}"#, "{answer}");

    // The API server asks RBAC before it passes a request on.
    let ann = cp.client_as(Some("ann"))?;
    let refused = get(&ann).await.err().context("it was passed on")?;
    ensure!(
        refused
            .to_string()
            .contains(r#"cannot list resource "echo""#),
        "{refused:#}"
    );
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "testbed-echo" },
        "rules": [{ "apiGroups": ["testbed.sluice.dev"], "resources": ["echo"], "verbs": ["list"] }],
    });
    cp.kubectl(["create", "-f", "-"], Some(&role.to_string()))
        .await?
        .ok()?;
    let bind = "create clusterrolebinding testbed-echo --clusterrole=testbed-echo --user=ann";
    cp.kubectl(bind.split(' '), None).await?.ok()?;
    let answer = eventually("ann to have the right", DEADLINE, async || {
        get(&ann).await.map_err(|e| e.to_string())
    })
    .await?;
    ensure!(answer == r#"{"user":"ann"}"#, "{answer}");

    let pki = cp.dir().join("pki");
    let credentials = |name: &str| -> Result<_> {
        let certificate = CertificateDer::from_pem_file(pki.join(format!("{name}.crt")))?;
        let key = PrivateKeyDer::from_pem_file(pki.join(format!("{name}.key")))?;
        Ok((certificate, key))
    };
    for (case, shown) in [
        ("without a certificate", None),
        (
            "with that of an administrator",
            Some(credentials("kubernetes-admin")?),
        ),
    ] {
        let answer = server.forge(shown).await;
        ensure!(answer.is_err(), "{case}: {answer:?}");
    }
    let answer = server
        .forge(Some(credentials("front-proxy-client")?))
        .await?;
    ensure!(
        answer.ends_with(r#"{"user":"forged"}"#),
        "the request itself is not at fault: {answer}"
    );
    ensure!(
        server
            .users()
            .iter()
            .filter(|user| *user == "forged")
            .count()
            == 1,
        "{:?}",
        server.users()
    );
    Ok(())
}

async fn get(client: &Client) -> Result<String> {
    let request = http::Request::get(ECHO).body(Vec::new())?;
    Ok(client.request_text(request).await?)
}

/// Has the API server pass requests on to `server`. A Service is given no loopback address, but an external name may
/// lead to one.
async fn register(cp: &ControlPlane, namespace: &str, server: &EchoServer) -> Result<()> {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "echo", "namespace": namespace },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": "v1.testbed.sluice.dev" },
        "spec": {
            "group": "testbed.sluice.dev",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": server.ca_bundle,
            "service": { "name": "echo", "namespace": namespace, "port": server.port },
        },
    });
    for object in [service, api_service] {
        cp.kubectl(["create", "-f", "-"], Some(&object.to_string()))
            .await?
            .ok()?;
    }
    Ok(())
}

/// Answers every request of a client with a certificate of the front proxy's CA by the user that the request names.
struct EchoServer {
    port: u16,
    /// Base64 of PEM, as an APIService has it.
    ca_bundle: k8s_openapi::ByteString,
    certificate: CertificateDer<'static>,
    name: String,
    users: Arc<Mutex<Vec<String>>>,
}

impl EchoServer {
    async fn start(namespace: &str, authorities: &str) -> Result<Self> {
        let name = format!("echo.{namespace}.svc");
        let made = rcgen::generate_simple_self_signed([name.clone()])?;
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let key = key.map_err(|e| anyhow::anyhow!(e))?;
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let users = Arc::<Mutex<Vec<String>>>::default();
        let seen = users.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                tokio::spawn(async move { echo(acceptor.accept(stream).await?, &seen).await });
            }
        });
        Ok(Self {
            port,
            ca_bundle: k8s_openapi::ByteString(made.cert.pem().into_bytes()),
            certificate,
            name,
            users,
        })
    }

    /// The users that were named to it.
    fn users(&self) -> Vec<String> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.clone()
    }

    /// What it answers to a request straight to its port that says it comes from the user `forged`.
    async fn forge(
        &self,
        credentials: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match credentials {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key)?,
            None => config.with_no_client_auth(),
        };
        let exchange = async {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let name = ServerName::try_from(self.name.clone())?;
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream = connector.connect(name, stream).await?;
            let request = format!("GET {ECHO} HTTP/1.1\r\nX-Remote-User: forged\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        timeout(DEADLINE, exchange).await.context("no answer")?
    }
}

/// One request and its answer.
async fn echo(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    users: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let user = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("X-Remote-User").then_some(value)
    });
    let user = user.unwrap_or_default();
    users
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(user.to_owned());
    let body = json!({ "user": user }).to_string();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
