//! The kubectl plugin: `kubectl sluice ...`. This file knows the command line and the exit code; each
//! command has a module of its own. Only `audit`, `completion`, `gates`, `live`, `web` and `uninstall`
//! ask a cluster.
// In a binary `pub` says what a module offers to the others.
#![allow(unreachable_pub)]

mod audit;
mod cluster;
mod completion;
mod gates;
mod input;
mod jobkind;
mod live;
mod print;
mod read_object;
mod report;
mod rules;
mod simulate;
mod table;
mod uninstall;
mod web;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::audit::Audit;
use crate::cluster::{Told, unless_closed};
use crate::completion::Completion;
use crate::gates::Gates;
use crate::live::{JobKinds, Live};
use crate::simulate::Failure;
use crate::table::{printable, screened};
use crate::uninstall::{Line, Uninstall};
use crate::web::Web;

/// Shows and steers the queues and jobs of Sluice, which holds Job-like objects until they are admitted; lists and
/// lifts gates; checks and simulates what it does; and uninstalls it.
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
    #[command(flatten)]
    Live(Live),
    Web(Web),
    Uninstall(Uninstall),
    Completion(Completion),
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
    if let Some(typed) = asked_to_complete() {
        return told(&completion::complete(Cli::command(), &typed));
    }
    match Cli::parse().command {
        Command::JobKind(JobKindCommand::Check(command)) => check(&command),
        Command::Simulate(command) => simulate(&command),
        Command::Gates(command) => gates(&command),
        Command::Audit(command) => audit(&command),
        Command::Live(command) => live(&command),
        Command::Web(command) => web(&command),
        Command::Completion(command) => told(command.script()),
        Command::Uninstall(command) => uninstall(&command),
    }
}

fn uninstall(command: &Uninstall) -> ExitCode {
    let ended = command.run(&mut |line| match line {
        Line::Done(text) => write(&format!("{}\n", printable(&text))),
        Line::Left(text) => {
            complain("left", printable(&text));
            Ok(())
        }
        Line::Failed(text) => {
            complain("error", printable(&text));
            Ok(())
        }
    });
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISFIT),
        Err(error) => failed(FAILED, [printable(&error.to_string())]),
    }
}

fn gates(command: &Gates) -> ExitCode {
    match command.run(&mut tell) {
        Ok(gates::Ended::Done) => ExitCode::SUCCESS,
        Ok(gates::Ended::NotDone) => ExitCode::from(MISFIT),
        Err(error) => failed(FAILED, [printable(&error.to_string())]),
    }
}

fn live(command: &Live) -> ExitCode {
    match command.run(&mut tell_reader) {
        Ok(live::Ended::Done) => ExitCode::SUCCESS,
        Ok(live::Ended::NotDone) => ExitCode::from(MISFIT),
        Err(error) => failed(FAILED, [printable(&error.to_string())]),
    }
}

fn web(command: &Web) -> ExitCode {
    match command.run(&mut tell) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(FAILED, [printable(&error.to_string())]),
    }
}

/// Tells what a command has found out. A reader that has seen enough is no error.
fn tell(told: Told) -> io::Result<()> {
    unless_closed(tell_reader(told))
}

/// Tells what a command has found out. A reader that has gone is an error of kind `BrokenPipe`.
fn tell_reader(told: Told) -> io::Result<()> {
    match told {
        Told::Result(text) => io::stdout().write_all(screened(&text).as_bytes()),
        Told::Note(note) => {
            complain("note", printable(&note));
            Ok(())
        }
        Told::Error(error) => {
            complain("error", printable(&error));
            Ok(())
        }
    }
}

fn audit(command: &Audit) -> ExitCode {
    let audited = match command.run() {
        Ok(audited) => audited,
        Err(error) => return failed(FAILED, [printable(&error.to_string())]),
    };
    for note in &audited.notes {
        complain("note", printable(note));
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
    let shown = command.show(&checked);
    if let Err(error) = shown.and_then(|text| write(&text)) {
        return failed(FAILED, [unwritable(error)]);
    }
    match checked.misfits() {
        None => ExitCode::SUCCESS,
        Some(misfits) => failed(MISFIT, [misfits]),
    }
}

fn simulate(command: &simulate::Simulate) -> ExitCode {
    let read = |connection| {
        let job_kinds = if command.has_files() {
            JobKinds::ToReadJobs
        } else {
            JobKinds::ToKnowEnds
        };
        live::export(connection, job_kinds, &mut tell)
    };
    let seen = match command.cluster().map(read).transpose() {
        Ok(seen) => seen,
        Err(error) => return failed(FAILED, [printable(&error.to_string())]),
    };
    let (text, notes) = match command.run(seen) {
        Ok(shown) => shown,
        Err(Failure::Unreadable(errors)) => return failed(FAILED, errors),
        Err(Failure::Problems(problems)) => return failed(MISFIT, problems.lines()),
        Err(Failure::NotOneJob(problem)) => return failed(FAILED, [problem]),
        Err(Failure::Unwritable(error)) => return failed(FAILED, [unwritable(error)]),
    };
    for note in notes {
        complain("note", printable(&note));
    }
    match write(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(FAILED, [unwritable(error)]),
    }
}

/// What is typed, if a shell asks how that goes on.
fn asked_to_complete() -> Option<Vec<String>> {
    let mut words = std::env::args_os().skip(1);
    let asks = words.next().is_some_and(|word| word == completion::ASK);
    asks.then(|| {
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    })
}

fn told(text: &str) -> ExitCode {
    match write(text) {
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
        complain("error", error);
    }
    ExitCode::from(code)
}

/// Writes a line to the standard error. Nobody may read that, and what is done goes on all the same: a panic here would
/// leave it half done.
fn complain(what: &str, text: impl fmt::Display) {
    let text = screened(&text.to_string());
    let _ = writeln!(io::stderr(), "{what}: {text}");
}

/// Writes to the standard output. A reader that has seen enough is no error.
fn write(text: &str) -> io::Result<()> {
    unless_closed(io::stdout().write_all(screened(text).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_help(command: &clap::Command, found: &mut Vec<(String, String)>) {
        let about = command.get_long_about().map(ToString::to_string);
        found.push((command.get_name().to_owned(), about.unwrap_or_default()));
        for command in command.get_subcommands() {
            long_help(command, found);
        }
    }

    /// There is one page for all namespaces.
    #[test]
    fn the_page_takes_one_namespace() {
        let parsed = |arguments: &[&str]| {
            let words = ["kubectl-sluice", "web"].iter().chain(arguments);
            Cli::try_parse_from(words).is_ok()
        };
        assert!(!parsed(&["-A"]));
        assert!(parsed(&["-n", "blue"]));
    }

    /// clap wraps each line of a text by itself, so that lines which are broken in the source are broken twice.
    #[test]
    fn a_paragraph_of_the_help_is_one_line() {
        let mut found = Vec::new();
        long_help(&Cli::command(), &mut found);
        assert!(20 < found.len());
        for (command, text) in found {
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
                assert!(
                    !is_text(pair[0]) || !is_text(pair[1]),
                    "{command}: {} | {}",
                    pair[0],
                    pair[1]
                );
            }
        }
    }
}
