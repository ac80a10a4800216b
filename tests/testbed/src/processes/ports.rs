//! Free TCP ports on loopback. Between the look and the server's bind another process can take
//! a port; whoever starts a server tries again with another one (see `start.rs`).

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};
use tokio::net::TcpSocket;

/// Below Linux's ephemeral range (32768–60999): no outgoing connection takes one of these while
/// a server is down between kill and restart.
const FIRST: u64 = 20_000;
const COUNT: u64 = 12_000;
const TRIES: u64 = 200;

/// A port that is kept from others until this is dropped. Nobody listens on it: who connects is refused.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) port: u16,
    _bound: TcpSocket,
}

/// A port nobody listens on now.
///
/// # Errors
/// When none was found.
pub fn free() -> Result<u16> {
    first(|address| {
        TcpListener::bind(address)?;
        Ok(address.port())
    })
}

/// The same for a server that takes its time to start.
pub(crate) fn reserve() -> Result<Reserved> {
    first(|address| {
        let socket = TcpSocket::new_v4()?;
        socket.bind(address)?;
        Ok(Reserved {
            port: address.port(),
            _bound: socket,
        })
    })
}

/// What is got of the first port of which it can be got.
fn first<T>(get: impl Fn(SocketAddr) -> std::io::Result<T>) -> Result<T> {
    // Each RandomState has its own random keys: concurrent runs start at different ports.
    let start = RandomState::new().hash_one("port") % COUNT;
    for step in 0..TRIES {
        let port = u16::try_from(FIRST + (start + step) % COUNT)?;
        if let Ok(got) = get((Ipv4Addr::LOCALHOST, port).into()) {
            return Ok(got);
        }
    }
    bail!("no free port on 127.0.0.1 in {TRIES} tries");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_nobody_elses_and_refuses() {
        let reserved = reserve().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, reserved.port));
        assert!(TcpListener::bind(address).is_err(), "it is taken");
        assert!(
            std::net::TcpStream::connect(address).is_err(),
            "nobody listens"
        );
        drop(reserved);
        assert!(TcpListener::bind(address).is_ok(), "it is free again");
    }
}
