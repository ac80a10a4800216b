//! An election against a server of one Lease, in quick time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// What the server has, and what it was asked.
#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    writes: usize,
    revision: u64,
    /// Whether every write meets a conflict.
    is_contended: bool,
}

type Server = Arc<Mutex<Stored>>;

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code});
    (code, status)
}

fn answer(server: &Server, method: &Method, sent: Option<Value>) -> (u16, Value) {
    let mut stored = server.lock().unwrap();
    if *method == Method::GET {
        let found = stored.lease.clone();
        return found.map_or_else(|| failure(404, "NotFound"), |lease| (200, lease));
    }
    stored.writes += 1;
    stored.revision += 1;
    let mut lease = sent.unwrap_or_default();
    let known = stored.lease.as_ref();
    let seen = known.map(|lease| lease["metadata"]["resourceVersion"].clone());
    let is_conflict = match *method {
        Method::POST => seen.is_some(),
        _ => seen.as_ref() != Some(&lease["metadata"]["resourceVersion"]),
    };
    if is_conflict || stored.is_contended {
        return failure(409, "Conflict");
    }
    if *method == Method::POST {
        lease["metadata"]["uid"] = json!(format!("lease-{}", stored.revision));
    }
    lease["metadata"]["resourceVersion"] = json!(stored.revision.to_string());
    stored.lease = Some(lease.clone());
    (200, lease)
}

fn mk_election(server: &Server, identity: &str) -> Election {
    let server = server.clone();
    let service = service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let sent = body.collect_bytes().await.unwrap();
            let sent = serde_json::from_slice(&sent).ok();
            let (code, object) = answer(&server, &parts.method, sent);
            let response = Response::builder().status(StatusCode::from_u16(code).unwrap());
            let body = Body::from(serde_json::to_vec(&object).unwrap());
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    let client = Client::new(service, "default");
    let mut election = Election::new(client, "sluice-system", identity.to_owned());
    election.timing = Timing {
        lease: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(600),
        retry: Duration::from_millis(20),
        conflict: Duration::from_millis(50),
        aftermath: Duration::from_millis(1),
        unaware: Duration::from_millis(1),
        request: Duration::from_millis(500),
    };
    election
}

async fn acquire(server: &Server, identity: &str) -> Election {
    let mut election = mk_election(server, identity);
    assert!(election.acquire(&CancellationToken::new()).await);
    election
}

#[tokio::test]
async fn each_acquisition_has_a_name_of_its_own() {
    let server = Server::default();
    let mut names = BTreeSet::new();
    // Back under its old name, taken over, given back, and after the Lease was deleted.
    for identity in ["a", "a", "b"] {
        names.insert(acquire(&server, identity).await.term().name());
    }
    let mut leaving = acquire(&server, "b").await;
    names.insert(leaving.term().name());
    leaving.give_back().await;
    names.insert(acquire(&server, "c").await.term().name());
    server.lock().unwrap().lease = None;
    names.insert(acquire(&server, "c").await.term().name());
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.contains("1.lease-1"), "{names:?}");
}

#[tokio::test]
async fn a_candidate_that_is_stopped_before_it_leads_gives_the_lease_back() {
    let server = Server::default();
    let mut election = mk_election(&server, "a");
    let wait = Duration::from_millis(300);
    election.timing.unaware = wait;
    let begun = Moment::now();
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let seen = server.clone();
    tokio::spawn(async move {
        while seen.lock().unwrap().lease.is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        stopping.cancel();
    });
    assert!(!election.acquire(&stop).await);
    assert!(!election.term().is_valid());
    assert!(wait <= begun.elapsed(), "the next one would not wait");
    let lease = server.lock().unwrap().lease.clone().unwrap_or_default();
    assert_eq!(lease["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn renewals_leave_its_name_and_the_lease_to_another_process_of_its_name_does_not() {
    let server = Server::default();
    let mut first = acquire(&server, "a").await;
    let name = first.term().name();
    assert!(matches!(
        first.attempt(Intent::Hold).await,
        Ok(Outcome::Held)
    ));
    assert_eq!(*name, *"1.lease-1");
    assert_eq!(first.term().name(), name);
    let second = acquire(&server, "a").await;
    assert_eq!(*second.term().name(), *"2.lease-1");
    first
        .keep(&Pulse::default(), &CancellationToken::new())
        .await;
    assert!(!first.term().is_valid(), "the other one leads");
    first.give_back().await;
    let lease = server.lock().unwrap().lease.clone().unwrap_or_default();
    assert_eq!(lease["spec"]["holderIdentity"], "a", "not its to give back");
}

#[tokio::test]
async fn a_leader_whose_lease_is_deleted_leads_no_more() {
    let server = Server::default();
    let mut election = acquire(&server, "a").await;
    server.lock().unwrap().lease = None;
    election
        .keep(&Pulse::default(), &CancellationToken::new())
        .await;
    assert!(!election.term().is_valid());
    assert_eq!(server.lock().unwrap().lease, None, "it is not made again");
}

#[tokio::test]
async fn a_contended_lease_is_not_written_to_faster() {
    let server = Server::default();
    let mut election = acquire(&server, "a").await;
    server.lock().unwrap().is_contended = true;
    election
        .keep(&Pulse::default(), &CancellationToken::new())
        .await;
    assert!(!election.term().is_valid());
    let writes = server.lock().unwrap().writes;
    // Once for the acquisition, and at most every 50 ms for 600 ms.
    assert!((2..=14).contains(&writes), "{writes}");
}

#[tokio::test]
async fn a_controller_that_hangs_loses_the_lease() {
    let server = Server::default();
    let mut election = acquire(&server, "a").await;
    let pulse = Pulse::new(Duration::from_millis(100));
    pulse.beat();
    election.keep(&pulse, &CancellationToken::new()).await;
    assert!(!election.term().is_valid());
    let renewed = server.lock().unwrap().writes;
    assert!(renewed < 20, "not renewed after the last beat: {renewed}");
    acquire(&server, "b").await;
}

/// By how much the clock of the former holder was fast, and that of the next one; by how much that is ahead.
#[tokio::test]
async fn the_next_leader_knows_how_its_clock_differs() {
    let rows = [
        ("both are right", 0, 0, 0),
        ("a few seconds are the age of the renewal", -30, 0, 0),
        ("the former is fast", 3600, 0, -3600),
        ("the former is slow", -3600, 0, 3600),
        ("both are as wrong", 3600, 3600, 0),
        ("the next is slow", 0, -3600, -3600),
    ];
    for (name, former, next, ahead) in rows {
        let server = Server::default();
        for (identity, fast, expected) in [("a", former, 0), ("b", next, ahead)] {
            let mut election = mk_election(&server, identity);
            election.set_clock(WallClock::fast_by(SignedDuration::from_secs(fast)));
            assert!(election.acquire(&CancellationToken::new()).await);
            let found = election.clock_ahead().as_secs();
            assert!((found - expected).abs() < 60, "{name}: {found}");
            election.give_back().await;
        }
    }
}
