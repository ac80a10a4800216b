//! What has to be bounded, and small things that operators and users rely on.

use crate::FoundBy::{Cluster, Unit};
use crate::{Mutant, mutant};

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "a page of a list may have any size",
        "src/api/client/pages.rs",
        (
            "let bytes_max = if limit == 1 {",
            "let bytes_max = if limit > 0 {",
        ),
        Unit("src", "pages_of_large_objects_have_few"),
    ),
    mutant(
        "pages of small objects do not grow",
        "src/api/client/pages.rs",
        (
            "limits.note(&path, next_limit(limit, bytes.len()));",
            "limits.note(&path, limit.min(next_limit(limit, bytes.len())));",
        ),
        Unit("src", "pages_of_small_objects_grow_to_what_was_asked_for"),
    ),
    mutant(
        "Workloads are created in a namespace that is being deleted",
        "src/plan/job.rs",
        ("if situation.namespace_is_terminating && ", "if false && "),
        Cluster("no_workload_is_created_again"),
    ),
    mutant(
        "a job that its user pauses is started again at once",
        "src/plan/job/admitted.rs",
        (
            "if job.is_paused() {\n        return evict_paused(",
            "if job.is_paused() && job.deleting {\n        return evict_paused(",
        ),
        Unit("src", "each_turn_of_a_paused_job"),
    ),
    mutant(
        "a paused job is queued while its user holds it",
        "src/plan/eviction_steps.rs",
        (
            "if job.is_paused() && record.spec.active {",
            "if job.is_paused() && !record.spec.active {",
        ),
        Unit("src", "each_turn_of_a_paused_job"),
    ),
    mutant(
        "evictions by deactivation are not counted",
        "src/controller/reports/turns.rs",
        (
            "metrics.evicted(queues, reason);\n                if let Some(right) = preempted {",
            "if let Some(right) = preempted {\n                    metrics.evicted(queues, reason);",
        ),
        Cluster("an_eviction_by_deactivation_is_counted"),
    ),
    mutant(
        "an event that repeats with another text shows the first one",
        "src/api/events.rs",
        (
            "note: note.clone(),\n        };",
            "note: Note::normal(\"\", \"\"),\n        };",
        ),
        Unit("src", "only_the_same_text_is_counted_instead_of_told"),
    ),
    mutant(
        "aliases of Kubernetes' own keys are taken",
        "configuration/src/aliases.rs",
        (
            "} else if is_of_kubernetes(domain) || OF_KUBERNETES.contains(&value) {",
            "} else if OF_KUBERNETES.contains(&value) {",
        ),
        Unit(
            "configuration",
            "aliases_that_can_not_be_meant_are_told_by_place_and_value",
        ),
    ),
    mutant(
        "the key of a CA that an earlier version stored stays",
        "src/process/certificate/keeper.rs",
        (
            "&& !data.contains_key(CA_KEY)",
            "&& (data.is_empty() || CA_KEY != BUNDLE)",
        ),
        Cluster("no_key_of_a_ca_is_kept"),
    ),
    mutant(
        "a process at a desk changes the cluster's certificate",
        "src/process/certificate/keeper.rs",
        (
            "if is_current || !self.term.is_valid() {",
            "if is_current {",
        ),
        Cluster("a_process_at_a_desk_changes_nothing_of_it"),
    ),
    mutant(
        "a certificate that can't be renewed is not served",
        "src/process/certificate/keeper.rs",
        (
            "Err(error) if can_be_served => {",
            "Err(error) if can_be_served && data.is_empty() => {",
        ),
        Unit("src", "what_can_not_be_renewed_is_served_and_trusted"),
    ),
    mutant(
        "an exponent that Kubernetes cuts to 32 bits makes a small amount",
        "crds/src/quantity.rs",
        (
            "(None, true) => Err(QuantityError::Exponent),",
            "(None, true) => Ok(-EXPONENT_MAX),",
        ),
        Unit("crds", "parses_what_kubernetes_parses"),
    ),
    mutant(
        "the defaults of containers stand for a pod-level limit",
        "kinds/src/read/requests/mod.rs",
        (
            "let declared = self.containers(pod, field, &no_defaults);",
            "let declared = self.containers(pod, field, &self.defaults.container_requests.clone());",
        ),
        Unit(
            "kinds",
            "pod_level_requests_come_before_the_defaults_of_containers",
        ),
    ),
];
