//! Registers metrics as the table defines them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::definitions::Definition;
use super::series::{Forget, Measure, Series};

/// Registers metrics as they are defined.
pub(super) struct Registrar {
    pub(super) registry: Registry,
    pub(super) forgettable: Vec<Box<dyn Forget>>,
    pub(super) registered: Vec<&'static str>,
    pub(super) dropped: Counter,
}

impl Registrar {
    pub(super) fn new() -> Self {
        Self {
            registry: Registry::default(),
            forgettable: Vec::new(),
            registered: Vec::new(),
            dropped: Counter::default(),
        }
    }

    /// The series of a metric, none of which has a value yet.
    pub(super) fn add<M: Measure>(&mut self, definition: &'static Definition) -> Series<M> {
        let series = Series::new(definition, self.dropped.clone());
        self.registry
            .register(definition.family(), definition.help, series.clone());
        self.forgettable.push(Box::new(series.clone()));
        self.registered.push(definition.name);
        series
    }
}
