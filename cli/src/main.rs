//! The kubectl plugin: `kubectl sluice ...`. This file knows the command line and the exit code; each
//! command has a module of its own. Only `gates` and `audit` ask a cluster.
// In a binary `pub` says what a module offers to the others.
#![allow(unreachable_pub)]

mod audit;
mod gates;
mod input;
mod jobkind;
mod print;
mod report;
mod rules;
mod schemas;
mod see;
mod simulate;
mod table;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::audit::Audit;
use crate::gates::{Ended, Gates, Told};
use crate::simulate::Failure;
use crate::table::printable;

/// Checks and simulates what Sluice does, which holds Job-like objects until they are admitted; lists and lifts
/// gates.
#[derive(Debug, Parser)]
#[command(name = "kubectl-sluice", bin_name = "kubectl sluice", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Commands for JobKinds, which declare how Sluice reads and holds a kind of objects.
    #[command(subcommand, name = "jobkind", visible_aliases = ["jobkinds", "jk"])]
    JobKind(JobKindCommand),
    Simulate(Box<simulate::Simulate>),
    /// Commands for gates, which hold objects of a cluster before they are queued.
    #[command(subcommand, visible_aliases = ["gate"])]
    Gates(Gates),
    Audit(Audit),
}

#[derive(Debug, Subcommand)]
enum JobKindCommand {
    Check(jobkind::Check),
}

/// Something does not fit, or was not done.
const MISFIT: u8 = 1;
/// Wrong usage, which clap ends with as well, a file that can't be read, or a cluster that does not answer.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::JobKind(JobKindCommand::Check(command)) => check(&command),
        Command::Simulate(command) => simulate(&command),
        Command::Gates(command) => gates(&command),
        Command::Audit(command) => audit(&command),
    }
}

fn gates(command: &Gates) -> ExitCode {
    let ended = command.run(&mut |told| match told {
        Told::Result(text) => write(&text),
        Told::Note(note) => {
            eprintln!("note: {}", printable(&note));
            Ok(())
        }
        Told::Error(error) => {
            eprintln!("error: {}", printable(&error));
            Ok(())
        }
    });
    match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::NotLifted) => ExitCode::from(MISFIT),
        Err(error) => failed(FAILED, [printable(&error.to_string())]),
    }
}

fn audit(command: &Audit) -> ExitCode {
    let audited = match command.run() {
        Ok(audited) => audited,
        Err(error) => return failed(FAILED, [printable(&error.to_string())]),
    };
    for note in &audited.notes {
        eprintln!("note: {}", printable(note));
    }
    match write(&audited.text) {
        Ok(()) if audited.is_clean => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(MISFIT),
        Err(error) => failed(FAILED, [unwritable(error)]),
    }
}

fn check(command: &jobkind::Check) -> ExitCode {
    let checked = match command.run() {
        Ok(checked) => checked,
        Err(errors) => return failed(FAILED, errors),
    };
    let shown = command.show(&checked).map_err(io::Error::other);
    if let Err(error) = shown.and_then(|text| write(&text)) {
        return failed(FAILED, [unwritable(error)]);
    }
    match checked.misfits() {
        None => ExitCode::SUCCESS,
        Some(misfits) => failed(MISFIT, [misfits]),
    }
}

fn simulate(command: &simulate::Simulate) -> ExitCode {
    let (text, notes) = match command.run() {
        Ok(shown) => shown,
        Err(Failure::Unreadable(errors)) => return failed(FAILED, errors),
        Err(Failure::Problems(problems)) => return failed(MISFIT, problems.lines()),
        Err(Failure::NotOneJob(problem)) => return failed(FAILED, [problem]),
        Err(Failure::Unwritable(error)) => return failed(FAILED, [unwritable(error)]),
    };
    for note in notes {
        eprintln!("note: {note}");
    }
    match write(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(FAILED, [unwritable(error)]),
    }
}

fn unwritable(error: impl fmt::Display) -> String {
    format!("the result can't be written: {error}")
}

/// Tells `errors`, and ends with `code`.
fn failed(code: u8, errors: impl IntoIterator<Item = impl fmt::Display>) -> ExitCode {
    for error in errors {
        eprintln!("error: {error}");
    }
    ExitCode::from(code)
}

/// Writes to the standard output. A reader that has seen enough is no error.
fn write(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
