//! What a round plays on: a control plane whose etcd keeps its whole history as JSON, one Sluice or two,
//! each behind a proxy of its own, and a checker that follows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sluice_faults::audit::{self, AuditLog, Write};
use sluice_faults::check::{Checker, Violation};
use sluice_faults::etcd::Etcd;
use sluice_faults::history::Revision;
use sluice_faults::proxy::Proxy;
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, eventually};
use tokio::sync::Mutex;

/// How often it is looked whether each Sluice runs.
const LOOK: Duration = Duration::from_millis(100);
/// A Sluice that was replaced is ready in seconds; the rest is for a loaded machine.
const READY: Duration = Duration::from_mins(3);

/// A version of Sluice.
#[derive(Clone, Debug)]
pub struct Version {
    pub binary: PathBuf,
    /// The folder with its `crds` and `config`.
    pub root: PathBuf,
}

impl Version {
    /// The program under test, or another one with a fault of its own put in, to see it caught.
    pub fn present() -> Result<Self> {
        let binary = std::env::var_os("FAULTS_SLUICE");
        Ok(Self {
            binary: binary.map_or_else(|| env!("CARGO_BIN_EXE_sluice").into(), PathBuf::from),
            root: sluice_testbed::repository()?,
        })
    }

    /// The one whose source was built in the folder that `make upgrade` names, if it names one.
    pub fn earlier() -> Option<Self> {
        let root = PathBuf::from(std::env::var_os("UPGRADE_FROM").filter(|dir| !dir.is_empty())?);
        Some(Self {
            binary: root.join("target/debug/sluice"),
            root,
        })
    }
}

pub struct Bed {
    /// Dropped first.
    pub sluices: Vec<Arc<Sluice>>,
    pub proxies: Vec<Proxy>,
    pub cp: ControlPlane,
    follower: Mutex<Follower>,
}

/// How far the history was read.
struct Follower {
    etcd: Etcd,
    log: AuditLog,
    checker: Checker,
    last: u64,
}

/// A part of the history, checked.
pub struct Checked {
    pub violations: Vec<Violation>,
    /// What checks look at.
    pub revisions: Vec<Revision>,
    /// How many revisions there were of every kind.
    pub read: usize,
}

impl Bed {
    /// Starts a control plane with so many Sluices, of which one leads. The first reaches one API server, the
    /// others a second one.
    pub async fn start(sluices: usize) -> Result<Self> {
        Self::start_as(&Version::present()?, sluices).await
    }

    /// As [`Bed::start`], with another version.
    pub async fn start_as(version: &Version, sluices: usize) -> Result<Self> {
        let mut options = Options::with_crds_of(&version.root)?;
        audit::POLICY.clone_into(&mut options.audit_policy);
        options.api_server_args = vec![
            "--storage-media-type=application/json".to_owned(),
            "--etcd-compaction-interval=0".to_owned(),
        ];
        options.second_api_server = 1 < sluices;
        let cp = ControlPlane::start(options).await?;
        let logs = [Some(cp.audit_log()), cp.second_audit_log()];
        let follower = Follower {
            etcd: Etcd::new(cp.etcd()),
            log: AuditLog::new(logs.into_iter().flatten()),
            checker: Checker::default(),
            last: 0,
        };
        let mut bed = Self {
            sluices: Vec::new(),
            proxies: Vec::new(),
            cp,
            follower: Mutex::new(follower),
        };
        for index in 0..sluices {
            bed.add_sluice(version, index == 0).await?;
        }
        Ok(bed)
    }

    /// The URL in the webhook configurations is that of the last who is installed with them.
    async fn add_sluice(&mut self, version: &Version, webhooks: bool) -> Result<()> {
        let server = self.cp.second_server().filter(|_| !self.sluices.is_empty());
        let server = server.unwrap_or_else(|| self.cp.server());
        let proxy = Proxy::start(server, &self.cp.dir().join("pki")).await?;
        let program = self.program(self.sluices.len());
        place(&version.binary, &program)?;
        let options = SluiceOptions {
            webhooks,
            server: Some(proxy.url().to_owned()),
            manifests: Some(version.root.clone()),
            ..SluiceOptions::new(program)
        };
        let sluice = Arc::new(Sluice::install(&self.cp, options).await?);
        sluice.start().await?;
        let target = sluice.clone();
        proxy.at_a_crash(Box::new(move || target.kill()));
        self.sluices.push(sluice);
        self.proxies.push(proxy);
        Ok(())
    }

    /// Starts each Sluice again whenever it has ended, as a kubelet does. Never ends by itself.
    pub async fn keep_running(&self) -> Result<()> {
        loop {
            tokio::time::sleep(LOOK).await;
            for process in self.sluices.iter().map(|sluice| sluice.process()) {
                if process.exit_status().is_some() {
                    process.stop();
                }
                if process.pid().is_none() {
                    process.start_again()?;
                }
            }
        }
    }

    /// Where the program of this replica is, so that another one can take its place.
    fn program(&self, index: usize) -> PathBuf {
        self.cp.dir().join(format!("replica-{index}"))
    }

    /// Replaces a replica by one of another version, as a Deployment does: it is asked to end, and the next one is
    /// waited for. [`Bed::keep_running`] starts it.
    pub async fn replace(&self, index: usize, version: &Version) -> Result<()> {
        place(&version.binary, &self.program(index))?;
        let sluice = &self.sluices[index];
        let before = sluice.pid();
        sluice.process().signal("TERM")?;
        eventually("the next replica to be ready", READY, async || {
            ensure!(
                sluice.pid().is_some_and(|pid| Some(pid) != before),
                "it is not started"
            );
            let status = sluice.health("/readyz").await?;
            ensure!(status == 200, "/readyz answered {status}");
            Ok(())
        })
        .await
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.proxies.iter().for_each(Proxy::heal);
    }

    /// How many faults the proxies have made.
    pub fn faults(&self) -> BTreeMap<&'static str, usize> {
        let mut sum = BTreeMap::new();
        for (name, count) in self.proxies.iter().flat_map(Proxy::made) {
            *sum.entry(name).or_default() += count;
        }
        sum
    }

    /// Checks what has happened since the last call. In the namespace nothing happens any more: there
    /// everything must have come to an end.
    pub async fn check(&self, namespace: &str) -> Result<Checked> {
        let follower = &mut *self.follower.lock().await;
        let mut chapter = follower.etcd.read(follower.last).await?;
        audit::sign(&mut chapter.revisions, follower.log.writes()?);
        for revision in &chapter.revisions {
            follower.checker.apply(revision);
        }
        follower.last = chapter.last;
        let mut violations = follower.checker.take();
        violations.extend(follower.checker.unfinished(namespace));
        Ok(Checked {
            violations,
            revisions: chapter.revisions,
            read: chapter.read,
        })
    }

    /// How often Sluice has written so far, and the last write; its Lease and events apart.
    pub async fn writes(&self) -> Result<(usize, Option<Write>)> {
        let mut follower = self.follower.lock().await;
        let writes = follower.log.writes()?;
        Ok((writes.len(), writes.last().cloned()))
    }

    /// The ends of all logs, for a failure.
    pub fn logs(&self) -> String {
        let logs = self.sluices.iter().map(|sluice| sluice.log_tail());
        logs.collect::<Vec<_>>()
            .join("\n--- the other Sluice ---\n")
    }
}

/// Puts a program at a path, where another one may run: that goes on with its own file.
fn place(binary: &Path, path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    if fs::hard_link(binary, path).is_err() {
        fs::copy(binary, path).with_context(|| format!("copying {}", binary.display()))?;
    }
    Ok(())
}

/// Fails with what did not hold.
pub fn judge(violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for violation in violations {
        *counts
            .entry(format!("{:?}", violation.invariant))
            .or_default() += 1;
    }
    let first: Vec<_> = violations
        .iter()
        .take(12)
        .map(ToString::to_string)
        .collect();
    bail!("{counts:?}; the first of them:\n{}", first.join("\n"))
}
