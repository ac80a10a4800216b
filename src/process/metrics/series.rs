//! The series of one metric, by the values of its labels: a bounded number of them, which can be forgotten or replaced
//! as a whole. Knows no metric by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};

use super::definitions::{Definition, Kind};

/// Most series of one metric. What is one too many is not measured, and counted as such.
pub(super) const SERIES_MAX: usize = 20_000;

/// The values of all labels, in the order of the definition.
pub(super) type Values = Vec<String>;

/// All series of a metric.
pub(super) struct Series<M> {
    inner: Arc<Inner<M>>,
}

struct Inner<M> {
    definition: &'static Definition,
    by_values: RwLock<BTreeMap<Values, M>>,
    /// How many updates of series were dropped, of all metrics.
    dropped: Counter,
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(super) struct Level(AtomicU64);

/// What a series holds.
pub(super) trait Measure:
    EncodeMetric + TypedMetric + fmt::Debug + Send + Sync + 'static
{
    /// One at zero.
    fn new(definition: &Definition) -> Self;
}

/// Series that can be forgotten.
pub(super) trait Forget: Send + Sync {
    /// Forgets all series in which each of these labels has its value.
    fn forget(&self, labels: &[(&str, &str)]);
}

impl Level {
    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl TypedMetric for Level {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for Level {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        /// Up to here every integer is a float of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value = self.get();
        if value.fract() == 0.0 && value.abs() < EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "it is an integer in range")]
            let whole = value as i64;
            encoder.encode_gauge(&whole)
        } else {
            encoder.encode_gauge(&value)
        }
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl Measure for Level {
    fn new(_: &Definition) -> Self {
        Self::default()
    }
}

impl Measure for Counter {
    fn new(_: &Definition) -> Self {
        Self::default()
    }
}

impl Measure for Counter<f64> {
    fn new(_: &Definition) -> Self {
        Self::default()
    }
}

impl Measure for Histogram {
    fn new(definition: &Definition) -> Self {
        let buckets = match definition.kind {
            Kind::Histogram(buckets) => buckets,
            Kind::Counter | Kind::Gauge => &[],
        };
        Self::new(buckets.iter().copied())
    }
}

impl<M: Measure> Series<M> {
    pub(super) fn new(definition: &'static Definition, dropped: Counter) -> Self {
        let mut by_values = BTreeMap::new();
        if definition.labels.is_empty() {
            by_values.insert(Values::new(), M::new(definition));
        }
        let by_values = RwLock::new(by_values);
        Self {
            inner: Arc::new(Inner {
                definition,
                by_values,
                dropped,
            }),
        }
    }

    pub(super) fn definition(&self) -> &'static Definition {
        self.inner.definition
    }

    /// Does something to the series with these values, which begins at zero.
    pub(super) fn at(&self, values: &[&str], change: impl FnOnce(&M)) {
        debug_assert_eq!(values.len(), self.inner.definition.labels.len());
        let values: Values = values.iter().map(|value| (*value).to_owned()).collect();
        let known = self.read();
        if let Some(known) = known.get(&values) {
            return change(known);
        }
        drop(known);
        let mut all = self.write();
        if SERIES_MAX <= all.len() && !all.contains_key(&values) {
            self.inner.dropped.inc();
            return;
        }
        let new = all.entry(values);
        change(new.or_insert_with(|| M::new(self.inner.definition)));
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<Values, M>> {
        let all = &self.inner.by_values;
        all.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Values, M>> {
        let all = &self.inner.by_values;
        all.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series<Level> {
    /// Replaces all series at once: whoever reads sees all old ones or all new ones.
    pub(super) fn replace(&self, levels: BTreeMap<Values, f64>) {
        let too_many = levels.len().saturating_sub(SERIES_MAX);
        let too_many = u64::try_from(too_many).unwrap_or(u64::MAX);
        self.inner.dropped.inc_by(too_many);
        let levels = levels.into_iter().take(SERIES_MAX);
        let new = levels.map(|(values, value)| {
            let level = Level::default();
            level.set(value);
            (values, level)
        });
        *self.write() = new.collect();
    }
}

impl<M: Measure> Forget for Series<M> {
    fn forget(&self, labels: &[(&str, &str)]) {
        let names = self.inner.definition.labels;
        let has = |values: &Values, (label, value): &(&str, &str)| {
            let mut of_series = names.iter().zip(values);
            of_series.any(|(name, known)| name == label && known == value)
        };
        self.write()
            .retain(|values, _| !labels.iter().all(|label| has(values, label)));
    }
}

impl<M> Clone for Series<M> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<M> fmt::Debug for Series<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Series")
            .field(&self.inner.definition.name)
            .finish()
    }
}

impl<M: Measure> EncodeMetric for Series<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let names = self.inner.definition.labels;
        for (values, metric) in &*self.read() {
            if names.is_empty() {
                return metric.encode(encoder);
            }
            let values = values.iter().map(String::as_str);
            let labels: Vec<(&str, &str)> = names.iter().copied().zip(values).collect();
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.read().is_empty()
    }
}
