//! Completion: of commands and options by the command line of the plugin, and of live names by the cluster, with the
//! caller's rights. Shells and kubectl ask `kubectl-sluice __complete WORD... TYPED`, and get an answer in the form of
//! cobra, which kubectl reads: a candidate a line, a tab before its description, and a directive at the end.
//!
//! | file | what it holds |
//! |---|---|
//! | `candidate` | something that a word may be |
//! | `words` | what is asked for at the end of a command line. Pure |
//! | `names` | what the cluster has of it |
//! | `scripts` | what shells and kubectl run |
//!
//! Must not tell anything else: whoever completes does not read what is wrong.

mod candidate;
mod names;
mod words;

use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, Command, ValueEnum};

use self::candidate::Candidate;
use self::words::AskedWords;
use crate::table::printable;

/// The word with which shells ask. It is cobra's.
pub const ASK: &str = "__complete";
/// How long names may take: somebody waits with a finger on the key.
const DEADLINE: Duration = Duration::from_secs(2);
/// Candidates of which no more are told than anybody reads.
const CANDIDATES_MAX: usize = 500;

/// Cobra's `ShellCompDirectiveNoSpace`: the candidate is not the whole word.
const NO_SPACE: u8 = 2;
/// Cobra's `ShellCompDirectiveNoFileComp`: names of files are no candidates.
const NO_FILES: u8 = 4;

/// Print a script that completes commands, options, and live names: of jobs, queues, gates, namespaces and contexts.
///
/// It completes kubectl-sluice; for bash: source <(kubectl sluice completion bash). For kubectl sluice itself, save what
/// `kubectl sluice completion kubectl` prints as an executable file kubectl_complete-sluice on the PATH: kubectl's own
/// completion (1.26 or newer) runs it.
#[derive(Debug, Args)]
pub struct Completion {
    /// bash, zsh, fish, or kubectl.
    #[arg(hide_possible_values = true)]
    shell: Shell,
}

/// Who completes.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Kubectl,
}

impl Completion {
    /// The script.
    pub fn script(&self) -> &'static str {
        match self.shell {
            Shell::Bash => include_str!("scripts/kubectl-sluice.bash"),
            Shell::Zsh => include_str!("scripts/kubectl-sluice.zsh"),
            Shell::Fish => include_str!("scripts/kubectl-sluice.fish"),
            Shell::Kubectl => include_str!("scripts/kubectl_complete-sluice.sh"),
        }
    }
}

/// What completes the last of the `typed` words of the command line of `plugin`.
pub fn complete(plugin: Command, typed: &[String]) -> String {
    let Some(asked) = words::asked(plugin, typed) else {
        return answer(&[], NO_FILES);
    };
    let mut candidates = asked.known.clone();
    candidates.extend(live(&asked));
    candidates.retain(|candidate| candidate.value.starts_with(&asked.current));
    candidates.sort();
    candidates.dedup();
    candidates.truncate(CANDIDATES_MAX);
    // A kind, which its names follow.
    let is_open = !candidates.is_empty() && candidates.iter().all(|c| c.value.ends_with('/'));
    let mut directive = if is_open { NO_SPACE } else { 0 };
    if !asked.is_file {
        directive |= NO_FILES;
    }
    answer(&candidates, directive)
}

/// The names that the cluster has, as far as it tells them in time. A credential plugin that hangs holds its thread, and
/// not who waits.
fn live(asked: &AskedWords) -> Vec<Candidate> {
    let Some(names) = asked.names.clone() else {
        return Vec::new();
    };
    let (scope, current) = (asked.scope.clone(), asked.current.clone());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(names::live(&names, &scope, &current));
    });
    receiver.recv_timeout(DEADLINE).unwrap_or_default()
}

fn answer(candidates: &[Candidate], directive: u8) -> String {
    let mut text = String::new();
    for Candidate { value, about } in candidates {
        let (value, about) = (printable(value), printable(about));
        let line = if about.is_empty() {
            writeln!(text, "{value}")
        } else {
            writeln!(text, "{value}\t{about}")
        };
        debug_assert!(line.is_ok(), "a text takes what is written");
    }
    text + &format!(":{directive}\n")
}
