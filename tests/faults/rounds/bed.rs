//! What a round plays on: a control plane whose etcd keeps its whole history as JSON, one Sluice or two,
//! each behind a proxy of its own, and a checker that follows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use sluice_faults::audit::{self, AuditLog, Write};
use sluice_faults::check::{Checker, Violation};
use sluice_faults::etcd::Etcd;
use sluice_faults::history::Revision;
use sluice_faults::proxy::Proxy;
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions};
use tokio::sync::Mutex;

/// How often it is looked whether each Sluice runs.
const LOOK: Duration = Duration::from_millis(100);

/// The program under test; another one, with a fault of its own put in, to see it caught.
fn binary() -> PathBuf {
    std::env::var_os("FAULTS_SLUICE")
        .map_or_else(|| env!("CARGO_BIN_EXE_sluice").into(), PathBuf::from)
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
        let mut options = Options::with_crds()?;
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
            bed.add_sluice(index == 0).await?;
        }
        Ok(bed)
    }

    /// The URL in the webhook configurations is that of the last who is installed with them.
    async fn add_sluice(&mut self, webhooks: bool) -> Result<()> {
        let server = self.cp.second_server().filter(|_| !self.sluices.is_empty());
        let server = server.unwrap_or_else(|| self.cp.server());
        let proxy = Proxy::start(server, &self.cp.dir().join("pki")).await?;
        let options = SluiceOptions {
            webhooks,
            server: Some(proxy.url().to_owned()),
            ..SluiceOptions::new(binary())
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
