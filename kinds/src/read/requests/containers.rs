//! What the containers of a pod request together, resource by resource. The cost grows with what is written in the pod and not
//! with containers times resources: nobody bounds either number, and the controller's loop and each review wait for it.
//!
//! Must not know JSON.

use std::collections::BTreeMap;

/// Amounts in nano-units by resource.
pub type Amounts = BTreeMap<String, i128>;

/// The containers of one pod, in order.
#[derive(Debug, Default)]
pub(super) struct Containers {
    count: usize,
    /// What containers declare of each resource, one after the other.
    declared: BTreeMap<String, Vec<i128>>,
    init: Vec<Init>,
    /// Where init containers are that end before the next one starts.
    ordinary: Vec<usize>,
    /// The same of init containers, each with its index.
    declared_by_init: BTreeMap<String, BTreeMap<usize, i128>>,
}

/// A container that starts before the others.
#[derive(Debug, Clone, Copy)]
struct Init {
    is_sidecar: bool,
    /// How many sidecars run already when it starts.
    sidecars_before: usize,
}

impl Containers {
    /// Adds a container that declares this.
    pub(super) fn add(&mut self, declares: Amounts) {
        self.count += 1;
        for (name, amount) in declares {
            self.declared.entry(name).or_default().push(amount);
        }
    }

    /// Adds an init container that declares this, and ends before the next one starts.
    pub(super) fn add_init(&mut self, declares: Amounts) {
        self.push(declares, false);
    }

    /// Adds an init container that declares this, and goes on running (KEP-753).
    pub(super) fn add_sidecar(&mut self, declares: Amounts) {
        self.push(declares, true);
    }

    fn push(&mut self, declares: Amounts, is_sidecar: bool) {
        let index = self.init.len();
        self.init.push(Init {
            is_sidecar,
            sidecars_before: self.sidecars(),
        });
        if !is_sidecar {
            self.ordinary.push(index);
        }
        for (name, amount) in declares {
            let of_resource = self.declared_by_init.entry(name).or_default();
            of_resource.insert(index, amount);
        }
    }

    /// How many sidecars there are.
    fn sidecars(&self) -> usize {
        self.init.last().map_or(0, |last| {
            last.sidecars_before + usize::from(last.is_sidecar)
        })
    }

    /// What they request together of each resource, a container without a request as much as `defaults` has of it. None where
    /// the sum is too large to be counted.
    pub(super) fn together(mut self, defaults: &Amounts) -> BTreeMap<String, Option<i128>> {
        let mut declared = std::mem::take(&mut self.declared);
        let mut by_init = std::mem::take(&mut self.declared_by_init);
        for name in by_init.keys().chain(defaults.keys()) {
            if !declared.contains_key(name) {
                declared.insert(name.clone(), Vec::new());
            }
        }
        let of_resource = |(name, declared): (String, Vec<i128>)| {
            let default = defaults.get(&name).copied().unwrap_or_default();
            let by_init = by_init.remove(&name).unwrap_or_default();
            let amount = self.of_resource(default, &declared, by_init);
            (name, amount)
        };
        declared.into_iter().map(of_resource).collect()
    }

    /// The same of one resource: the larger of what runs in the end, and of what runs while init containers start.
    fn of_resource(
        &self,
        default: i128,
        declared: &[i128],
        mut by_init: BTreeMap<usize, i128>,
    ) -> Option<i128> {
        let defaulted = |containers: usize| default.checked_mul(i128::try_from(containers).ok()?);
        // Of the init containers with the default, the last one starts beside the most sidecars.
        let ordinary = self.ordinary.iter().rev();
        if let Some(last) = ordinary.copied().find(|index| !by_init.contains_key(index)) {
            by_init.insert(last, default);
        }
        let mut starting = 0;
        // What sidecars have declared so far, beyond the default.
        let mut beyond = 0_i128;
        for (index, amount) in by_init {
            let init = self.init.get(index)?;
            if init.is_sidecar {
                beyond = beyond.checked_add(amount - default)?;
            } else {
                let sidecars = defaulted(init.sidecars_before)?.checked_add(beyond)?;
                starting = starting.max(sidecars.checked_add(amount)?);
            }
        }
        let mut running = defaulted(self.sidecars())?.checked_add(beyond)?;
        running = running.checked_add(defaulted(self.count - declared.len())?)?;
        for amount in declared {
            running = running.checked_add(*amount)?;
        }
        Some(running.max(starting))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the scheduler adds them up (`PodRequests` in component-helpers), container by container.
    fn one_by_one(containers: &[Amounts], init: &[(bool, Amounts)], defaults: &Amounts) -> Amounts {
        let with_defaults = |declared: &Amounts| {
            let mut all = defaults.clone();
            all.extend(declared.clone());
            all
        };
        let add = |total: &mut Amounts, more: &Amounts| {
            for (name, amount) in more {
                *total.entry(name.clone()).or_default() += amount;
            }
        };
        let raise = |total: &mut Amounts, other: &Amounts| {
            for (name, amount) in other {
                let current = total.entry(name.clone()).or_default();
                *current = (*current).max(*amount);
            }
        };
        let mut running = Amounts::new();
        for container in containers {
            add(&mut running, &with_defaults(container));
        }
        let mut sidecars = Amounts::new();
        let mut starting = Amounts::new();
        for (is_sidecar, declared) in init {
            let mut beside = sidecars.clone();
            add(&mut beside, &with_defaults(declared));
            raise(&mut starting, &beside);
            if *is_sidecar {
                add(&mut running, &with_defaults(declared));
                sidecars = beside;
            }
        }
        raise(&mut running, &starting);
        running
    }

    fn amounts() -> impl Strategy<Value = Amounts> {
        prop::collection::btree_map("[abc]", 0_i128..5, 0..3)
    }

    proptest! {
        #[test]
        fn they_are_added_up_as_the_scheduler_does(
            containers in prop::collection::vec(amounts(), 0..4),
            init in prop::collection::vec((any::<bool>(), amounts()), 0..6),
            defaults in amounts(),
        ) {
            let mut all = Containers::default();
            for declares in containers.clone() {
                all.add(declares);
            }
            for (is_sidecar, declares) in init.clone() {
                if is_sidecar {
                    all.add_sidecar(declares);
                } else {
                    all.add_init(declares);
                }
            }
            let together = all.together(&defaults);
            let mut together: Amounts = together.into_iter().map(|(name, amount)| (name, amount.unwrap())).collect();
            together.retain(|_, amount| *amount != 0);
            let mut expected = one_by_one(&containers, &init, &defaults);
            expected.retain(|_, amount| *amount != 0);
            prop_assert_eq!(together, expected);
        }
    }

    #[test]
    fn a_sum_that_is_too_large_is_none() {
        let of = |amount| Amounts::from([("a".to_owned(), amount)]);
        let mut all = Containers::default();
        all.add(of(i128::MAX));
        all.add(of(1));
        assert_eq!(all.together(&Amounts::new())["a"], None);
        let mut many = Containers::default();
        many.add(Amounts::new());
        many.add(Amounts::new());
        assert_eq!(many.together(&of(i128::MAX))["a"], None);
    }
}
