//! What re-opens inadmissible classes: which heads the next cycle considers again. This is the one place that says
//! so: everything else reports what has happened. That a class is inadmissible is kept with the class
//! (`queue/inadmissible.rs`).
//!
//! | what has happened | eligible heads |
//! |---|---|
//! | quota is freed, or planned to be: a workload leaves, is evicted, or is evicted no longer | all of the tree |
//! | the configuration has changed, so the tree is built again | all of the tree |
//! | a preemption round ends that protected a workload | all of the tree |
//! | a workload with a reservation is no longer queued | all of the tree |
//! | a nominated workload has had its turn and is still pending | all of the tree |
//! | time, where it changes who is the head of a queue, and reservations or a strict queue depend on that | all of the tree |
//! | any cycle while evicted workloads have usage, or after one with reservations, as they are made again | all of the tree |
//! | a workload is queued | its class, if that was not known to be inadmissible or the workload is its new head |
//! | a workload is no longer queued | the head of its queue, and a class that moved in from beyond the limit |
//! | an admission is recorded, so the workload can be preempted | the heads of its queue that may preempt it, and all that gain by usage |
//! | usage has grown, or the order of a queue that preempts has changed | the heads that gain by usage |
//! | an admission or a reservation in this cycle | the next of its class, the head of its queue, and all that gain by usage |
//!
//! A head gains by usage if it may come to fit as usage grows (`Slots::fit_is_monotone`), may preempt in other
//! queues, or waits until an earlier workload no longer benefits from its preemption.

use std::collections::BTreeSet;

use crate::quota::view::NodeId;
use crate::workload::shape::ClassId;

/// A class of pending workloads, with the node of its queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassRef {
    pub(crate) node: NodeId,
    pub(crate) id: ClassId,
}

/// The heads of a tree that the next cycle considers again, by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reopened {
    all: bool,
    classes: BTreeSet<ClassRef>,
    gaining_by_usage: BTreeSet<ClassRef>,
}

/// What one cycle considers again.
#[derive(Debug)]
pub(crate) enum EligibleHeads {
    All,
    Of(BTreeSet<ClassRef>),
}

impl Reopened {
    /// All heads of the tree are eligible.
    pub(crate) fn reopen_all(&mut self) {
        self.all = true;
    }

    /// The head of a class is eligible.
    pub(crate) fn reopen(&mut self, class: ClassRef) {
        self.classes.insert(class);
    }

    /// The heads that gain by usage are eligible; returns whether there is any.
    pub(crate) fn reopen_gaining_by_usage(&mut self) -> bool {
        let gaining = self.gaining_by_usage.iter().cloned();
        self.classes.extend(gaining);
        !self.gaining_by_usage.is_empty()
    }

    /// The head of a class gains by usage from now on.
    pub(crate) fn gains_by_usage(&mut self, class: ClassRef) {
        self.gaining_by_usage.insert(class);
    }

    /// The head of a class gains by usage no longer.
    pub(crate) fn gains_no_longer_by_usage(&mut self, class: &ClassRef) {
        self.gaining_by_usage.remove(class);
    }

    /// The classes whose heads gain by usage.
    pub(crate) fn gaining_by_usage(&self) -> impl Iterator<Item = &ClassRef> {
        self.gaining_by_usage.iter()
    }

    /// Takes what the next cycle considers.
    pub(crate) fn take(&mut self) -> EligibleHeads {
        let classes = std::mem::take(&mut self.classes);
        if std::mem::take(&mut self.all) {
            EligibleHeads::All
        } else {
            EligibleHeads::Of(classes)
        }
    }
}
