//! The API server as a pod finds it, for callers who each bring a token of their own. The token of the pod is never read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::task::spawn_blocking;

use super::connection::{ClusterError, answer_within};

/// How long a connection may take, and the answer who somebody is.
const DEADLINE: Duration = Duration::from_secs(10);
/// Where Kubernetes says which port of which host its API server is.
const ENVIRONMENT: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// The API server, and how it is known.
#[derive(Debug, Clone)]
pub struct ApiServer {
    url: Uri,
    authority: PathBuf,
}

impl ApiServer {
    /// That of the cluster which the process is in. The file has the certificates of its CAs.
    ///
    /// # Errors
    /// The environment does not name it, or the file can't be used.
    pub fn of_pod(authority: &Path) -> Result<Self, ClusterError> {
        let [host, port] = ENVIRONMENT.map(|name| std::env::var(name).unwrap_or_default());
        let server = Self {
            url: url(&host, &port)?,
            authority: authority.to_owned(),
        };
        server.authorities()?;
        Ok(server)
    }

    /// Its address.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// A client that asks with this token, and nothing else of anybody.
    ///
    /// # Errors
    /// The CAs can't be read, which are read anew each time, or can't be used.
    pub async fn client(&self, token: &str) -> Result<Client, ClusterError> {
        let (server, token) = (self.clone(), token.to_owned());
        let made = spawn_blocking(move || {
            let mut config = Config::new(server.url.clone());
            config.root_cert = Some(server.authorities()?);
            config.connect_timeout = Some(DEADLINE);
            config.auth_info.token = Some(token.into());
            Client::try_from(config).map_err(|error| ClusterError::Connection(error.to_string()))
        });
        let failed = |ended: tokio::task::JoinError| ClusterError::Connection(ended.to_string());
        made.await.map_err(failed)?
    }

    fn authorities(&self) -> Result<Vec<Vec<u8>>, ClusterError> {
        let unusable = |why: String| {
            let path = self.authority.display();
            ClusterError::Connection(format!("{path}, the CA of the API server: {why}"))
        };
        let text = fs::read(&self.authority).map_err(|error| unusable(error.to_string()))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|error| unusable(error.to_string()))?;
        if found.is_empty() {
            return Err(unusable("there is no certificate in it".to_owned()));
        }
        Ok(found.into_iter().map(|one| one.to_vec()).collect())
    }
}

/// Who the API server says that a client is. Nothing is stored by the question, which everybody may ask.
///
/// # Errors
/// It does not know him, or does not answer.
pub async fn who(client: &Client) -> Result<String, ClusterError> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let (params, review) = (PostParams::default(), SelfSubjectReview::default());
    let asked = reviews.create(&params, &review);
    let review = answer_within(DEADLINE, "ask who you are", asked).await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

/// An address of IPv6 stands in brackets.
fn url(host: &str, port: &str) -> Result<Uri, ClusterError> {
    let host = match host.parse() {
        Ok(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    };
    let is_named = !host.is_empty() && !port.is_empty();
    let url = is_named.then(|| format!("https://{host}:{port}").parse().ok());
    url.flatten().ok_or_else(|| {
        let [host, port] = ENVIRONMENT;
        ClusterError::Connection(format!(
            "{host} and {port} don't name the API server: this is no pod of a cluster"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::client::Body;

    use super::*;

    #[test]
    fn the_api_server_is_where_the_environment_says() {
        let named = |host, port| url(host, port).map(|url| url.to_string()).ok();
        let some = |url: &str| Some(url.to_owned());
        assert_eq!(named("10.0.0.1", "443"), some("https://10.0.0.1:443/"));
        assert_eq!(named("fd00::1", "443"), some("https://[fd00::1]:443/"));
        assert_eq!(named("", "443"), None);
        assert_eq!(named("10.0.0.1", ""), None);
    }

    #[test]
    fn a_file_without_certificates_is_no_authority() {
        let server = |authority: &str| ApiServer {
            url: Uri::from_static("https://10.0.0.1"),
            authority: PathBuf::from(authority),
        };
        let told = |authority| server(authority).authorities().unwrap_err().to_string();
        assert!(
            told("/dev/null")
                .contains("/dev/null, the CA of the API server: there is no certificate")
        );
        assert!(told("/does/not/exist").contains("/does/not/exist, the CA of the API server: "));
    }

    #[tokio::test]
    async fn the_api_server_says_who_somebody_is() {
        let answering = tower::service_fn(async |_: http::Request<Body>| {
            let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
                "status": {"userInfo": {"username": "jane"}}});
            let body = Body::from(review.to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(body))
        });
        let client = Client::new(answering, "default");
        assert_eq!(who(&client).await.unwrap(), "jane");
    }
}
