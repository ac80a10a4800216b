//! A history for people: a line for each change, and its digest. What must hold of it is not known here.

use std::fmt::Write as _;

use serde_json::Value;

use crate::api::store::Change;

/// How much of a history a failure tells.
const TOLD: usize = 60;

/// The last changes that matter, a line each.
pub(crate) fn told(history: &[Change]) -> String {
    let matter = history
        .iter()
        .filter(|change| !["Lease", "Event"].contains(&change.place.resource.kind));
    let lines: Vec<_> = matter.map(line).collect();
    let from = lines.len().saturating_sub(TOLD);
    lines.get(from..).unwrap_or_default().join("\n")
}

pub(crate) fn line(change: &Change) -> String {
    let Change {
        number,
        place,
        before,
        after,
        author,
    } = change;
    let author = author.rsplit(':').next().unwrap_or_default();
    let mut line = format!("{number} {author}: {} {}", place.resource.kind, place.name);
    let what = match (before, after) {
        (_, None) => " is gone".to_owned(),
        (None, Some(made)) if place.resource.kind == "ClusterQueue" => {
            format!(" is created: {}", made["spec"])
        }
        (None, Some(made)) => {
            let held = ["labels", "annotations"].map(|field| made["metadata"][field].to_string());
            let gates = &made["spec"]["schedulingGates"];
            format!(" is created {} {gates}", held.join(" "))
        }
        (Some(before), Some(after)) => {
            let mut changed = Vec::new();
            compare(before, after, "", &mut changed);
            format!(" {}", changed.join(", "))
        }
    };
    let _ = write!(line, "{what}");
    line.truncate(line.floor_char_boundary(1000));
    line
}

/// What differs, by its path.
fn compare(before: &Value, after: &Value, path: &str, changed: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(was), Value::Object(is)) => {
            for key in was
                .keys()
                .chain(is.keys().filter(|key| !was.contains_key(*key)))
            {
                if ["resourceVersion", "generation", "managedFields"].contains(&key.as_str()) {
                    continue;
                }
                compare(&before[key], &after[key], &format!("{path}.{key}"), changed);
            }
        }
        (was, is) if was != is => changed.push(format!("{path}={is}")),
        _ => {}
    }
}

/// FNV-1a over all that was written.
pub(crate) fn digest(history: &[Change]) -> u64 {
    let mut digest: u64 = 0xcbf2_9ce4_8422_2325;
    for change in history {
        let text = change.after.as_ref().map(ToString::to_string);
        for byte in text.unwrap_or_default().bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    digest
}
