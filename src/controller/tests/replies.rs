//! Replies that are older than what watches and lists have shown since.

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
