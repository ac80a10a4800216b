//! What is evicted and queued again.

use super::*;

impl Play {
    /// Job `a` is released, and its queue is drained. Returns the Workload as it is then.
    fn evict_first(&mut self) -> DynamicObject {
        let (workload, release) = self.release_first();
        let mut drained = own("ClusterQueue", "q", &queue_spec());
        drained["spec"]["stopPolicy"] = json!("HoldAndDrain");
        drained["metadata"]["resourceVersion"] = json!("33");
        self.observe(&Source::ClusterQueue, Change::Applied(seen(drained)));
        self.end(release, Reply::Done(Some(Box::new(released("a")))));
        workload
    }

    fn explained(&self, name: &str) -> Option<sluice_engine::Explanation> {
        let subject = Subject::Job(format!("uid-{name}").as_str().into());
        self.controller.engine.explain(&subject.id())
    }
}

pub(super) fn released(name: &str) -> DynamicObject {
    let mut released = job(name);
    released["metadata"]["resourceVersion"] = json!("31");
    released["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
    released["spec"]["suspend"] = json!(false);
    serde_json::from_value(released).unwrap()
}

/// The watch shows that a job is queued again before the write that does it has its reply. To the engine that must
/// look like one step: whatever comes between ends the preemption round, and jobs preempt each other without an end.
#[tokio::test]
async fn a_job_that_is_queued_again_is_evicted_until_the_reply_says_so() {
    let mut play = Play::new();
    let mut workload = play.evict_first();
    let mut requeue = None;
    for revision in 40..60 {
        let Some(write) = play
            .cycle()
            .into_iter()
            .find(|w| w.subject == Subject::Job("uid-a".into()))
        else {
            continue;
        };
        match &write.write {
            Write::SetWorkloadStatus { status, .. } if status.admission.is_none() => {
                requeue = Some((write, revision));
                break;
            }
            Write::SetWorkloadStatus { .. } => {
                let reply = with_status(&workload, &write, revision);
                if let Reply::Done(Some(shown)) = &reply {
                    workload = (**shown).clone();
                }
                play.end(write, reply);
            }
            _ => {
                let mut suspended = job("a");
                suspended["metadata"]["resourceVersion"] = json!(revision.to_string());
                let suspended = serde_json::from_value(suspended).unwrap();
                play.end(write, Reply::Done(Some(Box::new(suspended))));
            }
        }
    }
    let (requeue, revision) = requeue.expect("it is queued again");
    let Reply::Done(Some(shown)) = with_status(&workload, &requeue, revision) else {
        panic!("it is done");
    };
    let is_evicting = |play: &Play| {
        let explained = play.explained("a");
        matches!(explained, Some(sluice_engine::Explanation::Evicting { .. }))
    };
    assert!(is_evicting(&play));
    let seen = Seen::Object(shown.clone());
    play.observe(&Source::Workload, Change::Applied(seen));
    assert!(is_evicting(&play), "{:?}", play.explained("a"));
    play.end(requeue, Reply::Done(Some(shown)));
    assert!(!is_evicting(&play));
    let inactive = Some(sluice_engine::Explanation::Inactive);
    assert_ne!(play.explained("a"), inactive);
}
