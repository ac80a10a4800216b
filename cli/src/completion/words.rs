//! What is asked for at the end of a command line: commands and options that are known, and which names of the cluster
//! may stand there. Pure: by the same description of the command line that reads it.

use std::collections::BTreeMap;

use clap::builder::ValueHint;
use clap::{Arg, ArgAction, Command};

use super::candidate::Candidate;

/// What may stand where something is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedWords {
    /// What is typed of it.
    pub current: String,
    /// What is known without a cluster.
    pub known: Vec<Candidate>,
    /// Names that the cluster has.
    pub names: Option<Names>,
    /// Where it has them.
    pub scope: Scope,
    /// Whether it may be a file.
    pub is_file: bool,
}

/// Names of a cluster, or of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    Contexts,
    Namespaces,
    Gates,
    ClusterQueues,
    Cohorts,
    LocalQueues,
    /// `KIND/NAME`.
    Objects {
        /// Words for what is no kind of jobs, as `clusterqueue`.
        others: &'static [&'static str],
        /// Only what this gate holds.
        gate: Option<String>,
    },
}

/// What options say of where names are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    pub kubeconfig: Option<String>,
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// A command line as far as it is read.
struct Line<'a> {
    command: &'a Command,
    /// The words for the commands.
    path: Vec<&'a str>,
    /// Values by the arguments that have them.
    given: BTreeMap<&'a str, String>,
    /// How many arguments without a name have a value.
    positionals: usize,
    /// The option whose value comes next.
    awaits: Option<&'a Arg>,
    /// Whether options have ended, by `--`.
    is_escaped: bool,
}

/// What the last word of `typed` may be; none if the words before it say nothing that is known.
pub fn asked(mut plugin: Command, typed: &[String]) -> Option<AskedWords> {
    plugin.build();
    let (current, before) = typed.split_last()?;
    let mut line = Line {
        command: &plugin,
        path: Vec::new(),
        given: BTreeMap::new(),
        positionals: 0,
        awaits: None,
        is_escaped: false,
    };
    for word in before {
        line.read(word);
    }
    line.ask(current)
}

impl<'a> Line<'a> {
    fn read(&mut self, word: &str) {
        if let Some(option) = self.awaits.take() {
            self.give(option, word);
        } else if self.is_escaped || !word.starts_with('-') || word == "-" {
            self.read_positional(word);
        } else if word == "--" {
            self.is_escaped = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = split(long);
            let Some(option) = self.long(name) else {
                return;
            };
            match value {
                Some(value) => self.give(option, value),
                None if needs_value(option) => self.awaits = Some(option),
                None => self.give(option, ""),
            }
        } else {
            self.read_shorts(word);
        }
    }

    /// `-A`, `-n blue`, `-nblue`, `-wn=blue`.
    fn read_shorts(&mut self, word: &str) {
        let mut letters = word.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let mut options = self.command.get_arguments();
            let Some(option) = options.find(|option| option.get_short() == Some(letter)) else {
                return;
            };
            if needs_value(option) {
                let value = letters.as_str();
                let value = value.strip_prefix('=').unwrap_or(value);
                if value.is_empty() {
                    self.awaits = Some(option);
                } else {
                    self.give(option, value);
                }
                return;
            }
            self.give(option, "");
        }
    }

    fn read_positional(&mut self, word: &str) {
        let below = self.command.find_subcommand(word);
        let below = below.filter(|_| self.positionals == 0 && !self.is_escaped);
        if let Some(below) = below {
            self.path.push(below.get_name());
            self.command = below;
            return;
        }
        if let Some(argument) = self.positional() {
            self.give(argument, word);
        }
        self.positionals = self.positionals.saturating_add(1);
    }

    fn give(&mut self, argument: &'a Arg, value: &str) {
        let id = argument.get_id().as_str();
        self.given.insert(id, value.to_owned());
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        let mut options = self.command.get_arguments();
        options.find(|option| option.get_long() == Some(name))
    }

    fn positional(&self) -> Option<&'a Arg> {
        self.command.get_positionals().nth(self.positionals)
    }

    /// What the next word may be of which `current` is typed.
    fn ask(self, current: &str) -> Option<AskedWords> {
        if let Some(option) = self.awaits {
            return Some(self.value(option, current));
        }
        if !self.is_escaped && current.starts_with('-') {
            let long = current.strip_prefix("--").map(split);
            if let Some((name, Some(value))) = long {
                return self.long(name).map(|option| self.value(option, value));
            }
            return Some(self.asks(current, self.options()));
        }
        if self.positionals == 0 && self.command.has_subcommands() {
            let commands = self.command.get_subcommands();
            let shown = commands.filter(|command| !command.is_hide_set());
            let known = shown.map(|command| Candidate {
                value: command.get_name().to_owned(),
                about: command
                    .get_about()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            });
            return Some(self.asks(current, known.collect()));
        }
        let argument = self.positional()?;
        Some(self.value(argument, current))
    }

    /// The options that are not given yet.
    fn options(&self) -> Vec<Candidate> {
        let options = self.command.get_arguments().filter(|option| {
            let is_given = self.given.contains_key(option.get_id().as_str());
            let may_repeat = matches!(option.get_action(), ArgAction::Append | ArgAction::Count);
            !option.is_hide_set() && (!is_given || may_repeat)
        });
        let longs = options.filter_map(|option| {
            Some(Candidate {
                value: format!("--{}", option.get_long()?),
                about: option
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            })
        });
        longs.collect()
    }

    fn value(&self, argument: &Arg, current: &str) -> AskedWords {
        let possible = argument.get_possible_values();
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        let known = shown.map(|value| Candidate {
            value: value.get_name().to_owned(),
            about: value
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
        });
        AskedWords {
            names: self.names(argument.get_id().as_str()),
            is_file: matches!(
                argument.get_value_hint(),
                ValueHint::AnyPath | ValueHint::FilePath
            ),
            ..self.asks(current, known.collect())
        }
    }

    /// Which names of the cluster the value of an argument is.
    fn names(&self, argument: &str) -> Option<Names> {
        let objects = |others| {
            let gate = self.given.get("gate").cloned();
            Some(Names::Objects { others, gate })
        };
        match (&*self.path, argument) {
            (_, "namespace" | "system_namespace") => Some(Names::Namespaces),
            (_, "context") => Some(Names::Contexts),
            (["gates", ..], "gate") => Some(Names::Gates),
            (["list"], "queue") => Some(Names::LocalQueues),
            (["create", ..], "cluster_queue") => Some(Names::ClusterQueues),
            (["create", ..], "cohort") => Some(Names::Cohorts),
            (["hold" | "resume"], "object") => objects(&["clusterqueue", "localqueue"]),
            (["evict" | "reactivate"], "object") => objects(&["podgroup", "workload"]),
            (["explain"], "object") => objects(&["pod", "podgroup", "workload"]),
            (["gates", "lift"], "object") => objects(&["pod"]),
            _ => None,
        }
    }

    fn asks(&self, current: &str, known: Vec<Candidate>) -> AskedWords {
        let given = |argument: &str| self.given.get(argument).cloned();
        AskedWords {
            current: current.to_owned(),
            known,
            names: None,
            scope: Scope {
                kubeconfig: given("kubeconfig"),
                context: given("context"),
                namespace: given("namespace"),
            },
            is_file: false,
        }
    }
}

/// Name and value of `name=value`.
fn split(long: &str) -> (&str, Option<&str>) {
    match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    }
}

/// Whether the word after an option is its value.
fn needs_value(option: &Arg) -> bool {
    let values = option.get_num_args();
    values.is_some_and(|values| values.takes_values() && 0 < values.min_values())
}

#[cfg(test)]
mod tests;
