//! Whether a JobKind is ready, as the metric says it.

use super::*;
use crate::controller::kinds::watch_state::{UnavailableReason, WatchState, unavailable};

impl Play {
    /// What the task of the JobKind of Jobs says.
    fn tell_of_jobs(&mut self, source: &Source, state: WatchState) {
        let Source::Jobs(name, life) = source else {
            panic!("Jobs are seen at {source:?}");
        };
        let (name, life, news) = (name.clone(), *life, News::Unavailable(state));
        self.handle(Input::KindReport(KindReport { name, life, news }));
        self.cycle();
        self.handle(Input::Tick);
    }

    fn see_job_kind(&self, reason: &str, is_ready: u32) {
        let series = format!("sluice_job_kind_ready{{job_kind=\"job\",reason=\"{reason}\"}}");
        self.see_counted(&series, is_ready, reason);
    }
}

/// Jobs that webhooks hold, and that nobody sees.
#[tokio::test]
async fn a_kind_that_cant_be_watched_is_not_ready() {
    let mut play = Play::new();
    play.list_settings();
    let source = play.find_jobs();
    let refused = unavailable(UnavailableReason::Forbidden, "jobs is forbidden".to_owned());
    play.tell_of_jobs(&source, refused);
    play.see_job_kind("Forbidden", 0);
    let message = "Job is not served".to_owned();
    play.tell_of_jobs(&source, WatchState::Unserved { message });
    play.see_job_kind("Waiting", 0);
}

/// It says what its status says until there is something new: a list that begins anew is no trouble.
#[tokio::test]
async fn a_kind_of_which_nothing_new_is_known_stands_as_it_did() {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([]);
    play.cycle();
    play.handle(Input::Tick);
    play.see_job_kind("Starting", 0);
    let mut kind: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    kind["metadata"]["resourceVersion"] = json!("50");
    kind["status"] = json!({"conditions": [{
        "type": "Ready", "status": "True", "reason": "Watched", "message": "",
        "lastTransitionTime": "2026-11-23T12:00:00Z",
    }]});
    play.observe(&Source::JobKind, Change::Applied(seen(kind)));
    play.cycle();
    play.handle(Input::Tick);
    play.see_job_kind("Watched", 1);
}

/// Its watch ended with the leader that knew the JobKind, so that nobody sees its jobs end.
#[tokio::test]
async fn what_holds_quota_without_a_job_kind_is_told_for_as_long_as_that_is_so() {
    let workload = serde_json::to_value(Play::new().admit("a")).unwrap();
    let mut play = Play::new();
    play.list_settings();
    play.list(&Source::JobKind, []);
    play.list(&Source::Workload, [workload]);
    let expected = "Workload KindNotDeclared: No valid JobKind declares Job of API group \"batch\": the quota of this Workload is not freed before its job is deleted, and the job can't be evicted; create or correct the JobKind, so that the quota is freed when the job ends";
    assert_eq!(play.told().0, [expected]);
    let mut minutes = Vec::new();
    for minute in 1..60 {
        play.pass(Duration::from_mins(1));
        play.handle(Input::Tick);
        let (told, writes) = play.told();
        assert!(writes.is_empty(), "{writes:?}");
        minutes.extend(told.iter().map(|_| minute));
    }
    assert_eq!(minutes, [30], "before the event is forgotten");
    play.observe(&Source::JobKind, Change::Applied(seen(job_kind())));
    play.list_jobs([job("a")]);
    assert_eq!(play.told().0, [""; 0], "its job is known again");
}

/// Two for one kind: the administrator has to find the other one.
#[tokio::test]
async fn a_kind_that_another_job_kind_reads_names_that_one() {
    let mut play = Play::new();
    play.list_settings();
    let mut kind: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    kind["metadata"]["name"] = json!("twice");
    kind["metadata"]["resourceVersion"] = json!("50");
    play.observe(&Source::JobKind, Change::Applied(seen(kind)));
    let mut states = play.controller.kinds.watch_states();
    let (.., state) = states.find(|(name, ..)| &***name == "twice").unwrap();
    let message = "JobKind \"job\" reads Job of group \"batch\" already; delete one of the two";
    let expected = unavailable(UnavailableReason::Taken, message.to_owned());
    assert_eq!(state, expected);
}
