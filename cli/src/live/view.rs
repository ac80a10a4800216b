//! What commands share that show how something stands, once or again and again: their options, and the loop.

use std::time::Duration;

use clap::Args;
use kube::Client;

use super::outcome::{Ended, LiveError};
use crate::cluster::{Cluster, Connection, Format, Namespaces, Tell, Told};

/// How often what is watched is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// The options.
#[derive(Debug, Args)]
pub struct View {
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
    /// Look again every two seconds, and print what has changed.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

impl View {
    /// Tells what `look` finds in the namespace, or in all, with its notes: once, or again whenever it is something else.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn show(
        &self,
        tell: &mut Tell<'_>,
        mut look: impl AsyncFnMut(&Client, Option<&str>, &mut Tell<'_>) -> Result<String, LiveError>,
    ) -> Result<Ended, LiveError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?;
        let mut told: Option<String> = None;
        loop {
            let mut notes = Vec::new();
            let mut note = |told| {
                notes.push(told);
                Ok(())
            };
            let found = look(&cluster.client, namespace.as_deref(), &mut note).await;
            if found.as_ref().ok() != told.as_ref() {
                if let Ok(found) = &found {
                    let gap = if told.is_some() { "\n" } else { "" };
                    tell(Told::Result(format!("{gap}{found}")))?;
                }
                for note in notes {
                    tell(note)?;
                }
            }
            told = Some(found?);
            if !self.watch {
                return Ok(Ended::Done);
            }
            tokio::time::sleep(LOOKED_AT_EVERY).await;
        }
    }
}
