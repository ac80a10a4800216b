//! Which kubeconfig counts, and which proxy is on the way to its API server, as kubectl has both.
//!
//! Must not know what is asked of the cluster.

use std::env;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{Kubeconfig, KubeconfigError};

/// What the environment says of proxies.
#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    /// The proxy for addresses with `https`.
    pub https: Option<String>,
    /// What is reached without it.
    pub no: String,
}

/// This kubeconfig; else those of KUBECONFIG, as far as they are there; else ~/.kube/config.
///
/// # Errors
/// There is none, or one can't be read.
pub(super) fn find(named: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    if let Some(path) = named {
        return Kubeconfig::read_from(path);
    }
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    let listed = env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    let listed: Vec<PathBuf> = listed.collect();
    if listed.is_empty() {
        return Kubeconfig::read();
    }
    merged(&listed)
}

/// Those of these kubeconfigs that are there, as one.
fn merged(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let (mut found, mut missing) = (None, None);
    for path in paths {
        match Kubeconfig::read_from(path) {
            Ok(next) => {
                let before: Kubeconfig = found.unwrap_or_default();
                found = Some(before.merge(next)?);
            }
            Err(error) if is_missing(&error) => {
                missing.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    found.ok_or_else(|| missing.unwrap_or(KubeconfigError::FindPath))
}

/// Whether there is no kubeconfig; one that can't be read or says nonsense is there.
pub(super) fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(why, _) => why.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Whether it says nothing, as `/dev/null`.
pub(super) fn is_empty(kubeconfig: &Kubeconfig) -> bool {
    let Kubeconfig {
        clusters, contexts, ..
    } = kubeconfig;
    clusters.is_empty() && contexts.is_empty()
}

/// The proxy that it names for the cluster of this context, or of its own.
pub(super) fn own_proxy<'a>(
    kubeconfig: &'a Kubeconfig,
    context: Option<&'a str>,
) -> Option<&'a str> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| context.name == name)?;
    let name = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.name == *name)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.as_deref()?;
    Some(proxy).filter(|proxy| !proxy.is_empty())
}

impl Proxies {
    pub(super) fn of_environment() -> Self {
        let read = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(|name| env::var(name).ok());
            values.into_iter().find(|value| !value.is_empty())
        };
        Self {
            https: read(["HTTPS_PROXY", "https_proxy"]),
            no: read(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        }
    }

    /// The proxy on the way to an API server: that of its kubeconfig, or else that of the environment, unless the server is
    /// on this machine or exempt from it. kube itself asks whether the *proxy* is exempt.
    ///
    /// # Errors
    /// It is no address.
    pub(super) fn to(
        &self,
        server: &Uri,
        own: Option<&str>,
    ) -> Result<Option<Uri>, KubeconfigError> {
        let parsed = |proxy: &str| {
            let proxy = if proxy.contains("://") {
                proxy.parse()
            } else {
                format!("http://{proxy}").parse()
            };
            proxy.map(Some).map_err(KubeconfigError::ParseProxyUrl)
        };
        match (own, &self.https) {
            (Some(own), _) => parsed(own),
            (None, Some(proxy)) if !self.is_exempt(server) => parsed(proxy),
            (None, _) => Ok(None),
        }
    }

    fn is_exempt(&self, server: &Uri) -> bool {
        let host = server.host().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        // Whether there is a way over a proxy does not depend on which it is.
        let matcher = Matcher::builder().https("http://proxy").no(&*self.no);
        is_here || matcher.build().intercept(server).is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FIRST: &str = "
apiVersion: v1
kind: Config
current-context: first
contexts: [{name: first, context: {cluster: first, user: me}}]
clusters: [{name: first, cluster: {server: 'https://a.example.org', proxy-url: 'socks5://own:1080'}}]
";
    const SECOND: &str = "
apiVersion: v1
kind: Config
current-context: second
contexts: [{name: second, context: {cluster: second, user: me}}]
clusters: [{name: second, cluster: {server: 'https://b.example.org'}}]
";

    #[test]
    fn kubeconfigs_of_a_list_that_are_not_there_are_passed_over() {
        let folder = env::temp_dir().join(format!("kubeconfigs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let none = folder.join("none");
        let (first, second) = (file("first", FIRST), file("second", SECOND));
        let (bad, empty) = (file("bad", "contexts: 7"), file("empty", ""));
        let found = merged(&[none.clone(), first, second]).unwrap();
        let names: Vec<&str> = found.contexts.iter().map(|found| &*found.name).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(found.current_context.as_deref(), Some("first"));
        assert_eq!(own_proxy(&found, None), Some("socks5://own:1080"));
        assert_eq!(own_proxy(&found, Some("second")), None);
        assert!(!is_empty(&found));
        let missing = merged(&[none.clone(), none.clone()]).unwrap_err();
        assert!(is_missing(&missing), "{missing}");
        let broken = merged(&[none, bad]).unwrap_err();
        assert!(!is_missing(&broken), "{broken}");
        assert!(is_empty(&merged(&[empty]).unwrap()));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_proxy_is_used_unless_the_server_is_exempt() {
        let no = "10.0.0.0/8, example.org,192.0.2.7";
        let (env, own) = ("http://proxy:3128/", "socks5://own:1080/");
        let cases = [
            ("https://a.example.com:6443", no, None, Some(env)),
            ("https://192.0.2.8", no, None, Some(env)),
            ("https://a.example.com", "", None, Some(env)),
            // It is the server that is exempt, not the proxy.
            ("https://a.example.com", "proxy", None, Some(env)),
            ("https://a.example.org:6443", no, None, None),
            ("https://10.1.2.3:6443", no, None, None),
            ("https://192.0.2.7", no, None, None),
            ("https://a.example.com", "*", None, None),
            ("https://127.0.0.1:6443", "", None, None),
            ("https://[::1]:6443", "", None, None),
            ("https://localhost:6443", "", None, None),
            ("http://a.example.com", "", None, None),
            // Who names one in the kubeconfig means it.
            ("https://10.1.2.3", no, Some("socks5://own:1080"), Some(own)),
        ];
        for (server, no, own, expected) in cases {
            let proxies = Proxies {
                https: Some("proxy:3128".to_owned()),
                no: no.to_owned(),
            };
            let found = proxies.to(&server.parse().unwrap(), own).unwrap();
            let found = found.map(|proxy| proxy.to_string());
            assert_eq!(found.as_deref(), expected, "{server} {no}");
        }
        let server = "https://a.example.com".parse().unwrap();
        assert_eq!(Proxies::default().to(&server, None).unwrap(), None);
        assert!(Proxies::default().to(&server, Some("http://a b")).is_err());
    }
}
