//! Replies that are older than what watches and lists have shown since, and such as say that nothing was done.

use super::ended_terms::{by_itself, gated};
use super::*;
use crate::api::lookup::FoundJob;
use crate::controller::intake::rereads::ReadAgain;

/// A LimitRange has changed, and the job was read before it was deleted.
#[tokio::test]
async fn a_job_that_was_deleted_while_it_was_read_again_stays_gone() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job("a")]);
    play.cycle();
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "blue", "resourceVersion": "20"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]},
    });
    play.observe(&Source::LimitRange, Change::Applied(seen(limits)));
    let outputs = play.controller.cycle(play.now);
    let asked = outputs.into_iter().find_map(|output| match output {
        Output::ReadAgain(reread) => Some(reread),
        _ => None,
    });
    let reread = asked.unwrap();
    let read: DynamicObject = serde_json::from_value(job("a")).unwrap();
    let jobs = play.jobs.clone().unwrap();
    play.observe(&jobs, Change::Deleted(Box::new(read.clone())));
    let found = FoundJob::Object(Box::new(read));
    play.handle(Input::ReadAgain(ReadAgain { reread, found }));
    assert_eq!(play.controller.objects.jobs().count(), 0);
}

/// The list was asked for before the reply, and taken after the pod was deleted: nothing in it is as new as the reply.
#[tokio::test]
async fn a_pod_that_was_deleted_while_pods_were_listed_frees_its_quota() {
    let mut play = Play::new();
    play.list_settings();
    play.list(&Source::Pod, [gated("p")]);
    play.list_jobs([]);
    let admission = play.cycle().remove(0);
    let (ack, _asked) = oneshot::channel();
    play.observe(&Source::Pod, Change::Listing(ack));
    let mut admitted = by_itself("p", TERM);
    admitted["metadata"]["resourceVersion"] = json!("150");
    let admitted = serde_json::from_value(admitted).unwrap();
    let subject = admission.subject.clone();
    play.end(admission, Reply::Done(Some(Box::new(admitted))));
    let holds = |play: &Play| play.controller.engine.admission(&subject.id()).is_some();
    assert!(holds(&play));
    play.observe(&Source::Pod, Change::Listed);
    assert!(!holds(&play));
}

/// What the API server has no time for is sent again: whoever is next would be throttled too, or go out of turn.
#[tokio::test]
async fn an_admission_that_is_throttled_is_sent_again() {
    for (name, is_unanswered) in [("at once", false), ("in doubt", true)] {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([job("a"), job("b")]);
        for (write, revision) in play.cycle().into_iter().zip(8..) {
            let stored = stored(&write, revision);
            play.end(write, Reply::Done(Some(Box::new(stored))));
        }
        let mut admitted = play.cycle().remove(0);
        if is_unanswered {
            play.end(admitted, Reply::Unknown("no answer in time".to_owned()));
            play.pass(Duration::from_secs(1));
            admitted = play.cycle().remove(0);
        }
        assert!(is_admitted(&admitted));
        let first = admitted.subject.clone();
        play.end(admitted, Reply::Throttled("too many requests".to_owned()));
        assert!(!play.cycle().iter().any(is_admitted), "{name}");
        assert!(
            play.controller.engine.admission(&first.id()).is_some(),
            "{name}"
        );
        play.pass(Duration::from_secs(5));
        let again = play.cycle();
        let mut admitted = again.iter().filter(|write| is_admitted(write));
        assert_eq!(
            admitted.next().map(|write| &write.subject),
            Some(&first),
            "{name}"
        );
        assert!(admitted.next().is_none(), "{name}");
        // Not for good: who throttles may be a webhook that answers so for this one alone.
        for write in again {
            play.end(write, Reply::Throttled("too many requests".to_owned()));
        }
        let is_of_another = |write: &InFlightWrite| is_admitted(write) && write.subject != first;
        let mut others = 0;
        for _ in 0..20 {
            play.pass(Duration::from_mins(1));
            for write in play.cycle() {
                others += usize::from(is_of_another(&write));
                play.end(write, Reply::Throttled("too many requests".to_owned()));
            }
            let next = play.cycle();
            others += next.iter().filter(|write| is_of_another(write)).count();
            if 0 < others {
                break;
            }
        }
        assert!(0 < others, "{name}");
    }
}
