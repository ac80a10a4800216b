//! Where a test plays: on the control plane that all share, or, if it kills something, on its own.

use std::time::Duration;

use anyhow::Result;
use sluice_testbed::{ControlPlane, Options, Shared, Sluice, SluiceOptions};

use super::Scene;

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

/// How often it is looked whether Sluice has lost its Lease, which a busy machine can bring about.
const SUPERVISION: Duration = Duration::from_secs(1);

/// What is added to the failure of a test during which Sluice lost its Lease.
#[derive(Debug, thiserror::Error)]
#[error("Sluice has lost its Lease meanwhile, as the machine was too busy")]
pub struct LeaseLost;

/// Plays a test, and once more if it failed while Sluice lost its Lease: what the test is about was not tried then. What
/// Sluice does then is told by tests of its own (`terms.rs`).
pub async fn persevere(play: impl AsyncFn() -> Result<()>) -> Result<()> {
    match play().await {
        Err(failure) if failure.is::<LeaseLost>() => {
            eprintln!("played again, after: {failure:#}");
            play().await
        }
        other => other,
    }
}

/// Plays on the shared control plane, in a namespace whose name begins so.
pub async fn shared(prefix: &str, test: impl AsyncFn(&Scene<'static>) -> Result<()>) -> Result<()> {
    shared_on(Sluice::shared(BINARY), prefix, test).await
}

/// Plays on this control plane that others share too.
pub async fn shared_on(
    shared: &'static Shared,
    prefix: &str,
    test: impl AsyncFn(&Scene<'static>) -> Result<()>,
) -> Result<()> {
    shared.supervise();
    let leading = async |scene: &Scene<'static>| {
        see_leading(scene).await?;
        test(scene).await
    };
    persevere(async || Scene::play(&shared.control_plane, &shared.sluice, prefix, &leading).await)
        .await
}

/// Waits until a Sluice that was started for the first time has come to decide, and the API server asks it
/// about the kinds that tests use most. What is there before that it takes over in silence.
pub async fn see_leading(scene: &Scene<'_>) -> Result<()> {
    for kind in ["job", "deployment", "statefulset"] {
        if scene.find("JobKind", kind).await?.is_some() {
            scene
                .see_condition("JobKind", kind, "Ready", "True", "Watched")
                .await?;
        }
    }
    Ok(())
}

/// A control plane and a Sluice of one's own, to be killed at will.
pub struct Bed {
    /// Dropped first.
    pub sluice: Sluice,
    pub cp: ControlPlane,
}

/// Plays on a control plane of its own, where Sluice is installed and not started yet.
pub async fn own(
    prefix: &str,
    sluice: SluiceOptions,
    options: Options,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    persevere(async || {
        let cp = ControlPlane::start(options.clone()).await?;
        let sluice = Sluice::install(&cp, sluice.clone()).await?;
        let bed = Bed { sluice, cp };
        let test = async |scene: &Scene<'_>| test(&bed, scene).await;
        Scene::play(&bed.cp, &bed.sluice, prefix, test).await
    })
    .await
}

/// Starts Sluice again when it has lost its Lease, as a kubelet does. Never ends.
async fn supervise(bed: &Bed) -> Result<()> {
    loop {
        tokio::time::sleep(SUPERVISION).await;
        bed.sluice.revive()?;
    }
}

/// As [`own`], with Sluice running. It is not started again by anybody else.
pub async fn own_unsupervised(
    prefix: &str,
    sluice: SluiceOptions,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    let options = Options::with_crds()?;
    own(
        prefix,
        sluice,
        options,
        async |bed: &Bed, scene: &Scene<'_>| {
            bed.sluice.start().await?;
            see_leading(scene).await?;
            test(bed, scene).await
        },
    )
    .await
}

/// As [`own`], with Sluice running.
pub async fn own_running(
    prefix: &str,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    own_running_with(prefix, SluiceOptions::new(BINARY), test).await
}

/// As [`own`], with a Sluice running that was started so.
pub async fn own_running_with(
    prefix: &str,
    sluice: SluiceOptions,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    own_unsupervised(prefix, sluice, async |bed: &Bed, scene: &Scene<'_>| {
        tokio::select! {
            tested = test(bed, scene) => tested,
            supervised = supervise(bed) => supervised,
        }
    })
    .await
}
