//! Who may ask: the front proxy of the API server, by its certificate. It says for whom it asks, and has asked RBAC before,
//! so that nobody else may be believed. Where its authorities are published is the same in every cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::{Client, Error};
use sluice_webhooks::{AllowedClients, AllowedClientsError};
use thiserror::Error;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const AUTHORITIES: &str = "requestheader-client-ca-file";
const NAMES: &str = "requestheader-allowed-names";

/// What the API server publishes of its front proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    authorities: String,
    names: Vec<String>,
}

/// Why it is not known who the front proxy is.
#[derive(Debug, Error)]
pub enum FrontProxyError {
    /// The ConfigMap can't be read.
    #[error("get ConfigMap {NAMESPACE}/{NAME}: {0}")]
    Get(#[source] Error),
    /// The API server has no front proxy.
    #[error(
        "ConfigMap {NAMESPACE}/{NAME} has no {AUTHORITIES}: start the API server with --requestheader-client-ca-file, or delete the APIService"
    )]
    None,
    /// The names can't be read.
    #[error("ConfigMap {NAMESPACE}/{NAME}, {NAMES}: {0}")]
    Names(#[source] serde_json::Error),
    /// The authorities can't be used.
    #[error("ConfigMap {NAMESPACE}/{NAME}, {AUTHORITIES}: {0}")]
    Authorities(#[source] AllowedClientsError),
}

impl FrontProxy {
    /// Reads what the API server publishes.
    ///
    /// # Errors
    /// It publishes nothing that could be used.
    pub async fn read(client: &Client) -> Result<Self, FrontProxyError> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let map = maps.get(NAME).await.map_err(FrontProxyError::Get)?;
        Self::parse(&map)
    }

    fn parse(map: &ConfigMap) -> Result<Self, FrontProxyError> {
        let text = |key| map.data.as_ref().and_then(|data| data.get(key));
        let authorities = text(AUTHORITIES).filter(|text| !text.trim().is_empty());
        let names = text(NAMES).map(|names| serde_json::from_str(names));
        Ok(Self {
            authorities: authorities.ok_or(FrontProxyError::None)?.clone(),
            names: names
                .transpose()
                .map_err(FrontProxyError::Names)?
                .unwrap_or_default(),
        })
    }

    /// The clients that are answered.
    ///
    /// # Errors
    /// The authorities can't be used.
    pub fn clients(&self) -> Result<AllowedClients, FrontProxyError> {
        AllowedClients::signed_by(&self.authorities, self.names.clone())
            .map_err(FrontProxyError::Authorities)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn nobody_is_answered_where_no_front_proxy_is_known() {
        let data = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
            FrontProxy::parse(&ConfigMap {
                data: Some(entries.collect::<BTreeMap<_, _>>()),
                ..ConfigMap::default()
            })
        };
        for (case, read, told) in [
            ("nothing", data(&[]), "has no requestheader-client-ca-file"),
            (
                "no authorities",
                data(&[(AUTHORITIES, "\n"), (NAMES, "[]")]),
                "has no requestheader-client-ca-file",
            ),
            (
                "no list of names",
                data(&[(AUTHORITIES, "x"), (NAMES, "front-proxy-client")]),
                "requestheader-allowed-names: expected",
            ),
            (
                "no certificates",
                data(&[(AUTHORITIES, "x"), (NAMES, r#"["front-proxy-client"]"#)]),
                "requestheader-client-ca-file: there is no certificate",
            ),
        ] {
            let clients = read.and_then(|proxy| proxy.clients());
            let error = clients.expect_err(case).to_string();
            assert!(error.contains(told), "{case}: {error}");
        }
    }
}
