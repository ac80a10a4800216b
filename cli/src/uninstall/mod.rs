//! `kubectl sluice uninstall`: takes Sluice away so that nothing stays held that nobody releases, whichever variant was
//! installed and by whichever road. It may be run again at any time: what is gone is
//! passed over, and what another run has to know goes last.
//!
//! | file | what it holds |
//! |---|---|
//! | `parts` | what Sluice is made of, and in which order that is deleted |
//! | `outcome` | what is told, and why nothing more could be done |
//! | `end` | waiting until no Sluice decides any more |
//! | `held` | what an object waits for, and the patch that starts it. Pure |
//! | `release` | the objects and pods of the cluster, and how they are written |
//! | `objects`, `pods` | what becomes of one object, and of one pod |
//!
//! Must not know queues: what is started was waiting for one, whatever it asks for.

mod end;
mod held;
mod named;
mod objects;
mod outcome;
mod parts;
mod pods;
mod release;

use std::io;

use clap::Args;

use self::outcome::UninstallReport;
pub use self::outcome::{Line, UninstallError};
use crate::cluster::{Cluster, Connection, DryRun, Served, home, is_home, run};

const DETAILS: &str = "\
Deletes, in this order: the webhook configurations and admission policies by which jobs are held; the Deployment \
and the rights of its account; and, once no Sluice holds the Lease, everything else that has the label \
app.kubernetes.io/name=sluice. Queues, Workloads, JobKinds and their CRDs stay, unless --crds is given: then they are \
deleted last, and only if all else was done.

Jobs that run go on. Jobs and pods that wait stay as they are, and are listed, unless --release-jobs is given: then, \
in all namespaces, what Sluice suspended is started, and scheduling gates that nobody lifts any more are taken off pods \
and pod templates: Sluice's own, and those that stand for gates which were lifted from the object. What an external \
gate holds, what its owner has suspended, and what was taken out of its queue (spec.active of its Workload) stays, and \
is listed. So do the pods of a group that was taken out of its queue, and the gate in their pod template.

Give --crds together with --release-jobs, or afterwards. Without Workloads and JobKinds a later --release-jobs knows \
only jobs of the kinds that Sluice ships, none that are queued by an alias alone, and starts those, too, that were taken \
out of their queues.

Where Sluice was installed by Helm, run `helm uninstall` afterwards: until then the release is installed for Helm.

Examples:
  # See what would be done
  kubectl sluice uninstall --release-jobs --dry-run

  # Take Sluice away, and start what waits
  kubectl sluice uninstall --release-jobs";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something could not be listed, deleted or started, and was told
  2  wrong usage, or the cluster does not answer what is asked for";

const CRDS_STAY: &str = "the CRDs stay, as something else failed: without Workloads and JobKinds nobody knows which jobs \
     may be started; mend that, and run this again, without --system-namespace if Sluice's account is gone";

/// Take Sluice away, and start the jobs that wait.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct Uninstall {
    /// Start the jobs that Sluice suspended, and take its gate off pods.
    #[arg(long)]
    release_jobs: bool,
    /// Delete the CRDs, too, and with them all queues, Workloads, JobKinds and Gates; unless anything else fails.
    #[arg(long)]
    crds: bool,
    /// Change nothing, and tell what would be done.
    #[arg(long)]
    dry_run: bool,
    /// The namespace that Sluice is in; by default the one that its ClusterRoleBinding names, or
    /// else the one of its account. Jobs are released in all namespaces, whichever it is.
    #[arg(long, value_name = "NAME")]
    system_namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Uninstall {
    /// Takes Sluice away. Returns whether all of it worked.
    ///
    /// # Errors
    /// The cluster does not answer what is asked for, or a Sluice goes on.
    pub fn run(
        &self,
        tell: &mut dyn FnMut(Line) -> io::Result<()>,
    ) -> Result<bool, UninstallError> {
        let mut report = UninstallReport {
            tell,
            dry_run: DryRun::if_asked(self.dry_run),
            is_well: true,
        };
        let ended = run(self.uninstall(&mut report)).map_err(UninstallError::NoRuntime)?;
        ended.map(|()| report.is_well)
    }

    async fn uninstall(&self, report: &mut UninstallReport<'_>) -> Result<(), UninstallError> {
        let cluster = Cluster::connect(&self.connection).await?;
        let client = &cluster.client;
        let served = Served::ask(client).await?;
        let namespace = match &self.system_namespace {
            Some(named) if is_home(client, named).await? => named.clone(),
            Some(named) => return Err(UninstallError::NotThere(named.clone())),
            None => home(client).await?,
        };
        let dry_run = DryRun::if_asked(self.dry_run);
        let mut parts = parts::Parts::new(client, &served, &namespace, dry_run);
        // First what holds new objects and refuses to start old ones: it would do so without Sluice, too.
        parts.delete_admission(report).await?;
        parts.delete_process(report).await?;
        if !self.dry_run {
            end::wait(client, &namespace).await?;
        }
        let road = if self.release_jobs {
            named::Road::Start { dry_run }
        } else {
            named::Road::List
        };
        release::all(client, &served, road, report).await?;
        parts.delete_rest(report).await?;
        if self.crds && report.is_well {
            parts.delete_crds(report).await?;
        } else if self.crds {
            // With Workloads and JobKinds goes what the next run has to know of the jobs that wait.
            report.failed(CRDS_STAY.to_owned())?;
        }
        Ok(())
    }
}
