//! Kinds with operators of their own: whose objects are whose, and what they come to.

use crate::FoundBy::{Cluster, Shipped, Unit};
use crate::{Mutant, mutant};

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "owners are not followed through pods",
        "src/plan/children/lineage.rs",
        (
            "if is_pod(&owner) {\n                    made_for_pod.get_or_insert(below);",
            "if is_pod(&owner) {\n                    return Lineage::Root;",
        ),
        Unit(
            "src",
            "what_is_made_for_a_pod_belongs_to_whom_the_pod_belongs_to",
        ),
    ),
    mutant(
        "whoever makes pods also makes what is made for a pod",
        "src/plan/children/lineage.rs",
        (
            "Known::Managed if is_maker => return Lineage::Child,",
            "Known::Managed if is_maker || declared.is_some() => return Lineage::Child,",
        ),
        Unit(
            "src",
            "what_is_made_for_a_pod_belongs_to_whom_the_pod_belongs_to",
        ),
    ),
    mutant(
        "a group of a LeaderWorkerSet starts as far as quota goes",
        "config/jobkinds/leaderworkerset.yaml",
        (
            "!(has(object.spec.startupPolicy) && object.spec.startupPolicy == 'LeaderReady') &&",
            "has(object.spec.startupPolicy) && !(object.spec.startupPolicy == 'LeaderReady') &&",
        ),
        Cluster("each_is_held_released_and_evicted"),
    ),
    mutant(
        "the pods that KubeRay submits by are not counted",
        "config/jobkinds/rayjob.yaml",
        (
            "count: \"has(object.spec.submissionMode) && object.spec.submissionMode != 'K8sJobMode' ? 0 : 1\"",
            "count: \"has(object.spec.submissionMode) && object.spec.submissionMode == 'K8sJobMode' ? 1 : 0\"",
        ),
        Shipped("a_rayjob_has_a_submitter_in_one_mode_only"),
    ),
    mutant(
        "the container that waits for Ray's head is not counted",
        "config/jobkinds/rayjob.yaml",
        (
            "requests: {cpu: 200m, memory: 256Mi}",
            "requests: {cpu: 100m, memory: 256Mi}",
        ),
        Shipped("what_kuberay_adds_is_counted_as_it_runs"),
    ),
    mutant(
        "a RayCluster for which KubeRay makes no pods holds quota",
        "config/jobkinds/raycluster.yaml",
        (
            "has(g.minReplicas) && has(g.maxReplicas) && g.maxReplicas < g.minReplicas)",
            "has(g.minReplicas) && has(g.maxReplicas) && g.maxReplicas < -1)",
        ),
        Shipped("refusals::raycluster"),
    ),
    mutant(
        "an MPIJob for which its operator makes no pods holds quota",
        "config/jobkinds/mpijob.yaml",
        (
            "object.spec.mpiReplicaSpecs.Launcher.replicas != 1",
            "object.spec.mpiReplicaSpecs.Launcher.replicas == 0",
        ),
        Shipped("refusals::mpijob"),
    ),
    mutant(
        "a JobKind whose expressions name the metadata reads no object",
        "src/cache/job.rs",
        (
            "if kind.reads_metadata() {",
            "if kind.reads_metadata() && kind.group.is_empty() {",
        ),
        Unit("src", "expressions_may_name_what_every_object_has"),
    ),
    mutant(
        "a JobSet is believed to be suspended before it has noticed its release",
        "src/controller/intake/children.rs",
        (
            "if let Some(owner) = unseen_of {",
            "if let Some(owner) = unseen_of.filter(|_| false) {",
        ),
        Unit(
            "src",
            "a_trainjob_that_stops_before_its_jobset_has_noticed_its_release_keeps_its_quota_for_a_while",
        ),
    ),
];
