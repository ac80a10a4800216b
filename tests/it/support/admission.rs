//! The two ways in which objects are held and judged, by webhooks and by admission policies, and
//! tests that are played with both.

use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_testbed::{ControlPlane, Options, Shared, SluiceOptions, eventually};

use super::bed::{self, BINARY, Bed};
use super::objects::{GATED, Job, is_suspended};
use super::{DEADLINE, Scene};

/// Who holds objects at their creation and judges edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Sluice, asked by the API server: `config/default`.
    Webhooks,
    /// The API server, by policies: `config/without-webhook`.
    Policies,
}

impl Admission {
    /// What a refusal about a batch Job says.
    pub fn of_job(self, problem: &str) -> String {
        self.of("validate.jobs", "sluice-jobs.batch", problem)
    }

    /// What a refusal of a pod at its creation says.
    pub fn of_new_pod(self, problem: &str) -> String {
        self.of("mutate.pods", "sluice-pods", problem)
    }

    /// What a refusal about a pod says.
    pub fn of_pod(self, problem: &str) -> String {
        self.of("validate.pods", "sluice-pods", problem)
    }

    fn of(self, webhook: &str, policy: &str, problem: &str) -> String {
        match self {
            Self::Webhooks => {
                format!("admission webhook \"{webhook}.sluice.dev\" denied the request: {problem}")
            }
            Self::Policies => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {problem}"
            ),
        }
    }
}

/// Plays on the control plane that all tests with this admission share, in a namespace whose name
/// begins so.
pub async fn play(
    admission: Admission,
    prefix: &str,
    test: impl AsyncFn(&Scene<'static>) -> Result<()>,
) -> Result<()> {
    match admission {
        Admission::Webhooks => bed::shared(prefix, test).await,
        Admission::Policies => bed::shared_on(with_policies(), prefix, test).await,
    }
}

/// Plays tests that take an [`Admission`] with each.
macro_rules! both_ways {
    ($($test:ident),+ $(,)?) => {
        mod by_webhooks {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test($crate::support::admission::Admission::Webhooks).await
            })+
        }

        mod by_policies {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test($crate::support::admission::Admission::Policies).await
            })+
        }
    };
}
pub(crate) use both_ways;

/// The one control plane with admission policies, started by the first who asks.
fn with_policies() -> &'static Shared {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    match started {
        Ok(shared) => shared,
        Err(error) => panic!("the Sluice with policies did not start: {error}"),
    }
}

fn start() -> Result<Shared> {
    let mut options = SluiceOptions::new(BINARY);
    options.webhooks = false;
    Shared::start(options, async |control_plane| {
        apply_policies(control_plane).await
    })
}

/// As [`bed::own`], with the policies applied and Sluice leading. It is not started again by anybody else.
pub async fn own_with_policies(
    prefix: &str,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    let mut sluice = SluiceOptions::new(BINARY);
    sluice.webhooks = false;
    let options = Options::with_crds()?;
    bed::own(prefix, sluice, options, async |bed, scene| {
        apply_policies(&bed.cp).await?;
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        test(bed, scene).await
    })
    .await
}

/// Applies `config/policies` and waits until a job with a gate is held and judged.
pub async fn apply_policies(cp: &ControlPlane) -> Result<()> {
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/config/policies");
    cp.kubectl(["apply", "-k", policies], None).await?.ok()?;
    let create = async |gate: &str| {
        let probe = Job::new("probe").annotation(GATED, gate).manifest();
        let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
        cp.kubectl(args, Some(&probe)).await
    };
    // The API server hears of one policy after the other, within a second.
    eventually("the policies to work", DEADLINE, async || {
        let held = create("tests/probe").await?.ok()?;
        let held: Value = serde_json::from_str(&held).context("kubectl -o json")?;
        ensure!(is_suspended(&held), "the probe is not held");
        create("probe").await?.err()
    })
    .await?;
    Ok(())
}
