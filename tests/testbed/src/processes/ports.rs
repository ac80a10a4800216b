//! TCP ports on loopback for the servers of a test. A server binds its port seconds after it got
//! it, so a port is given to one server only: processes claim blocks of ports, and take each port
//! of a block once.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Below Linux's ephemeral range (32768–60999): no outgoing connection takes one of these while
/// a server is down between kill and restart.
const FIRST: u16 = 20_000;
const BLOCKS: u16 = 120;
const BLOCK: u16 = 100;

static PORTS: Mutex<Ports> = Mutex::new(Ports {
    claims: Vec::new(),
    left: VecDeque::new(),
});

/// The ports of this process.
struct Ports {
    /// Held until the process ends.
    claims: Vec<Claim>,
    left: VecDeque<u16>,
}

/// A port on which nobody listens, and which no other test gets.
///
/// # Errors
/// When all ports are in use.
pub fn free() -> Result<u16> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner).next()
}

impl Ports {
    fn next(&mut self) -> Result<u16> {
        loop {
            while let Some(port) = self.left.pop_front() {
                if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return Ok(port);
                }
            }
            self.claim_block()?;
        }
    }

    fn claim_block(&mut self) -> Result<()> {
        // Each RandomState has its own random keys.
        let start = RandomState::new().hash_one("block") % u64::from(BLOCKS);
        let start = u16::try_from(start)?;
        for step in 0..BLOCKS {
            let block = (start + step) % BLOCKS;
            if let Some(claim) = Claim::new(block) {
                self.claims.push(claim);
                let first = FIRST + block * BLOCK;
                self.left.extend(first..first + BLOCK);
                return Ok(());
            }
        }
        bail!(
            "no free port on 127.0.0.1: all blocks between {FIRST} and {} are claimed",
            FIRST + BLOCKS * BLOCK
        )
    }
}

/// The name of a block among the processes of this machine: an abstract Unix socket, which leaves
/// no file and ends with the process.
#[cfg(target_os = "linux")]
struct Claim {
    _socket: std::os::unix::net::UnixDatagram,
}

#[cfg(target_os = "linux")]
impl Claim {
    fn new(block: u16) -> Option<Self> {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixDatagram};

        let name = format!("sluice-testbed-ports-{block}");
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let socket = UnixDatagram::bind_addr(&address).ok()?;
        Some(Self { _socket: socket })
    }
}

/// Elsewhere only the look at each port tells processes apart.
#[cfg(not(target_os = "linux"))]
struct Claim;

#[cfg(not(target_os = "linux"))]
impl Claim {
    fn new(_block: u16) -> Option<Self> {
        Some(Self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn process() -> Ports {
        Ports {
            claims: Vec::new(),
            left: VecDeque::new(),
        }
    }

    #[test]
    fn no_port_is_given_twice() {
        let (mut one, mut other) = (process(), process());
        let mut given = BTreeSet::new();
        for _ in 0..=BLOCK {
            for of in [&mut one, &mut other] {
                let port = of.next().unwrap();
                assert!(given.insert(port), "{port} was given before");
            }
        }
    }

    #[test]
    fn a_port_in_use_is_not_given() {
        let mut ports = process();
        let first = ports.next().unwrap();
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).unwrap();
        let second = ports.next().unwrap();
        assert_ne!(second, taken.local_addr().unwrap().port());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_claim_ends_with_its_process() {
        let mut ports = process();
        let block = (ports.next().unwrap() - FIRST) / BLOCK;
        assert!(Claim::new(block).is_none(), "it is claimed");
        drop(ports);
        assert!(Claim::new(block).is_some(), "it is free again");
    }
}
