//! `sluice config check`: what the controller would say to a configuration file, without a controller.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use sluice_configuration::parse;

use crate::process::config::file::text;

/// Checks a configuration file. Prints each problem on a line of its own, and then ends with status 1.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file; `-` is the standard input.
    #[arg(env = "SLUICE_CONFIG", default_value = "-")]
    file: PathBuf,
    /// Print the configuration as it takes effect: with the defaults of all that the file leaves out.
    #[arg(long)]
    print: bool,
}

impl CheckArgs {
    /// Checks the file, and prints to `output`.
    ///
    /// # Errors
    /// `output` can't be written to.
    pub fn run(&self, output: &mut impl Write) -> std::io::Result<ExitCode> {
        match text(&self.file).and_then(|text| parse(&text)) {
            Err(error) => {
                for line in error.lines() {
                    writeln!(output, "{line}")?;
                }
                Ok(ExitCode::FAILURE)
            }
            Ok(configuration) if self.print => {
                let text = serde_saphyr::to_string(&configuration);
                let text = text.map_err(std::io::Error::other)?;
                write!(output, "{text}")?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(_) => {
                writeln!(output, "the configuration is valid")?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
