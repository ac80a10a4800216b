//! How commands tell what they know, and the forms that a result can be asked for in.

use std::io;

use clap::ValueEnum;

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// More columns.
    Wide,
}

/// What a command tells, as soon as it knows.
pub enum Told {
    /// What was asked for.
    Result(String),
    /// What the user should know besides.
    Note(String),
    /// What did not work.
    Error(String),
}

/// Takes what a command tells.
pub type Tell<'a> = dyn FnMut(Told) -> io::Result<()> + Send + 'a;
