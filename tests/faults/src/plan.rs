//! What goes wrong in a random round, drawn from a seed: faults of the network all along, and blows to
//! processes one after the other.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// A blow to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The Sluice of this number is killed (SIGKILL), and started again.
    KillSluice(usize),
    /// It is asked to end (SIGTERM), and started again.
    EndSluice(usize),
    /// It is stopped for so long (SIGSTOP, SIGCONT).
    StopSluice(usize, Duration),
    /// Its Lease is deleted by hand.
    DeleteLease,
    /// The API server of the Sluice of this number is killed, and started again.
    KillApiServer(usize),
    /// It is stopped for so long.
    StopApiServer(usize, Duration),
    /// etcd is killed, and started again.
    KillEtcd,
    /// etcd is stopped for so long.
    StopEtcd(Duration),
}

/// What goes wrong in a round.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of 100 requests of each Sluice, how many go wrong.
    pub percent: Vec<u8>,
    /// Blows, and the pause before each.
    pub blows: Vec<(Duration, Blow)>,
}

impl Plan {
    /// Draws what goes wrong with this many Sluices. A process is stopped no longer than `longest`.
    pub fn draw(rng: &mut Rng, sluices: usize, longest: Duration) -> Self {
        let mut percent = || *[0, 2, 5, 10, 20].get(rng.usize(0..5)).unwrap_or(&0);
        let percent = (0..sluices).map(|_| percent()).collect();
        let blows = (0..rng.usize(1..5)).map(|_| {
            let pause = Duration::from_millis(rng.u64(0..2500));
            (pause, Blow::draw(rng, sluices, longest))
        });
        Self {
            percent,
            blows: blows.collect(),
        }
    }
}

impl Blow {
    fn draw(rng: &mut Rng, sluices: usize, longest: Duration) -> Self {
        let which = rng.usize(0..sluices.max(1));
        let time = longest.mul_f64(rng.f64());
        match rng.u8(0..12) {
            0..4 => Self::KillSluice(which),
            4 => Self::EndSluice(which),
            5 | 6 => Self::StopSluice(which, time),
            7 => Self::DeleteLease,
            8 => Self::KillApiServer(which),
            9 => Self::StopApiServer(which, time),
            10 => Self::KillEtcd,
            _ => Self::StopEtcd(time / 2),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of 100 requests go wrong", self.percent)?;
        for (pause, blow) in &self.blows {
            write!(f, ", after {:.1} s {blow:?}", pause.as_secs_f32())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_plan() {
        let draw =
            |seed| Plan::draw(&mut Rng::with_seed(seed), 2, Duration::from_secs(4)).to_string();
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
