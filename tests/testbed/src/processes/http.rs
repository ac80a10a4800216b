//! What the programs say of themselves on ports of their own: health and metrics.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than a request ever takes.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// A GET by hand: as HTTP/1.0, so that the answer ends with the connection and comes in one piece. Returns the
/// status and the body.
///
/// # Errors
/// There is no answer in time, or it is no HTTP.
pub async fn get(port: u16, path: &str) -> Result<(u16, String)> {
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

/// The sum of all series of a metric, as `/metrics` has them in `text`, that have all these labels
/// (`cluster_queue="q"`). None if there is no such series.
pub fn sum_of_series(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let series = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let rest = series.strip_prefix(name)?;
        let is_it = rest.is_empty() || rest.starts_with('{');
        let has_all = labels.iter().all(|label| rest.contains(label));
        (is_it && has_all)
            .then(|| value.parse::<f64>().ok())
            .flatten()
    });
    series.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_labels() {
        let text = "# TYPE a gauge\na{q=\"x\",s=\"1\"} 2\na{q=\"x\",s=\"2\"} 0.5\na{q=\"y\"} 7\nab 9\nb 1\n";
        assert_eq!(sum_of_series(text, "a", &["q=\"x\""]), Some(2.5));
        assert_eq!(sum_of_series(text, "a", &["q=\"z\""]), None);
        assert_eq!(sum_of_series(text, "b", &[]), Some(1.0));
    }

    #[test]
    fn reads_answers() {
        let answer = "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        assert_eq!(parse(answer), Some((200, "ok\n".to_owned())));
        assert_eq!(parse("garbage"), None);
    }
}
