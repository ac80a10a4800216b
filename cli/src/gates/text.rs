//! What the commands print: tables and lines from objects and outcomes. Pure; the time is an argument.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use sluice_crds::{Deadline, Gate as GateObject, HeldObject, Lifting, OnExpiry};
use sluice_kinds::gates::Gate;

use super::lift_patch::{LiftOutcome, left};
use super::opening;
use super::outcome::Ended;
use crate::cluster::age::{age, span};
use crate::cluster::{DryRun, Told};
use crate::table::{NONE, columns, fields, printable};

/// Longest description in a table, in characters. `show` prints all of it.
const DESCRIPTION_MAX: usize = 60;

const CHANGED: &str =
    "it was changed or made again meanwhile, twice; its gates are as they were: try again";

/// Whether the caller may lift a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MayLift {
    /// Whoever may edit the object may.
    WhoeverMayEdit,
    /// The API server says so.
    Yes,
    /// The API server does not say so, and may say why.
    No(Option<String>),
}

/// What is shown of a gate that has no Gate.
pub fn without_object(gate: &Gate) -> String {
    let known = [
        ("Gate", gate.to_string()),
        ("Gate Object", NONE.to_owned()),
        (
            "Lifted By",
            "anyone who may edit the held object".to_owned(),
        ),
    ];
    let advice = match gate.object_name() {
        None => "Its path is no DNS label: a gate like this can't have a Gate.\n".to_owned(),
        Some(name) => format!(
            "A Gate gives it owners, a description, a deadline and a status. To make one:\n\n  \
               kubectl apply -f - <<EOF\n  \
               apiVersion: sluice.dev/v1alpha1\n  \
               kind: Gate\n  \
               metadata:\n    \
                 name: {name}\n  \
               spec:\n    \
                 description: What the gate waits for\n    \
                 contact: Whom to ask\n  \
               EOF\n"
        ),
    };
    fields(&known, 0) + "\n" + &advice
}

/// What is known of a gate whose Gate the caller may not read, or which has none.
pub fn unread_object(gate: &Gate, may: &MayLift, place: &str) -> String {
    let you = match may {
        MayLift::WhoeverMayEdit | MayLift::Yes => may.in_place(place),
        MayLift::No(_) => format!(
            "{}; unless it has no Gate, or one with lifting Anyone: then what you may edit",
            may.in_place(place)
        ),
    };
    let known = [
        ("Gate", gate.to_string()),
        ("Gate Object", "<unknown>".to_owned()),
        ("You May Lift", you),
    ];
    fields(&known, 0)
}

/// The note that a Gate of this name can't be read, and who gives the right to.
pub fn unread_note(name: &str, why: &str) -> String {
    format!(
        "can't read Gate {name:?}: {why}; ClusterRole \"sluice-gate-viewer\" gives the right to"
    )
}

impl MayLift {
    /// The answer about `place`.
    fn in_place(&self, place: &str) -> String {
        match self {
            Self::WhoeverMayEdit => format!("what you may edit in {place}"),
            Self::Yes => format!("yes, in {place}"),
            Self::No(None) => format!("no, not in {place}"),
            Self::No(Some(why)) => format!("no, not in {place}: {why}"),
        }
    }
}

/// All that is known of a gate with a Gate. `place` is where the caller may lift it, or not.
pub fn shown(
    gate: &Gate,
    object: &GateObject,
    may: &MayLift,
    place: &str,
    now: Timestamp,
) -> String {
    let spec = &object.spec;
    let status = object.status.clone().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
    let lifted_by = match spec.lifting {
        Lifting::Owners => format!(
            "those with the verb lift on gates.sluice.dev/{}",
            object.name_any()
        ),
        Lifting::Anyone => "anyone who may edit the held object".to_owned(),
    };
    let oldest = status.oldest_since.as_ref().map(|since| age(since.0, now));
    let known = [
        ("Gate", gate.to_string()),
        ("Gate Object", object.name_any()),
        ("Description", text(&spec.description)),
        ("Contact", text(&spec.contact)),
        ("Opens", opening::in_full(spec, status.passed)),
        ("Holds", opening::born_with(spec.applies_to.as_ref())),
        ("Lifted By", lifted_by),
        ("You May Lift", may.in_place(place)),
        (
            "Deadline",
            spec.deadline.map_or_else(
                || NONE.to_owned(),
                |deadline| {
                    let seconds = span(i64::from(deadline.seconds));
                    format!(
                        "{seconds} after creation, then {}",
                        action(deadline.on_expiry)
                    )
                },
            ),
        ),
        (
            "Backlogged",
            spec.backlog
                .as_ref()
                .and_then(opening::backlog)
                .unwrap_or_else(|| NONE.to_owned()),
        ),
        ("Held", status.held.to_string()),
        ("Oldest", oldest.unwrap_or_else(|| NONE.to_owned())),
        ("Lifted", status.lifted_total.to_string()),
        ("Expired", status.expired_total.to_string()),
    ];
    let mut shown = fields(&known, 0);
    if !status.oldest.is_empty() {
        shown.push_str("Held the Longest:\n");
        shown.push_str(&held(&status.oldest, now));
    }
    if !status.conditions.is_empty() {
        shown.push_str("Conditions:\n");
        shown.push_str(&conditions(&status.conditions));
    }
    shown
}

fn held(objects: &[HeldObject], now: Timestamp) -> String {
    let rows = objects.iter().map(|object| {
        vec![
            object.namespace.clone(),
            object.kind.clone(),
            object.name.clone(),
            age(object.since.0, now),
        ]
    });
    columns(
        &["NAMESPACE", "KIND", "NAME", "AGE"],
        &rows.collect::<Vec<_>>(),
        2,
    )
}

fn conditions(conditions: &[Condition]) -> String {
    let rows = conditions.iter().map(|condition| {
        vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            printable(&condition.message),
        ]
    });
    columns(
        &["TYPE", "STATUS", "REASON", "MESSAGE"],
        &rows.collect::<Vec<_>>(),
        2,
    )
}

/// A table of Gates.
pub fn table(objects: &[GateObject], is_wide: bool, now: Timestamp) -> String {
    if objects.is_empty() {
        return "No Gates found. A gate works without one: see kubectl sluice gates show GATE.\n"
            .to_owned();
    }
    let mut headers = vec![
        "GATE",
        "HELD",
        "OLDEST",
        "OPENS",
        "DEADLINE",
        "LIFTING",
        "DESCRIPTION",
    ];
    if is_wide {
        headers.extend(["CONTACT", "LIFTED", "EXPIRED", "AGE"]);
    }
    let rows: Vec<_> = objects
        .iter()
        .map(|object| row(object, is_wide, now))
        .collect();
    columns(&headers, &rows, 0)
}

fn row(object: &GateObject, is_wide: bool, now: Timestamp) -> Vec<String> {
    let name = object.name_any();
    let status = object.status.clone().unwrap_or_default();
    let line = |text: &Option<String>| {
        let text = printable(text.as_deref().unwrap_or(NONE));
        if is_wide { text } else { shortened(&text) }
    };
    let since =
        |time: Option<Timestamp>| time.map_or_else(|| NONE.to_owned(), |time| age(time, now));
    let created = object.metadata.creation_timestamp.as_ref();
    let mut row = vec![
        Gate::of_object(&name).map_or(name, |gate| gate.to_string()),
        status.held.to_string(),
        since(status.oldest_since.as_ref().map(|since| since.0)),
        opening::in_a_word(&object.spec).to_owned(),
        deadline(object.spec.deadline),
        lifting(object.spec.lifting).to_owned(),
        line(&object.spec.description),
    ];
    if is_wide {
        row.extend([
            line(&object.spec.contact),
            status.lifted_total.to_string(),
            status.expired_total.to_string(),
            since(created.map(|created| created.0)),
        ]);
    }
    row
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= DESCRIPTION_MAX {
        return text.to_owned();
    }
    let kept: String = text.chars().take(DESCRIPTION_MAX - 1).collect();
    kept.trim_end().to_owned() + "…"
}

fn lifting(lifting: Lifting) -> &'static str {
    match lifting {
        Lifting::Owners => "Owners",
        Lifting::Anyone => "Anyone",
    }
}

fn deadline(deadline: Option<Deadline>) -> String {
    deadline.map_or_else(
        || NONE.to_owned(),
        |Deadline { seconds, on_expiry }| {
            format!("{} {}", span(i64::from(seconds)), action(on_expiry))
        },
    )
}

fn action(on_expiry: OnExpiry) -> &'static str {
    match on_expiry {
        OnExpiry::Notify => "Notify",
        OnExpiry::Lift => "Lift",
        OnExpiry::Deactivate => "Deactivate",
    }
}

/// What became of the gate of the one object that was named.
pub fn lifted(object: &str, gate: &Gate, outcome: &LiftOutcome, dry_run: DryRun) -> Told {
    match outcome {
        LiftOutcome::Lifted(annotations) => {
            Told::Result(lifted_line(object, gate, &left(annotations), dry_run))
        }
        LiftOutcome::NotThere(annotations) => Told::Error(format!(
            "{object} does not have the gate {gate}: {}",
            left(annotations)
        )),
        LiftOutcome::Changed => Told::Error(format!("{object}: {CHANGED}")),
        LiftOutcome::Gone(status) => Told::Error(status.message.clone()),
        // In the words of the API server.
        LiftOutcome::Failed(error) => Told::Error(error.to_string()),
    }
}

/// What became of the gate of one object of many.
pub fn lifted_of_many(object: &str, gate: &Gate, outcome: &LiftOutcome, dry_run: DryRun) -> Told {
    match outcome {
        LiftOutcome::Lifted(annotations) => {
            Told::Result(lifted_line(object, gate, &left(annotations), dry_run))
        }
        LiftOutcome::NotThere(_) => {
            Told::Result(format!("{object}: does not have {gate} any more\n"))
        }
        LiftOutcome::Changed => Told::Error(format!("{object}: {CHANGED}")),
        LiftOutcome::Gone(_) => Told::Result(format!("{object}: does not exist any more\n")),
        LiftOutcome::Failed(error) => Told::Error(format!("{object}: {error}")),
    }
}

fn dry_run_note(dry_run: DryRun) -> &'static str {
    match dry_run {
        DryRun::Yes => " (server dry run)",
        DryRun::No => "",
    }
}

fn lifted_line(object: &str, gate: &Gate, left: &str, dry_run: DryRun) -> String {
    let dry_run = dry_run_note(dry_run);
    format!("{object}: {gate} lifted{dry_run}; {left}\n")
}

/// How many gates of many objects were lifted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiftCounts {
    lifted: usize,
    refused: usize,
}

impl LiftCounts {
    /// Counts what became of one object.
    pub fn add(&mut self, outcome: &LiftOutcome) {
        match outcome {
            LiftOutcome::Lifted(_) => self.lifted += 1,
            LiftOutcome::Changed | LiftOutcome::Failed(_) => self.refused += 1,
            LiftOutcome::NotThere(_) | LiftOutcome::Gone(_) => {}
        }
    }

    /// Whether all was done.
    pub fn ended(self) -> Ended {
        if self.refused == 0 {
            Ended::Done
        } else {
            Ended::NotDone
        }
    }

    /// One line for all.
    pub fn summary(self, gate: &Gate, label: &str, dry_run: DryRun) -> String {
        let Self { lifted, refused } = self;
        let objects = |count: usize| match count {
            1 => "1 object".to_owned(),
            count => format!("{count} objects"),
        };
        let dry_run = dry_run_note(dry_run);
        match (lifted, refused) {
            (0, 0) => format!(
                "gate {gate}: no objects found with label {label} (among those you may list)\n"
            ),
            (_, 0) => format!("{gate} lifted from {}{dry_run}\n", objects(lifted)),
            (_, _) => {
                format!(
                    "{gate} lifted from {}{dry_run}, not from {}\n",
                    objects(lifted),
                    objects(refused)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
