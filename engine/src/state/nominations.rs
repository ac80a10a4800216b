//! Nominated workloads: their targets are evicted, and the quota that the targets free is reserved for
//! them. How they are admitted is `cycle/nominated.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::WorkloadId;

/// For how many of its pods a workload preempts others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptsFor {
    /// For all.
    All,
    /// For the fewest that suffice, as it may not for all.
    Fewest,
}

/// The nominated workloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nominations {
    /// The number of targets of each that still have usage.
    evicting: BTreeMap<WorkloadId, usize>,
    /// Workloads of which a target has stopped since the last decision.
    ready: BTreeSet<WorkloadId>,
    /// Workloads that request something else than what their targets were evicted for.
    withdrawn: BTreeSet<WorkloadId>,
    /// Workloads whose targets are evicted for their fewest pods. It is not known of targets that were evicted before
    /// the engine started.
    for_fewest: BTreeSet<WorkloadId>,
    /// Workloads that were admitted as nominated ones, and for how many pods their targets were evicted. They are
    /// nominated again if their admission fails.
    admitted: BTreeMap<WorkloadId, PreemptsFor>,
}

impl Nominations {
    /// It is decided that a target of `whom` is evicted. So its targets are for what it requests now.
    pub(crate) fn nominate(&mut self, whom: &WorkloadId, preempts_for: PreemptsFor) {
        self.withdrawn.remove(whom);
        match preempts_for {
            PreemptsFor::All => self.for_fewest.remove(whom),
            PreemptsFor::Fewest => self.for_fewest.insert(whom.clone()),
        };
        self.add_target(whom.clone());
    }

    /// The targets of `whom` were evicted for another request: it comes first no longer, when they have stopped
    /// or before.
    pub(crate) fn withdraw(&mut self, whom: &WorkloadId) {
        self.ready.remove(whom);
        self.admitted.remove(whom);
        if self.evicting.contains_key(whom) {
            self.withdrawn.insert(whom.clone());
        }
    }

    /// A nominated workload is admitted, which is not recorded yet.
    pub(crate) fn admit(&mut self, whom: WorkloadId, preempted_for: PreemptsFor) {
        self.admitted.insert(whom, preempted_for);
    }

    /// The admission of a workload is recorded, or its place was lost.
    pub(crate) fn admission_ended(&mut self, whom: &WorkloadId) {
        self.admitted.remove(whom);
    }

    /// The admission of a workload has failed: its targets have stopped for it, so the next decision considers it
    /// first once more.
    pub(crate) fn admission_failed(&mut self, whom: &WorkloadId) {
        if let Some(preempted_for) = self.admitted.remove(whom) {
            if preempted_for == PreemptsFor::Fewest {
                self.for_fewest.insert(whom.clone());
            }
            self.ready.insert(whom.clone());
        }
    }

    /// A target of `whom` is evicted.
    pub(crate) fn add_target(&mut self, whom: WorkloadId) {
        let evicting = self.evicting.entry(whom).or_default();
        *evicting = evicting.saturating_add(1);
    }

    /// The reverse of [`Nominations::add_target`]: a target of `whom` has stopped, or is no longer evicted. Says
    /// whether it had one.
    #[must_use]
    pub(crate) fn target_stopped(&mut self, whom: &WorkloadId) -> bool {
        let evicting = self.evicting.get_mut(whom);
        let was_there = evicting.is_some();
        if let Some(evicting) = evicting {
            *evicting = evicting.saturating_sub(1);
            if *evicting == 0 {
                self.evicting.remove(whom);
            }
        }
        if !self.withdrawn.contains(whom) {
            self.ready.insert(whom.clone());
        }
        was_there
    }

    /// Takes the workloads of which a target has stopped since the last call. The next decision considers
    /// them first.
    pub(crate) fn take_ready(&mut self) -> BTreeSet<WorkloadId> {
        // A target whose usage changes is listed anew, so that it seems to have stopped between two events.
        let evicting = &self.evicting;
        self.withdrawn.retain(|whom| evicting.contains_key(whom));
        let ready = &self.ready;
        self.for_fewest
            .retain(|whom| evicting.contains_key(whom) || ready.contains(whom));
        std::mem::take(&mut self.ready)
    }

    /// The workloads that wait for their targets to stop.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &WorkloadId> {
        let whom = self.evicting.keys();
        whom.filter(|whom| !self.withdrawn.contains(*whom))
    }

    /// For how many pods of `whom` its targets are evicted.
    pub(crate) fn preempted_for(&self, whom: &WorkloadId) -> PreemptsFor {
        if self.for_fewest.contains(whom) {
            PreemptsFor::Fewest
        } else {
            PreemptsFor::All
        }
    }
}
