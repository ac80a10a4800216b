//! What runs past the queue, and what is counted too low.

use crate::FoundBy::{Cluster, Unit};
use crate::{Mutant, mutant};

const POD_USAGE: &str = "src/controller/decisions/pod_usage.rs";
const AUTHOR: &str = "webhooks/src/rules/author.rs";
const POD_EDITS: &str = "webhooks/src/rules/pods/update.rs";
const POLICIES: &str = "config/policies/manifests.yaml";

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "pods of an orphaned job run on without usage",
        "src/controller/decisions/orphans.rs",
        ("if 0 < live {", "if usize::MAX == live {"),
        Cluster("pods_that_run_on_keep_their_quota"),
    ),
    mutant(
        "what is being deleted may be started past its gate",
        "src/plan/job.rs",
        (
            "return unadmitted_in_deletion(situation);",
            "return Plan::default();",
        ),
        Unit("src", "each_turn_of_a_jobs_life"),
    ),
    mutant(
        "what is being deleted may be taken out of its queue",
        "src/cache/job.rs",
        (
            "self.deleting && (self.is_marked_held() || has_workload)",
            "self.deleting && self.is_marked_held() && !has_workload",
        ),
        Unit("src", "each_turn_of_a_jobs_life"),
    ),
    mutant(
        "a job grows back to quota that it gave away",
        "src/plan/job/admitted.rs",
        ("progress::wants_reclaimed(record, pod_sets)", "false"),
        Unit("src", "each_turn_of_a_jobs_life"),
    ),
    mutant(
        "children run on what their owner gave away",
        "src/plan/children/excess.rs",
        (
            "admitted.saturating_sub(record.reclaimed(name))",
            "admitted",
        ),
        Unit(
            "src",
            "children_run_on_what_is_left_of_what_their_owner_was_admitted_with",
        ),
    ),
    mutant(
        "pods beyond the admission of a job that is gone use nothing",
        "src/controller/decisions/orphans.rs",
        (
            "return Some((named, is_beyond));",
            "return Some((named, false));",
        ),
        Unit(
            "src",
            "a_job_that_is_gone_has_left_no_more_pods_than_it_was_admitted_with",
        ),
    ),
    mutant(
        "pods beyond the admission of their job use nothing",
        "src/controller/decisions/replaced_pods.rs",
        (
            "let beyond = beyond_all.max(beyond_left.min(terminating));",
            "let beyond = beyond_left.min(terminating);",
        ),
        Unit(
            "src",
            "a_pod_beyond_the_admission_is_counted_beside_its_job",
        ),
    ),
    mutant(
        "a job that names an admitted one hides its pods behind that",
        "src/controller/intake/owners.rs",
        (
            "kind.makes(group, &below.kind) || may_have_others",
            "kind.makes(group, &below.kind) || may_have_others || !group.is_empty()",
        ),
        Unit("src", "a_pod_that_runs_is_counted_once"),
    ),
    mutant(
        "what runs with Sluice's label and belongs to no admitted job is nobody's",
        POD_USAGE,
        (
            "own.map_or(QuotaOf::Nobody, |_| QuotaOf::Own)",
            "own.map_or(QuotaOf::Nobody, |_| QuotaOf::Nobody)",
        ),
        Unit("src", "a_pod_that_runs_is_counted_once"),
    ),
    mutant(
        "what belongs to an owner that can't be read is nobody's while it is asked for again",
        POD_USAGE,
        ("return QuotaOf::Unknown;", "return QuotaOf::Nobody;"),
        Unit(
            "src",
            "an_owner_that_could_not_be_read_is_believed_once_it_can_be",
        ),
    ),
    mutant(
        "a pod that is taken from its Deployment makes a place for another one",
        "src/controller/decisions/ungating.rs",
        (
            "let used_up = done.count().saturating_add(away.count());",
            "let used_up = done.count().saturating_add(away.count() / 99);",
        ),
        Cluster("a_pod_that_is_taken_from_a_deployment_keeps_its_place"),
    ),
    mutant(
        "who may name priority classes may not read them",
        "config/rbac/users.yaml",
        ("name: system:authenticated", "name: system:masters"),
        Cluster("tenants_can_not_admit_their_own_jobs"),
    ),
    mutant(
        "any owner of any kind lets a labelled pod past its gate",
        AUTHOR,
        (
            "None => policy.is_child(group, kind) && author.makes(None),",
            "None => author.makes(None) || policy.is_child(group, kind),",
        ),
        Unit("webhooks", "labelled_pods"),
    ),
    mutant(
        "an account of the tenant's namespace is a controller",
        AUTHOR,
        (
            "if self.is_of_namespace() {\n            return false;",
            "if self.is_of_namespace() && named.len() > 99 {\n            return false;",
        ),
        Unit("webhooks", "labelled_pods"),
    ),
    mutant(
        "any service account makes the pods of any kind",
        AUTHOR,
        ("if named.clone().next().is_none() {", "if true {"),
        Unit("webhooks", "labelled_pods"),
    ),
    mutant(
        "the controllers that copy labels make pods without a gate",
        AUTHOR,
        (
            "if COPIERS.contains(&(group, kind)) {\n        return MadeFor::Unknown;",
            "if COPIERS.contains(&(group, kind)) {\n        return MadeFor::Owner;",
        ),
        Unit("webhooks", "labelled_pods"),
    ),
    mutant(
        "a pod that is gated like those of a template belongs to whom it names",
        AUTHOR,
        (
            "policy.queue_gates().carried(pod).is_some() {\n        return if_so(author.makes(None), MadeFor::Owner);",
            "policy.queue_gates().carried(pod).is_some() {\n        return MadeFor::Owner;",
        ),
        Unit("webhooks", "a_pod_that_is_gated_like_those_of_a_template"),
    ),
    mutant(
        "a child may ask for more than its root was admitted with",
        "src/plan/children/excess.rs",
        (
            "if left.saturating_add(given) < *asks {",
            "if left.saturating_add(given) < *asks && *asks < 0 {",
        ),
        Cluster("a_part_runs_on_what_its_owner_was_admitted_with"),
    ),
    mutant(
        "a child without a queue label may ask for more than its root was admitted with",
        "src/controller/intake/jobs.rs",
        (
            "let is_child = !is_open &&",
            "let is_child = shows_pods && !is_open &&",
        ),
        Cluster("a_part_without_the_label_runs_on_what_its_owner_was_admitted_with"),
    ),
    mutant(
        "children are not counted together",
        "src/plan/children/excess.rs",
        (
            "*left = left.saturating_sub(taken);",
            "*left = left.saturating_sub(taken.min(0));",
        ),
        Unit(
            "src",
            "children_run_together_on_what_their_owner_was_admitted_with",
        ),
    ),
    mutant(
        "propagated gates can be taken off child pods",
        POD_EDITS,
        (
            "problems.extend(check_propagated(old, new));",
            "problems.extend(check_propagated(old, old));",
        ),
        Unit("webhooks", "propagated_gates_are_taken_off_by_sluice"),
    ),
    mutant(
        "propagated gates can be taken off where there are policies",
        POLICIES,
        (
            "(variables.podOld.?metadata.?annotations[?'sluice.dev/propagated-gates'].orValue('')).split(',')",
            "(variables.podOld.?metadata.?annotations[?'sluice.dev/none'].orValue('')).split(',')",
        ),
        Cluster("webhooks_and_policies_judge_every_road_the_same"),
    ),
    mutant(
        "webhooks do not judge pods/status",
        "webhooks/src/rules/pods/validate.rs",
        (
            "(Some(old), \"\" | \"status\") => {",
            "(Some(old), \"\") => {",
        ),
        Cluster("webhooks_and_policies_judge_every_road_the_same"),
    ),
    mutant(
        "whoever may edit a pod that runs in no queue writes down what quota it uses",
        POD_EDITS,
        (
            "problems.extend(check_forged(old, new));",
            "drop(check_forged(old, new));",
        ),
        Cluster("a_pod_of_an_unqueued_job_is_not_admitted_by_its_user"),
    ),
    mutant(
        "a pod without queue and gate takes a late gate",
        POD_EDITS,
        (
            "if !is_managed(old) {\n        problems.extend(gate_problems);",
            "if !is_managed(old) {\n        drop(gate_problems);",
        ),
        Unit("webhooks", "makers::late"),
    ),
    mutant(
        "the queue gate can be taken off",
        POD_EDITS,
        (
            "problems.extend(check_queue_gate(old, new, policy));",
            "problems.extend(check_queue_gate(old, old, policy));",
        ),
        Unit("webhooks", "the_queue_gate_stays"),
    ),
    mutant(
        "bare pods keep what they borrow",
        "src/controller/decisions/evictions.rs",
        (
            "pod.owner.is_none() && self.keeps_pod(&queue(), pod)",
            "pod.owner.is_none() || self.keeps_pod(&queue(), pod)",
        ),
        Cluster("bare_pods_give_back_what_they_borrow"),
    ),
    mutant(
        "bare pods that are kept may borrow",
        "src/controller/engine_sync.rs",
        (
            "vec![translate::pod_set(asks, Borrowing::allowed_if(!is_kept))]",
            "vec![translate::pod_set(asks, Borrowing::allowed_if(true))]",
        ),
        Cluster("bare_pods_that_are_kept_do_not_borrow"),
    ),
    mutant(
        "claimed devices are not counted",
        "kinds/src/read/devices.rs",
        (
            "*sum = sum.saturating_add(*amount);",
            "*sum = sum.saturating_add(*amount / i128::MAX);",
        ),
        Unit("kinds", "the_claims_of_a_pod_add_to_its_requests"),
    ),
    mutant(
        "devices that can't be counted count as none",
        "kinds/src/read/devices.rs",
        (
            "self.devices = if problems.is_empty() {",
            "self.devices = if problems.len() < 99 {",
        ),
        Unit("kinds", "claims_that_can_not_be_counted_are_reported"),
    ),
    mutant(
        "an admitted job may grow",
        "webhooks/src/rules/jobs/growth.rs",
        (
            "if was.count < set.count {",
            "if was.count < set.count && set.count < 1 {",
        ),
        Unit(
            "webhooks",
            "an_admitted_job_stays_on_the_nodes_of_its_flavor",
        ),
    ),
    mutant(
        "a pod that is being deleted is not judged",
        "webhooks/src/admission/edit.rs",
        (
            "let is_judged = request.is_pod() || changes_gates(request, object);",
            "let is_judged = changes_gates(request, object);",
        ),
        Cluster("a_pod_that_takes_its_time_is_counted_whatever_its_labels_say"),
    ),
    mutant(
        "what is being deleted loses its gates by anybody",
        "webhooks/src/admission/edit.rs",
        (
            "let is_judged = request.is_pod() || changes_gates(request, object);",
            "let is_judged = request.is_pod();",
        ),
        Unit("webhooks", "creation_deletion_and_sluice_need_no_right"),
    ),
    mutant(
        "the pods of what is being deleted lose its gates",
        "src/controller/planning/pods.rs",
        (
            "Some(job) if job.deleting || job.gate_record.is_deactivated()",
            "Some(job) if job.gate_record.is_deactivated()",
        ),
        Cluster("an_object_that_is_being_deleted_keeps_its_gates"),
    ),
    mutant(
        "a pod that has lost its controller loses the gates that came down",
        "src/plan/pod.rs",
        (
            "held.extend(came_down(pod).into_iter().map(ToOwned::to_owned));",
            "held.extend(std::iter::empty::<String>());",
        ),
        Unit(
            "src",
            "a_pod_without_a_controller_loses_the_gates_that_were_its_own",
        ),
    ),
    mutant(
        "whoever says that an object is a child writes its record",
        "webhooks/src/rules/jobs/validate.rs",
        (
            "&& is_made_by_controller(edit.new, Author::of(request), policy);\n        problems.extend(check_records",
            ";\n        problems.extend(check_records",
        ),
        Unit("webhooks", "nobody_else_releases_an_object_past_its_gates"),
    ),
    mutant(
        "a pod that comes to another job uses the quota of that, whatever it was admitted with",
        POD_USAGE,
        (
            "&& !self.has_place(&holder, pod)",
            "&& !self.holds_quota(&holder)",
        ),
        Cluster("pods_that_a_smaller_job_adopts_are_counted_beside_it"),
    ),
    mutant(
        "containers beyond the 1,024th are not counted",
        "kinds/src/read/requests/mod.rs",
        (
            "list.map_or(&[][..], Vec::as_slice)",
            "list.map_or(&[][..], |list| list.get(..1024).unwrap_or(list))",
        ),
        Unit("kinds", "counts_all_containers_however_many"),
    ),
    mutant(
        "the pods of an admitted job may be made for other nodes",
        "kinds/src/read/template.rs",
        (
            "selected.any(|(key, value)| self.node_selector.get(key) != Some(value))",
            "selected.any(|(key, _)| self.node_selector.get(key).is_none())",
        ),
        Unit(
            "webhooks",
            "an_admitted_job_stays_on_the_nodes_of_its_flavor",
        ),
    ),
    mutant(
        "a mark starts a Workflow whose pods do not wait",
        "src/plan/job/gated.rs",
        (
            "job.is_marked_held() && (job.is_gated || is_unheld(job))",
            "job.is_marked_held()",
        ),
        Unit("src", "a_mark_starts_nothing_whose_pods_would_not_wait"),
    ),
    mutant(
        "a Workflow that is suspended need not have its pods queued any more",
        "kinds/src/patch/marks.rs",
        (
            "let has_pods = has_pods || self.is_opaque() && marking.is_queued;",
            "",
        ),
        Unit("webhooks", "what_its_pods_wait_by_can_not_be_taken_away"),
    ),
    mutant(
        "any number of pods of a job terminate uncounted",
        "src/controller/decisions/replaced_pods.rs",
        (
            "soon_gone.into_iter().skip(left)",
            "soon_gone.into_iter().skip(usize::MAX.max(left))",
        ),
        Unit(
            "src",
            "no_more_pods_than_its_job_was_admitted_with_terminate_uncounted",
        ),
    ),
];
