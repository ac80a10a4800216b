//! What the programs say of themselves on ports of their own: health and metrics.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than a request ever takes.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// A GET by hand: as HTTP/1.0, so that the answer ends with the connection and comes in one piece.
pub(crate) async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(REQUEST_DEADLINE, exchange)
        .await
        .with_context(|| format!("no answer to GET {path} in {REQUEST_DEADLINE:?}"))?
        .with_context(|| format!("GET {path} on port {port}"))?;
    parse(&answer).with_context(|| format!("GET {path} on port {port}: {answer:?}"))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_answers() {
        let answer = "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        assert_eq!(parse(answer), Some((200, "ok\n".to_owned())));
        assert_eq!(parse("garbage"), None);
    }
}
