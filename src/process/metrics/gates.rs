//! What gates hold, and what was lifted.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::definitions;
use super::registrar::Registrar;
use super::series::{Level, Series};

/// The series of this file.
#[derive(Debug)]
pub struct GateSeries {
    gated: Series<Level>,
    held: Series<Level>,
    oldest: Series<Level>,
    backlogged: Series<Level>,
    lifted: Series<Counter>,
    expired: Series<Counter>,
    wait: Series<Histogram>,
}

/// What a Gate holds.
#[derive(Debug, Clone, Copy)]
pub struct GateLevels {
    /// How many objects.
    pub held: u32,
    /// When the oldest of them was created, in seconds since 1970; 0 if there is none.
    pub oldest: i64,
    /// Whether that is more than it should be, or older.
    pub is_backlogged: bool,
}

impl GateSeries {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            gated: registrar.add(&definitions::GATED_JOBS),
            held: registrar.add(&definitions::GATE_HELD),
            oldest: registrar.add(&definitions::GATE_OLDEST),
            backlogged: registrar.add(&definitions::GATE_BACKLOGGED),
            lifted: registrar.add(&definitions::GATE_LIFTED),
            expired: registrar.add(&definitions::GATE_EXPIRED),
            wait: registrar.add(&definitions::GATE_WAIT),
        }
    }
}

impl GateSeries {
    /// How many jobs are held by gates.
    pub fn gated(&self, count: u32) {
        self.gated.at(&[], |level| level.set(f64::from(count)));
    }

    /// What a Gate holds.
    pub fn gate(&self, gate: &str, levels: GateLevels) {
        let labels = [gate];
        let GateSeries {
            held,
            oldest,
            backlogged,
            ..
        } = self;
        held.at(&labels, |level| level.set(f64::from(levels.held)));
        #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
        oldest.at(&labels, |level| level.set(levels.oldest as f64));
        backlogged.at(&labels, |level| {
            level.set(f64::from(u8::from(levels.is_backlogged)));
        });
        // No query sees the rise of a series to its first value.
        self.lifted.at(&labels, |_| ());
        self.expired.at(&labels, |_| ());
    }

    /// A gate that has a Gate was lifted from an object that was created so long ago.
    pub fn gate_lifted(&self, gate: &str, held: Duration) {
        self.lifted.at(&[gate], |count| {
            count.inc();
        });
        self.wait
            .at(&[gate], |wait| wait.observe(held.as_secs_f64()));
    }

    /// The deadline of a Gate has passed for an object.
    pub fn gate_expired(&self, gate: &str) {
        self.expired.at(&[gate], |count| {
            count.inc();
        });
    }
}
