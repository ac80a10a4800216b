//! The one control plane with the one Sluice that the tests of a process share, and its restart after a lost Lease.

use std::path::Path;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::{Sluice, SluiceOptions};
use crate::controlplane::ControlPlane;
use crate::controlplane::options::Options;

/// How its last line begins then.
const LEASE_LOST: &str = "Error: the lease is lost";

/// How often it is looked whether the shared Sluice lives.
const SUPERVISION: Duration = Duration::from_millis(200);

/// A control plane and the Sluice on it: what the tests of a process share.
#[derive(Debug)]
pub struct Shared {
    /// Dropped first.
    pub sluice: Sluice,
    /// With Sluice's CRDs from the start.
    pub control_plane: ControlPlane,
    supervised: Once,
}

impl Shared {
    /// Starts a control plane and a Sluice on it. `before` runs when Sluice is installed and not
    /// started yet. Blocks the calling thread.
    ///
    /// # Errors
    /// When one of them does not start, or `before` fails.
    pub fn start(
        options: SluiceOptions,
        before: impl AsyncFnOnce(&ControlPlane) -> Result<()> + Send,
    ) -> Result<Self> {
        let control_plane = ControlPlane::start_blocking(&Options::with_crds()?)?;
        // A thread of its own: the caller's may already be inside a runtime.
        let sluice = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    let sluice = Sluice::install(&control_plane, options).await?;
                    before(&control_plane).await?;
                    sluice.start().await?;
                    anyhow::Ok(sluice)
                })
            });
            thread
                .join()
                .map_err(|_| anyhow!("the start of Sluice panicked"))?
        });
        Ok(Self {
            sluice: sluice?,
            control_plane,
            supervised: Once::new(),
        })
    }

    /// Starts Sluice again when it has lost its Lease, as a kubelet does: on a machine that is busy
    /// enough it can't renew it in time. If it ends for another reason it stays so, and tests fail.
    pub fn supervise(&'static self) {
        self.supervised.call_once(|| {
            std::thread::spawn(move || {
                let mut told_before = 0;
                loop {
                    std::thread::sleep(SUPERVISION);
                    let process = self.sluice.process();
                    if process.exit_status().is_none() {
                        continue;
                    }
                    let log = std::fs::read_to_string(process.log()).unwrap_or_default();
                    if has_lost_its_lease(log.get(told_before..).unwrap_or_default()) {
                        told_before = log.len();
                        process.stop();
                        // What goes wrong here fails the tests that wait for it.
                        let _ = process.start_again();
                    }
                }
            });
        });
    }
}

impl Sluice {
    /// The one control plane with the one Sluice that all tests of this process share, started by
    /// the first who asks. Blocks the calling thread meanwhile, which is fine in a
    /// `#[tokio::test]`. The binary counts only for the call that starts it.
    ///
    /// # Panics
    /// When it can't be started: no test could go on.
    #[allow(
        clippy::panic,
        reason = "no test can go on without it, and each shall say why"
    )]
    pub fn shared(binary: impl AsRef<Path>) -> &'static Shared {
        static SHARED: OnceLock<std::result::Result<Shared, String>> = OnceLock::new();
        let started = SHARED.get_or_init(|| {
            Shared::start(SluiceOptions::new(binary.as_ref()), async |_| Ok(()))
                .map_err(|error| format!("{error:#}"))
        });
        match started {
            Ok(shared) => shared,
            Err(error) => panic!("the shared Sluice did not start: {error}"),
        }
    }

    /// Starts it again if it has ended because it lost its Lease.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn revive(&self) -> Result<()> {
        let process = self.process();
        if process.exit_status().is_some() && has_lost_its_lease(&process.log_tail()) {
            process.stop();
            process.start_again()?;
        }
        Ok(())
    }
}

/// How many of the errors in a log are that.
pub(super) fn lost_leases(log: &str) -> usize {
    log.lines()
        .filter(|line| line.starts_with(LEASE_LOST))
        .count()
}

/// Whether that is the error with which a Sluice ended, by its log. A stack trace may follow.
fn has_lost_its_lease(log: &str) -> bool {
    let mut lines = log.lines().rev();
    let error = lines.find(|line| line.starts_with("Error: "));
    error.is_some_and(|error| error.starts_with(LEASE_LOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_tells_whether_the_lease_was_lost() {
        let trace =
            "\nStack backtrace:\n   0: main\n             at ./src/main.rs:1:1\n".repeat(99);
        let lost = format!("INFO ready\nError: the lease is lost: ending\n{trace}");
        assert!(has_lost_its_lease(&lost));
        let other = format!("{lost}INFO ready\nError: no kubeconfig\n{trace}");
        assert!(!has_lost_its_lease(&other));
        assert!(!has_lost_its_lease("INFO the lease is lost: so it says"));
    }
}
