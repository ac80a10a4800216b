//! What becomes of workloads, counted at each turn of their life.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::definitions::{self, Definition};
use super::registrar::Registrar;
use super::series::{Level, Measure, Series};

/// The queues that a workload is counted in.
#[derive(Debug, Clone, Copy)]
pub struct CountedIn<'a> {
    /// Its ClusterQueue.
    pub cluster_queue: &'a str,
    /// The namespace and the name of its LocalQueue, if that has metrics.
    pub local_queue: Option<[&'a str; 2]>,
}

/// A metric of ClusterQueues, and the same of LocalQueues.
#[derive(Debug)]
struct ByQueue<M> {
    cluster_queue: Series<M>,
    local_queue: Series<M>,
}

impl<M: Measure> ByQueue<M> {
    fn new(
        registrar: &mut Registrar,
        of_cluster_queue: &'static Definition,
        of_local_queue: &'static Definition,
    ) -> Self {
        Self {
            cluster_queue: registrar.add(of_cluster_queue),
            local_queue: registrar.add(of_local_queue),
        }
    }

    /// Does something to the series of each queue with these other labels.
    fn at(&self, queues: CountedIn<'_>, labels: &[&str], change: impl Fn(&M)) {
        let of_cluster_queue = [&[queues.cluster_queue], labels].concat();
        self.cluster_queue.at(&of_cluster_queue, &change);
        if let Some(local_queue) = queues.local_queue {
            let of_local_queue = [&local_queue, labels].concat();
            self.local_queue.at(&of_local_queue, &change);
        }
    }
}

impl ByQueue<Counter> {
    fn count(&self, queues: CountedIn<'_>, labels: &[&str]) {
        self.at(queues, labels, |count| {
            count.inc();
        });
    }
}

impl ByQueue<Histogram> {
    fn observe(&self, queues: CountedIn<'_>, class: &str, time: Duration) {
        self.at(queues, &[class], |histogram| {
            histogram.observe(time.as_secs_f64());
        });
    }
}

/// The series of this file.
#[derive(Debug)]
pub struct WorkloadSeries {
    admitted: ByQueue<Counter>,
    admission_wait: ByQueue<Histogram>,
    ready_wait: ByQueue<Histogram>,
    admitted_until_ready: ByQueue<Histogram>,
    finished: ByQueue<Counter>,
    finish_wait: ByQueue<Histogram>,
    evicted: ByQueue<Counter>,
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
            admitted: ByQueue::new(
                registrar,
                &definitions::ADMITTED_WORKLOADS,
                &definitions::LOCAL_ADMITTED_WORKLOADS,
            ),
            admission_wait: ByQueue::new(
                registrar,
                &definitions::ADMISSION_WAIT,
                &definitions::LOCAL_ADMISSION_WAIT,
            ),
            ready_wait: ByQueue::new(
                registrar,
                &definitions::READY_WAIT,
                &definitions::LOCAL_READY_WAIT,
            ),
            admitted_until_ready: ByQueue::new(
                registrar,
                &definitions::ADMITTED_UNTIL_READY,
                &definitions::LOCAL_ADMITTED_UNTIL_READY,
            ),
            finished: ByQueue::new(
                registrar,
                &definitions::FINISHED_WORKLOADS,
                &definitions::LOCAL_FINISHED_WORKLOADS,
            ),
            finish_wait: ByQueue::new(
                registrar,
                &definitions::FINISH_WAIT,
                &definitions::LOCAL_FINISH_WAIT,
            ),
            evicted: ByQueue::new(
                registrar,
                &definitions::EVICTED_WORKLOADS,
                &definitions::LOCAL_EVICTED_WORKLOADS,
            ),
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
        self.admitted.cluster_queue.at(&[queue, ""], |_| ());
        self.released.at(&[queue], |_| ());
    }

    /// There is such a LocalQueue, which has metrics.
    pub fn local_queue_exists(&self, [namespace, name]: [&str; 2]) {
        self.admitted.local_queue.at(&[namespace, name, ""], |_| ());
    }

    /// A workload of this priority class was admitted after waiting this long.
    pub fn admitted(&self, queues: CountedIn<'_>, class: &str, waited: Duration) {
        self.admitted.count(queues, &[class]);
        self.admission_wait.observe(queues, class, waited);
    }

    /// All pods of a Workload are ready, so long after it waited first, and after its admission.
    pub fn ready(
        &self,
        queues: CountedIn<'_>,
        class: &str,
        waited: Duration,
        since_admission: Duration,
    ) {
        self.ready_wait.observe(queues, class, waited);
        self.admitted_until_ready
            .observe(queues, class, since_admission);
    }

    /// The job of an admitted Workload has finished, so long after the creation of the Workload.
    pub fn finished(&self, queues: CountedIn<'_>, class: &str, result: &str, after: Duration) {
        self.finished.count(queues, &[class, result]);
        self.finish_wait.observe(queues, class, after);
    }

    /// A workload was evicted.
    pub fn evicted(&self, queues: CountedIn<'_>, reason: &str) {
        self.evicted.count(queues, &[reason]);
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
            self.release_seconds
                .at(&[queue], |histogram| histogram.observe(since.as_secs_f64()));
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
