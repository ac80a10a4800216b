//! What becomes of workloads, counted at each turn of their life.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::definitions;
use super::registrar::Registrar;
use super::series::{Level, Series};

/// The series of this file.
#[derive(Debug)]
pub struct WorkloadSeries {
    admitted: Series<Counter>,
    admission_wait: Series<Histogram>,
    ready_wait: Series<Histogram>,
    admitted_until_ready: Series<Histogram>,
    finished: Series<Counter>,
    finish_wait: Series<Histogram>,
    evicted: Series<Counter>,
    preempted: Series<Counter>,
    deactivated: Series<Counter>,
    released: Series<Counter>,
    release_seconds: Series<Histogram>,
    stalled: Series<Level>,
    without_pods: Series<Level>,
}

impl WorkloadSeries {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            admitted: registrar.add(&definitions::ADMITTED_WORKLOADS),
            admission_wait: registrar.add(&definitions::ADMISSION_WAIT),
            ready_wait: registrar.add(&definitions::READY_WAIT),
            admitted_until_ready: registrar.add(&definitions::ADMITTED_UNTIL_READY),
            finished: registrar.add(&definitions::FINISHED_WORKLOADS),
            finish_wait: registrar.add(&definitions::FINISH_WAIT),
            evicted: registrar.add(&definitions::EVICTED_WORKLOADS),
            preempted: registrar.add(&definitions::PREEMPTED_WORKLOADS),
            deactivated: registrar.add(&definitions::DEACTIVATED_WORKLOADS),
            released: registrar.add(&definitions::RELEASED_JOBS),
            release_seconds: registrar.add(&definitions::RELEASE_SECONDS),
            stalled: registrar.add(&definitions::STALLED_WORKLOADS),
            without_pods: registrar.add(&definitions::WITHOUT_PODS),
        }
    }
}

impl WorkloadSeries {
    /// There is such a ClusterQueue: its counters begin at zero, as no query sees the rise of a series to its first value.
    /// What the values of other labels will be is not known before.
    pub fn queue_exists(&self, queue: &str) {
        self.admitted.at(&[queue, ""], |_| ());
        self.released.at(&[queue], |_| ());
    }

    /// A workload of this priority class was admitted after waiting this long.
    pub fn admitted(&self, queue: &str, class: &str, waited: Duration) {
        let labels = [queue, class];
        self.admitted.at(&labels, |count| {
            count.inc();
        });
        observe(&self.admission_wait, &labels, waited);
    }

    /// All pods of a Workload are ready, so long after it waited first, and after its admission.
    pub fn ready(&self, queue: &str, class: &str, waited: Duration, since_admission: Duration) {
        let labels = [queue, class];
        observe(&self.ready_wait, &labels, waited);
        observe(&self.admitted_until_ready, &labels, since_admission);
    }

    /// The job of an admitted Workload has finished, so long after the creation of the Workload.
    pub fn finished(&self, queue: &str, class: &str, result: &str, after: Duration) {
        self.finished.at(&[queue, class, result], |count| {
            count.inc();
        });
        observe(&self.finish_wait, &[queue, class], after);
    }

    /// A workload was evicted.
    pub fn evicted(&self, queue: &str, reason: &str) {
        count(&self.evicted, &[queue, reason]);
    }

    /// A workload was preempted, by this rule.
    pub fn preempted(&self, queue: &str, right: &str) {
        count(&self.preempted, &[queue, right]);
    }

    /// A Workload was deactivated.
    pub fn deactivated(&self, queue: &str, reason: &str) {
        count(&self.deactivated, &[queue, reason]);
    }

    /// A job was released, so long after the decision.
    pub fn released(&self, queue: &str, since_decision: Option<Duration>) {
        count(&self.released, &[queue]);
        if let Some(since) = since_decision {
            observe(&self.release_seconds, &[queue], since);
        }
    }

    /// The ClusterQueues that evicted Workloads hold quota of beyond their time, one for each.
    pub fn stalled<'a>(&self, queues: impl Iterator<Item = &'a str>) {
        self.stalled.replace(by_queue(queues));
    }

    /// The ClusterQueues of the admitted Workloads whose jobs have no pods, one for each.
    pub fn without_pods<'a>(&self, queues: impl Iterator<Item = &'a str>) {
        self.without_pods.replace(by_queue(queues));
    }
}

/// How often each ClusterQueue is named.
fn by_queue<'a>(queues: impl Iterator<Item = &'a str>) -> BTreeMap<Vec<String>, f64> {
    let mut levels = BTreeMap::<_, f64>::new();
    for queue in queues {
        *levels.entry(vec![queue.to_owned()]).or_default() += 1.0;
    }
    levels
}

fn count(series: &Series<Counter>, labels: &[&str]) {
    series.at(labels, |count| {
        count.inc();
    });
}

fn observe(series: &Series<Histogram>, labels: &[&str], time: Duration) {
    series.at(labels, |histogram| histogram.observe(time.as_secs_f64()));
}
