//! The words of a script's line, read as what they stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{
    AdmissionScope, Amount, BorrowWithinCohort, Borrowing, ClusterQueue, Consumed, Event,
    FlavorFungibility, FlavorPreference, FlavorQuotas, LocalQueue, LocalQueueKey, PodSet,
    PodSetAssignment, Preemption, QueueingStrategy, Quota, ReclaimWithinCohort, ResourceGroup,
    ResourceName, StopPolicy, Time, Toleration, TolerationOperator, UndeclaredResources, Weight,
    WhenCanBorrow, WhenCanPreempt, WithinClusterQueue,
};

/// `K=V` words of a line.
pub(super) struct Words<'a>(pub(super) Vec<&'a str>);

impl<'a> Words<'a> {
    pub(super) fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    pub(super) fn all(&self, key: &str) -> Vec<&'a str> {
        let values = self.0.iter().filter_map(|word| word.split_once('='));
        values
            .filter(|(found, _)| *found == key)
            .map(|(_, value)| value)
            .collect()
    }

    pub(super) fn one(&self, key: &str) -> Option<&'a str> {
        self.all(key).first().copied()
    }

    pub(super) fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(
        &self,
        key: &str,
    ) -> Option<T> {
        self.one(key).map(|text| text.parse().unwrap())
    }

    pub(super) fn weight(&self) -> Weight {
        self.number("weight")
            .map_or(Weight::ONE, Weight::from_thousandths)
    }

    fn fungibility(&self) -> FlavorFungibility {
        let mut rules = FlavorFungibility::default();
        if self.has("next-flavor") {
            rules.when_can_borrow = WhenCanBorrow::TryNextFlavor;
        }
        if self.has("preempt-first") {
            rules.when_can_preempt = WhenCanPreempt::MayStopSearch;
        }
        if self.has("rather-preempt") {
            rules.preference = FlavorPreference::PreemptionOverBorrowing;
        }
        rules
    }

    fn preemption(&self) -> Preemption {
        Preemption {
            within_cluster_queue: match self.one("own") {
                None => WithinClusterQueue::Never,
                Some("lower") => WithinClusterQueue::LowerPriority,
                Some("newer") => WithinClusterQueue::LowerOrNewerEqualPriority,
                Some(other) => panic!("what is own={other}?"),
            },
            reclaim_within_cohort: match self.one("reclaim") {
                None => ReclaimWithinCohort::Never,
                Some("lower") => ReclaimWithinCohort::LowerPriority,
                Some("any") => ReclaimWithinCohort::Any,
                Some(other) => panic!("what is reclaim={other}?"),
            },
            borrow_within_cohort: match self.one("borrow") {
                None => BorrowWithinCohort::Never,
                Some(threshold) => BorrowWithinCohort::LowerPriority {
                    max_priority_threshold: threshold.parse().ok(),
                },
            },
        }
    }

    fn stop(&self) -> StopPolicy {
        match () {
            () if self.has("drain") => StopPolicy::HoldAndDrain,
            () if self.has("hold") => StopPolicy::Hold,
            () => StopPolicy::None,
        }
    }

    pub(super) fn groups(&self) -> Vec<ResourceGroup> {
        self.0
            .split(|word| *word == "|")
            .map(group)
            .filter(|g| !g.flavors.is_empty())
            .collect()
    }
}

fn amount(text: &str) -> Amount {
    Amount::new(text.parse().unwrap())
}

pub(super) fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once(':').unwrap_or((text, ""));
    (key.into(), value.into())
}

pub(super) fn local_key(name: &str) -> LocalQueueKey {
    LocalQueueKey::new("ns", name)
}

fn group(words: &[&str]) -> ResourceGroup {
    let mut group = ResourceGroup::default();
    for word in words {
        let Some((cell, quota)) = word.split_once('=') else {
            continue;
        };
        let Some((flavor, resource)) = cell.split_once('.') else {
            continue;
        };
        let mut limits = quota
            .split('/')
            .map(|text| (text != "-").then(|| amount(text)));
        let quota = Quota {
            nominal: limits.next().flatten().unwrap(),
            borrowing_limit: limits.next().flatten(),
            lending_limit: limits.next().flatten(),
        };
        group.covered_resources.insert(resource.into());
        let known = group
            .flavors
            .iter_mut()
            .position(|f| f.name.as_str() == flavor);
        let index = known.unwrap_or_else(|| {
            group.flavors.push(FlavorQuotas {
                name: flavor.into(),
                resources: BTreeMap::new(),
            });
            group.flavors.len() - 1
        });
        group.flavors[index]
            .resources
            .insert(resource.into(), quota);
    }
    group
}

pub(super) fn pod_set(index: usize, words: &[&str]) -> PodSet {
    let words = Words(words.to_vec());
    let reserved = [
        "priority", "at", "after", "pods", "min", "select", "tolerate",
    ];
    let requests = words.0.iter().filter_map(|word| word.split_once('='));
    PodSet {
        requests: requests
            .filter(|(key, _)| !reserved.contains(key))
            .map(|(key, value)| (key.into(), amount(value)))
            .collect(),
        node_selector: words.all("select").into_iter().map(pair).collect(),
        min_count: words.number("min"),
        borrowing: Borrowing::allowed_if(!words.has("within-nominal")),
        tolerations: (words.all("tolerate").into_iter())
            .map(|key| Toleration {
                key: Some(key.into()),
                operator: TolerationOperator::Exists,
                value: String::new(),
                effect: None,
            })
            .collect(),
        ..PodSet::new(
            format!("{index}").into(),
            words.one("pods").map_or(1, |n| n.parse().unwrap()),
        )
    }
}

pub(super) fn assignment(index: usize, words: &[&str]) -> PodSetAssignment {
    let group = group(words);
    let words = Words(words.to_vec());
    let mut assignment = PodSetAssignment {
        name: format!("{index}").into(),
        count: words.one("pods").map_or(1, |n| n.parse().unwrap()),
        flavors: BTreeMap::new(),
        usage: BTreeMap::new(),
        bound: words.one("bound").map_or(0, |n| n.parse().unwrap()),
    };
    for flavor in &group.flavors {
        for (resource, quota) in &flavor.resources {
            assignment
                .flavors
                .insert(resource.clone(), flavor.name.clone());
            assignment.usage.insert(resource.clone(), quota.nominal);
        }
    }
    assignment
}

pub(super) fn queue(name: &str, words: &Words<'_>) -> Event {
    Event::UpsertClusterQueue(ClusterQueue {
        cohort: words.one("in").map(Into::into),
        strategy: if words.has("strict") {
            QueueingStrategy::StrictFifo
        } else {
            QueueingStrategy::BestEffortFifo
        },
        resource_groups: words.groups(),
        stop: words.stop(),
        fungibility: words.fungibility(),
        preemption: words.preemption(),
        fair_weight: words.weight(),
        admission_scope: if words.has("by-usage") {
            AdmissionScope::ByUsage
        } else {
            AdmissionScope::ByOrder
        },
        max_pending: words.number("max"),
        reservation_timeout: words.number("timeout").map(Duration::from_millis),
        recovery_timeout: words.number("recovery").map(Duration::from_millis),
        undeclared_resources: words.one("undeclared").map(|word| match word {
            "block" => UndeclaredResources::Block,
            "ignore" => UndeclaredResources::Ignore,
            listed => UndeclaredResources::IgnoreOnly(Arc::new([listed.into()].into())),
        }),
        ..ClusterQueue::new(name.into())
    })
}

pub(super) fn local(name: &str, words: &Words<'_>) -> Event {
    Event::UpsertLocalQueue(LocalQueue {
        stop: words.stop(),
        namespace_selected: !words.has("unselected"),
        fair_weight: words.weight(),
        consumed: words.one("used").map(|used| {
            let (resource, amount_text) = pair(used);
            Consumed {
                at: Time::from_millis(words.number("used-at").unwrap_or_default()),
                amounts: BTreeMap::from([(resource.as_str().into(), amount(&amount_text))]),
            }
        }),
        ..LocalQueue::new(local_key(name), words.one("queue").unwrap().into())
    })
}

#[test]
fn a_script_says_what_it_means() {
    let group = group(&["f.cpu=4/-/2", "f.memory=8", "g.cpu=1"]);
    let names: BTreeSet<ResourceName> = ["cpu", "memory"].map(Into::into).into();
    assert_eq!(group.covered_resources, names);
    let cpu = group.flavors[0].resources.get("cpu").unwrap();
    assert_eq!(
        (cpu.borrowing_limit, cpu.lending_limit),
        (None, Some(Amount::new(2)))
    );
}
