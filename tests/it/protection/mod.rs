//! What nobody gets past: webhooks, admission policies, certificates, and the jail of Sluice's own account.

mod allowed_clients;
mod cert_manager;
mod certificate;
mod forged_owners;
mod jail;
mod jail_webhooks;
mod late_changes;
mod long_values;
mod policies;
mod policies_kinds;
mod roads_compared;
mod roads_of_jobs;
mod webhook_down;
mod workflows;
