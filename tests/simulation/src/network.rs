//! What lies between a replica and the API server: a service in place of connections, on which requests take
//! time, get lost, come twice, or come when nobody waits any more. Which of it happens is drawn from a seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body as AnswerBody;
use bytes::Bytes;
use fastrand::Rng;
use futures::future::{BoxFuture, pending};
use futures::stream;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use sluice_faults::proxy::{Asked, Fault, Moment};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::api::{Author, Reply, Server};

/// Sluice's own account.
pub const SLUICE: &str = sluice_faults::history::SLUICE;

/// How long a request takes that nothing goes wrong with, at most, one way.
const LATENCY: Duration = Duration::from_millis(8);
/// By how much more the watches of one server may lag behind each other.
const LAG: Duration = Duration::from_millis(300);
/// By how much more when the server that tells them has more to do.
const STALL: Duration = Duration::from_secs(3);
/// Resources whose first lists are slow in some lives of a process, as an API server fills its cache of each by
/// itself, and by how much at most.
const SLOW: [&str; 6] = [
    "workloads",
    "pods",
    "jobs",
    "clusterqueues",
    "cohorts",
    "localqueues",
];
const SLOW_LIST: Duration = Duration::from_secs(8);
/// When a client that gets no reply finds its connection closed.
const CLOSED_AFTER: Duration = Duration::from_mins(2);

/// The network of one process.
#[derive(Clone, Debug)]
pub struct Network(Arc<Wire>);

#[derive(Debug)]
struct Wire {
    server: Arc<Server>,
    author: Author,
    state: Mutex<State>,
    /// Nothing of this process arrives any more.
    cut: CancellationToken,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    /// Of 100 requests, how many go wrong.
    percent: u8,
    /// Nothing comes through before this: the process or the server hangs.
    hangs_until: Option<Instant>,
    /// It hangs for so long when the next status of a Workload is on its way: an admission, most of the time.
    hangs_with_status: Option<Duration>,
    /// The resource whose lists take so much longer.
    slow_list: Option<(&'static str, Duration)>,
    /// What was sent last and got no answer, or a wrong one.
    unanswered: Option<String>,
    made: BTreeMap<&'static str, usize>,
    writes: usize,
}

impl State {
    /// What goes wrong with a request. One that is sent again as nobody knows whether it has happened is often
    /// refused: that says nothing of the first time.
    fn draw(&mut self, asked: &Asked) -> Option<Fault> {
        let is_again = self.unanswered.as_ref() == Some(&asked.target);
        let fault = if is_again && 0 < self.percent && self.rng.u8(0..3) == 0 {
            Some(Fault::Refused(403))
        } else {
            Fault::draw(&mut self.rng, asked, self.percent)
        };
        if is_again {
            self.unanswered = None;
        }
        let has_no_answer = matches!(
            fault,
            Some(Fault::ReplyLost | Fault::FailedAfter(_) | Fault::ReplyLate(_))
        );
        if has_no_answer && asked.is_write() {
            self.unanswered = Some(asked.target.clone());
        }
        fault
    }
}

impl Network {
    /// A network on which so many of 100 requests go wrong.
    pub fn new(server: Arc<Server>, mut rng: Rng, percent: u8) -> Self {
        let has_slow_list = 0 < percent && rng.bool();
        let slow_list = has_slow_list
            .then(|| Some((rng.choice(SLOW)?, SLOW_LIST.mul_f64(rng.f64()))))
            .flatten();
        let state = State {
            rng,
            percent,
            hangs_until: None,
            hangs_with_status: None,
            slow_list,
            unanswered: None,
            made: BTreeMap::new(),
            writes: 0,
        };
        Self(Arc::new(Wire {
            server,
            author: SLUICE.into(),
            state: Mutex::new(state),
            cut: CancellationToken::new(),
        }))
    }

    /// A client over it.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        let mut state = self.state();
        state.percent = 0;
        state.hangs_with_status = None;
        state.slow_list = None;
    }

    /// Nothing comes through for so long.
    pub fn hang(&self, time: Duration) {
        self.state().hangs_until = Some(Instant::now() + time);
    }

    /// Nothing comes through for so long from the moment at which the next status of a Workload is sent.
    pub fn hang_with_status(&self, time: Duration) {
        self.state().hangs_with_status = Some(time);
    }

    /// Nothing that is sent from now on arrives; what was sent may.
    pub fn cut(&self) {
        self.0.cut.cancel();
    }

    /// Cancelled when the network is cut.
    pub fn is_cut(&self) -> CancellationToken {
        self.0.cut.clone()
    }

    /// Requests that would change something that a decision is made of.
    pub fn writes(&self) -> usize {
        self.state().writes
    }

    /// The faults that were made, by name.
    pub fn made(&self) -> BTreeMap<&'static str, usize> {
        self.state().made.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn some(&self, most: Duration) -> Duration {
        most.mul_f64(self.state().rng.f64())
    }

    /// How long a watch stands still before its next line.
    fn stall(&self) -> Duration {
        let state = &mut *self.state();
        let stalls = state.rng.u8(0..100) < state.percent / 4;
        if stalls {
            STALL.mul_f64(state.rng.f64())
        } else {
            Duration::ZERO
        }
    }

    /// Until the process and the server go on.
    async fn passable(&self) {
        loop {
            let until = self.state().hangs_until;
            match until.filter(|until| Instant::now() < *until) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    async fn send(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if self.0.cut.is_cancelled() {
            return pending().await;
        }
        let target = head
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        let asked = Asked {
            method: head.method.clone(),
            target: target.to_owned(),
        };
        let fault = {
            let state = &mut *self.state();
            let fault = state.draw(&asked);
            if let Some(fault) = &fault {
                *state.made.entry(fault.name()).or_default() += 1;
            }
            state.writes += usize::from(asked.is_write());
            let is_status = asked.is_write() && asked.target.contains("/status");
            if is_status && asked.target.contains("/workloads/") {
                let time = state.hangs_with_status.take();
                let until = time.map(|time| Instant::now() + time);
                state.hangs_until = until.or(state.hangs_until);
            }
            fault
        };
        if asked.is_watch() {
            return Ok(self.watch(head, fault).await);
        }
        // Whoever sent it may give up: the server goes on all the same.
        let network = self.clone();
        let task = tokio::spawn(async move { network.exchange(head, body, fault).await });
        tokio::select! {
            biased;
            () = self.0.cut.cancelled() => pending().await,
            reply = task => reply?,
        }
    }

    /// One request and its reply, with what goes wrong.
    async fn exchange(
        self,
        head: Parts,
        body: Bytes,
        fault: Option<Fault>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        self.passable().await;
        sleep(self.some(LATENCY)).await;
        let slow_list = self.state().slow_list;
        let slow_list = slow_list.filter(|(resource, _)| {
            head.method == http::Method::GET && head.uri.path().ends_with(resource)
        });
        if let Some((_, time)) = slow_list {
            sleep(time).await;
        }
        let lost = || -> BoxError { "the connection was closed".into() };
        let reply = match fault {
            Some(Fault::Lost) => return Err(lost()),
            Some(Fault::Refused(code)) => refused(code),
            Some(Fault::Late(time) | Fault::Stranded(time)) => {
                sleep(time).await;
                self.execute(&head, &body).await
            }
            Some(Fault::Twice) => {
                drop(self.execute(&head, &body).await);
                self.execute(&head, &body).await
            }
            Some(Fault::Crash(Moment::Before)) => {
                self.cut();
                return Err(lost());
            }
            _ => self.execute(&head, &body).await,
        };
        match fault {
            Some(Fault::ReplyLost) => return Err(lost()),
            Some(Fault::FailedAfter(code)) => return Ok(refused(code)),
            Some(Fault::ReplyLate(time)) => sleep(time).await,
            Some(Fault::Crash(_)) => self.cut(),
            _ => {}
        }
        sleep(self.some(LATENCY)).await;
        self.passable().await;
        Ok(reply)
    }

    async fn execute(&self, head: &Parts, body: &[u8]) -> Response<AnswerBody> {
        match self.0.server.answer(&self.0.author, head, body).await {
            Reply::Whole(response) => response.map(AnswerBody::from),
            Reply::Watch(_) => refused(500),
        }
    }

    async fn watch(self, head: Parts, fault: Option<Fault>) -> Response<AnswerBody> {
        self.passable().await;
        let reply = self.0.server.answer(&self.0.author, &head, &[]).await;
        let stream = match reply {
            Reply::Whole(response) => return response.map(AnswerBody::from),
            Reply::Watch(stream) => stream,
        };
        if fault == Some(Fault::WatchGone) {
            let gone = concat!(
                r#"{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","metadata":{},"#,
                r#""status":"Failure","message":"too old resource version","#,
                r#""reason":"Expired","code":410}}"#,
                "\n"
            );
            return Response::new(AnswerBody::from(gone));
        }
        if let Some(Fault::WatchSilent(time)) = fault {
            sleep(time).await;
        }
        let left = match fault {
            Some(Fault::WatchCut(lines)) => usize::from(lines),
            Some(Fault::WatchDead) => 0,
            _ => usize::MAX,
        };
        let is_dead = fault == Some(Fault::WatchDead);
        let lag = self.some(LAG);
        let lines = stream::unfold((stream, left), move |(mut stream, left)| {
            let network = self.clone();
            async move {
                if left == 0 {
                    if is_dead {
                        sleep(CLOSED_AFTER).await;
                    }
                    // In the middle of a line.
                    let torn: Result<Bytes, BoxError> = Err("the connection was closed".into());
                    return Some((torn, (stream, usize::MAX)));
                }
                let line = tokio::select! {
                    biased;
                    () = network.0.cut.cancelled() => pending().await,
                    line = stream.next() => line?,
                };
                sleep(network.some(lag)).await;
                sleep(network.stall()).await;
                network.passable().await;
                let bytes = Bytes::from(format!("{line}\n"));
                Some((Ok(bytes), (stream, left - 1)))
            }
        });
        Response::new(AnswerBody::from_stream(lines))
    }
}

/// What a server or something before it answers that does not do what was asked for.
fn refused(code: u16) -> Response<AnswerBody> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "a fault", "reason": reason, "code": code,
    });
    let mut response = Response::new(AnswerBody::from(status.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}

impl Service<Request<Body>> for Network {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}
