//! The levels of queues and cohorts, and how JobKinds stand. They are gathered as a whole and published as a whole, so what is gone leaves
//! no series behind.

use std::collections::BTreeMap;

use super::definitions::{self, Definition};
use super::registrar::Registrar;
use super::series::{Level, Series, Values};
use crate::process::invariants::violated;

/// Levels that were gathered, by the name of their metric.
#[derive(Debug, Default)]
pub struct Gathered {
    levels: BTreeMap<&'static str, BTreeMap<Values, f64>>,
}

/// The series of this file.
#[derive(Debug)]
pub struct GatheredSeries(Vec<Series<Level>>);

impl Gathered {
    /// Notes the level of a series of one of [`definitions::GATHERED`].
    pub fn set(&mut self, definition: &'static Definition, labels: &[&str], level: f64) {
        let labels = labels.iter().map(|label| (*label).to_owned());
        let levels = self.levels.entry(definition.name).or_default();
        levels.insert(labels.collect(), level);
    }

    /// Notes a count.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn count(&mut self, definition: &'static Definition, labels: &[&str], count: usize) {
        self.set(definition, labels, count as f64);
    }
}

impl GatheredSeries {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let all = definitions::GATHERED.iter();
        Self(all.map(|definition| registrar.add(definition)).collect())
    }
}

impl GatheredSeries {
    /// Publishes what was gathered, in place of what was gathered before.
    pub fn publish(&self, mut gathered: Gathered) {
        for series in &self.0 {
            let levels = gathered.levels.remove(series.definition().name);
            series.replace(levels.unwrap_or_default());
        }
        if !gathered.levels.is_empty() {
            violated("only metrics of GATHERED are gathered");
        }
    }
}
