//! What is promised to those for whom others leave, or have just left: before anything else in a pass, that
//! room is theirs, as if the others had gone at once. Who is promised something is `promises.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::Amount;
use crate::cells::CellId;
use crate::contest::Verdict;
use crate::flavors::Plan;
use crate::forest::ClassRef;
use crate::model::AdmissionMode;
use crate::names::WorkloadId;
use crate::pass::Pass;
use crate::pending::OrderKey;
use crate::shape::Shape;

/// Room kept for the first of a class.
struct Kept {
    class: ClassRef,
    order: OrderKey,
    cells: BTreeMap<CellId, Amount>,
}

impl Pass<'_> {
    /// Admits those who are promised room, or has them claim it. Where another one that waits before them
    /// in their queue would gain it, it is theirs no more. Of equal ones the first has what is promised. Says
    /// whether there are any.
    pub(super) fn keep_promises(&mut self) -> bool {
        let promised: BTreeSet<(OrderKey, ClassRef)> =
            (self.promises.pending().chain(self.matured))
                .filter_map(|id| self.place(id))
                .collect();
        let has_any = !promised.is_empty();
        let mut all = Vec::new();
        for (_, class) in promised {
            all.extend(self.keep(class));
        }
        let mut broken = Vec::new();
        for kept in &all {
            self.disclaim(kept.class.0, &kept.cells);
            broken.push(self.another_would_gain(&kept.class, &kept.order, &[]));
            self.claim_for(kept.class.0, &kept.cells);
        }
        for kept in &all {
            self.disclaim(kept.class.0, &kept.cells);
        }
        self.standing.claimed.clear();
        let still = all.into_iter().zip(broken);
        for (kept, _) in still.filter(|(_, is_broken)| !is_broken) {
            self.hand_over(&kept.class);
        }
        has_any
    }

    /// Where one stands, if it waits in this tree.
    fn place(&self, id: &WorkloadId) -> Option<(OrderKey, ClassRef)> {
        let record = self.workloads.get(id)?;
        let target = self.locals.get(&record.queue)?.target()?;
        let node = self.tree.queues.get(target)?;
        let class = record.class(node.config.admission_mode == AdmissionMode::ByUsage);
        let order = record.order(id);
        let waits =
            node.inactive.is_none() && self.account(node.id)?.pending.contains(&order, &class);
        waits.then_some((order, (node.id, class)))
    }

    /// Claims what the first of a class that has not claimed can have.
    fn keep(&mut self, class: ClassRef) -> Option<Kept> {
        let (plan, shape) = self.plan(&class)?;
        let (order, verdict) = self.turn_of(&class, &plan, &shape)?;
        let cells = verdict.cells().clone();
        self.claim_for(class.0, &cells);
        self.standing.claimed.insert(class.clone(), order.clone());
        Some(Kept {
            class,
            order,
            cells,
        })
    }

    /// Gives the first of a class that has not claimed what it can have.
    fn hand_over(&mut self, class: &ClassRef) {
        let Some((plan, shape)) = self.plan(class) else {
            return;
        };
        match self.turn_of(class, &plan, &shape) {
            Some((order, Verdict::Now(fit))) => self.admit(class, &order, &fit),
            Some((order, Verdict::Later(cells, _))) => self.claim(class, order, cells),
            None => {}
        }
    }

    /// The first of a class that has not claimed, and what can be done for it without others going.
    fn turn_of<'a>(
        &mut self,
        class: &ClassRef,
        plan: &'a Plan,
        shape: &Shape,
    ) -> Option<(OrderKey, Verdict<'a>)> {
        let Plan::Slots(slots) = plan else {
            return None;
        };
        let claimed = self.standing.claimed.get(class);
        let pending = &self.account(class.0)?.pending;
        let order = pending.next_of(&class.1, claimed)?.clone();
        let rules = self.rules(class.0);
        let verdict = self.judge(class, slots, shape, &order, rules)?;
        let goes = matches!(&verdict, Verdict::Later(_, victims) if !victims.is_empty());
        (!goes).then_some((order, verdict))
    }
}
