//! Schedules as a whole: clocks that are put forward and back, exceptions, times that objects name.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{GateSpec, NOT_BEFORE_ANNOTATION};

use crate::{CompiledGate, Opening};

fn gate(schedule: &Value) -> CompiledGate {
    let spec: GateSpec = serde_json::from_value(json!({"schedule": schedule})).unwrap();
    CompiledGate::compile("night.acme.io", &spec).unwrap()
}

fn window(start: &str, seconds: i32, zone: &str) -> Value {
    json!({"start": start, "durationSeconds": seconds, "timeZone": zone})
}

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// The times at which a gate opens and closes from `from` to `to`, looked at every minute.
fn changes(gate: &CompiledGate, from: &str, to: &str) -> Vec<String> {
    let (mut time, to): (Timestamp, Timestamp) = (from.parse().unwrap(), to.parse().unwrap());
    let mut was_open = false;
    let mut changes = Vec::new();
    while time <= to {
        let is_open = gate.is_open(&none(), time);
        if is_open != was_open {
            changes.push(time.to_string());
        }
        was_open = is_open;
        time += SignedDuration::from_mins(1);
    }
    changes
}

#[rstest]
// 2:00 to 3:00 does not come on 29 March 2026, and comes twice on 25 October.
#[case::skipped_in_spring("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", &[])]
#[case::the_day_after("30 2 * * *", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-30T12:00:00Z",
    &["2026-03-30T00:30:00Z", "2026-03-30T00:40:00Z"])]
#[case::once_in_autumn("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T12:00:00Z",
    &["2026-10-25T00:30:00Z", "2026-10-25T00:40:00Z"])]
#[case::every_hour_in_autumn("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z",
    &["2026-10-25T00:30:00Z", "2026-10-25T00:40:00Z", "2026-10-25T01:30:00Z", "2026-10-25T01:40:00Z"])]
#[case::every_hour_in_spring("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
    &["2026-03-29T00:30:00Z", "2026-03-29T00:40:00Z", "2026-03-29T01:30:00Z", "2026-03-29T01:40:00Z"])]
#[case::skipped_overseas("30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T20:00:00Z", &[])]
#[case::once_overseas("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", "2026-11-01T20:00:00Z",
    &["2026-11-01T05:30:00Z", "2026-11-01T05:40:00Z"])]
// Half an hour: 2:00 to 2:30 is skipped on 4 October, and 1:30 to 2:00 comes twice on 5 April.
#[case::half_an_hour_skipped("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T00:00:00Z", &[])]
#[case::half_an_hour_is_there("45 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T00:00:00Z",
    &["2026-10-03T15:45:00Z", "2026-10-03T15:55:00Z"])]
#[case::half_an_hour_once("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-05T00:00:00Z",
    &["2026-04-04T14:45:00Z", "2026-04-04T14:55:00Z"])]
#[case::clocks_that_stay("30 2 * * *", "Etc/UTC", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z",
    &["2026-03-29T02:30:00Z", "2026-03-29T02:40:00Z"])]
fn windows_open_as_clocks_show(
    #[case] start: &str,
    #[case] zone: &str,
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: &[&str],
) {
    let gate = gate(&json!({"windows": [window(start, 600, zone)]}));
    assert_eq!(changes(&gate, from, to), expected);
}

#[test]
fn a_window_lasts_for_its_seconds_whatever_clocks_do() {
    // From 1:00 to 5:00 in spring, and to 3:00 in autumn.
    for (from, opens, closes) in [
        (
            "2026-03-28T20:00:00Z",
            "2026-03-29T00:00:00Z",
            "2026-03-29T03:00:00Z",
        ),
        (
            "2026-10-24T20:00:00Z",
            "2026-10-24T23:00:00Z",
            "2026-10-25T02:00:00Z",
        ),
    ] {
        let gate = gate(&json!({"windows": [window("0 1 * * *", 10_800, "Europe/Berlin")]}));
        assert_eq!(changes(&gate, from, closes), [opens, closes]);
    }
}

#[test]
fn whether_a_gate_is_open_is_one_question_asked_in_two_ways() {
    let windows = json!([
        window("0 18 * * MON-FRI", 43_200, "Europe/Berlin"),
        window("15 3 29 2 *", 60, "Etc/UTC"),
    ]);
    let exceptions = json!([{"from": "2026-03-27T20:00:00Z", "to": "2026-03-27T21:00:00Z"}]);
    let schedules = [
        json!({"windows": windows, "exceptions": exceptions}),
        json!({"notBefore": {}, "exceptions": exceptions}),
        json!({"notBefore": {}, "windows": windows, "exceptions": exceptions}),
    ];
    let named = ["2026-03-28T00:30:00Z", "tomorrow"];
    let mut objects = vec![none()];
    objects.extend(
        named.map(|time| BTreeMap::from([(NOT_BEFORE_ANNOTATION.to_owned(), time.to_owned())])),
    );
    let begin: Timestamp = "2026-03-27T00:00:00Z".parse().unwrap();
    let mut opened = 0;
    for schedule in &schedules {
        let gate = gate(schedule);
        for object in &objects {
            for quarter in 0..4 * 24 * 4 {
                let now = begin + SignedDuration::from_mins(15 * quarter);
                let is_open = gate.opening(object, now) == Opening::Open;
                assert_eq!(
                    gate.is_open(object, now),
                    is_open,
                    "{schedule} {object:?} {now}"
                );
                assert!(!is_open || gate.lets_any_through(now), "{schedule} {now}");
                opened += usize::from(is_open);
            }
        }
    }
    assert!(opened > 100, "{opened}");
}

#[test]
fn a_gate_opens_when_it_says() {
    let gate = gate(&json!({
        "windows": [window("0 18 * * MON-FRI", 3600, "Europe/Berlin")],
        "exceptions": [{"from": "2026-12-24T00:00:00Z", "to": "2026-12-28T00:00:00Z", "reason": "holidays"}],
    }));
    let now: Timestamp = "2026-12-25T09:00:00Z".parse().unwrap();
    let Opening::Closed(closed) = gate.opening(&none(), now) else {
        panic!("open in an exception");
    };
    assert_eq!(
        closed.to_string(),
        "opens 2026-12-28T18:00:00+01:00 (Europe/Berlin): an exception closes it until 2026-12-28T01:00:00+01:00: holidays"
    );
    let until = closed.until.unwrap();
    assert!(gate.is_open(&none(), until));
    assert!(!gate.is_open(&none(), until - SignedDuration::from_secs(1)));
}

#[rstest]
#[case::zone(json!({"windows": [window("0 1 * * *", 60, "Mars/Base")]}),
    "spec.schedule.windows[0].timeZone: Invalid value: \"Mars/Base\": unknown time zone; use a name of the IANA database such as \"Europe/Berlin\"")]
#[case::never(json!({"windows": [window("0 0 31 2 *", 60, "Etc/UTC")]}),
    "spec.schedule.windows[0].start: Invalid value: \"0 0 31 2 *\": never comes: none of its months has such a day")]
#[case::nothing(json!({}),
    "spec.schedule: Required value: must have notBefore, windows, or both: without them the gate is never lifted by itself")]
fn a_schedule_that_can_not_be_is_refused(#[case] schedule: Value, #[case] text: &str) {
    let spec: GateSpec = serde_json::from_value(json!({"schedule": schedule})).unwrap();
    let problems = CompiledGate::compile("night.acme.io", &spec).unwrap_err();
    assert_eq!(sluice_kinds::problem::summarize(&problems), text);
}
