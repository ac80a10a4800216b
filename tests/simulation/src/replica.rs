//! One replica of Sluice, and what starts it again whenever it ends, as a kubelet does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use sluice::clock::WallClock;
use sluice::{Clients, Configuration, Identity, Replica};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::api::Server;
use crate::network::Network;

/// How long it takes to start a process again.
const RESTART: Duration = Duration::from_millis(800);

/// A place where a replica runs, one life after the other.
#[derive(Debug)]
pub struct Slot {
    server: Arc<Server>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    percent: u8,
    /// What its clock says.
    clock: WallClock,
    lives: u32,
    /// The process that runs, if one does.
    network: Option<Network>,
    stop: CancellationToken,
    /// Of those that ran before.
    writes: usize,
    faults: usize,
}

impl Slot {
    /// A place where nothing runs yet, with this clock, and so many of 100 requests that go wrong.
    pub fn new(server: Arc<Server>, rng: Rng, percent: u8, clock: WallClock) -> Arc<Self> {
        let state = State {
            rng,
            percent,
            clock,
            lives: 0,
            network: None,
            stop: CancellationToken::new(),
            writes: 0,
            faults: 0,
        };
        Arc::new(Self {
            server,
            state: Mutex::new(state),
        })
    }

    /// Runs one replica after the other, for ever.
    pub async fn keep_running(self: Arc<Self>, name: &'static str) {
        loop {
            let (network, stop, instance) = self.begin(name);
            let clock = self.state().clock;
            let identity = Identity {
                namespace: "sluice-system".to_owned(),
                service_account: "sluice".to_owned(),
                instance,
            };
            let client = network.client();
            let clients = Clients {
                read: client.clone(),
                write: client,
            };
            let mut replica = Replica::new(clients, identity, &Configuration::default());
            replica.set_clock(clock);
            replica.follow_kinds();
            self.server.reviews.serve(replica.router());
            let cut = network.is_cut();
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                // A process that loses the Lease ends.
                _ = replica.lead(stop.clone()) => {}
            }
            // What it has left running is heard no more.
            network.cut();
            stop.cancel();
            self.end(&network);
            sleep(RESTART).await;
        }
    }

    /// It is killed.
    pub fn kill(&self) {
        if let Some(network) = &self.state().network {
            network.cut();
        }
    }

    /// It is asked to end.
    pub fn end_gently(&self) {
        self.state().stop.cancel();
    }

    /// It, or what it talks to, stands still for so long.
    pub fn hang(&self, time: Duration) {
        if let Some(network) = &self.state().network {
            network.hang(time);
        }
    }

    /// The same, from the moment at which its next status of a Workload is on its way.
    pub fn hang_with_status(&self, time: Duration) {
        if let Some(network) = &self.state().network {
            network.hang_with_status(time);
        }
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.percent = 0;
        if let Some(network) = &state.network {
            network.heal();
        }
    }

    /// How many writes there were so far.
    pub fn writes(&self) -> usize {
        let state = self.state();
        state.writes + state.network.as_ref().map_or(0, Network::writes)
    }

    /// How many faults of the network.
    pub fn faults(&self) -> usize {
        let state = self.state();
        let now = state
            .network
            .as_ref()
            .map(Network::made)
            .unwrap_or_default();
        state.faults + now.values().sum::<usize>()
    }

    fn begin(&self, name: &str) -> (Network, CancellationToken, String) {
        let mut state = self.state();
        state.lives += 1;
        let instance = format!("{name}-{}", state.lives);
        let rng = state.rng.fork();
        let network = Network::new(self.server.clone(), rng, state.percent);
        state.network = Some(network.clone());
        state.stop = CancellationToken::new();
        (network, state.stop.clone(), instance)
    }

    fn end(&self, network: &Network) {
        let mut state = self.state();
        state.writes += network.writes();
        state.faults += network.made().values().sum::<usize>();
        state.network = None;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
