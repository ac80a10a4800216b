//! Who leads, and whether the clocks of the leader, of the API server and of this machine agree.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::fmt::rfc2822;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::Api;
use kube::client::Body;

use super::finding::{Finding, of};
use crate::cluster::{ClusterError, answer};

/// The name of Sluice's Lease.
const LEASE: &str = "sluice";
/// The Lease is renewed every few seconds: what is older than this has no leader.
const LEASE_STALE: SignedDuration = SignedDuration::from_secs(20);
/// Clocks of a cluster may differ by less. The API server tells its time in whole seconds, and answers take time.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// Who leads, and whose clock differs.
pub(super) async fn check(client: &Client, namespace: &str) -> [Finding; 2] {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = answer("read the Lease", api.get(LEASE)).await;
    let (server, here) = (time_of_server(client).await, Timestamp::now());
    // Without the time of the API server, this machine's has to do.
    let now = server.as_ref().map_or(here, |server| *server);
    let renewed = lease.as_ref().ok().and_then(renewed);
    let leads = of("leader", lease, |lease| leader(lease, now));
    [
        leads,
        of("clocks", server, |server| clocks(server, here, renewed)),
    ]
}

/// What the API server says that the time is, in the header of an answer.
async fn time_of_server(client: &Client) -> Result<Timestamp, ClusterError> {
    let what = "read the time of the API server";
    let unread = |detail: String| ClusterError::Unanswered {
        what: what.to_owned(),
        detail,
    };
    let request = http::Request::get("/version")
        .body(Body::empty())
        .map_err(|error| unread(error.to_string()))?;
    let answered = answer(what, client.send(request)).await?;
    let date = answered.headers().get(http::header::DATE);
    let date = date.ok_or_else(|| unread("there is no Date in its answer".to_owned()))?;
    let date = date.to_str().map_err(|error| unread(error.to_string()))?;
    let parsed = rfc2822::DateTimeParser::new().parse_timestamp(date);
    parsed.map_err(|error| unread(error.to_string()))
}

/// When the Lease was renewed last, by the clock of who renewed it.
fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

/// Whether the clocks agree, as far as that can be seen: a Lease that is not renewed any more tells nothing.
fn clocks(
    server: Timestamp,
    here: Timestamp,
    renewed: Option<Timestamp>,
) -> Result<String, String> {
    let ahead = renewed.map(|renewed| renewed.duration_since(server));
    if let Some(ahead) = ahead.filter(|ahead| SKEW < *ahead) {
        return Err(format!(
            "the clock of the leader is {} s ahead of the API server's: certificates, deadlines and waiting times are judged by it",
            ahead.as_secs()
        ));
    }
    let differs = here.duration_since(server);
    if SKEW < differs.abs() {
        let way = if differs.is_negative() {
            "behind"
        } else {
            "ahead of"
        };
        return Ok(format!(
            "the clock of this machine is {} s {way} the API server's; the leader's is not ahead",
            differs.as_secs().abs()
        ));
    }
    Ok("no clock differs by more than 5 s".to_owned())
}

/// Who leads, if that is not long ago.
fn leader(lease: Lease, now: Timestamp) -> Result<String, String> {
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let (Some(holder), Some(renewed)) = (holder, spec.renew_time) else {
        return Err("nobody holds the Lease: nothing is admitted".to_owned());
    };
    let age = now.duration_since(renewed.0);
    let seconds = age.as_secs();
    if LEASE_STALE < age {
        return Err(format!(
            "{holder} has not renewed the Lease for {seconds} s: nothing is admitted, or the clock of {holder} is that far behind the API server's"
        ));
    }
    Ok(format!("{holder} leads"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_tells_who_leads() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| {
            let spec = json!({"holderIdentity": holder, "renewTime": renewed});
            serde_json::from_value::<Lease>(json!({"spec": spec})).unwrap()
        };
        let cases = [
            (
                lease("sluice-0", "2026-03-01T11:59:55.000000Z"),
                Ok("sluice-0 leads"),
            ),
            (
                lease("", "2026-03-01T11:59:55.000000Z"),
                Err("nobody holds the Lease: nothing is admitted"),
            ),
            (
                lease("sluice-0", "2026-03-01T11:59:00.000000Z"),
                Err(
                    "sluice-0 has not renewed the Lease for 60 s: nothing is admitted, or the clock of sluice-0 is that far behind the API server's",
                ),
            ),
        ];
        for (lease, expected) in cases {
            let told = leader(lease, now);
            let told = told.as_deref().map_err(String::as_str);
            assert_eq!(told, expected);
        }
    }
    #[test]
    fn a_clock_that_differs_is_told() {
        let at = |time: &str| format!("2026-03-01T{time}Z").parse::<Timestamp>().unwrap();
        let cases = [
            (
                "all agree",
                "12:00:02",
                Some("11:59:58"),
                Ok("no clock differs by more than 5 s"),
            ),
            (
                "nobody leads",
                "12:00:00",
                None,
                Ok("no clock differs by more than 5 s"),
            ),
            (
                "the leader is ahead",
                "12:00:00",
                Some("12:01:00"),
                Err(
                    "the clock of the leader is 60 s ahead of the API server's: certificates, deadlines and waiting times are judged by it",
                ),
            ),
            (
                "this machine is behind",
                "11:59:00",
                Some("11:59:58"),
                Ok(
                    "the clock of this machine is 60 s behind the API server's; the leader's is not ahead",
                ),
            ),
        ];
        for (name, here, renewed, expected) in cases {
            let told = clocks(at("12:00:00"), at(here), renewed.map(at));
            let told = told.as_deref().map_err(String::as_str);
            assert_eq!(told, expected, "{name}");
        }
    }

    #[test]
    fn the_header_of_an_answer_is_a_time() {
        let parsed =
            rfc2822::DateTimeParser::new().parse_timestamp("Sun, 01 Mar 2026 12:00:00 GMT");
        assert_eq!(parsed.unwrap(), "2026-03-01T12:00:00Z".parse().unwrap());
    }
}
