//! What a stolen token of Sluice can do, and what strangers can have the webhooks do.

use crate::FoundBy::{Cluster, Unit};
use crate::{Mutant, mutant};

const JAIL: &str = "config/jail/manifests.yaml";

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "the token may write in system namespaces",
        JAIL,
        (
            "in ['kube-system', 'kube-public', 'kube-node-lease']",
            "in ['kube-public', 'kube-node-lease']",
        ),
        Cluster("pods_of_others_are_out_of_reach"),
    ),
    mutant(
        "the token may change any field of a managed object",
        JAIL,
        (
            "(variables.isEdit ? variables.changes +",
            "(variables.isEdit ? variables.changes.filter(c, false) +",
        ),
        Cluster("jobs_are_held_and_released_and_nothing_else"),
    ),
    mutant(
        "the token may change the image of a queued pod",
        JAIL,
        (
            "!(k in ['schedulingGates', 'nodeSelector', 'tolerations'])",
            "!(k in ['schedulingGates', 'nodeSelector', 'tolerations', 'containers'])",
        ),
        Cluster("pods_of_others_are_out_of_reach"),
    ),
    mutant(
        "the token may take the gates of others off pods",
        JAIL,
        (
            "variables.specProblems + variables.gateProblems",
            "variables.specProblems + variables.gateProblems.filter(g, false)",
        ),
        Cluster("pods_of_others_are_out_of_reach"),
    ),
    mutant(
        "the token may delete any pod",
        JAIL,
        (
            "request.operation == 'DELETE' ?\n      (!variables.wasManaged\n",
            "request.operation == 'DELETE' ?\n      (!variables.wasManaged && false\n",
        ),
        Cluster("pods_of_others_are_out_of_reach"),
    ),
    mutant(
        "the token may point its webhooks at any address",
        JAIL,
        (
            "clientConfig[?k]).filter(k, k != 'caBundle')",
            "clientConfig[?k]).filter(k, !(k in ['caBundle', 'url', 'service']))",
        ),
        Cluster("its_webhooks_go_on_asking_sluice"),
    ),
    mutant(
        "the token may have its webhooks asked about everything",
        JAIL,
        (
            "rules.orValue([]).all(r, r in p.old.?rules",
            "rules.orValue([]).all(r, true || r in p.old.?rules",
        ),
        Cluster("its_webhooks_go_on_asking_sluice"),
    ),
    mutant(
        "clients with any certificate are answered",
        "webhooks/src/server/allowed_clients.rs",
        ("if self.names.is_empty() {", "if true {"),
        Unit("webhooks", "only_allowed_clients_are_answered"),
    ),
    mutant(
        "strangers have as many questions passed on to the API server as they like",
        "src/api/allowance.rs",
        ("left.is_some()", "left.is_some() || self.at_once > 0"),
        Unit("src", "strangers_cost_no_more_than_this"),
    ),
    mutant(
        "the answers that are kept grow without end",
        "src/api/access.rs",
        (
            "while KEPT_MAX < self.order.len() {",
            "while KEPT_MAX < self.order.len() / 4 {",
        ),
        Unit(
            "src",
            "the_oldest_answers_are_forgotten_and_large_questions_are_not_kept",
        ),
    ),
];
