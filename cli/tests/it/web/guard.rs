//! Which requests are answered, without a cluster: nobody answers at the address of the kubeconfig.

use std::net::TcpListener;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use super::served::Served;
use crate::gates::{kubeconfig, run};

/// A port where nobody answers.
fn nobody() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
