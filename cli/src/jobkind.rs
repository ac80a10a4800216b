//! `kubectl sluice jobkind check`: from the command line to what it says. No cluster is asked.

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::input::{self, Document, InputError};
use crate::print;
use crate::read_object;
use crate::report::{JobKindReport, Misfits, Report};
use crate::rules::queue_names::QueueAliases;
use crate::rules::schemas::{self, Schemas};
use crate::rules::{self, Rules};

const DETAILS: &str = "\
Reads JobKinds and objects from files, without a cluster, and prints what Sluice reads from the objects: \
queue, gates, how they are held, whether they are suspended, active or finished, and their pod sets. \
Given JobKinds alone, it checks them and lists their rules.

JobKinds are checked against the schemas of CustomResourceDefinitions among the files. What a namespace \
adds to requests (LimitRanges, RuntimeClasses) is not known without a cluster.

Examples:
  # Check a JobKind, and list its rules
  kubectl sluice jobkind check -f kind.yaml

  # Print what Sluice reads from an object
  kubectl sluice jobkind check -f kind.yaml -f object.yaml

  # Check the paths of a JobKind against the CustomResourceDefinition of the kind
  kubectl sluice jobkind check -f kind.yaml --schema crd.yaml

  # Check all manifests of a chart whose kinds Sluice manages
  helm template . | kubectl sluice jobkind check -f jobkinds/ -f - --ignore-other-kinds";

const EXIT_CODES: &str = "\
Exit codes:
  0  everything fits
  1  a JobKind or an object does not fit, or the kind of an object has no JobKind
  2  wrong usage, or a file that can't be read";

/// Check JobKinds, and print what Sluice reads from objects.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct Check {
    /// Files or directories with JobKinds, objects and CustomResourceDefinitions; - for the standard input.
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_delimiter = ',',
        required = true
    )]
    filename: Vec<PathBuf>,
    /// Also read the subdirectories of directories.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Files with the schemas of the kinds: OpenAPI v3 documents as the API server publishes them
    /// (kubectl get --raw /openapi/v3/apis/GROUP/VERSION), or CustomResourceDefinitions.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    schema: Vec<PathBuf>,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// Skip objects whose kind has no JobKind.
    #[arg(long)]
    ignore_other_kinds: bool,
    #[command(flatten)]
    aliases: QueueAliases,
}

/// A form for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What a check found out.
#[derive(Debug)]
pub struct Checked {
    rules: Vec<Rules>,
    report: Report,
}

impl Checked {
    /// What does not fit; none if all is well.
    pub fn misfits(&self) -> Option<Misfits> {
        self.report.misfits()
    }
}

impl Check {
    /// Reads the files and looks at what is in them.
    ///
    /// # Errors
    /// All files that can't be read.
    pub fn run(&self) -> Result<Checked, Vec<InputError>> {
        let documents = input::objects(&self.filename, self.recursive)?;
        let given = input::documents(&self.schema, self.recursive)?;
        let is_job_kind = |document: &Document| rules::is_job_kind(&document.value);
        let (job_kinds, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_job_kind);
        if job_kinds.is_empty() {
            return Err(vec![InputError::NoJobKind]);
        }
        let is_definition = |document: &Document| schemas::is_definition(&document.value);
        let (definitions, objects): (Vec<_>, Vec<_>) = others.into_iter().partition(is_definition);
        let is_object = |document: &Document| !rules::goes_with_job_kinds(&document.value);
        let schemas = Schemas::new(&definitions, &given)?;
        let names = self.aliases.names();
        let rules = rules::read(&job_kinds, &schemas, &names.gates);
        let report = Report {
            job_kinds: rules.iter().map(JobKindReport::from).collect(),
            objects: objects
                .into_iter()
                .filter(is_object)
                .map(|document| {
                    let spelt = names.with_own_keys(&document.value);
                    Document {
                        value: spelt.unwrap_or(document.value),
                        ..document
                    }
                })
                .map(|document| read_object::object(&document, &rules, &names.labels))
                .filter(|object| !self.ignore_other_kinds || object.job_kind.is_some())
                .collect(),
        };
        Ok(Checked { rules, report })
    }

    /// The result in the form that the user asked for.
    pub fn show(&self, checked: &Checked) -> io::Result<String> {
        match self.output {
            None => Ok(print::text(&checked.report, &checked.rules)),
            Some(Format::Json) => print::json(&checked.report).map_err(io::Error::other),
            Some(Format::Yaml) => print::yaml(&checked.report).map_err(io::Error::other),
        }
    }
}
