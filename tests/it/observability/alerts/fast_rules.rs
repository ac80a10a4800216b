//! The shipped rules in less time than they take: a second stands for a minute, and two for an hour.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

const RULES: &str = "config/monitoring/prometheus-operator/rules.yaml";

fn shipped() -> Result<Value> {
    let path = format!("{}/{RULES}", env!("CARGO_MANIFEST_DIR"));
    let shipped: Value = serde_saphyr::from_str(&fs::read_to_string(path)?)?;
    Ok(shipped["spec"]["groups"].clone())
}

/// The names of all alerts.
pub fn alerts() -> Result<Vec<String>> {
    let groups = shipped()?;
    let groups = groups.as_array().context("no groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    let names = rules.flatten().map(|rule| rule["alert"].as_str());
    let names = names.map(|name| name.context("a rule without a name"));
    names.map(|name| name.map(str::to_owned)).collect()
}

/// The rule file.
pub fn text() -> Result<String> {
    let mut groups = shipped()?;
    for group in groups.as_array_mut().context("no groups")? {
        for rule in group["rules"].as_array_mut().context("no rules")? {
            if let Some(text) = rule["expr"].as_str() {
                rule["expr"] = json!(fast(text));
            }
            if let Some(time) = rule["for"].as_str() {
                rule["for"] = json!(shorter(time));
            }
        }
    }
    Ok(json!({ "groups": groups }).to_string())
}

/// An expression with shorter times: those in brackets, and after `offset`.
fn fast(expression: &str) -> String {
    let (mut faster, mut rest) = (String::new(), expression);
    let begin = |text: &str| {
        let found = ["[", "offset "].map(|word| text.find(word).map(|at| at + word.len()));
        found.into_iter().flatten().min()
    };
    while let Some(at) = begin(rest) {
        let (before, after) = rest.split_at(at);
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric());
        let (time, after) = after.split_at(end.unwrap_or(after.len()));
        faster.push_str(before);
        faster.push_str(&shorter(time));
        rest = after;
    }
    faster + rest
}

/// A time in minutes or hours, made short.
fn shorter(time: &str) -> String {
    let count = |unit: char| time.strip_suffix(unit)?.parse::<u32>().ok();
    let seconds = count('m').or_else(|| count('h').map(|hours| hours * 2));
    seconds.map_or_else(|| time.to_owned(), |seconds| format!("{seconds}s"))
}

#[test]
fn times_are_made_short() {
    assert_eq!(shorter("15m"), "15s");
    assert_eq!(shorter("6h"), "12s");
    assert_eq!(shorter("30s"), "30s");
    for (text, expected) in [
        (
            "sum(rate(some_hm[10m])) > 0.1 * hm",
            "sum(rate(some_hm[10s])) > 0.1 * hm",
        ),
        (
            "a{b=~\".+[.]dev\"} unless a offset 6h > 0",
            "a{b=~\".+[.]dev\"} unless a offset 12s > 0",
        ),
    ] {
        assert_eq!(fast(text), expected);
    }
}
