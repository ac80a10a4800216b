//! The kubectl plugin: `kubectl sluice ...`. This file knows the command line and the exit code; each
//! command has a module of its own.
// In a binary `pub` says what a module offers to the others.
#![allow(unreachable_pub)]

mod input;
mod jobkind;
mod print;
mod report;
mod rules;
mod schemas;
mod see;
mod table;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks into Sluice, which holds Job-like objects at a gate until they may run.
#[derive(Debug, Parser)]
#[command(name = "kubectl-sluice", bin_name = "kubectl sluice", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What has to do with JobKinds: how Sluice reads and holds a kind of objects.
    #[command(subcommand, name = "jobkind", visible_aliases = ["jobkinds", "jk"])]
    JobKind(JobKindCommand),
}

#[derive(Debug, Subcommand)]
enum JobKindCommand {
    Check(jobkind::Check),
}

/// Something does not fit.
const MISFIT: u8 = 1;
/// Wrong usage, which clap ends with as well, or a file that can't be read.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let Command::JobKind(JobKindCommand::Check(command)) = Cli::parse().command;
    let checked = match command.run() {
        Ok(checked) => checked,
        Err(errors) => {
            for error in errors {
                eprintln!("error: {error}");
            }
            return ExitCode::from(FAILED);
        }
    };
    let shown = command.show(&checked).map_err(io::Error::other);
    if let Err(error) = shown.and_then(|text| write(&text)) {
        eprintln!("error: the result can't be written: {error}");
        return ExitCode::from(FAILED);
    }
    match checked.misfits() {
        None => ExitCode::SUCCESS,
        Some(misfits) => {
            eprintln!("error: {misfits}");
            ExitCode::from(MISFIT)
        }
    }
}

/// Writes to the standard output. A reader that has seen enough is no error.
fn write(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
