//! The controller under a load of many short Jobs on a real control plane, beside the floor: the same
//! writes by a plain client that decides nothing. `make bench` builds it in release and runs it;
//! `docs/benchmarks.md` says how to read it.
//!
//! `SLUICE_BENCH_JOBS` Jobs (2,000) in each pass, `SLUICE_BENCH_ROUNDS` rounds (4) of all passes;
//! `SLUICE_BENCH_BINARY` measures another build of the controller. Measures, never fails by a figure.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod audit;
mod floor;
mod load;
mod report;
#[path = "../shared.rs"]
mod shared;
mod stand_in;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use sluice_testbed::{Component, ControlPlane, Options, Sluice, SluiceOptions, wait_for};

use audit::Audit;
use floor::{Floor, Mould};
use load::{Quota, Size};
use report::{Measured, Report};
use shared::{count, cpu_seconds, peak_memory, ratio, resource};
use stand_in::StandIn;

/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(20);
/// As long as no further event comes, all are there.
const QUIET: Duration = Duration::from_secs(1);
/// An API server that has started uses this share of a core at most.
const IDLE: f64 = 0.2;

/// What is measured, each on a control plane of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pass {
    /// Sluice with so much quota that nothing waits for it: the API server is the limit.
    Plenty,
    /// The same writes and events by a plain client.
    Floor,
    /// Sluice with the quota of the load: priorities, borrowing and waiting.
    Scarce,
}

impl Pass {
    const ALL: [Self; 3] = [Self::Plenty, Self::Floor, Self::Scarce];

    /// A machine that becomes slower or faster favors either as often as the other.
    fn in_round(round: usize) -> [Self; 3] {
        if round.is_multiple_of(2) {
            [Self::Floor, Self::Plenty, Self::Scarce]
        } else {
            Self::ALL
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plenty => "plenty",
            Self::Floor => "floor",
            Self::Scarce => "scarce",
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let jobs = count("SLUICE_BENCH_JOBS", 2_000);
    let rounds = count("SLUICE_BENCH_ROUNDS", 4);
    let mut report = Report::new(jobs, &binary())?;
    let mut moulds = HashMap::new();
    for round in 1..=rounds {
        for pass in Pass::in_round(round) {
            let bench = Bench::start(pass, jobs).await?;
            let measured = match pass {
                Pass::Floor => bench.floor(moulds.clone()).await?,
                Pass::Plenty | Pass::Scarce => bench.product().await?,
            };
            if pass == Pass::Plenty {
                moulds = bench.moulds().await?;
            }
            println!("round {round}, {}", measured.line());
            report.add(round, measured);
        }
    }
    report.finish()
}

/// The controller that is measured.
fn binary() -> PathBuf {
    std::env::var_os("SLUICE_BENCH_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_sluice").into(), PathBuf::from)
}

/// One pass on a control plane of its own, with no node: the stand-in makes no pods.
struct Bench {
    pass: Pass,
    jobs: usize,
    /// The administrator's: for the load and the stand-in.
    client: Client,
    sluice: Sluice,
    control_plane: ControlPlane,
    machine_load: String,
}

/// CPU seconds by process.
type Used = BTreeMap<&'static str, f64>;

impl Bench {
    async fn start(pass: Pass, jobs: usize) -> Result<Self> {
        let machine_load = report::machine_load();
        let options = Options {
            nodes: 0,
            without: vec![Component::Scheduler, Component::Kwok],
            controller_manager_args: vec!["--controllers=*,-job-controller".to_owned()],
            ..Options::with_crds()?
        };
        let control_plane = ControlPlane::start(options).await?;
        let is_floor = pass == Pass::Floor;
        let options = SluiceOptions {
            webhooks: !is_floor,
            ..SluiceOptions::new(binary())
        };
        let sluice = Sluice::install(&control_plane, options).await?;
        if !is_floor {
            sluice.start().await?;
        }
        let quota = match pass {
            Pass::Scarce => Quota::Scarce,
            Pass::Plenty | Pass::Floor => Quota::Plenty,
        };
        let queues = load::queues(quota);
        let applied = control_plane.kubectl(["apply", "-f", "-"], Some(&queues));
        applied.await?.ok()?;
        let bench = Self {
            pass,
            jobs,
            client: control_plane.client()?,
            sluice,
            control_plane,
            machine_load,
        };
        bench.see_idle().await?;
        Ok(bench)
    }

    /// Until the API server has published its new kinds, which costs it seconds.
    async fn see_idle(&self) -> Result<()> {
        let mut last = self.used()?;
        wait_for("the API server to be idle", DEADLINE, async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.used().ok()?;
            let used = now.get("kube-apiserver")? - last.get("kube-apiserver")?;
            last = now;
            (used <= IDLE).then_some(())
        })
        .await
    }

    async fn product(&self) -> Result<Measured> {
        let before = self.used()?;
        let mut stand_in = StandIn::start(&self.client);
        let creating = load::create(&self.client, self.jobs, |_| Ok(()));
        let completing = async {
            for _ in 0..self.jobs {
                let completed = tokio::time::timeout(DEADLINE, stand_in.completed.recv());
                completed.await?.context("the stand-in ended")??;
            }
            Ok(())
        };
        tokio::try_join!(creating, completing)?;
        let finished = format!(
            "sluice_api_writes_total{{operation=\"finish\",outcome=\"done\"}} {}",
            self.jobs
        );
        wait_for("all Workloads to be finished", DEADLINE, async || {
            let metrics = self.sluice.metrics().await.ok()?;
            metrics.contains(&finished).then_some(())
        })
        .await?;
        self.see_quiet().await?;
        let used = self.used()?;
        self.measured(&before, &used).await
    }

    async fn floor(&self, moulds: HashMap<&'static str, Mould>) -> Result<Measured> {
        let before = self.used()?;
        let (floor, mut ended) = Floor::new(&self.sluice_client().await?, moulds);
        let mut stand_in = StandIn::start(&self.client);
        let creating = load::create(&self.client, self.jobs, |job| {
            floor.created(job);
            Ok(())
        });
        let completing = async {
            for _ in 0..self.jobs {
                let completed = tokio::time::timeout(DEADLINE, stand_in.completed.recv());
                floor.completed(&completed.await?.context("the stand-in ended")??);
            }
            Ok(())
        };
        let ending = async {
            for _ in 0..self.jobs {
                ended.recv().await.context("the floor ended")??;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(creating, completing, ending)?;
        self.see_quiet().await?;
        let used = self.used()?;
        self.measured(&before, &used).await
    }

    async fn measured(&self, before: &Used, after: &Used) -> Result<Measured> {
        let audit = Audit::read(&self.control_plane.audit_log())?;
        let finished = audit.finished();
        ensure!(
            finished == self.jobs,
            "the audit log shows {finished} finished Jobs"
        );
        let cpu = after.iter().map(|(process, used)| {
            (
                *process,
                used - before.get(process).copied().unwrap_or_default(),
            )
        });
        let pid = self.sluice.pid();
        let seconds = audit.seconds()?;
        Ok(Measured {
            pass: self.pass,
            machine_load: self.machine_load.clone(),
            seconds,
            jobs_per_second: ratio(self.jobs, 1) / seconds,
            waits: Size::ALL.map(|size| (size, audit.waits(size))),
            utilisation: audit.utilisation().filter(|_| self.pass == Pass::Scarce),
            writes: audit
                .writes
                .iter()
                .map(|(what, number)| (what.clone(), ratio(*number, self.jobs)))
                .collect(),
            cpu: cpu.collect(),
            peak_memory: pid.map(peak_memory).transpose()?,
            workload_bytes: self.workload_bytes().await?,
        })
    }

    /// What a Workload looks like that Sluice has made, for each size.
    async fn moulds(&self) -> Result<HashMap<&'static str, Mould>> {
        let jobs: Api<Job> = Api::default_namespaced(self.client.clone());
        let workloads = self.workloads().list(&ListParams::default()).await?.items;
        let events = self.events().list(&ListParams::default()).await?.items;
        let mut events_of: HashMap<&str, Vec<&Event>> = HashMap::new();
        for event in &events {
            let regarding = event.regarding.as_ref();
            if let Some(uid) = regarding.and_then(|regarding| regarding.uid.as_deref()) {
                events_of.entry(uid).or_default().push(event);
            }
        }
        let mut moulds = HashMap::new();
        for workload in workloads {
            let owners = workload.metadata.owner_references.clone();
            let owner = owners.into_iter().flatten().next();
            let owner = owner.context("a Workload without an owner")?;
            let size = Size::of_job(&owner.name)
                .context("a Job of no size")?
                .name();
            let events = events_of.get(&*owner.uid).map_or(&[][..], Vec::as_slice);
            if !moulds.contains_key(size) {
                let job = jobs.get(&owner.name).await?;
                moulds.extend(Mould::of(&job, &workload, events)?.map(|mould| (size, mould)));
            }
        }
        Ok(moulds)
    }

    /// The mean size of a finished Workload, as JSON: whether the floor writes as much as Sluice.
    async fn workload_bytes(&self) -> Result<usize> {
        let some = ListParams::default().limit(100);
        let workloads = self.workloads().list(&some).await?.items;
        let mut bytes = 0;
        for workload in &workloads {
            bytes += serde_json::to_string(workload)?.len();
        }
        Ok(bytes / workloads.len().max(1))
    }

    /// Until no more events come: those that are left over are part of what is measured.
    async fn see_quiet(&self) -> Result<()> {
        let number = async || {
            let list = self.events().list(&ListParams::default().limit(1)).await?;
            anyhow::Ok(list.metadata.remaining_item_count)
        };
        let mut last = number().await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = number().await?;
            if now == last {
                return Ok(());
            }
            last = now;
        }
    }

    /// What each process has used so far.
    fn used(&self) -> Result<Used> {
        let mut pids = vec![("bench", std::process::id())];
        for (name, component) in [
            ("kube-apiserver", Component::ApiServer),
            ("etcd", Component::Etcd),
            ("kube-controller-manager", Component::ControllerManager),
        ] {
            let pid = self.control_plane.process(component)?.pid();
            pids.push((name, pid.context("a component is stopped")?));
        }
        pids.extend(self.sluice.pid().map(|pid| ("sluice", pid)));
        pids.into_iter()
            .map(|(name, pid)| Ok((name, cpu_seconds(pid)?)))
            .collect()
    }

    /// A client with the credentials and rights of Sluice.
    async fn sluice_client(&self) -> Result<Client> {
        let file = Kubeconfig::read_from(self.sluice.kubeconfig())?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await?;
        config.default_retry = false;
        "default".clone_into(&mut config.default_namespace);
        Ok(Client::try_from(config)?)
    }

    fn events(&self) -> Api<Event> {
        Api::default_namespaced(self.client.clone())
    }

    fn workloads(&self) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &resource("Workload", "workloads"))
    }
}
