//! Which versions of Kubernetes Sluice runs on. What is newer in them is found out by what they serve.

/// The minor version of the oldest Kubernetes 1.x: the admission policies that bound Sluice's account need
/// two-variable comprehensions in CEL, which new policies may use one version after Kubernetes has learned them (1.32).
pub const OLDEST_MINOR: u32 = 33;

/// The same for the variant without webhooks: MutatingAdmissionPolicy is `v1` since then.
pub const OLDEST_MINOR_WITHOUT_WEBHOOKS: u32 = 36;
