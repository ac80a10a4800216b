//! What users may do, by the API server's authorizer: a SubjectAccessReview for each question that was not answered
//! within the last seconds.
//!
//! A right that is given or taken away counts after [`KEPT_FOR`] at the latest. Only requests ask that lift gates with
//! owners, or that have a Gate read other objects; how many questions are under way, answered in a time and kept is
//! bounded, as whoever reaches the webhook can ask.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use sluice_webhooks::{Access, Permission, Right, Unanswered, UserInfo};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::api::allowance::{Allowance, Shares};
use crate::api::lookup;

/// Longest time for one answer, the wait for a turn included: whoever lifts a gate waits, and the webhook has 3 s for
/// all.
const DEADLINE: Duration = Duration::from_secs(1);
/// What is told of a question that has no answer by then.
const NO_REPLY: Unanswered = Unanswered::NoReply {
    seconds: DEADLINE.as_secs(),
};
/// How long an answer counts.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Answers that are kept.
const KEPT_MAX: usize = 1024;
/// Longest question whose answer is kept, in bytes: all that are kept take 8 MiB at most. A user with 200 groups of
/// 36 characters fits in.
const KEPT_BYTES_MAX: usize = 8 << 10;
/// Questions to the API server at the same time.
const CONCURRENCY: usize = 32;
/// Questions that may come at once: an edit in each of a thousand namespaces.
const ALLOWED_AT_ONCE: u32 = 1024;
/// After this long one more may come: 200 a second.
const ALLOWED_EVERY: Duration = Duration::from_millis(5);
/// The same for the edits in one namespace: a quarter of all. Whoever may edit it can ask in many names.
const OF_NAMESPACE_AT_ONCE: u32 = ALLOWED_AT_ONCE / 4;
const OF_NAMESPACE_EVERY: Duration = Duration::from_millis(20);
/// How many namespaces are told apart at a time.
const NAMESPACES_MAX: usize = 1024;

/// Asks the API server's authorizer.
pub struct Authorizer {
    client: Client,
    turns: Semaphore,
    allowance: Allowance,
    of_namespaces: Shares,
    /// Written by whoever asks; never locked while somebody waits for an answer.
    answers: Mutex<Answers>,
}

/// Whether this user has this right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    user: UserInfo,
    right: Right,
}

/// The latest answers.
#[derive(Debug, Default)]
struct Answers {
    known: BTreeMap<Arc<Question>, (Instant, bool)>,
    /// The same questions, the oldest answer first.
    order: VecDeque<(Instant, Arc<Question>)>,
}

impl Authorizer {
    /// Asks by `client`, which must not repeat requests by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            turns: Semaphore::new(CONCURRENCY),
            allowance: Allowance::new(ALLOWED_AT_ONCE, ALLOWED_EVERY, Instant::now()),
            of_namespaces: Shares::new(OF_NAMESPACE_AT_ONCE, OF_NAMESPACE_EVERY, NAMESPACES_MAX),
            answers: Mutex::default(),
        }
    }

    /// The answer; from the API server if it is not known.
    async fn answer(&self, question: Question) -> Permission {
        if let Some(is_allowed) = self.answers(|answers| answers.get(&question, Instant::now())) {
            return permission(is_allowed);
        }
        if !self.is_within(&question.right.namespace) {
            return Permission::Unknown(Unanswered::TooMany.to_string());
        }
        // An answer says what was so when the question was sent, or later.
        let asked = Instant::now();
        match timeout(DEADLINE, self.ask(&question)).await {
            Ok(Ok(is_allowed)) => {
                self.answers(|answers| answers.put(question, asked, is_allowed));
                permission(is_allowed)
            }
            Ok(Err(why)) => Permission::Unknown(why.to_string()),
            Err(_) => Permission::Unknown(NO_REPLY.to_string()),
        }
    }

    /// Whether one more question may be passed on to the API server, about this namespace.
    fn is_within(&self, namespace: &str) -> bool {
        self.of_namespaces.take(namespace, Instant::now()) && self.allowance.take(Instant::now())
    }

    /// The resource of a kind, as the API server serves it.
    async fn find(&self, group: &str, kind: &str) -> Result<Option<String>, Unanswered> {
        if !self.is_within("") {
            return Err(Unanswered::TooMany);
        }
        let find = async {
            let _turn = self.turns.acquire().await.map_err(failed)?;
            let found = lookup::resource(&self.client, group, kind).await;
            found.map_err(failed)
        };
        timeout(DEADLINE, find).await.unwrap_or(Err(NO_REPLY))
    }

    /// Two who ask the same at the same time both do.
    async fn ask(&self, question: &Question) -> Result<bool, Unanswered> {
        let _turn = self.turns.acquire().await.map_err(failed)?;
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = review(question);
        let reply = reviews.create(&PostParams::default(), &review).await;
        let status = reply.map_err(failed)?.status;
        let status = status.ok_or_else(|| failed("the reply says nothing"))?;
        Ok(status.allowed && status.denied != Some(true))
    }

    fn answers<T>(&self, act: impl FnOnce(&mut Answers) -> T) -> T {
        act(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Access for Authorizer {
    fn has<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + 'a>> {
        Box::pin(self.answer(Question {
            user: user.clone(),
            right,
        }))
    }

    fn resource<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, Unanswered>> + Send + 'a>> {
        Box::pin(self.find(group, kind))
    }
}

impl Question {
    /// How much memory it takes, by its texts.
    fn bytes(&self) -> usize {
        let Self { user, right } = self;
        let extra = user
            .extra
            .iter()
            .flat_map(|(key, values)| std::iter::once(key).chain(values));
        let of_right = [&right.group, &right.resource, &right.namespace, &right.name];
        let texts = [&user.username, &user.uid].into_iter().chain(of_right);
        let texts = texts.chain(&user.groups).chain(extra);
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }
}

impl Answers {
    fn get(&self, question: &Question, now: Instant) -> Option<bool> {
        let (asked, is_allowed) = self.known.get(question)?;
        (now.saturating_duration_since(*asked) < KEPT_FOR).then_some(*is_allowed)
    }

    fn put(&mut self, question: Question, asked: Instant, is_allowed: bool) {
        if KEPT_BYTES_MAX < question.bytes() {
            return;
        }
        let question = Arc::new(question);
        self.known.insert(question.clone(), (asked, is_allowed));
        self.order.push_back((asked, question));
        while KEPT_MAX < self.order.len() {
            let Some((asked, oldest)) = self.order.pop_front() else {
                return;
            };
            // It may have been asked again since.
            if self.known.get(&oldest).is_some_and(|(at, _)| *at == asked) {
                self.known.remove(&oldest);
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn failed(why: impl ToString) -> Unanswered {
    Unanswered::Failed(why.to_string())
}

fn permission(is_allowed: bool) -> Permission {
    if is_allowed {
        Permission::Allowed
    } else {
        Permission::Denied
    }
}

/// The question as the API server takes it.
fn review(question: &Question) -> SubjectAccessReview {
    let Question { user, right } = question.clone();
    let text = |text: String| (!text.is_empty()).then_some(text);
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: text(user.username),
            uid: text(user.uid),
            groups: Some(user.groups),
            extra: Some(user.extra),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(right.verb.to_owned()),
                group: text(right.group),
                resource: text(right.resource),
                name: text(right.name),
                namespace: text(right.namespace),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    fn mk(name: &str) -> Question {
        Question {
            user: UserInfo {
                username: name.to_owned(),
                uid: "u1".to_owned(),
                groups: vec!["staff".to_owned()],
                extra: BTreeMap::from([("scopes".to_owned(), vec!["a".to_owned()])]),
            },
            right: mk_right("team"),
        }
    }

    fn mk_right(namespace: &str) -> Right {
        Right {
            verb: "lift",
            group: "sluice.dev".to_owned(),
            resource: "gates".to_owned(),
            namespace: namespace.to_owned(),
            name: "budget.acme.io".to_owned(),
        }
    }

    /// An authorizer before an API server that answers so, and how often it was asked.
    fn mk_authorizer(status: Option<Value>) -> (Authorizer, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let status = status.clone();
            async move {
                let Some(status) = status else {
                    return std::future::pending().await;
                };
                let body = json!({
                    "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                    "spec": {}, "status": status,
                });
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(Response::new(body))
            }
        });
        (Authorizer::new(Client::new(service, "default")), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_so_long() {
        for (status, expected) in [
            (json!({"allowed": true}), Permission::Allowed),
            (json!({"allowed": false}), Permission::Denied),
            (json!({"allowed": true, "denied": true}), Permission::Denied),
        ] {
            let (authorizer, asked) = mk_authorizer(Some(status));
            for _ in 0..10 {
                assert_eq!(authorizer.answer(mk("ann")).await, expected);
            }
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            authorizer.answer(mk("bob")).await;
            assert_eq!(asked.load(Ordering::Relaxed), 2);
            tokio::time::advance(KEPT_FOR).await;
            authorizer.answer(mk("ann")).await;
            assert_eq!(asked.load(Ordering::Relaxed), 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_is_not_waited_for() {
        let (authorizer, _) = mk_authorizer(None);
        let start = Instant::now();
        let many = (0..100).map(|n| authorizer.answer(mk(&format!("user-{n}"))));
        for answer in futures::future::join_all(many).await {
            assert_eq!(
                answer,
                Permission::Unknown("no reply within 1 s".to_owned())
            );
        }
        assert_eq!(start.elapsed(), DEADLINE);
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cost_no_more_than_this() {
        let (authorizer, asked) = mk_authorizer(Some(json!({"allowed": false})));
        let mut last = Permission::Denied;
        for n in 0..500 {
            last = authorizer.answer(mk(&format!("user-{n}"))).await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), 256, "for one namespace");
        for n in 0..2000 {
            let question = Question {
                right: mk_right(&format!("team-{}", n % 50)),
                ..mk(&format!("user-{n}"))
            };
            last = authorizer.answer(question).await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1024);
        let told = "too many such questions came at once";
        assert_eq!(last, Permission::Unknown(told.to_owned()));
        assert_eq!(authorizer.answers(|answers| answers.known.len()), KEPT_MAX);
    }

    #[test]
    fn the_oldest_answers_are_forgotten_and_large_questions_are_not_kept() {
        let mut answers = Answers::default();
        let now = Instant::now();
        for n in 0..=KEPT_MAX {
            answers.put(mk(&n.to_string()), now, true);
        }
        assert_eq!(answers.get(&mk("0"), now), None);
        assert_eq!(answers.get(&mk("1"), now), Some(true));
        // Asked again, it is younger than those after it.
        let later = now + Duration::from_secs(1);
        answers.put(mk("2"), later, false);
        for n in 0..KEPT_MAX - 1 {
            answers.put(mk(&format!("more-{n}")), later, true);
        }
        assert_eq!(answers.get(&mk("2"), later), Some(false));
        assert_eq!(answers.known.len(), KEPT_MAX);
        answers.put(mk(&"x".repeat(KEPT_BYTES_MAX)), later, true);
        assert_eq!(answers.known.len(), KEPT_MAX);
    }

    #[test]
    fn the_question_is_exact() {
        let spec = serde_json::to_value(review(&mk("ann")).spec).unwrap();
        assert_eq!(
            spec,
            json!({
                "user": "ann", "uid": "u1", "groups": ["staff"], "extra": {"scopes": ["a"]},
                "resourceAttributes": {
                    "verb": "lift", "group": "sluice.dev", "resource": "gates",
                    "name": "budget.acme.io", "namespace": "team",
                },
            })
        );
    }
}
