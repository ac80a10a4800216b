//! Jobs from a trace: CSV with a header. A line is a job; columns that are not named here are resources,
//! of which each of its pods asks for so much.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_crds::Quantity;
use sluice_engine::{Amount, LocalQueueKey, PodSet, ResourceName};
use sluice_kinds::Problem;

use crate::simulate::jobs::{Class, InputJob, Jobs, Priority};
use crate::simulate::problem::Problems;
use crate::simulate::quotas::Quotas;
use crate::simulate::span::{self, Moment};

/// The name of the one pod set of a job.
const POD_SET: &str = "main";
/// The columns that are no resources.
const COLUMNS: [&str; 9] = [
    "name",
    "arrival",
    "duration",
    "namespace",
    "queue",
    "priority",
    "priorityClass",
    "count",
    "minCount",
];

/// What a trace is read with.
#[derive(Debug)]
pub struct Reader<'a> {
    /// Where priority classes are.
    pub quotas: &'a Quotas,
    /// How long a job runs that has no duration of its own.
    pub duration: Option<Duration>,
}

/// A line of a file.
struct Line<'a>(&'a str, usize);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.0, self.1)
    }
}

impl Reader<'_> {
    /// Reads the trace `text`, which is from `file`.
    pub fn read(&self, file: &str, text: &str, jobs: &mut Jobs, problems: &mut Problems) {
        let mut lines = text.lines().enumerate().filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let Some((at, header)) = lines.next() else {
            problems.add_text(&file, "there is no header");
            return;
        };
        let header = match header_of(header) {
            Ok(header) => header,
            Err(found) => {
                problems.extend(&Line(file, at + 1), &found);
                return;
            }
        };
        for (at, line) in lines {
            let place = Line(file, at + 1);
            match fields(line) {
                Err(text) => problems.add_text(&place, text),
                Ok(fields) if fields.len() != header.len() => {
                    let (found, expected) = (fields.len(), header.len());
                    let text =
                        format!("must have {expected} fields, as the header has, and has {found}");
                    problems.add_text(&place, &text);
                }
                Ok(fields) => {
                    let row = Row {
                        header: &header,
                        fields: &fields,
                    };
                    match self.job(&row, at + 1, jobs) {
                        Ok(job) => jobs.push(job),
                        Err(found) => problems.extend(&place, &found),
                    }
                }
            }
        }
    }

    fn job(&self, row: &Row<'_>, line: usize, jobs: &mut Jobs) -> Result<InputJob, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut tell = |problem| problems.push(problem);
        let key = queue(row).map_err(&mut tell).ok();
        let arrival = arrival(row).map_err(&mut tell).ok();
        let duration = self.duration(row).map_err(&mut tell).ok();
        let priority = self.priority(row, jobs).map_err(&mut tell).ok();
        let count = number(row, "count").map_err(&mut tell).ok().flatten();
        let min_count = number(row, "minCount").map_err(&mut tell).ok().flatten();
        let count = count.unwrap_or(1);
        if min_count.is_some_and(|least| count < least) {
            let least = min_count.unwrap_or_default().to_string();
            tell(Problem::invalid("minCount", least, "must be at most count"));
        }
        let requests = requests(row, &mut problems);
        let (Some(queue), Some(arrival), Some(duration), Some(priority), true) =
            (key, arrival, duration, priority, problems.is_empty())
        else {
            return Err(problems);
        };
        let name = match row.get("name") {
            Some(name) => format!("{}/{name}", queue.namespace),
            None => format!("{}/line-{line}", queue.namespace),
        };
        let pod_set = PodSet {
            requests,
            min_count,
            ..PodSet::new(POD_SET.into(), count)
        };
        Ok(InputJob {
            name: name.into(),
            queue,
            priority,
            arrival,
            duration: Some(duration),
            pod_sets: Arc::new([pod_set]),
            kind: "".into(),
            seen: None,
        })
    }

    fn duration(&self, row: &Row<'_>) -> Result<Duration, Problem> {
        match (row.get("duration"), self.duration) {
            (Some(text), _) => {
                span::parse(text).map_err(|rule| Problem::invalid("duration", text, rule))
            }
            (None, Some(duration)) => Ok(duration),
            (None, None) => Err(Problem::required(
                "duration",
                "the time that the job runs; or set --duration for all jobs without one",
            )),
        }
    }

    fn priority(&self, row: &Row<'_>, jobs: &mut Jobs) -> Result<Priority, Problem> {
        let value = match row.get("priority") {
            None => 0,
            Some(text) => text
                .parse()
                .map_err(|_| Problem::invalid("priority", text, "must be an int32"))?,
        };
        let Some(name) = row.get("priorityClass") else {
            return Ok(Priority { class: None, value });
        };
        if !self.quotas.workload_priorities.contains_key(name) {
            let rule = "there is no WorkloadPriorityClass of this name in the input";
            return Err(Problem::invalid("priorityClass", name, rule));
        }
        let class = Some(Class::Workload(jobs.name(name)));
        Ok(Priority { class, value })
    }
}

/// A line, by the names of the header.
struct Row<'a> {
    header: &'a [String],
    fields: &'a [String],
}

impl Row<'_> {
    /// What stands in the column `name`, if anything does.
    fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.cells().find(|(column, _)| *column == name)?;
        Some(value).filter(|value| !value.is_empty())
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &str)> {
        let header = self.header.iter().map(String::as_str);
        header.zip(self.fields.iter().map(String::as_str))
    }
}

fn header_of(line: &str) -> Result<Vec<String>, Vec<Problem>> {
    let names = fields(line).map_err(|rule| vec![Problem::invalid("header", line, rule)])?;
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for name in &names {
        if name.is_empty() {
            problems.push(Problem::required("header", "each column has a name"));
        } else if !seen.insert(name) {
            problems.push(Problem::duplicate("header", name));
        }
    }
    for required in ["arrival", "queue"] {
        if !names.iter().any(|name| name == required) {
            let rule = format!("there is a column {required:?}");
            problems.push(Problem::required("header", rule));
        }
    }
    if problems.is_empty() {
        Ok(names)
    } else {
        Err(problems)
    }
}

fn queue(row: &Row<'_>) -> Result<LocalQueueKey, Problem> {
    let rule =
        "the LocalQueue, with its namespace in front (\"team-a/main\") or in the column namespace";
    let Some(queue) = row.get("queue") else {
        return Err(Problem::required("queue", rule));
    };
    match (queue.split_once('/'), row.get("namespace")) {
        (Some((namespace, name)), None) => Ok(LocalQueueKey::new(namespace, name)),
        (None, Some(namespace)) => Ok(LocalQueueKey::new(namespace, queue)),
        _ => Err(Problem::invalid(
            "queue",
            queue,
            format!("must name {rule}"),
        )),
    }
}

fn arrival(row: &Row<'_>) -> Result<Option<Moment>, Problem> {
    let Some(text) = row.get("arrival") else {
        return Ok(None);
    };
    let moment = span::parse_moment(text);
    moment
        .map(Some)
        .map_err(|rule| Problem::invalid("arrival", text, rule))
}

fn number(row: &Row<'_>, column: &str) -> Result<Option<u32>, Problem> {
    let Some(text) = row.get(column) else {
        return Ok(None);
    };
    let number: Option<i32> = text.parse().ok();
    let number = number.and_then(|number| u32::try_from(number).ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(Problem::invalid(
            column,
            text,
            "must be a whole number from 0 to 2147483647",
        )),
    }
}

fn requests(row: &Row<'_>, problems: &mut Vec<Problem>) -> BTreeMap<ResourceName, Amount> {
    let mut requests = BTreeMap::new();
    let resources = row
        .cells()
        .filter(|(name, value)| !COLUMNS.contains(name) && !value.is_empty());
    for (name, value) in resources {
        match Quantity(value.to_owned()).nanos() {
            Ok(nanos) if 0 <= nanos => {
                requests.insert(name.into(), Amount::new(nanos));
            }
            Ok(_) => {
                let rule = "must be greater than or equal to 0";
                problems.push(Problem::invalid(name, value, rule));
            }
            Err(error) => problems.push(Problem::invalid(name, value, error.to_string())),
        }
    }
    requests
}

/// The fields of a line: divided by commas, without the space around them; in quotes if a comma or
/// quote (then doubled) is in one.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut all = Vec::new();
    let mut rest = line.trim();
    loop {
        let (field, tail) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted_field(quoted).ok_or("a quote is not closed")?
        } else {
            let (field, tail) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
            (field.trim().to_owned(), tail)
        };
        all.push(field);
        let tail = tail.trim_start();
        if tail.is_empty() {
            return Ok(all);
        }
        rest = tail
            .strip_prefix(',')
            .ok_or("after a quote that closes a field there must be a comma")?
            .trim_start();
    }
}

/// A field up to the quote that closes it, and what comes after that.
fn quoted_field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        let (part, tail) = rest.split_at(end);
        field.push_str(part);
        let tail = tail.get(1..)?;
        match tail.strip_prefix('"') {
            Some(tail) => {
                field.push('"');
                rest = tail;
            }
            None => return Some((field, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_line_apart() {
        let cases = [
            ("a,b,c", Ok(vec!["a", "b", "c"])),
            (" a , ,", Ok(vec!["a", "", ""])),
            (
                "\"a,b\", \"say \"\"x\"\"\" ,c",
                Ok(vec!["a,b", "say \"x\"", "c"]),
            ),
            ("\"a", Err("a quote is not closed")),
            (
                "\"a\"b",
                Err("after a quote that closes a field there must be a comma"),
            ),
        ];
        for (line, expected) in cases {
            let expected =
                expected.map(|fields| fields.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(fields(line), expected, "{line:?}");
        }
    }
}
