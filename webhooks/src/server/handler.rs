//! HTTP: reads a body, asks for the verdict, writes the answer. Knows no rule.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use k8s_openapi::jiff::Timestamp;
use tokio::time::timeout;

use crate::admission::access::Access;
use crate::admission::observer::{Answered, Observer, Report, ReviewOutcome, Webhook};
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::schemas::Schemas;
use crate::admission::verdict::Verdict;
use crate::rules::review;
use crate::server::body::{BODY_BYTES_MAX, Budget, Unread};

/// Longest time that a body may take to arrive. The API server gives up after 3 s.
const BODY_TIME_MAX: Duration = Duration::from_millis(2_500);

/// What is known outside of this crate, and looked up for some verdicts.
#[derive(Clone)]
pub struct Outside {
    /// What the API server publishes of kinds.
    pub schemas: Arc<dyn Schemas>,
    /// What users may do.
    pub access: Arc<dyn Access>,
    /// Who counts what is done.
    pub observer: Arc<dyn Observer>,
    /// The wall clock.
    pub clock: fn() -> Timestamp,
}

/// Which of the two questions is answered.
#[derive(Clone)]
enum Question {
    /// Whether the request may go on.
    Validate(Outside),
    /// What to change.
    Mutate,
}

impl Question {
    fn webhook(&self) -> Webhook {
        match self {
            Self::Validate(_) => Webhook::Validate,
            Self::Mutate => Webhook::Mutate,
        }
    }

    async fn answer(&self, request: &Request, policy: &Policy) -> Verdict {
        let outside = match self {
            Self::Mutate => return review::mutate(request, policy),
            Self::Validate(outside) => outside,
        };
        let judged = review::validate(request, policy);
        if !judged.is_allowed() {
            return judged;
        }
        let verdict = review::has_rights(request, policy, &*outside.access).await;
        if !verdict.is_allowed() {
            return verdict;
        }
        let mut verdict = review::look_up(request, &*outside.schemas).await;
        verdict.warnings.splice(..0, judged.warnings);
        verdict.report = judged.report;
        verdict
    }
}

#[derive(Clone)]
struct Handler {
    policy: Arc<ArcSwap<Policy>>,
    budget: Budget,
    question: Question,
    observer: Arc<dyn Observer>,
    clock: fn() -> Timestamp,
}

/// The paths `/validate`, `/mutate` and `/healthz`. Every request is judged by the policy that
/// `policy` holds when its body is complete; JobKinds, lifted gates and what Gates read also by what is known `outside`.
pub fn router(policy: &Arc<ArcSwap<Policy>>, outside: Outside) -> Router {
    let budget = Budget::new();
    let (clock, observer) = (outside.clock, outside.observer.clone());
    let road = |question: Question| {
        let handler = Handler {
            policy: policy.clone(),
            budget: budget.clone(),
            question,
            observer: observer.clone(),
            clock,
        };
        post(handle).with_state(handler)
    };
    Router::new()
        .route("/validate", road(Question::Validate(outside)))
        .route("/mutate", road(Question::Mutate))
        .route("/healthz", get(|| async { "ok" }))
}

async fn handle(State(handler): State<Handler>, headers: HeaderMap, body: Body) -> Response {
    let begun = Instant::now();
    let (outcome, response) = judge(&handler, &headers, body).await;
    handler.observer.answered(Answered {
        webhook: handler.question.webhook(),
        outcome,
        took: begun.elapsed(),
    });
    response
}

/// What comes of a request, and how the API server is told.
async fn judge(handler: &Handler, headers: &HeaderMap, body: Body) -> (ReviewOutcome, Response) {
    let refuse = |status: StatusCode| (ReviewOutcome::Unreadable, status.into_response());
    let content = match timeout(BODY_TIME_MAX, handler.budget.read(headers, body)).await {
        Ok(Ok(content)) => content,
        Ok(Err(Unread::TooLarge)) => {
            let told = format!("a review may have {BODY_BYTES_MAX} bytes at most");
            let told = (StatusCode::PAYLOAD_TOO_LARGE, told);
            return (ReviewOutcome::Unreadable, told.into_response());
        }
        Ok(Err(Unread::Broken)) => return refuse(StatusCode::BAD_REQUEST),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT),
    };
    let request = match Request::parse(content.bytes()) {
        Ok(request) => Request {
            received: Timestamp::from_second((handler.clock)().as_second()).ok(),
            ..request
        },
        // Anyone who reaches the port can send this: answer, and leave the log alone.
        Err(malformed) => {
            let told = (StatusCode::BAD_REQUEST, malformed.to_string());
            return (ReviewOutcome::Unreadable, told.into_response());
        }
    };
    let policy = handler.policy.load_full();
    let verdict = handler.question.answer(&request, &policy).await;
    if !verdict.is_allowed() {
        tracing::debug!(
            uid = request.uid,
            refusal = verdict.message(),
            "admission refused"
        );
    }
    if let Some(enforced) = verdict.enforced.filter(|_| !request.dry_run) {
        handler.observer.enforced(enforced);
    }
    let report = verdict.report.clone().filter(|_| !request.dry_run);
    if let Some(report) = report.and_then(|message| Report::of(&request, message)) {
        handler.observer.reported(report);
    }
    let outcome = match &verdict {
        verdict if verdict.is_allowed() => ReviewOutcome::Allowed,
        verdict if verdict.is_early => ReviewOutcome::Retry,
        _ => ReviewOutcome::Refused,
    };
    let response = match verdict
        .into_answer(request.uid)
        .and_then(|answer| serde_json::to_vec(&answer))
    {
        Ok(answer) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    (outcome, response)
}
