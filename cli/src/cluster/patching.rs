//! What all commands say of the changes that they ask for.

use kube::api::PatchParams;

/// The name under which the API server keeps who changed a field.
const FIELD_MANAGER: &str = "kubectl-sluice";

/// Whether the API server only says what it would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    Yes,
    No,
}

impl DryRun {
    /// As an option says.
    pub fn if_asked(is_asked: bool) -> Self {
        if is_asked { Self::Yes } else { Self::No }
    }

    /// Whether nothing is changed.
    pub fn is_dry(self) -> bool {
        self == Self::Yes
    }
}

/// With what a patch is sent.
pub fn patch_params(dry_run: DryRun) -> PatchParams {
    PatchParams {
        dry_run: dry_run.is_dry(),
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
