//! Gates by the clock: deadlines, a clock that jumps, and counters while not all kinds are listed.

use sluice_gates::{GroupKind, Outcome};

use super::*;

pub(super) const GATE: &str = "acme.io/budget";
const NAME: &str = "budget.acme.io";

impl Play {
    /// Everything is listed but Jobs, with this Gate.
    pub(super) fn list_settings_with_gate(&mut self, spec: &Value, status: &Value) {
        self.list_settings();
        let mut gate = own("Gate", NAME, spec);
        gate["status"] = status.clone();
        gate["metadata"]["resourceVersion"] = json!("6");
        self.observe(&Source::Gate, Change::Applied(seen(gate)));
    }

    /// So many seconds pass. Returns what is written to objects that gates hold.
    fn tick(&mut self, seconds: u64) -> Vec<InFlightWrite> {
        self.pass(Duration::from_secs(seconds));
        self.handle(Input::Tick);
        let writes = self.cycle().into_iter();
        let of_gates = |write: &InFlightWrite| {
            matches!(write.write, Write::PatchJob { .. } | Write::PatchPod { .. })
        };
        writes.filter(of_gates).collect()
    }

    /// After how many seconds something is written, if that is within so many. Looks at each second, or at one of
    /// sixty where that is enough.
    fn seconds_until_write(&mut self, most: u64) -> Option<(u64, InFlightWrite)> {
        let step = if most < 600 { 1 } else { 60 };
        let mut seconds = (0..most).step_by(usize::try_from(step).unwrap());
        seconds.find_map(|second| Some((second + step, self.tick(step).into_iter().next()?)))
    }
}

/// Created an hour before the clock of [`Play`] begins.
fn held_job() -> Value {
    let mut job = job("held");
    job["metadata"]["annotations"]["kueue.x-k8s.io/scheduling-gated-by"] = json!(GATE);
    job
}

/// Created half an hour after it.
fn younger() -> Value {
    let mut younger = held_job();
    younger["metadata"]["name"] = json!("younger");
    younger["metadata"]["uid"] = json!("uid-younger");
    younger["metadata"]["creationTimestamp"] = json!("2026-11-23T11:30:00Z");
    younger
}

/// A pod that its own gate holds.
fn held_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "blue", "uid": "uid-p", "resourceVersion": "9",
            "creationTimestamp": "2026-11-23T11:00:00Z",
            "labels": {"sluice.dev/managed": "true"},
            "annotations": {"kueue.x-k8s.io/scheduling-gated-by": GATE},
        },
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

/// The Job as the API server has it after a merge patch.
fn patched(mut object: Value, write: &InFlightWrite, revision: u64) -> Value {
    let Write::PatchJob { patch, .. } = &write.write else {
        panic!("{write:?}");
    };
    match patch {
        crate::plan::JobPatch::Merge(patch) => json_patch::merge(&mut object, &json!(patch)),
        crate::plan::JobPatch::Json(patch) | crate::plan::JobPatch::JsonOfStatus(patch) => {
            json_patch::patch(&mut object, patch).unwrap();
        }
    }
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    object
}

#[tokio::test]
async fn a_deadline_acts_within_five_seconds_and_once() {
    for action in ["Notify", "Lift", "Deactivate"] {
        let mut play = Play::new();
        let deadline = json!({"seconds": 3660, "onExpiry": action});
        play.list_settings_with_gate(&json!({"deadline": deadline}), &json!({}));
        play.list_jobs([held_job()]);
        let (after, write) = play.seconds_until_write(120).unwrap();
        assert!((60..=65).contains(&after), "{action}: {after}");
        let stored = patched(held_job(), &write, 20);
        let stored: DynamicObject = serde_json::from_value(stored).unwrap();
        play.end(write, Reply::Done(Some(Box::new(stored))));
        let again = play.seconds_until_write(600);
        let again = again.filter(|_| action != "Lift");
        assert!(again.is_none(), "{action}: {again:?}");
    }
}

/// Deadlines go by the wall clock: it says when an object was created.
#[tokio::test]
async fn a_clock_that_jumps_makes_a_deadline_act_by_its_time_and_once() {
    let hour = Duration::from_hours(1);
    for (name, forward, most) in [("forward", true, 5), ("back", false, 3720)] {
        let mut play = Play::new();
        let deadline = json!({"seconds": 3660, "onExpiry": "Notify"});
        play.list_settings_with_gate(&json!({"deadline": deadline}), &json!({}));
        play.list_jobs([held_job()]);
        assert!(play.seconds_until_write(10).is_none(), "{name}");
        if forward {
            play.now.wall += hour;
        } else {
            play.now.wall -= hour;
        }
        let (after, write) = play.seconds_until_write(most).unwrap();
        assert!(forward || 3600 < after, "{name}: {after}");
        let stored = patched(held_job(), &write, 20);
        let stored: DynamicObject = serde_json::from_value(stored).unwrap();
        play.end(write, Reply::Done(Some(Box::new(stored))));
        // Whatever the clock does now.
        play.now.wall -= hour;
        assert!(play.seconds_until_write(4000).is_none(), "{name}");
    }
}

/// As it was created by the clock of an API server, of which the leader's is an hour behind.
#[tokio::test]
async fn a_slow_clock_delays_no_deadline_and_no_gate_of_a_namespace() {
    let later = |mut object: Value, revision: u64| {
        object["metadata"]["creationTimestamp"] = json!("2026-11-23T13:00:00Z");
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        object
    };
    for (gate, expected) in [(GATE, 60), ("sluice.dev/queue-required", 5)] {
        for of_pod in [false, true] {
            let mut play = Play::new();
            let deadline = json!({"seconds": 60, "onExpiry": "Lift"});
            play.list_settings_with_gate(&json!({"deadline": deadline}), &json!({}));
            let (mut job, mut pod) = (held_job(), held_pod());
            for object in [&mut job, &mut pod] {
                object["metadata"]["labels"] = json!({"sluice.dev/managed": "true"});
                object["metadata"]["annotations"]["kueue.x-k8s.io/scheduling-gated-by"] =
                    json!(gate);
            }
            pod["spec"]["schedulingGates"][0]["name"] = json!(gate);
            let mut revisions = 20..;
            let mut next = || revisions.next().unwrap();
            play.list_jobs((!of_pod).then(|| later(job.clone(), next())));
            let jobs = play.jobs.clone().unwrap();
            // Whoever changes it does not make it young again.
            let lifted = (0..120).find(|_| {
                let (source, object) = if of_pod {
                    (&Source::Pod, &pod)
                } else {
                    (&jobs, &job)
                };
                let object = later(object.clone(), next());
                play.observe(source, Change::Applied(seen(object)));
                !play.tick(1).is_empty()
            });
            assert!(
                lifted.is_some_and(|lifted| (expected - 1..expected + 2).contains(&lifted)),
                "{gate} {of_pod}: {lifted:?}"
            );
        }
    }
}

/// What has passed may be of a kind that can't be listed yet: the status of the Gate says how many had passed.
#[tokio::test]
async fn a_counter_gives_no_place_that_an_unlisted_object_may_have() {
    for (name, passed, gives) in [("taken", 1, false), ("free", 0, true)] {
        let mut play = Play::new();
        let status = json!({"held": 0, "passed": passed, "liftedTotal": 1, "expiredTotal": 0});
        play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &status);
        play.observe(&Source::Pod, Change::Applied(seen(held_pod())));
        // The kind of Jobs is declared, and takes too long to be listed.
        let jobs = play.find_jobs();
        let given = play.seconds_until_write(90);
        assert_eq!(given.is_some(), gives, "{name}: {given:?}");
        if gives {
            continue;
        }
        play.list(&jobs, []);
        assert!(
            play.seconds_until_write(5).is_some(),
            "{name}: all are listed"
        );
    }
}

/// Such as one whose annotations are too long to record a lifted gate beside them.
#[tokio::test]
async fn an_object_from_which_a_gate_cant_be_lifted_keeps_no_place() {
    let mut play = Play::new();
    play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &json!({}));
    play.list_jobs([held_job(), younger()]);
    let (_, first) = play.seconds_until_write(5).unwrap();
    assert_eq!(first.subject, Subject::Job("uid-held".into()));
    let refusal = "metadata.annotations: Too long: may not be more than 262144 bytes";
    play.end(first, Reply::Refused(refusal.to_owned()));
    let (_, second) = play.seconds_until_write(5).unwrap();
    assert_eq!(second.subject, Subject::Job("uid-younger".into()));
}

/// A Job whose pods wait behind gates may end, or turn unreadable, while they do: nothing lifts its gates then.
#[tokio::test]
async fn what_can_never_be_lifted_keeps_no_place() {
    for name in ["failed", "unreadable"] {
        let mut play = Play::new();
        play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &json!({}));
        let mut older = held_job();
        older["spec"]["template"]["spec"]["schedulingGates"] =
            json!([{"name": "sluice.dev/queue-allocation-gate"}]);
        older["spec"]["suspend"] = json!(false);
        older["status"] = json!({});
        if name == "failed" {
            older["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        } else {
            older["spec"]["suspend"] = json!("perhaps");
        }
        play.list_jobs([older, younger()]);
        let (_, lifted) = play.seconds_until_write(5).unwrap();
        assert_eq!(lifted.subject, Subject::Job("uid-younger".into()), "{name}");
    }
}

/// Its queue goes while the gate is lifted from it: it would not go on any more, but passes the gate all the same.
#[tokio::test]
async fn a_place_stays_taken_while_nobody_knows_whether_its_gate_was_lifted() {
    for is_answered in [true, false] {
        let mut play = Play::new();
        play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &json!({}));
        let mut side = local_queue();
        side["metadata"]["name"] = json!("side");
        play.observe(&Source::LocalQueue, Change::Applied(seen(side)));
        let mut other = younger();
        other["metadata"]["labels"]["sluice.dev/queue-name"] = json!("side");
        play.list_jobs([held_job(), other]);
        let (_, first) = play.seconds_until_write(5).unwrap();
        assert_eq!(first.subject, Subject::Job("uid-held".into()));
        let gone: DynamicObject = serde_json::from_value(local_queue()).unwrap();
        play.observe(&Source::LocalQueue, Change::Deleted(Box::new(gone)));
        let given = play.seconds_until_write(5);
        assert!(given.is_none(), "the lift is under way: {given:?}");
        if is_answered {
            let stored = patched(held_job(), &first, 20);
            let stored: DynamicObject = serde_json::from_value(stored).unwrap();
            play.end(first, Reply::Done(Some(Box::new(stored))));
            let given = play.seconds_until_write(300);
            assert!(given.is_none(), "it has passed: {given:?}");
            continue;
        }
        play.end(first, Reply::Unknown("the connection was lost".to_owned()));
        let given = play.seconds_until_write(85);
        assert!(given.is_none(), "the lift may come yet: {given:?}");
        let (_, second) = play.seconds_until_write(10).unwrap();
        assert_eq!(second.subject, Subject::Job("uid-younger".into()));
    }
}

/// Without webhooks nobody refuses such a Gate. It may still tell that its deadline has passed.
#[tokio::test]
async fn a_gate_that_is_not_valid_lifts_and_deactivates_nothing() {
    let deadline = |action: &str| json!({"deadline": {"seconds": 3605, "onExpiry": action}});
    for (spec, acts) in [
        (json!({"counter": {"limit": 1}}), false),
        (deadline("Lift"), false),
        (deadline("Deactivate"), false),
        (deadline("Notify"), true),
    ] {
        let mut play = Play::new();
        let mut invalid = spec.clone();
        invalid["appliesTo"] = json!({"when": "requests[", "kinds": [{"kind": "Pod"}]});
        play.list_settings_with_gate(&invalid, &json!({}));
        play.list_jobs([held_job()]);
        let written = play.seconds_until_write(30);
        assert_eq!(written.is_some(), acts, "{spec}: {written:?}");
        if acts {
            continue;
        }
        let mut mended = own("Gate", NAME, &spec);
        mended["metadata"]["resourceVersion"] = json!("30");
        play.observe(&Source::Gate, Change::Applied(seen(mended)));
        let written = play.seconds_until_write(10);
        assert!(written.is_some(), "{spec}: it is valid now");
    }
}

/// A Job without a queue has no quota by which its JobKind would be watched on.
#[tokio::test]
async fn a_place_stays_taken_when_the_job_kind_goes() {
    for is_replaced in [false, true] {
        let mut play = Play::new();
        play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &json!({}));
        let mut passed = held_job();
        passed["metadata"]["labels"] = json!({});
        passed["metadata"]["annotations"]["sluice.dev/lifted-gates"] = json!(
            json!([{"gate": GATE, "by": "sluice", "reason": "a place was free", "uid": "uid-held"}])
                .to_string()
        );
        let gates = "kueue.x-k8s.io/scheduling-gated-by";
        passed["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(gates);
        passed["metadata"]["annotations"]["sluice.dev/released"] = json!("uid-held");
        passed["spec"]["suspend"] = json!(false);
        play.list_jobs([passed.clone()]);
        play.tick(1);
        let mut kind: Value =
            serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
        let gone: DynamicObject = serde_json::from_value(kind.clone()).unwrap();
        play.observe(&Source::JobKind, Change::Deleted(Box::new(gone)));
        play.observe(&Source::Pod, Change::Applied(seen(held_pod())));
        let given = play.seconds_until_write(5);
        assert!(given.is_none(), "{is_replaced}: {given:?}");
        passed["metadata"]["resourceVersion"] = json!("40");
        passed["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        if is_replaced {
            kind["metadata"]["name"] = json!("other");
            play.observe(&Source::JobKind, Change::Applied(seen(kind)));
            let jobs = play.find_jobs_by("other");
            let given = play.seconds_until_write(5);
            assert!(given.is_none(), "nothing is listed: {given:?}");
            play.list(&jobs, [passed]);
        } else {
            let jobs = play.jobs.clone().unwrap();
            play.observe(&jobs, Change::Applied(seen(passed)));
        }
        let given = play.seconds_until_write(5);
        assert!(given.is_some(), "{is_replaced}: it has ended");
    }
}

/// Nobody has looked at it while it was there: what gates wait for is looked at once a second.
#[tokio::test]
async fn what_came_true_and_went_within_a_second_lets_through_what_waited() {
    let last = json!({"apiVersion": "acme.io/v1", "kind": "Dataset",
        "metadata": {"name": "a", "namespace": "blue", "uid": "uid-a"}});
    let outcomes = |outcome: Outcome| {
        let place = ("blue".into(), "a".into());
        let outcomes = vec![outcome];
        Change::Applied(Seen::Dependency { place, outcomes })
    };
    for (name, is_lifted) in [("was done", true), ("was never done", false)] {
        let mut play = Play::new();
        let rule = json!({"group": "acme.io", "kind": "Dataset",
            "condition": "object.status.phase == 'Done'"});
        play.list_settings_with_gate(&json!({"after": {"kinds": [rule]}}), &json!({}));
        let mut waits = held_job();
        waits["metadata"]["annotations"]["sluice.dev/after"] = json!("a");
        let mut busy = younger();
        busy["metadata"]["annotations"]["sluice.dev/after"] = json!("a");
        play.list_jobs([waits, busy]);
        let kind = GroupKind {
            group: "acme.io".into(),
            kind: "Dataset".into(),
        };
        let source = Source::Dependencies(kind, 1);
        play.list(&source, []);
        play.observe(&source, outcomes(Outcome::NotYet));
        assert!(play.tick(1).is_empty(), "{name}");
        if is_lifted {
            play.observe(&source, outcomes(Outcome::Done));
        }
        let gone: DynamicObject = serde_json::from_value(last.clone()).unwrap();
        play.observe(&source, Change::Deleted(Box::new(gone)));
        let lifted = play.tick(1);
        assert_eq!(lifted.len(), if is_lifted { 2 } else { 0 }, "{name}");
        // Whoever comes later has not waited for it.
        let mut late = younger();
        late["metadata"]["name"] = json!("late");
        late["metadata"]["uid"] = json!("uid-late");
        late["metadata"]["annotations"]["sluice.dev/after"] = json!("a");
        let jobs = play.jobs.clone().unwrap();
        play.observe(&jobs, Change::Applied(seen(late)));
        for write in lifted {
            play.end(write, Reply::Unknown("the connection was lost".to_owned()));
        }
        let again: Vec<_> = (0..5).flat_map(|_| play.tick(1)).collect();
        assert_eq!(
            again.len(),
            if is_lifted { 2 } else { 0 },
            "{name}: {again:?}"
        );
        let is_late = |write: &InFlightWrite| write.subject.to_string() == "uid-late";
        assert!(!again.iter().any(is_late), "{name}");
    }
}

/// Each of them is not the last gate while the other one holds, too.
#[tokio::test]
async fn what_two_counters_hold_gets_a_place_of_both_at_once() {
    const OTHER: &str = "acme.io/licence";
    const LIST: &str = "kueue.x-k8s.io/admission-gated-by";
    let mut play = Play::new();
    play.list_settings_with_gate(&json!({"counter": {"limit": 1}}), &json!({}));
    let mut other = own("Gate", "licence.acme.io", &json!({"counter": {"limit": 2}}));
    other["metadata"]["resourceVersion"] = json!("8");
    play.observe(&Source::Gate, Change::Applied(seen(other)));
    let held = |name: &str, gates: &str, minute: u32| {
        let mut job = held_job();
        job["metadata"]["name"] = json!(name);
        job["metadata"]["uid"] = json!(format!("uid-{name}"));
        job["metadata"]["creationTimestamp"] = json!(format!("2026-11-23T11:{minute:02}:00Z"));
        let annotations = json!({"sluice.dev/held": "true", LIST: gates});
        job["metadata"]["annotations"] = annotations;
        job
    };
    let both = format!("{GATE},{OTHER}");
    let jobs = [
        held("first", &both, 1),
        held("second", &both, 2),
        held("third", OTHER, 3),
    ];
    play.list_jobs(jobs.clone());
    let lifted: Vec<_> = (0..5).flat_map(|_| play.tick(1)).collect();
    let mut subjects: Vec<_> = lifted
        .iter()
        .map(|write| write.subject.to_string())
        .collect();
    subjects.sort_unstable();
    // The second one waits for the gate of which the first has the only place, and takes none of the other.
    assert_eq!(subjects, ["uid-first", "uid-third"]);
    let first = lifted
        .iter()
        .find(|write| write.subject.to_string() == "uid-first");
    let stored = patched(jobs[0].clone(), first.unwrap(), 20);
    let left = &stored["metadata"]["annotations"][LIST];
    assert!(left.is_null(), "both are lifted in one write: {left}");
}
