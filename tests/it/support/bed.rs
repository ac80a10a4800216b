//! Where a test plays: on the control plane that all share, or, if it kills something, on its own.

use std::time::Duration;

use anyhow::Result;
use sluice_testbed::{ControlPlane, Options, Shared, Sluice, SluiceOptions};
use tokio::sync::Semaphore;

use super::Scene;

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

/// Control planes of their own at the same time: each takes 600 MB and, to start, both cores.
static OWN: Semaphore = Semaphore::const_new(3);

/// How often it is looked whether Sluice has lost its Lease, which a busy machine can bring about.
const SUPERVISION: Duration = Duration::from_secs(1);

/// Plays on the shared control plane, in a namespace whose name begins so.
pub async fn shared(
    prefix: &str,
    test: impl AsyncFnOnce(&Scene<'static>) -> Result<()>,
) -> Result<()> {
    shared_on(Sluice::shared(BINARY), prefix, test).await
}

/// Plays on this control plane that others share too.
pub async fn shared_on(
    shared: &'static Shared,
    prefix: &str,
    test: impl AsyncFnOnce(&Scene<'static>) -> Result<()>,
) -> Result<()> {
    shared.supervise();
    let log = || shared.sluice.log_tail();
    Scene::play(
        &shared.control_plane,
        log,
        prefix,
        async |scene: &Scene<'static>| {
            see_leading(scene).await?;
            test(scene).await
        },
    )
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
    test: impl AsyncFnOnce(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    let _permit = OWN.acquire().await?;
    let cp = ControlPlane::start(options).await?;
    let sluice = Sluice::install(&cp, sluice).await?;
    let bed = Bed { sluice, cp };
    let log = || bed.sluice.log_tail();
    Scene::play(&bed.cp, log, prefix, async |scene: &Scene<'_>| {
        test(&bed, scene).await
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
    test: impl AsyncFnOnce(&Bed, &Scene<'_>) -> Result<()>,
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
    test: impl AsyncFnOnce(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    own_running_with(prefix, SluiceOptions::new(BINARY), test).await
}

/// As [`own`], with a Sluice running that was started so.
pub async fn own_running_with(
    prefix: &str,
    sluice: SluiceOptions,
    test: impl AsyncFnOnce(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    own_unsupervised(prefix, sluice, async |bed: &Bed, scene: &Scene<'_>| {
        tokio::select! {
            tested = test(bed, scene) => tested,
            supervised = supervise(bed) => supervised,
        }
    })
    .await
}
