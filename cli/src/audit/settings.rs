//! The configuration that counts: that of a file, or else that of the cluster.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use kube::Client;
use sluice_configuration::{ConfigError, Configuration, parse};

use super::outcome::AuditError;
use crate::cluster::configuration;

/// The options.
#[derive(Debug, Args)]
pub(super) struct Settings {
    /// A file with the configuration of Sluice, in place of that of the cluster; - is the standard input.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Settings {
    /// The configuration, and a note if nothing is known of it. Sluice is in the namespace `home`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) async fn read(
        &self,
        client: &Client,
        home: &str,
    ) -> Result<(Configuration, Vec<String>), AuditError> {
        if let Some(path) = &self.config {
            let read = text(path).map_err(ConfigError::from);
            let read = read.and_then(|text| parse(&text));
            let unusable = |error: ConfigError| AuditError::Configuration {
                file: path.display().to_string(),
                problems: error.lines().join("; "),
            };
            return Ok((read.map_err(unusable)?, Vec::new()));
        }
        Ok(match configuration(client, home).await {
            Ok(configuration) => (configuration, Vec::new()),
            Err(why) => (Configuration::default(), vec![assumed(&why)]),
        })
    }
}

fn text(path: &Path) -> std::io::Result<String> {
    if path.as_os_str() != "-" {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn assumed(why: &str) -> String {
    format!(
        "the configuration of Sluice is not known ({why}): assumed that only namespaces with the label \
         sluice.dev/enforcement require a queue, without exceptions and aliases; name the file with --config"
    )
}
