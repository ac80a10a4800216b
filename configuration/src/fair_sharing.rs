//! How cohorts share what they lend, and how ClusterQueues that admit by usage remember it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_crds::duration;
use sluice_engine::FairPreemption;
use sluice_kinds::Problem;

use crate::span::Span;

/// What was used longer ago than this can't be told from what is used now.
const HALF_LIFE_MIN: Duration = Duration::from_secs(1);

/// How cohorts share what they lend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FairSharing {
    /// When shares let jobs be preempted: the first strategy that frees enough quota counts.
    preemption_strategies: Vec<PreemptionStrategy>,
}

/// When shares let a job be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum PreemptionStrategy {
    /// The share of the preemptor is then not larger than the remaining share of the target.
    LessThanOrEqualToFinalShare,
    /// The share of the preemptor is then smaller than the previous share of the target.
    LessThanInitialShare,
}

/// How past usage counts in ClusterQueues that admit by usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AdmissionFairSharing {
    /// After this time what was used counts half. At least `1s`.
    usage_half_life_time: Span,
}

impl Default for FairSharing {
    fn default() -> Self {
        Self {
            preemption_strategies: vec![
                PreemptionStrategy::LessThanOrEqualToFinalShare,
                PreemptionStrategy::LessThanInitialShare,
            ],
        }
    }
}

impl FairSharing {
    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        let field = "fairSharing.preemptionStrategies";
        let strategies = &self.preemption_strategies;
        if strategies.is_empty() {
            let detail = "must have at least one element: LessThanOrEqualToFinalShare or LessThanInitialShare; if absent, both apply";
            problems.push(Problem::invalid(field, "[]", detail));
        }
        for (index, strategy) in strategies.iter().enumerate() {
            if strategies
                .iter()
                .take(index)
                .any(|before| before == strategy)
            {
                let field = format!("{field}[{index}]");
                problems.push(Problem::duplicate(field, format!("{strategy:?}")));
            }
        }
    }

    /// The strategies, in their order.
    pub(crate) fn strategies(&self) -> Vec<FairPreemption> {
        let strategies = self.preemption_strategies.iter();
        let strategies = strategies.map(|strategy| match strategy {
            PreemptionStrategy::LessThanOrEqualToFinalShare => {
                FairPreemption::LessThanOrEqualToFinalShare
            }
            PreemptionStrategy::LessThanInitialShare => FairPreemption::LessThanInitialShare,
        });
        strategies.collect()
    }
}

impl Default for AdmissionFairSharing {
    fn default() -> Self {
        Self {
            usage_half_life_time: Span::hours(7 * 24),
        }
    }
}

impl AdmissionFairSharing {
    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        let Span { text, value } = &self.usage_half_life_time;
        if *value < HALF_LIFE_MIN {
            let field = "admissionFairSharing.usageHalfLifeTime";
            let detail = format!("{}, and at least 1s", duration::RULE);
            problems.push(Problem::invalid(field, text.clone(), detail));
        }
    }

    pub(crate) fn half_life(&self) -> Duration {
        self.usage_half_life_time.value
    }
}
