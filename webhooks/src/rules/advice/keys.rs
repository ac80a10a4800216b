//! Keys that have no effect: nearly those of Sluice's own, or those of others where no alias is set.

use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, AFTER_ANNOTATION, MIN_PARALLELISM_ANNOTATION, NOT_BEFORE_ANNOTATION,
    POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_GATE,
    QUEUE_NAME_LABEL, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::aliases::{FOREIGN_KEYS, ForeignKey, MetadataKey};
use sluice_kinds::gates::{ADMISSION_GATED_BY, SCHEDULING_GATED_BY};
use sluice_kinds::problem::fill;

use crate::admission::policy::Policy;

/// How many letters off a key is that is taken for another one.
const LETTERS_OFF_MAX: usize = 2;

/// The maps in which keys stand.
const MAPS: [&str; 2] = ["labels", "annotations"];
/// The labels that users write on objects.
pub(crate) const LABELS: [&str; 3] = [QUEUE_NAME_LABEL, PRIORITY_CLASS_LABEL, POD_GROUP_LABEL];
/// The annotations that users write on objects.
pub(crate) const ANNOTATIONS: [&str; 9] = [
    ADMISSION_ANNOTATION,
    AFTER_ANNOTATION,
    NOT_BEFORE_ANNOTATION,
    POD_GROUP_TOTAL_ANNOTATION,
    QUEUE_GATE,
    RETRIABLE_IN_GROUP_ANNOTATION,
    MIN_PARALLELISM_ANNOTATION,
    SCHEDULING_GATED_BY,
    ADMISSION_GATED_BY,
];

const LETTERS_OFF: &str = "{}: is not a key that Sluice knows; did you mean {}?";
const NO_ALIAS: &str = "{}: has no effect, as {} of Sluice's configuration does not list it; {}";
const WRONG_MAP: &str = "{}: has no effect there; set {}";

const SAME_COMPLETIONS: &str = "{}: has no effect: spec.completions stays as it is if fewer pods than that are admitted; a Job whose pods wait for each other must not have {}";
const NO_TIME_LIMIT: &str = "{}: has no effect: Sluice ends no job after a time; set a deadline that its own controller knows, such as spec.activeDeadlineSeconds of a Job";
const WHOLE_GROUP: &str = "{}: has no effect: the group waits until all its pods exist; create all of them without waiting until the first one runs";

/// The annotation by which Kueue lowers the completions of a Job with its parallelism.
/// <https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/>
const COMPLETIONS_EQUAL_PARALLELISM: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
/// The label by which Kueue ends a job after a time.
const MAX_EXEC_TIME_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";
/// The annotation by which Kueue admits a group of pods before all of them exist.
const FAST_ADMISSION: &str = "kueue.x-k8s.io/pod-group-fast-admission";

/// Keys of others that stand for nothing here.
pub(super) fn without_alias(object: &Value, policy: &Policy) -> Vec<String> {
    let is_there = |foreign: &&ForeignKey| entry(object, foreign.map, foreign.key).is_some();
    let is_alias = |foreign: &ForeignKey| {
        let key = foreign.metadata_key();
        policy.key_aliases().all().any(|other| *other == key)
            || policy
                .queue_labels()
                .keys()
                .any(|label| label == foreign.key)
            || policy.queue_gates().contains(foreign.key)
    };
    let foreign = FOREIGN_KEYS.iter().filter(is_there);
    foreign
        .filter(|foreign| !is_alias(foreign))
        .map(|foreign| {
            let ForeignKey {
                map,
                key,
                field,
                own,
                ..
            } = foreign;
            let has_own = MAPS.iter().any(|map| entry(object, map, own).is_some());
            let advice = if has_own {
                format!("{own} counts")
            } else {
                format!("use {own}")
            };
            fill(
                NO_ALIAS,
                &[&format!("metadata.{map}[{key}]"), field, &advice],
            )
        })
        .collect()
}

/// Keys of Kueue's that have no counterpart here, where who relies on them waits for ever, or for nothing.
pub(super) fn without_counterpart(object: &Value) -> Vec<String> {
    let has = |map: &str, key: &str| entry(object, map, key).is_some();
    let is_true = |key: &str| entry(object, "annotations", key).is_some_and(|v| v == "true");
    let rows = [
        (
            is_true(COMPLETIONS_EQUAL_PARALLELISM)
                && has("annotations", MIN_PARALLELISM_ANNOTATION),
            ("annotations", COMPLETIONS_EQUAL_PARALLELISM),
            SAME_COMPLETIONS,
        ),
        (
            has("labels", MAX_EXEC_TIME_SECONDS),
            ("labels", MAX_EXEC_TIME_SECONDS),
            NO_TIME_LIMIT,
        ),
        (
            is_true(FAST_ADMISSION) && has("labels", POD_GROUP_LABEL),
            ("annotations", FAST_ADMISSION),
            WHOLE_GROUP,
        ),
    ];
    let told = rows.into_iter().filter(|(is_relied_on, ..)| *is_relied_on);
    told.map(|(_, (map, key), text)| {
        let field = format!("metadata.{map}[{key}]");
        fill(text, &[&field, MIN_PARALLELISM_ANNOTATION])
    })
    .collect()
}

/// Keys of Sluice's domain that are nearly those that users write.
pub(super) fn letters_off(object: &Value) -> Vec<String> {
    let of = |map: &'static str, known: &'static [&'static str]| {
        let entries = object.pointer(&format!("/metadata/{map}"));
        let keys = entries.and_then(Value::as_object).into_iter().flatten();
        let keys = keys.filter_map(|(key, _)| Some((key, key.split_once('/')?.0)));
        let near = keys.filter_map(move |(key, domain)| {
            if known.contains(&key.as_str()) || is_of_another(key) {
                return None;
            }
            let is_near = |known: &str| {
                let own = known.split_once('/').map_or(known, |(own, _)| own);
                distance(domain, own) <= 1 && distance(key, known) <= LETTERS_OFF_MAX
            };
            let meant = known.iter().find(|known| is_near(known))?;
            Some(fill(
                LETTERS_OFF,
                &[&format!("metadata.{map}[{key}]"), meant],
            ))
        });
        near.collect::<Vec<_>>()
    };
    let mut all = of("labels", &LABELS);
    all.extend(of("annotations", &ANNOTATIONS));
    all
}

/// Keys that users write, in the map where they say nothing.
pub(super) fn in_wrong_map(object: &Value, policy: &Policy) -> Vec<String> {
    let is_alias = |key: &str| {
        let key = MetadataKey::Annotation(key.to_owned());
        policy.key_aliases().all().any(|other| *other == key)
    };
    let of = |(map, right): (&'static str, &'static str), keys: &[&'static str]| {
        let wrong = keys.iter().filter(|key| entry(object, map, key).is_some());
        let wrong = wrong.filter(|key| entry(object, right, key).is_none() && !is_alias(key));
        let told = wrong.map(|key| {
            let fields = [map, right].map(|map| format!("metadata.{map}[{key}]"));
            fill(WRONG_MAP, &fields.each_ref().map(String::as_str))
        });
        told.collect::<Vec<_>>()
    };
    let [labels, annotations] = MAPS;
    let mut all = of((annotations, labels), &LABELS);
    all.extend(of((labels, annotations), &ANNOTATIONS));
    all
}

/// The entry of a map of `metadata`.
fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(map)?.get(key)
}

/// Whether a key is one that others write and Sluice knows.
fn is_of_another(key: &str) -> bool {
    FOREIGN_KEYS.iter().any(|foreign| foreign.key == key)
}

/// How many letters have to be added, removed or replaced to make one text of the other: of long ones, too many.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    if one.len().abs_diff(other.chars().count()) > LETTERS_OFF_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=one.len()).collect();
    for (line, letter) in other.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        let mut next = vec![left];
        for (above, known) in row.iter().skip(1).zip(&one) {
            let replaced = diagonal.saturating_add(usize::from(*known != letter));
            left = replaced.min(left.min(*above).saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn letters_that_are_off_are_counted() {
        let cases = [
            ("queue-name", "queue-name", 0),
            ("queue-nam", "queue-name", 1),
            ("queue-name", "queue-nam", 1),
            ("queue-mame", "queue-name", 1),
            ("qeuue-name", "queue-name", 2),
            ("queue_names", "queue-name", 2),
        ];
        for (one, other, expected) in cases {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
        assert_eq!(distance("queue", "queue-name"), usize::MAX);
    }
}
