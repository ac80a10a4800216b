//! Small scripts: what is configured, what arrives, and what must come of it. One line, one step.
//!
//! ```text
//! flavor NAME [label=K:V] [taint=K:V]
//! fair [initial|final]                              share fairly; first line
//! cohort NAME [in=PARENT] [weight=N] [QUOTA…]
//! queue NAME [in=COHORT] [strict] [RULE…] [hold|drain] QUOTA… [| QUOTA…]         and a LocalQueue
//! local NAME queue=QUEUE [weight=N] [used=RESOURCE:N [used-at=TIME]] [hold|drain] [unselected]
//! job NAME QUEUE [priority=N] [at=N] [after=TIME] [RESOURCE=N…] [pods=N] [min=N] [stays]
//!                [select=K:V] [tolerate=K] [/ …]
//! confirm JOB | evicting JOB | pend JOB | finish JOB | gone JOB | fail JOB | unevicted JOB | inactive JOB
//! held JOB QUEUE [from=QUEUE] [priority=N] [at=N] [since=TIME] [unused=TIME] [had-nodes] [stays]
//!                [pods=N] [bound=N] FLAVOR.RESOURCE=N… [/ …]
//!                                                   admitted before the engine started
//! bind JOB N…                                       so many pods of each pod set are on nodes
//! end JOB N…                                        so many pods of each have ended for good
//! no-flavor NAME | no-cohort NAME | no-queue NAME | no-local NAME
//! decide [at=TIME] => JOB[xPODS]… | !JOB(WHY)…      admitted and, with `!`, evicted, in order
//! rest => …                                         the same until nothing is left to decide: all that is
//!                                                   decided is carried out, and the evicted are pending again
//! wake => TIME                                      when the next decision is due
//! flavors JOB => [POD SET.RESOURCE=FLAVOR…]
//! why JOB => TEXT
//! outlook JOB => TEXT                               how things stand for it
//! use QUEUE => FLAVOR.RESOURCE=TOTAL+BORROWED…      what is used, other than nothing
//! parts QUEUE | local-parts LOCAL => FLAVOR.RESOURCE=ALLOCATED+RESERVED…
//! counts QUEUE | local-counts LOCAL => PENDING RESERVING ADMITTED
//! asked QUEUE | local-asked LOCAL => RESOURCE=N…    by all that wait
//! ```
//! A rule is `next-flavor` (whenCanBorrow: TryNextFlavor), `preempt-first` (whenCanPreempt:
//! MayStopSearch), `rather-preempt` (preference: PreemptionOverBorrowing), `own=lower|newer`
//! (withinClusterQueue), `reclaim=lower|any` (reclaimWithinCohort), `borrow=lower|N`
//! (borrowWithinCohort, with threshold N), `weight=N` in thousandths, `by-usage`, `max=N`
//! (maxPending), `timeout=MILLIS`, `recovery=MILLIS` (the timeout of who has had its nodes).
//! A quota is `FLAVOR.RESOURCE=NOMINAL[/BORROWING[/LENDING]]`, `-` being no limit; `|` begins a new
//! resource group, `/` a new pod set. Flavors that aren't mentioned exist, without labels.

mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use sluice_engine::{
    Admission, Amount, ClusterQueueName, Cohort, Decision, Engine, Event, EvictReason,
    FairPreemption, Flavor, FlavorName, LocalQueueStatus, PreemptionRight, QueueStatus,
    ResourceName, Settings, Taint, TaintEffect, Time, UndeclaredResources, Workload, WorkloadState,
};

use words::{Words, assignment, local, local_key, pair, pod_set, queue};

pub(crate) fn check(script: &str) {
    played(script);
}

/// Checks a script, and gives what can be asked further.
pub(crate) fn played(script: &str) -> Engine {
    let mut world = World {
        engine: Engine::new(settings(script)),
        jobs: BTreeMap::new(),
        clock: 0,
    };
    let script = script.trim_start();
    let script = script.strip_prefix("fair").map_or(script, |rest| {
        rest.split_once('\n').map_or("", |(_, lines)| lines)
    });
    let declared = |name: &str| {
        script
            .lines()
            .any(|l| l.trim() == format!("no-flavor {name}"))
    };
    for name in ["default", "spot", "x"] {
        if !declared(name) {
            world.line(&format!("flavor {name}"));
        }
    }
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        let (step, expected) = line
            .split_once("=>")
            .map_or((line, None), |(s, e)| (s, Some(e)));
        let found = world.line(step);
        if let Some(expected) = expected {
            assert_eq!(found.trim(), expected.trim(), "line {}: {line}", number + 1);
        }
    }
    world.engine
}

fn settings(script: &str) -> Settings {
    let first = script.trim_start().lines().next().unwrap_or_default();
    let fair_sharing = match first.trim() {
        "fair" => Some(FairPreemption::DEFAULT.to_vec()),
        "fair initial" => Some(vec![FairPreemption::LessThanInitialShare]),
        "fair final" => Some(vec![FairPreemption::LessThanOrEqualToFinalShare]),
        _ => None,
    };
    Settings {
        fair_sharing,
        ..Settings::new(Amount::new(1))
    }
}

/// More decisions in a row than this are taken for a circle.
const ROUNDS_MAX: i64 = 60;

struct World {
    engine: Engine,
    jobs: BTreeMap<String, Workload>,
    clock: i64,
}

impl World {
    fn line(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let Some(verb) = words.next() else {
            return String::new();
        };
        let name = words.next().unwrap_or_default();
        let words = Words(words.collect());
        let event = match verb {
            "decide" => return self.decide(name),
            "rest" => return self.rest(),
            "wake" => {
                return self
                    .engine
                    .next_wake()
                    .map_or(String::new(), |at| at.as_millis().to_string());
            }
            "why" => return self.why(name),
            "outlook" => return self.outlook(name),
            "flavors" => return self.flavors(name),
            "use" => return self.usage(name),
            "parts" | "counts" | "asked" => return self.status(verb, name),
            "local-parts" | "local-counts" | "local-asked" => {
                return self.local_status(verb, name);
            }
            "settings" => return self.change_settings(name),
            "job" => return self.job(name, &words),
            "held" => return self.held(name, &words),
            "bind" | "end" => return self.pods(verb, name, &words),
            "confirm" | "evicting" | "pend" | "finish" | "inactive" => {
                return self.move_on(verb, name);
            }
            "queue" => {
                self.engine.apply(queue(name, &words));
                local(name, &Words(vec![&format!("queue={name}")]))
            }
            "flavor" => Event::UpsertFlavor(Flavor {
                name: name.into(),
                node_labels: words.all("label").into_iter().map(pair).collect(),
                node_taints: (words.all("taint").into_iter().map(pair))
                    .map(|(key, value)| Taint {
                        key,
                        value,
                        effect: TaintEffect::NoSchedule,
                    })
                    .collect(),
                tolerations: Vec::new(),
            }),
            "cohort" => Event::UpsertCohort(Cohort {
                parent: words.one("in").map(Into::into),
                resource_groups: words.groups(),
                fair_weight: words.weight(),
                ..Cohort::new(name.into())
            }),
            "local" => local(name, &words),
            "gone" => Event::RemoveWorkload(name.into()),
            "fail" => Event::AdmissionFailed(name.into()),
            "unevicted" => Event::EvictionFailed(name.into()),
            "no-flavor" => Event::RemoveFlavor(name.into()),
            "no-cohort" => Event::RemoveCohort(name.into()),
            "no-queue" => Event::RemoveClusterQueue(name.into()),
            "no-local" => Event::RemoveLocalQueue(local_key(name)),
            _ => panic!("what is {verb:?}?"),
        };
        self.engine.apply(event);
        String::new()
    }

    /// Other settings from now on: `fair`, or `ignore` for what no queue covers.
    fn change_settings(&mut self, name: &str) -> String {
        let mut settings = settings(name);
        if name == "ignore" {
            settings.undeclared_resources = UndeclaredResources::Ignore;
        }
        self.engine.change_settings(settings);
        String::new()
    }

    /// Everything is carried out at once.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        for at in 1..=ROUNDS_MAX {
            let decisions = self.engine.decide(Time::from_millis(at));
            if decisions.is_empty() {
                return text;
            }
            text.push_str(&self.text(&decisions));
            for decision in decisions {
                match decision {
                    Decision::Admit { id, .. } => self.move_on("confirm", id.as_str()),
                    Decision::Evict { id, .. } => {
                        self.move_on("evicting", id.as_str());
                        self.move_on("pend", id.as_str())
                    }
                };
            }
        }
        panic!("no rest: {text}");
    }

    fn decide(&mut self, at: &str) -> String {
        let at = at.strip_prefix("at=").map_or(0, |at| at.parse().unwrap());
        let decisions = self.engine.decide(Time::from_millis(at));
        self.text(&decisions)
    }

    fn text(&self, decisions: &[Decision]) -> String {
        let mut text = String::new();
        for decision in decisions {
            match decision {
                Decision::Admit { id, admission } => {
                    let asked = self.jobs[id.as_str()].pod_sets.iter().map(|set| set.count);
                    let got = admission.pod_sets.iter().map(|set| set.count);
                    if asked.eq(got.clone()) {
                        write!(text, "{id} ")
                    } else {
                        let got: Vec<String> = got.map(|count| count.to_string()).collect();
                        write!(text, "{id}x{} ", got.join("+"))
                    }
                }
                Decision::Evict { id, reason } => write!(text, "!{id}{} ", reason_text(reason)),
            }
            .unwrap();
        }
        text
    }

    fn why(&self, job: &str) -> String {
        let explanation = self.engine.explain(&job.into()).unwrap();
        explanation
            .display(&|_, amount| amount.to_string())
            .to_string()
    }

    fn outlook(&self, job: &str) -> String {
        let outlook = self.engine.outlook(&job.into()).unwrap();
        let format = |_: &ResourceName, amount: Amount| amount.to_string();
        outlook.display(&format, &|id| id.to_string()).to_string()
    }

    fn flavors(&self, job: &str) -> String {
        let mut text = String::new();
        for pod_set in &*self.engine.admission(&job.into()).unwrap().pod_sets {
            for (resource, flavor) in &pod_set.flavors {
                write!(text, "{}.{resource}={flavor} ", pod_set.name).unwrap();
            }
        }
        text
    }

    fn usage(&self, queue: &str) -> String {
        let mut text = String::new();
        let status = self.engine.queue_status(&queue.into()).unwrap();
        for (flavor, resources) in &status.usage {
            for (resource, usage) in resources.iter().filter(|(_, u)| u.total > Amount::ZERO) {
                let (total, borrowed) = (usage.total, usage.borrowed);
                write!(text, "{flavor}.{resource}={total}+{borrowed} ").unwrap();
            }
        }
        text
    }

    fn status(&self, verb: &str, queue: &str) -> String {
        let QueueStatus {
            active: _,
            pending,
            pending_requests,
            reserving,
            admitted,
            usage,
            share: _,
        } = self.engine.queue_status(&queue.into()).unwrap();
        let parts = usage.iter().flat_map(|(flavor, resources)| {
            (resources
                .iter()
                .filter(|(_, usage)| usage.total > Amount::ZERO))
            .map(move |(r, usage)| (flavor, r, usage.allocated, usage.reserved()))
        });
        match verb {
            "parts" => parts_text(parts),
            "counts" => format!("{pending} {reserving} {admitted}"),
            _ => amounts_text(&pending_requests),
        }
    }

    fn local_status(&self, verb: &str, local: &str) -> String {
        let LocalQueueStatus {
            active: _,
            pending,
            pending_requests,
            reserving,
            admitted,
            usage,
            consumed: _,
        } = self.engine.local_queue_status(&local_key(local)).unwrap();
        let parts = usage.iter().flat_map(|(flavor, resources)| {
            (resources.iter()).map(move |(r, usage)| (flavor, r, usage.allocated, usage.reserved()))
        });
        match verb {
            "local-parts" => parts_text(parts),
            "local-counts" => format!("{pending} {reserving} {admitted}"),
            _ => amounts_text(&pending_requests),
        }
    }

    fn job(&mut self, name: &str, words: &Words<'_>) -> String {
        self.know(name, words);
        self.tell(name, WorkloadState::Pending);
        String::new()
    }

    fn know(&mut self, name: &str, words: &Words<'_>) {
        self.clock += 1;
        let (queue, words) = (words.0[0], Words(words.0[1..].to_vec()));
        let pod_sets = words.0.split(|word| *word == "/").enumerate();
        let workload = Workload {
            priority: words.one("priority").map_or(0, |n| n.parse().unwrap()),
            created: words.number("at").unwrap_or(self.clock),
            not_before: words.number("after").map(Time::from_millis),
            evictable: !words.has("stays"),
            pod_sets: pod_sets
                .map(|(index, words)| pod_set(index, words))
                .collect(),
            ..Workload::new(name.into(), local_key(queue))
        };
        self.jobs.insert(name.into(), workload);
    }

    fn held(&mut self, name: &str, words: &Words<'_>) -> String {
        let queue = words.0[0];
        let own = |word: &&&str| {
            ["priority=", "at=", "stays"]
                .iter()
                .any(|key| word.starts_with(key))
        };
        let known: Vec<&str> = std::iter::once(&queue)
            .chain(words.0.iter().filter(own))
            .copied()
            .collect();
        self.know(name, &Words(known));
        let pod_sets = words.0.split(|word| *word == "/").enumerate();
        let admission = Admission {
            queue: ClusterQueueName::from(words.one("from").unwrap_or(queue)),
            cohort: words.one("in").map(Into::into),
            since: Time::from_millis(words.number("since").unwrap_or_default()),
            unused_since: words.number("unused").map(Time::from_millis),
            had_nodes: words.has("had-nodes"),
            pod_sets: pod_sets
                .map(|(index, words)| assignment(index, words))
                .collect(),
        };
        self.tell(name, WorkloadState::Admitted(admission));
        String::new()
    }

    /// Tells how many pods are on nodes or have ended, and nothing else that isn't known; an assumed
    /// admission is confirmed by that.
    fn pods(&mut self, verb: &str, name: &str, words: &Words<'_>) -> String {
        let mut admission = self.engine.admission(&name.into()).cloned().unwrap();
        assert_eq!(admission.pod_sets.len(), words.0.len());
        let pod_sets = Arc::make_mut(&mut admission.pod_sets);
        for (pod_set, count) in pod_sets.iter_mut().zip(&words.0) {
            let count = count.parse().unwrap();
            match verb {
                "bind" => pod_set.bound = count,
                _ => *pod_set = pod_set.clone().without(count),
            }
        }
        let state = match &self.jobs[name].state {
            WorkloadState::Evicting(_, by) => WorkloadState::Evicting(admission, by.clone()),
            _ => WorkloadState::Admitted(admission),
        };
        self.tell(name, state);
        String::new()
    }

    fn move_on(&mut self, verb: &str, name: &str) -> String {
        let admission = self.engine.admission(&name.into()).cloned();
        let state = match verb {
            "confirm" => WorkloadState::Admitted(admission.unwrap()),
            "evicting" => WorkloadState::Evicting(admission.unwrap(), None),
            "pend" => WorkloadState::Pending,
            "inactive" => WorkloadState::Inactive,
            _ => WorkloadState::Finished,
        };
        self.tell(name, state);
        String::new()
    }

    fn tell(&mut self, name: &str, state: WorkloadState) {
        let workload = self.jobs.get_mut(name).unwrap();
        workload.state = state;
        self.engine.apply(Event::UpsertWorkload(workload.clone()));
    }
}

/// Why a workload is evicted, unless a queue was stopped.
fn reason_text(reason: &EvictReason) -> &'static str {
    match reason {
        EvictReason::ClusterQueueStopped | EvictReason::LocalQueueStopped => "",
        EvictReason::ReservationTimedOut => "(timeout)",
        EvictReason::Preempted { right, .. } => match right {
            PreemptionRight::InClusterQueue => "(own)",
            PreemptionRight::InCohortReclamation => "(reclaim)",
            PreemptionRight::InCohortReclaimWhileBorrowing => "(borrow)",
            PreemptionRight::InCohortFairSharing => "(fair)",
        },
    }
}

/// What is on nodes and what isn't, by flavor and resource.
fn parts_text<'a>(
    parts: impl Iterator<Item = (&'a FlavorName, &'a ResourceName, Amount, Amount)>,
) -> String {
    let mut text = String::new();
    for (flavor, resource, allocated, reserved) in parts {
        write!(text, "{flavor}.{resource}={allocated}+{reserved} ").unwrap();
    }
    text
}

fn amounts_text(amounts: &BTreeMap<ResourceName, Amount>) -> String {
    let mut text = String::new();
    for (resource, amount) in amounts {
        write!(text, "{resource}={amount} ").unwrap();
    }
    text
}
