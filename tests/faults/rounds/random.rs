//! Random rounds: two Sluices, each with an API server of its own, a load and a plan drawn from one seed. What is drawn is always the same;
//! what comes of it depends on the machine, so a seed is played more than once to see a failure again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use sluice_faults::load::Load;
use sluice_faults::plan::{Blow, Plan};
use sluice_faults::proxy::Fault;
use sluice_testbed::Component;

use crate::bed::Bed;
use crate::round::{self, Figures};

/// How many jobs are submitted in a round.
const JOBS: usize = 24;
/// For so long after the last blow there are faults of the network alone.
const NETWORK_ONLY: Duration = Duration::from_secs(3);
/// Rounds on one control plane: its history grows.
const ROUNDS: u64 = 10;

/// Plays rounds for so long, from this seed on; at least one.
pub async fn play(first: u64, time: Duration, longest: Duration) -> Result<()> {
    let began = Instant::now();
    let mut bed = Bed::start(2).await?;
    let (mut revisions, mut faults) = (0, 0);
    for (seed, round) in (first..).zip(0..) {
        if 0 < round && round % ROUNDS == 0 {
            drop(bed);
            bed = Bed::start(2).await?;
        }
        let before = bed.faults().values().sum::<usize>();
        let figures = one(&bed, seed, longest).await;
        let figures =
            figures.with_context(|| format!("again: make faults SEED={seed} MINUTES=0"))?;
        revisions += figures.revisions;
        faults += bed.faults().values().sum::<usize>() - before;
        figures.print(&format!("seed {seed}"));
        if time < began.elapsed() {
            println!(
                "{} rounds: {revisions} revisions checked, {faults} faults of the network, {:.0} s, no violation",
                round + 1,
                began.elapsed().as_secs_f32()
            );
            break;
        }
    }
    Ok(())
}

async fn one(bed: &Bed, seed: u64, longest: Duration) -> Result<Figures> {
    let mut rng = Rng::with_seed(seed);
    let plan = Plan::draw(&mut rng, bed.sluices.len(), longest);
    println!("seed {seed}: {plan}");
    for (proxy, percent) in bed.proxies.iter().zip(plan.percent.clone()) {
        let mut rng = rng.fork();
        proxy.follow(Box::new(move |asked| Fault::draw(&mut rng, asked, percent)));
    }
    let draw = |namespace: &str| Load::draw(&mut rng, namespace, JOBS);
    round::play(bed, draw, async || {
        for (pause, blow) in &plan.blows {
            tokio::time::sleep(*pause).await;
            strike(bed, *blow)
                .await
                .with_context(|| format!("{blow:?}"))?;
        }
        tokio::time::sleep(NETWORK_ONLY).await;
        bed.heal();
        Ok(())
    })
    .await
}

async fn strike(bed: &Bed, blow: Blow) -> Result<()> {
    match blow {
        Blow::KillSluice(index) => bed.sluices[index].kill(),
        // One that has just ended by itself needs no blow.
        Blow::EndSluice(index) => drop(bed.sluices[index].process().signal("TERM")),
        Blow::StopSluice(index, time) => {
            let process = bed.sluices[index].process();
            if process.signal("STOP").is_ok() {
                tokio::time::sleep(time).await;
                drop(process.signal("CONT"));
            }
        }
        Blow::DeleteLease => {
            let args = [
                "delete",
                "lease",
                "sluice",
                "--namespace=sluice-system",
                "--ignore-not-found",
            ];
            bed.cp.kubectl(args, None).await?;
        }
        Blow::KillApiServer(index) => bed.cp.restart(api_server(index)).await?,
        Blow::KillEtcd => bed.cp.restart(Component::Etcd).await?,
        Blow::StopApiServer(index, time) => stop(bed, api_server(index), time).await?,
        Blow::StopEtcd(time) => stop(bed, Component::Etcd, time).await?,
    }
    Ok(())
}

/// The API server that the Sluice of this number reaches.
fn api_server(sluice: usize) -> Component {
    match sluice {
        0 => Component::ApiServer,
        _ => Component::SecondApiServer,
    }
}

async fn stop(bed: &Bed, component: Component, time: Duration) -> Result<()> {
    let process = bed.cp.process(component)?;
    process.signal("STOP")?;
    tokio::time::sleep(time).await;
    process.signal("CONT")
}
