//! The way to an API server over a proxy: which the plugin takes, as kubectl does.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::gates::run;

/// What a proxy is asked for first, and what the plugin says when the proxy refuses.
fn asked(kubeconfig: &str, environment: &[(&str, &str)]) -> (String, String) {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    thread::scope(|scope| {
        let asked = scope.spawn(move || {
            let (mut stream, _) = proxy.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream
                .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            line
        });
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxies");
        fs::write(&path, kubeconfig.replace("PROXY", &address)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"));
        command.args(["list", "--kubeconfig"]).arg(&path);
        for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
            command.env_remove(name);
        }
        for (name, value) in environment {
            command.env(name, value.replace("PROXY", &address));
        }
        let (code, _, told) = run(&mut command);
        assert_eq!(code, Some(2), "{told}");
        (asked.join().unwrap(), told)
    })
}

#[test]
fn the_api_server_is_asked_over_the_proxy_of_the_kubeconfig_or_the_environment() {
    let kubeconfig = |proxy: &str| {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: here, \
              clusters: [{{name: c, cluster: {{server: 'https://sluice.invalid:6443'{proxy}}}}}], \
              users: [{{name: u, user: {{}}}}], contexts: [{{name: here, context: {{cluster: c, user: u}}}}]}}"
        )
    };
    let cases: [(String, &[(&str, &str)]); 3] = [
        (kubeconfig(", proxy-url: 'http://PROXY'"), &[]),
        (
            kubeconfig(", proxy-url: 'http://PROXY'"),
            &[("NO_PROXY", "sluice.invalid,127.0.0.1")],
        ),
        (
            kubeconfig(""),
            // The proxy may be exempt: what counts is the server.
            &[("HTTPS_PROXY", "http://PROXY"), ("NO_PROXY", "127.0.0.1")],
        ),
    ];
    for (kubeconfig, environment) in cases {
        let (line, told) = asked(&kubeconfig, environment);
        let is_told = line.starts_with("CONNECT sluice.invalid:6443 ");
        assert!(is_told, "{environment:?}: {line}: {told}");
    }
}
