//! The figures of all passes: a table for people, and a JSON file with the facts of the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Pass;
use crate::audit::Waits;
use crate::load::{Size, quota_seconds};
use crate::shared::{mib, ratio};

/// What one pass came to.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) pass: Pass,
    /// The machine's load average before the pass.
    pub(crate) machine_load: String,
    pub(crate) seconds: f64,
    pub(crate) jobs_per_second: f64,
    pub(crate) waits: [(Size, Waits); 3],
    /// The shares of the quota that Jobs held, and that they ran in.
    pub(crate) utilisation: Option<(f64, f64)>,
    /// The controller's writes for each Job.
    pub(crate) writes: BTreeMap<String, f64>,
    /// CPU seconds by process.
    pub(crate) cpu: BTreeMap<&'static str, f64>,
    /// The controller's, in bytes.
    pub(crate) peak_memory: Option<u64>,
    pub(crate) workload_bytes: usize,
}

impl Measured {
    pub(crate) fn line(&self) -> String {
        let cpu = self
            .cpu
            .iter()
            .map(|(name, used)| format!("{name} {used:.1}"));
        format!(
            "{}: {:.1} s, {:.1} jobs/s; CPU seconds: {}; machine's load before: {}",
            self.pass.name(),
            self.seconds,
            self.jobs_per_second,
            cpu.collect::<Vec<_>>().join(", "),
            self.machine_load,
        )
    }

    fn cpu_seconds(&self) -> f64 {
        self.cpu.values().sum()
    }

    fn json(&self, round: usize) -> Value {
        let waits = self.waits.iter().map(|(size, waits)| {
            let waits = json!({"average": waits.average, "p50": waits.p50, "p99": waits.p99});
            (size.name().to_owned(), waits)
        });
        json!({
            "round": round,
            "pass": self.pass.name(),
            "machineLoad": self.machine_load,
            "seconds": self.seconds,
            "jobsPerSecond": self.jobs_per_second,
            "secondsToAdmission": waits.collect::<serde_json::Map<_, _>>(),
            "utilisation": self.utilisation.map(|(held, ran)| json!({"held": held, "ran": ran})),
            "writesPerJob": self.writes,
            "cpuSeconds": self.cpu,
            "peakMemoryBytes": self.peak_memory,
            "workloadBytes": self.workload_bytes,
        })
    }
}

/// One ratio of each round.
struct Rounds(Vec<f64>);

impl Rounds {
    fn line(&self) -> String {
        let error = self.error();
        let error = error.map_or_else(String::new, |error| format!(" ± {error:.2}"));
        format!("{:.2}{error}, by round {:.2?}", self.mean(), self.0)
    }

    fn json(&self) -> Value {
        json!({"mean": self.mean(), "standardError": self.error(), "rounds": self.0})
    }

    /// The geometric mean, which says the same of a ratio and its inverse.
    fn mean(&self) -> f64 {
        mean(self.0.iter().map(|ratio| ratio.ln())).exp()
    }

    /// The standard error of the mean; nothing is known of it from one round.
    fn error(&self) -> Option<f64> {
        let others = self.0.len().checked_sub(1).filter(|others| *others > 0)?;
        let middle = self.mean();
        let ratios = self.0.iter().map(|ratio| ratio / middle);
        let variance = mean(ratios.map(|off| off.ln().powi(2)));
        Some(middle * (variance / ratio(others, 1)).sqrt())
    }
}

/// All passes.
pub(crate) struct Report {
    jobs: usize,
    machine: Value,
    passes: Vec<(usize, Measured)>,
}

impl Report {
    pub(crate) fn new(jobs: usize, binary: &Path) -> Result<Self> {
        let machine = machine(binary)?;
        println!("{jobs} Jobs in each pass; {machine}");
        Ok(Self {
            jobs,
            machine,
            passes: Vec::new(),
        })
    }

    pub(crate) fn add(&mut self, round: usize, measured: Measured) {
        self.passes.push((round, measured));
    }

    /// Prints the table and writes the file.
    pub(crate) fn finish(&self) -> Result<()> {
        println!("\nThe median of all rounds:\n");
        self.print_table();
        self.print_writes();
        let quota = quota_seconds(self.jobs);
        let of_floor = self.rounds(Pass::Plenty, |sluice, floor| {
            sluice.jobs_per_second / floor.jobs_per_second
        });
        let by_cpu = self.rounds(Pass::Plenty, |sluice, floor| {
            floor.cpu_seconds() / sluice.cpu_seconds()
        });
        let of_both = self.rounds(Pass::Scarce, |sluice, floor| {
            let quota = ratio(self.jobs, 1) / quota;
            sluice.jobs_per_second / floor.jobs_per_second.min(quota)
        });
        println!(
            "\njobs/s of Sluice, of the floor's (plenty / floor):     {}",
            of_floor.line()
        );
        println!(
            "the same by CPU time, the floor's of Sluice's:        {}",
            by_cpu.line()
        );
        println!(
            "jobs/s with scarce quota, of what floor and quota allow: {}",
            of_both.line()
        );
        println!(
            "the scarce quota alone: {quota:.1} s, {:.0} jobs/s, were all of it in use all the time",
            ratio(self.jobs, 1) / quota
        );
        let passes = self.passes.iter().map(|(round, pass)| pass.json(*round));
        let all = json!({
            "machine": self.machine,
            "jobs": self.jobs,
            "quotaSeconds": quota,
            "plentyOfFloor": of_floor.json(),
            "plentyOfFloorByCpu": by_cpu.json(),
            "scarceOfFloorAndQuota": of_both.json(),
            "passes": passes.collect::<Vec<_>>(),
        });
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("cluster.json");
        std::fs::write(&file, serde_json::to_string_pretty(&all)? + "\n")?;
        println!("all figures: {}", file.display());
        Ok(())
    }

    fn of(&self, pass: Pass) -> impl Iterator<Item = &Measured> {
        let passes = self.passes.iter().map(|(_, measured)| measured);
        passes.filter(move |measured| measured.pass == pass)
    }

    fn median(&self, pass: Pass, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.of(pass).map(figure).collect())
    }

    /// A pass beside the floor of the same round: in another round the machine may have been slower.
    fn rounds(&self, pass: Pass, compare: impl Fn(&Measured, &Measured) -> f64) -> Rounds {
        let pairs = self.of(pass).zip(self.of(Pass::Floor));
        Rounds(
            pairs
                .map(|(sluice, floor)| compare(sluice, floor))
                .collect(),
        )
    }

    fn print_table(&self) {
        let head = Pass::ALL.map(Pass::name);
        println!("| | {} |\n|---|---|---|---|", head.join(" | "));
        self.row("jobs/s", |m| m.jobs_per_second, 1);
        self.row("seconds, first Job to last write", |m| m.seconds, 1);
        for (index, size) in Size::ALL.into_iter().enumerate() {
            let name = size.name();
            let waits = move |m: &Measured| m.waits.get(index).map(|(_, waits)| *waits);
            let cells = Pass::ALL.map(|pass| {
                let figure = |of: fn(Waits) -> f64| {
                    self.median(pass, |m| waits(m).map(of).unwrap_or_default())
                };
                format!(
                    "{:.2} / {:.2} / {:.2}",
                    figure(|w| w.average),
                    figure(|w| w.p50),
                    figure(|w| w.p99)
                )
            });
            println!(
                "| seconds to admission, {name}: avg / p50 / p99 | {} |",
                cells.join(" | ")
            );
        }
        let cells = Pass::ALL.map(|pass| {
            let share = |of: fn((f64, f64)) -> f64| {
                100.0 * self.median(pass, |m| m.utilisation.map(of).unwrap_or_default())
            };
            match pass {
                Pass::Scarce => format!("{:.0} % / {:.0} %", share(|u| u.0), share(|u| u.1)),
                Pass::Plenty | Pass::Floor => "–".to_owned(),
            }
        });
        println!("| quota held / ran in, of all | {} |", cells.join(" | "));
        self.row(
            "writes a Job, events not counted",
            |m| writes(m, |what| !is_event(what) && is_of_job(what)),
            2,
        );
        self.row("events a Job", |m| writes(m, is_event), 2);
        self.row(
            "other writes a Job (statuses of queues, leases)",
            |m| writes(m, |what| !is_of_job(what)),
            2,
        );
        self.row("CPU seconds, all of these", Measured::cpu_seconds, 1);
        for process in [
            "sluice",
            "kube-apiserver",
            "etcd",
            "kube-controller-manager",
            "bench",
        ] {
            self.row(
                &format!("CPU seconds, {process}"),
                |m| m.cpu.get(process).copied().unwrap_or_default(),
                1,
            );
        }
        let cells = Pass::ALL.map(|pass| {
            let peak = self.of(pass).filter_map(|m| m.peak_memory).max();
            peak.map_or_else(|| "–".to_owned(), mib)
        });
        println!("| peak memory, sluice | {} |", cells.join(" | "));
        self.row("bytes of a Workload", |m| ratio(m.workload_bytes, 1), 0);
    }

    fn row(&self, what: &str, figure: impl Fn(&Measured) -> f64, digits: usize) {
        let cells = Pass::ALL.map(|pass| format!("{:.digits$}", self.median(pass, &figure)));
        println!("| {what} | {} |", cells.join(" | "));
    }

    fn print_writes(&self) {
        println!("\nWrites a Job by the controller, by verb and resource, in the first round:\n");
        let head = Pass::ALL.map(Pass::name);
        println!("| | {} |\n|---|---|---|---|", head.join(" | "));
        let first = Pass::ALL.map(|pass| self.of(pass).next());
        let all = first.iter().flatten().flat_map(|m| m.writes.keys());
        let all: std::collections::BTreeSet<&String> = all.collect();
        for what in all {
            let cells = first.map(|m| {
                let number = m.and_then(|m| m.writes.get(what));
                number.map_or_else(|| "–".to_owned(), |number| format!("{number:.3}"))
            });
            println!("| {what} | {} |", cells.join(" | "));
        }
    }
}

fn writes(measured: &Measured, counts: impl Fn(&str) -> bool) -> f64 {
    let writes = measured.writes.iter().filter(|(what, _)| counts(what));
    writes.fold(0.0, |sum, (_, number)| sum + number)
}

fn is_event(what: &str) -> bool {
    what.contains(" events")
}

fn is_of_job(what: &str) -> bool {
    [" events", " jobs", " workloads"]
        .iter()
        .any(|resource| what.contains(resource))
}

fn mean(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let number = ratio(figures.len(), 1);
    figures.sum::<f64>() / number
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    crate::shared::percentile(&figures, 50)
}

/// The load average of the last minute.
pub(crate) fn machine_load() -> String {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().unwrap_or_default().to_owned()
}

fn machine(binary: &Path) -> Result<Value> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")?;
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    Ok(json!({
        "cpu": cpu.map(|text| text.trim_start_matches([' ', '\t', ':'])),
        "cores": std::thread::available_parallelism()?.get(),
        "memory": memory.context("no MemTotal")?.trim(),
        "kernel": kernel.trim(),
        "commit": commit.unwrap_or_default(),
        "benchProfile": profile,
        "controller": binary,
        "date": jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
    }))
}
