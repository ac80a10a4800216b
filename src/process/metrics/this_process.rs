//! The process: whether it leads and decides, its version, its certificate, and what it takes of its machine. The
//! latter is read from /proc when somebody asks; where there is no /proc it stays at zero.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tracing_appender::non_blocking::ErrorCounter;

use super::definitions;
use super::registrar::Registrar;
use super::series::{Level, Series};
use crate::process::clock;
use crate::process::invariants;
use crate::process::pulse::Pulse;

/// Linux shows times to user space in ticks of this many a second (`USER_HZ`), whatever its own are.
const TICKS_PER_SECOND: f64 = 100.0;

/// What counts the lines of the log that were dropped, once the log is started.
static LINES_DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Takes the number of lines of the log that were dropped from here on from this counter. The first one counts: a process
/// has one log.
pub fn count_dropped_lines(counter: ErrorCounter) {
    LINES_DROPPED.get_or_init(|| counter);
}

/// The series of this file.
#[derive(Debug)]
pub struct ProcessSeries {
    leader: Series<Level>,
    loop_silence: Series<Level>,
    decision_seconds: Series<Histogram>,
    violations: Series<Counter>,
    log_lines_dropped: Series<Counter>,
    unreadable: Series<Level>,
    certificate: Series<Level>,
    visibility_unavailable: Series<Level>,
    configuration_valid: Series<Level>,
    configuration_restart: Series<Level>,
    cpu: Series<Counter<f64>>,
    resident: Series<Level>,
    virtual_memory: Series<Level>,
    open_fds: Series<Level>,
    max_fds: Series<Level>,
    start: Series<Level>,
}

impl ProcessSeries {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let build: Series<Level> = registrar.add(&definitions::BUILD_INFO);
        build.at(&[env!("CARGO_PKG_VERSION")], |level| level.set(1.0));
        let configuration_valid = registrar.add(&definitions::CONFIG_VALID);
        set(&configuration_valid, 1.0);
        let configuration_restart = registrar.add(&definitions::CONFIG_RESTART);
        set(&configuration_restart, 0.0);
        Self {
            leader: registrar.add(&definitions::LEADER),
            loop_silence: registrar.add(&definitions::LOOP_SILENCE),
            decision_seconds: registrar.add(&definitions::DECISION_SECONDS),
            violations: registrar.add(&definitions::INVARIANT_VIOLATIONS),
            log_lines_dropped: registrar.add(&definitions::LOG_LINES_DROPPED),
            unreadable: registrar.add(&definitions::UNREADABLE_OBJECTS),
            certificate: registrar.add(&definitions::CERTIFICATE_EXPIRATION),
            visibility_unavailable: registrar.add(&definitions::VISIBILITY_UNAVAILABLE),
            configuration_valid,
            configuration_restart,
            cpu: registrar.add(&definitions::PROCESS_CPU),
            resident: registrar.add(&definitions::PROCESS_RESIDENT),
            virtual_memory: registrar.add(&definitions::PROCESS_VIRTUAL),
            open_fds: registrar.add(&definitions::PROCESS_OPEN_FDS),
            max_fds: registrar.add(&definitions::PROCESS_MAX_FDS),
            start: registrar.add(&definitions::PROCESS_START),
        }
    }

    /// Reads what the process takes, how long ago its loop last began a turn, and what must not occur and did.
    pub(super) fn read(&self, pulse: &Pulse) {
        // Whoever reads it may have another clock.
        let silence = pulse.since_last().unwrap_or_default();
        set(&self.loop_silence, silence.as_secs_f64());
        set(&self.start, seconds(clock::started()));
        if let Some(used) = fs::read_to_string("/proc/self/stat").ok().and_then(cpu) {
            self.cpu.at(&[], |count| {
                count.inc_by((used - count.get()).max(0.0));
            });
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        set(&self.resident, kibibytes(&status, "VmRSS:"));
        set(&self.virtual_memory, kibibytes(&status, "VmSize:"));
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        set(
            &self.open_fds,
            f64::from(u32::try_from(open).unwrap_or(u32::MAX)),
        );
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        set(&self.max_fds, open_files(&limits));
        // The webhooks of a replica that doesn't lead find some too.
        self.violations(invariants::found_with_webhooks());
        self.log_lines_dropped.at(&[], |count| {
            let dropped = LINES_DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
            let dropped = u64::try_from(dropped).unwrap_or(u64::MAX);
            count.inc_by(dropped.saturating_sub(count.get()));
        });
    }
}

impl ProcessSeries {
    /// Whether this process holds the Lease.
    pub fn leader(&self, leads: bool) {
        set(&self.leader, f64::from(u8::from(leads)));
    }

    /// The webhooks are served with a certificate that ends then.
    pub fn certificate(&self, not_after: Timestamp) {
        set(&self.certificate, seconds(not_after));
    }

    /// Whether connections for visibility.sluice.dev are refused.
    pub fn visibility_is_unavailable(&self, is_so: bool) {
        set(&self.visibility_unavailable, f64::from(u8::from(is_so)));
    }

    /// Whether the configuration file can be used.
    pub fn configuration_is_valid(&self, is_valid: bool) {
        set(&self.configuration_valid, f64::from(u8::from(is_valid)));
    }

    /// Whether a restart is due for the configuration.
    pub fn configuration_needs_restart(&self, is_due: bool) {
        set(&self.configuration_restart, f64::from(u8::from(is_due)));
    }

    /// Decides, and measures how long that takes on this machine.
    pub fn time_decision<T>(&self, decide: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let decided = decide();
        let took: Duration = begun.elapsed();
        let times = &self.decision_seconds;
        times.at(&[], |times| times.observe(took.as_secs_f64()));
        decided
    }

    /// So many objects of a kind can't be read.
    pub fn unreadable(&self, kind: &str, count: usize) {
        let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        self.unreadable.at(&[kind], |level| level.set(count));
    }

    /// So many states that must not occur have been found. Returns whether there are new ones.
    pub fn violations(&self, found: u64) -> bool {
        let mut is_new = false;
        self.violations.at(&[], |count| {
            let new = found.saturating_sub(count.get());
            count.inc_by(new);
            is_new = 0 < new;
        });
        is_new
    }
}

fn set(series: &Series<Level>, value: f64) {
    series.at(&[], |level| level.set(value));
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

/// The CPU time in /proc/self/stat, in seconds: its fields 14 and 15. Field 2 is a name in parentheses.
fn cpu(stat: impl AsRef<str>) -> Option<f64> {
    let (_, fields) = stat.as_ref().rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11);
    let user: f64 = ticks.next()?.parse().ok()?;
    let system: f64 = ticks.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// What a line of /proc/self/status says in kB, in bytes.
fn kibibytes(status: &str, key: &str) -> f64 {
    let said = status.lines().find_map(|line| line.strip_prefix(key));
    let said = said.and_then(|said| said.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    said.unwrap_or_default() * 1024.0
}

/// The soft limit of open files in /proc/self/limits.
fn open_files(limits: &str) -> f64 {
    let mut lines = limits.lines();
    let said = lines.find_map(|line| line.strip_prefix("Max open files"));
    let soft = said.and_then(|said| said.split_whitespace().next());
    match soft {
        Some("unlimited") => f64::INFINITY,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_of_a_process_is_read() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 4 0 99 1000 10 0";
        assert_eq!(cpu(stat), Some(2.0));
        assert_eq!(cpu("nonsense"), None);
        let status = "Name:\tsluice\nVmSize:\t  2048 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:").to_string(), "12288");
        assert_eq!(kibibytes("", "VmRSS:").to_string(), "0");
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 1048576              files\n";
        assert_eq!(open_files(limits).to_string(), "1024");
        assert_eq!(
            open_files("Max open files unlimited unlimited files").to_string(),
            "inf"
        );
    }
}
