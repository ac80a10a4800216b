//! `kubectl sluice gates list`: all Gates.

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use sluice_crds::Gate;

use super::outcome::{EXIT_CODES, Ended, GatesError};
use super::text;
use crate::cluster::{Cluster, Connection, answer};
use crate::cluster::{Format, Tell, Told};

/// List the Gates, and how much they hold.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct List {
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

impl List {
    /// Lists them.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let resource = ApiResource::erase::<Gate>(&());
        let gates = Api::<DynamicObject>::all_with(cluster.client, &resource);
        let params = ListParams::default();
        let found = answer("list Gates", gates.list(&params)).await?.items;
        if let Some(format @ (Format::Json | Format::Yaml)) = self.output {
            let items: Result<Vec<Value>, _> = found.into_iter().map(plain).collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items?});
            tell(Told::Result(written(&list, format)?))?;
            return Ok(Ended::Done);
        }
        let mut readable = Vec::new();
        for object in found {
            match read(object) {
                Ok(gate) => readable.push(gate),
                // It hides no others.
                Err(error) => tell(Told::Note(error.to_string()))?,
            }
        }
        let is_wide = self.output == Some(Format::Wide);
        tell(Told::Result(text::table(
            &readable,
            is_wide,
            Timestamp::now(),
        )))?;
        Ok(Ended::Done)
    }
}

/// A Gate as the types know it.
///
/// # Errors
/// It is not as its schema says.
pub fn read(object: DynamicObject) -> Result<Gate, GatesError> {
    let name = object.name_any();
    let gate = serde_json::to_value(object).and_then(serde_json::from_value);
    gate.map_err(|source| GatesError::Unreadable {
        what: format!("the Gate {name}"),
        source,
    })
}

/// An object as kubectl prints it.
///
/// # Errors
/// It can't be printed.
pub fn plain(mut object: DynamicObject) -> Result<Value, GatesError> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).map_err(|error| GatesError::Unprintable(error.to_string()))
}

/// An object in a form for programs.
///
/// # Errors
/// It can't be printed.
pub fn written(object: &Value, format: Format) -> Result<String, GatesError> {
    let written = match format {
        Format::Yaml => serde_saphyr::to_string(object).map_err(|error| error.to_string()),
        Format::Json | Format::Wide => {
            let text = serde_json::to_string_pretty(object).map(|text| text + "\n");
            text.map_err(|error| error.to_string())
        }
    };
    written.map_err(GatesError::Unprintable)
}
