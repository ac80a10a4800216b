//! Free TCP ports on loopback. Between the look and the server's bind another process can take
//! a port; whoever starts a server tries again with another one (see `start.rs`).

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, bail};

/// Below Linux's ephemeral range (32768–60999): no outgoing connection takes one of these while
/// a server is down between kill and restart.
const FIRST: u64 = 20_000;
const COUNT: u64 = 12_000;
const TRIES: u64 = 200;

/// A port nobody listens on now.
pub(crate) fn free() -> Result<u16> {
    // Each RandomState has its own random keys: concurrent runs start at different ports.
    let start = RandomState::new().hash_one("port") % COUNT;
    for step in 0..TRIES {
        let port = u16::try_from(FIRST + (start + step) % COUNT)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1 in {TRIES} tries");
}
