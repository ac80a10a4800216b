//! Installing, configuring, upgrading and removing Sluice from its manifests.

mod check;
mod configuration;
pub mod gitops;
mod gitops_upgrade;
mod karpenter;
mod manifests;
mod uninstall;
mod versions;
