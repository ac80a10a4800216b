//! Black-box tests: they apply YAML to a real API server and look at objects, and know nothing of
//! the code. Most share one control plane with one Sluice, each in a namespace of its own; those that
//! kill something have a control plane to themselves. They mostly wait: `RUST_TEST_THREADS=8` makes
//! the suite several times faster than one thread for each core.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a failed assumption is a failed test, and says where"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what is made with json!() is given away where it is made"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "a test binary offers nothing to anybody"
)]

mod aliases;
mod allowed_classes;
mod allowed_clients;
mod applied_again;
mod bad_objects;
mod being_deleted;
mod cert_manager;
mod certificate;
mod check;
mod children;
mod configuration;
mod crash;
mod deleted_queues;
mod detached;
mod devices;
mod enforcement_config;
mod enforcement_life;
mod enforcement_many;
mod enforcement_modes;
mod enforcement_outage;
mod enforcement_starts;
mod explanation;
mod failover;
mod fair_sharing;
mod forged_owners;
mod gates_after;
mod gates_after_faults;
mod gates_applied;
mod gates_bad;
mod gates_counter;
mod gates_create;
mod gates_deadline;
mod gates_deadline_faults;
mod gates_escapes;
mod gates_examples;
mod gates_kubectl;
mod gates_life;
mod gates_marks;
mod gates_outage;
mod gates_owners;
mod gates_place;
mod gates_policy;
mod gates_roads;
mod gates_schedule;
mod gates_templates;
mod gitops;
mod gitops_upgrade;
mod install;
mod jail;
mod jail_webhooks;
mod jobkind_admission;
mod jobkind_hooks;
mod jobkinds_life;
mod karpenter;
mod late_objects;
mod life;
mod life_additions;
mod logs;
mod made_up_kind;
mod metrics;
mod moved;
mod operators;
mod orphans;
mod owners;
mod partial_admission;
mod pausing;
mod place;
mod pod_priority_classes;
mod pods_deployments;
mod pods_faults;
mod pods_gangs;
mod pods_groups;
mod pods_jobs;
mod pods_not_restartable;
mod pods_quota;
mod pods_races;
mod pods_ready;
mod pods_rules;
mod pods_single;
mod pods_whole;
mod policies;
mod policies_kinds;
mod preemption;
mod priority_change;
mod queue_fields;
mod quota;
mod quota_trees;
mod races;
mod reclaimable;
mod recovery;
mod release;
mod requeue;
mod reservations;
mod reserved_quota;
mod roads_compared;
mod shipped_kinds;
mod stalls;
mod status;
mod stop;
mod support;
mod suspension;
mod tenants;
mod terminating_namespace;
mod terms;
mod undeclared_resources;
mod uninstall;
mod versions;
mod visibility;
mod warnings;
mod webhook_down;
mod what_if;
mod writes;
