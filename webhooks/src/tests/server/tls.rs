//! The server over loopback, with a real TLS client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::{Body, Bytes};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::{Pair, certified_key, issue_ca, issue_serving, merge_bundle};
use crate::tests::*;
use crate::{AllowedClients, CertificateSlot, Server, TlsMinVersion, TlsOptions, router};

const WAIT: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    slot: Arc<CertificateSlot>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start() -> Running {
    start_for(AllowedClients::default()).await
}

async fn start_for(clients: AllowedClients) -> Running {
    start_with(clients, &TlsOptions::default()).await
}

async fn start_with(clients: AllowedClients, options: &TlsOptions) -> Running {
    let slot = Arc::new(CertificateSlot::default());
    let router = router(
        &Arc::new(ArcSwap::from_pointee(mk_policy())),
        gates::lift::outside(),
    );
    let server = Server::bind(
        ([127, 0, 0, 1], 0).into(),
        slot.clone(),
        clients,
        options,
        router,
    )
    .await
    .unwrap();
    let address = server.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));
    Running {
        address,
        slot,
        stop,
        task,
    }
}

fn mk_ca() -> Pair {
    issue_ca(Timestamp::now()).unwrap()
}

fn serve_with(slot: &CertificateSlot, ca: &Pair) {
    let address = "127.0.0.1".parse().unwrap();
    let serving = issue_serving(ca, &[], &[address], Timestamp::now()).unwrap();
    slot.set(certified_key(&serving).unwrap());
}

async fn connect(
    address: SocketAddr,
    bundle_pem: &str,
    alpn: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_as(None, address, bundle_pem, alpn).await
}

async fn connect_as(
    client: Option<&Pair>,
    address: SocketAddr,
    bundle_pem: &str,
    alpn: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle_pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(crate::crypto::provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(pair) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Sends one review over HTTP/1.1 and returns the raw answer, up to the end of its JSON.
async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    let body = mk_review(USER, None, &mk_job(&[(QUEUE, "a")], &[], false)).to_string();
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    while !answer.ends_with("}}") {
        let mut buffer = [0; 4096];
        let count = timeout(WAIT, stream.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert_ne!(count, 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    answer
}

/// Waits until the server closes the connection.
async fn closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut buffer = Vec::new();
    let _ = timeout(WAIT, stream.read_to_end(&mut buffer))
        .await
        .expect("still open");
}

#[tokio::test]
async fn certificates_are_swapped_under_way() {
    let server = start().await;
    let (old, new) = (mk_ca(), mk_ca());
    assert!(
        connect(server.address, &old.certificate_pem, b"http/1.1")
            .await
            .is_err(),
        "no certificate yet"
    );
    serve_with(&server.slot, &old);
    assert!(server.slot.is_set());
    let mut before = connect(server.address, &old.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    assert!(ask(&mut before).await.contains("\"allowed\":true"));

    // Clients trust both, then the server changes over, then they drop the old one.
    let both = merge_bundle(&new.certificate_pem, &old.certificate_pem, Timestamp::now());
    connect(server.address, &both, b"http/1.1").await.unwrap();
    serve_with(&server.slot, &new);
    connect(server.address, &both, b"http/1.1").await.unwrap();
    let mut after = connect(server.address, &new.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    assert!(ask(&mut after).await.contains("\"allowed\":true"));
    assert!(
        connect(server.address, &old.certificate_pem, b"http/1.1")
            .await
            .is_err()
    );
    // The connection of before goes on.
    assert!(ask(&mut before).await.contains("\"allowed\":true"));
}

#[tokio::test]
async fn http2_carries_many_requests_on_one_connection() {
    let server = start().await;
    let ca = mk_ca();
    serve_with(&server.slot, &ca);
    let stream = connect(server.address, &ca.certificate_pem, b"h2")
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let body = Bytes::from(mk_review(USER, None, &mk_job(&[(QUEUE, "a")], &[], false)).to_string());
    let requests = (0..100).map(|_| {
        let mut sender = sender.clone();
        let request = hyper::Request::post("https://x/mutate")
            .body(Body::from(body.clone()))
            .unwrap();
        async move { sender.send_request(request).await.unwrap().status() }
    });
    for status in timeout(WAIT, futures::future::join_all(requests))
        .await
        .unwrap()
    {
        assert_eq!(status, 200);
    }
}

/// CVE-2023-44487: each stream is reset as soon as it is open, so that the limit of streams is never reached.
#[tokio::test]
async fn streams_that_are_reset_at_once_end_their_connection_alone() {
    let server = start().await;
    let ca = mk_ca();
    serve_with(&server.slot, &ca);
    let mut other = connect(server.address, &ca.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    let stream = connect(server.address, &ca.certificate_pem, b"h2")
        .await
        .unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let flood = async {
        for _ in 0..100_000 {
            let mut sender = sender.clone();
            if sender.ready().await.is_err() {
                return true;
            }
            // The body does not end, and nobody waits for the answer.
            let body = Body::from_stream(futures::stream::pending::<std::io::Result<Bytes>>());
            let request = hyper::Request::post("https://x/mutate").body(body).unwrap();
            let mut answer = Box::pin(sender.send_request(request));
            let _ = futures::poll!(&mut answer);
            tokio::task::yield_now().await;
            drop(answer);
        }
        false
    };
    assert!(timeout(WAIT, flood).await.unwrap(), "the flood goes on");
    assert!(timeout(WAIT, connection).await.unwrap().unwrap().is_err());
    assert!(ask(&mut other).await.contains("\"allowed\":true"));
}

#[tokio::test]
async fn a_slow_head_ends_the_connection() {
    let server = start().await;
    let ca = mk_ca();
    serve_with(&server.slot, &ca);
    let mut stream = connect(server.address, &ca.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    stream
        .write_all(b"POST /mutate HTTP/1.1\r\nhost:")
        .await
        .unwrap();
    closed(&mut stream).await;
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out() {
    let server = start().await;
    let ca = mk_ca();
    serve_with(&server.slot, &ca);
    let mut early = connect(server.address, &ca.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    ask(&mut early).await;
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let asked = async {
        let mut late = connect(server.address, &ca.certificate_pem, b"http/1.1")
            .await
            .unwrap();
        ask(&mut late).await
    };
    // Sooner than the handshake limit, after which the silent ones would go by themselves.
    let answer = timeout(Duration::from_millis(2_500), asked)
        .await
        .expect("kept out");
    assert!(answer.contains("\"allowed\":true"));
    assert!(
        ask(&mut early).await.contains("\"allowed\":true"),
        "who was served before stays"
    );
    closed(&mut silent[0]).await;
}

/// A connection that its client may use again is not closed under it: a request that is sent at that moment is lost.
#[tokio::test]
async fn idle_connections_in_http_1_1_stay() {
    let server = start().await;
    let ca = mk_ca();
    serve_with(&server.slot, &ca);
    let mut stream = connect(server.address, &ca.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    ask(&mut stream).await;
    // Longer than a head took before, shorter than any client keeps a connection.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(ask(&mut stream).await.contains("\"allowed\":true"));
}

/// Probes and metrics are served without TLS: whoever opens many connections does not have the container restarted,
/// neither if they say nothing nor if each was answered and stays.
#[tokio::test]
async fn idle_connections_do_not_keep_others_out_without_tls() {
    let routes = axum::Router::new().route("/healthz", axum::routing::get(async || "ok"));
    let server = Server::bind_plain(([127, 0, 0, 1], 0).into(), routes);
    let server = server.await.unwrap();
    let address = server.local_addr().unwrap();
    let task = tokio::spawn(server.serve(std::future::pending()));
    let probe = async |stream: &mut TcpStream| {
        let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut buffer = [0; 1024];
        let read = timeout(WAIT, stream.read(&mut buffer));
        let count = read.await.expect("kept out").unwrap();
        let answer = String::from_utf8_lossy(&buffer[..count]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    };
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut answered = Vec::new();
    for _ in 0..400 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        probe(&mut stream).await;
        answered.push(stream);
    }
    closed(&mut silent[0]).await;
    closed(&mut answered[0]).await;
    // Who was answered last goes last.
    probe(answered.last_mut().unwrap()).await;
    task.abort();
}

#[tokio::test]
async fn stopping_closes_idle_connections_and_the_port() {
    let Running {
        address,
        slot,
        stop,
        task,
    } = start().await;
    let ca = mk_ca();
    serve_with(&slot, &ca);
    let mut stream = connect(address, &ca.certificate_pem, b"http/1.1")
        .await
        .unwrap();
    ask(&mut stream).await;
    stop.send(()).unwrap();
    closed(&mut stream).await;
    timeout(WAIT, task).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// A client certificate of this common name.
fn mk_client(ca: &Pair, name: &str) -> Pair {
    let ca_key = KeyPair::from_pem(&ca.key_pem).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate_pem, ca_key).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    Pair {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

#[tokio::test]
async fn only_allowed_clients_are_answered() {
    let (ca, clients_ca, other_ca) = (mk_ca(), mk_ca(), mk_ca());
    let mk_allowed = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        AllowedClients::signed_by(&clients_ca.certificate_pem, names).unwrap()
    };
    let api_server = mk_client(&clients_ca, "kube-apiserver");
    let user = mk_client(&clients_ca, "jane");
    let forged = mk_client(&other_ca, "kube-apiserver");
    for (case, names, client, is_answered) in [
        ("no certificate", &[][..], None, false),
        ("any name", &[][..], Some(&user), true),
        ("its name", &["kube-apiserver"][..], Some(&api_server), true),
        ("another name", &["kube-apiserver"][..], Some(&user), false),
        (
            "another authority",
            &["kube-apiserver"][..],
            Some(&forged),
            false,
        ),
    ] {
        let server = start_for(mk_allowed(names)).await;
        serve_with(&server.slot, &ca);
        // TLS 1.3: the server refuses the certificate after the client's end of the handshake.
        let answered = async {
            let mut stream =
                connect_as(client, server.address, &ca.certificate_pem, b"http/1.1").await?;
            stream
                .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                .await?;
            stream.read(&mut [0; 64]).await
        };
        let answered = timeout(WAIT, answered).await.unwrap();
        assert_eq!(
            matches!(answered, Ok(1..)),
            is_answered,
            "{case}: {answered:?}"
        );
    }
}

#[test]
fn authorities_that_cannot_be_read_are_refused() {
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, expected) in [
        ("", "there is no certificate in the PEM text"),
        (bad, "not a certificate of an authority: "),
    ] {
        let error = AllowedClients::signed_by(text, Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

/// An old client is refused where only TLS 1.3 is served.
#[tokio::test]
async fn versions_and_suites_are_those_of_the_options() {
    let old_only = |ca: &Pair, address: SocketAddr| {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(ca.certificate_pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(crate::crypto::provider()))
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        async move {
            let stream = TcpStream::connect(address).await?;
            TlsConnector::from(Arc::new(config))
                .connect(ServerName::from(address.ip()), stream)
                .await
        }
    };
    for (min_version, is_taken) in [(TlsMinVersion::Tls12, true), (TlsMinVersion::Tls13, false)] {
        let options = TlsOptions::new(min_version, &[]).unwrap();
        let running = start_with(AllowedClients::default(), &options).await;
        let ca = mk_ca();
        serve_with(&running.slot, &ca);
        let old = old_only(&ca, running.address).await;
        assert_eq!(old.is_ok(), is_taken, "{min_version:?}");
        let new = connect(running.address, &ca.certificate_pem, b"http/1.1").await;
        assert!(new.is_ok(), "{min_version:?}");
    }
}
