//! Small histories, each with one thing wrong, and the same without.

use serde_json::json;

use super::*;
use crate::history::{Key, SLUICE};

const GATES: &str = "kueue.x-k8s.io/scheduling-gated-by";
const GATE: &str = "sluice.dev/queue-allocation-gate";

/// A history that is written line by line.
#[derive(Default)]
struct Story(Vec<Revision>);

impl Story {
    /// A ClusterQueue `q` of 4 cpus, and a job `a` that asks for 2 pods of 1 cpu, with its Workload.
    fn of_one_job() -> Self {
        Self::default()
            .put("ClusterQueue", "q", queue("", 4, json!({})))
            .put("Job", "a", job(true))
            .put("Workload", "w-a", workload("a", 2, json!(null)))
    }

    fn admitted() -> Self {
        Self::of_one_job().put("Workload", "w-a", workload("a", 2, admission(2)))
    }

    fn running() -> Self {
        let story = Self::admitted().put("Job", "a", job(false));
        story.put("Pod", "p1", pod("a")).put("Pod", "p2", pod("a"))
    }

    fn put(self, kind: &str, name: &str, object: Value) -> Self {
        self.step(kind, name, Some(object), None)
    }

    fn by_sluice(self, kind: &str, name: &str, object: Value) -> Self {
        self.step(kind, name, Some(object), Some(SLUICE.to_owned()))
    }

    fn gone(self, kind: &str, name: &str) -> Self {
        self.step(kind, name, None, None)
    }

    fn step(
        mut self,
        kind: &str,
        name: &str,
        object: Option<Value>,
        author: Option<String>,
    ) -> Self {
        let folder = match kind {
            "Job" => "jobs/ns",
            "Pod" => "pods/ns",
            "Workload" => "sluice.dev/workloads/ns",
            "ClusterQueue" => "sluice.dev/clusterqueues",
            "Lease" => "leases/sluice-system",
            _ => "sluice.dev/cohorts",
        };
        let object = object.map(|mut object| {
            object["kind"] = json!(kind);
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!("ns");
            object["metadata"]["uid"] = json!(name);
            object
        });
        let key = Key::parse(&format!("/registry/{folder}/{name}"));
        self.0.extend(key.map(|key| Revision {
            number: self.0.len() as u64 + 1,
            key,
            object,
            author,
        }));
        self
    }

    /// The invariants that the last step broke, and only it.
    fn broken(&self) -> Vec<Invariant> {
        let last = self.0.len() as u64;
        let violations = check(&self.0);
        assert!(
            violations.iter().all(|v| v.revision == last),
            "{violations:#?}"
        );
        let mut broken: Vec<_> = violations.into_iter().map(|v| v.invariant).collect();
        broken.dedup();
        broken
    }
}

fn queue(cohort: &str, cpus: u32, limits: Value) -> Value {
    let mut cpu = json!({"name": "cpu", "nominalQuota": cpus});
    for (name, limit) in limits.as_object().into_iter().flatten() {
        cpu[name.as_str()] = limit.clone();
    }
    json!({"metadata": {}, "spec": {
        "cohortName": cohort, "parentName": cohort,
        "resourceGroups": [{"flavors": [{"name": "f", "resources": [cpu]}]}],
    }})
}

fn template() -> Value {
    json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}})
}

fn job(suspend: bool) -> Value {
    json!({
        "metadata": {"labels": {"sluice.dev/queue-name": "q"}, "annotations": {}},
        "spec": {"suspend": suspend, "parallelism": 2, "template": template()},
    })
}

fn gated(mut job: Value) -> Value {
    job["metadata"]["annotations"][GATES] = json!("acme.io/x");
    job
}

fn complete(mut job: Value) -> Value {
    job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    job
}

fn admission(count: u32) -> Value {
    json!({"clusterQueue": "q", "podSetAssignments": [{
        "name": "main", "count": count, "flavors": {"cpu": "f"},
        "resourceUsage": {"cpu": count.to_string()},
    }]})
}

fn lease(term: u32) -> Value {
    json!({"metadata": {}, "spec": {"holderIdentity": "x", "leaseTransitions": term}})
}

fn workload(job: &str, count: u32, admission: Value) -> Value {
    json!({
        "metadata": {"ownerReferences": [{"uid": job}]},
        "spec": {"podSets": [{"name": "main", "count": count, "requests": {"cpu": "1"}}]},
        "status": {"admission": admission},
    })
}

fn pod(job: &str) -> Value {
    let mut pod = template();
    pod["metadata"] = json!({"ownerReferences": [{"uid": job}]});
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn phase(mut pod: Value, phase: &str) -> Value {
    pod["status"]["phase"] = json!(phase);
    pod
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    pod
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    if let Some((parent, name)) = pointer.rsplit_once('/')
        && let Some(parent) = object.pointer_mut(parent)
    {
        parent[name.replace("~1", "/")] = value;
    }
    object
}

#[test]
fn an_ordinary_life_breaks_nothing() {
    let story = Story::running()
        .put("Pod", "p1", phase(pod("a"), "Succeeded"))
        .put("Pod", "p2", phase(pod("a"), "Succeeded"))
        .put("Job", "a", complete(job(false)))
        .put(
            "Workload",
            "w-a",
            with(
                workload("a", 2, admission(2)),
                "/status/conditions",
                json!([{"type": "Finished", "status": "True"}]),
            ),
        );
    assert_eq!(story.broken(), []);
}

#[test]
fn quota_is_exceeded_by_the_admission_that_exceeds_it() {
    let story = Story::admitted().put("Workload", "w-b", workload("b", 2, admission(2)));
    assert_eq!(story.broken(), []);
    let story = story.put("Workload", "w-c", workload("c", 1, admission(1)));
    assert_eq!(story.broken(), [Invariant::WithinQuota]);
}

#[test]
fn a_lowered_quota_is_exceeded_by_nobody_until_somebody_is_admitted() {
    let story = Story::admitted().put("ClusterQueue", "q", queue("", 1, json!({})));
    assert_eq!(story.broken(), []);
    let fewer = workload("a", 2, admission(1));
    assert_eq!(
        Story(story.0.clone())
            .put("Workload", "w-a", fewer)
            .broken(),
        []
    );
    let more = story.put("Workload", "w-b", workload("b", 1, admission(1)));
    assert_eq!(more.broken(), [Invariant::WithinQuota]);
}

/// A tree: cohort `root` has 1, cohort `c` below it has none; in `c` are `q` with 2 and `o` with 3.
#[test]
fn what_may_be_borrowed_is_what_others_lend() {
    let nothing = json!({});
    for (q, o, c, most) in [
        (&nothing, &nothing, &nothing, 6),
        (&json!({"borrowingLimit": 1}), &nothing, &nothing, 3),
        (&nothing, &json!({"lendingLimit": 2}), &nothing, 5),
        (&nothing, &json!({"lendingLimit": 0}), &nothing, 3),
        (&nothing, &nothing, &json!({"borrowingLimit": 0}), 5),
        (
            &json!({"borrowingLimit": "4"}),
            &json!({"lendingLimit": "1"}),
            &nothing,
            4,
        ),
    ] {
        let story = || {
            Story::default()
                .put("Cohort", "root", queue("", 1, json!({})))
                .put("Cohort", "c", queue("root", 0, c.clone()))
                .put("ClusterQueue", "q", queue("c", 2, q.clone()))
                .put("ClusterQueue", "o", queue("c", 3, o.clone()))
        };
        let fits = story().put("Workload", "w", workload("a", most, admission(most)));
        assert_eq!(fits.broken(), [], "{q} {o} {c}");
        let more = most + 1;
        let too_much = story().put("Workload", "w", workload("a", more, admission(more)));
        assert_eq!(too_much.broken(), [Invariant::WithinQuota], "{q} {o} {c}");
    }
}

/// The leader of term 1 admitted `b`, but that lay in a socket of a server that hung; the leader of term 2
/// has admitted `a` meanwhile.
#[test]
fn an_admission_of_a_term_that_has_ended_counts_when_it_is_taken_over() {
    let signed = |job: &str, term: &str| {
        with(
            workload(job, 3, admission(3)),
            "/status/admission/term",
            json!(term),
        )
    };
    let queue = || Story::default().put("ClusterQueue", "q", queue("", 4, json!({})));
    let story = || {
        let story = queue()
            .put("Lease", "l", lease(1))
            .put("Lease", "l", lease(2));
        story
            .put("Workload", "w-a", signed("a", "2.l"))
            .put("Workload", "w-b", signed("b", "1.l"))
    };
    assert_eq!(story().broken(), [], "it came in late, and does not count");
    let taken_back = story().put("Workload", "w-b", workload("b", 3, json!(null)));
    assert_eq!(taken_back.broken(), []);
    let taken_over = story().put("Workload", "w-b", signed("b", "2.l"));
    assert_eq!(taken_over.broken(), [Invariant::WithinQuota]);
    let released = story().put("Job", "b", job(false));
    assert_eq!(released.broken(), [Invariant::AdmittedFirst]);
    // The next leader may have listed it, and then it counts from the release on at the latest.
    let next = story()
        .put("Lease", "l", lease(3))
        .put("Job", "b", job(false));
    assert_eq!(next.broken(), [Invariant::WithinQuota]);
    let next_to_one_that_ended = story()
        .put("Job", "a", complete(job(false)))
        .put(
            "Workload",
            "w-a",
            with(
                signed("a", "2.l"),
                "/status/conditions",
                json!([{"type": "Finished", "status": "True"}]),
            ),
        )
        .put("Lease", "l", lease(3))
        .put("Job", "b", job(false));
    assert_eq!(next_to_one_that_ended.broken(), []);
    // In its time it counts, whoever leads next.
    let in_time = queue()
        .put("Lease", "l", lease(1))
        .put("Workload", "w-b", signed("b", "1.l"));
    let later = in_time
        .put("Lease", "l", lease(2))
        .put("Workload", "w-a", signed("a", "2.l"));
    assert_eq!(later.broken(), [Invariant::WithinQuota]);
}

/// The leader of term 3 can't tell whether that of term 2 has seen an admission of term 1, unless its job was released.
#[test]
fn an_admission_of_an_earlier_term_that_was_not_released_is_decided_again() {
    let signed = |job: &str, count: u32, term: &str| {
        with(
            workload(job, count, admission(count)),
            "/status/admission/term",
            json!(term),
        )
    };
    let story = |released: bool, in_second: u32| {
        let mut story = Story::default()
            .put("ClusterQueue", "q", queue("", 4, json!({})))
            .put("Lease", "l", lease(1))
            .put("Workload", "w-b", signed("b", 3, "1.l"))
            .put("Lease", "l", lease(2));
        if 0 < in_second {
            story = story.put("Workload", "w-c", signed("c", in_second, "2.l"));
        }
        let suspended = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
        let seen = with(job(true), "/status", suspended);
        let story = story.put("Job", "b", if released { job(false) } else { seen });
        story.put("Lease", "l", lease(3))
    };
    let others = |story: Story| story.put("Workload", "w-a", signed("a", 3, "3.l"));
    assert_eq!(others(story(false, 1)).broken(), [], "given to others");
    assert_eq!(
        others(story(true, 1)).broken(),
        [Invariant::WithinQuota],
        "it was released"
    );
    assert_eq!(
        others(story(false, 0)).broken(),
        [Invariant::WithinQuota],
        "the leader of term 2 has admitted nothing"
    );
    let ends = story(false, 1).put("Pod", "p", pod("b"));
    let ends = ends.put("Lease", "l", lease(4));
    let by_fourth = ends.put("Workload", "w-a", signed("a", 3, "4.l"));
    assert_eq!(by_fourth.broken(), [], "doubted in the term before");
    let runs = {
        let story = story(true, 1).put("Job", "b", complete(job(false)));
        story
            .put("Pod", "p", pod("b"))
            .put("Lease", "l", lease(4))
            .put("Workload", "w-a", signed("a", 3, "4.l"))
    };
    assert_eq!(
        runs.broken(),
        [Invariant::WithinQuota],
        "its pods are ending"
    );
    let taken_over = story(false, 1).put("Workload", "w-b", signed("b", 3, "3.l"));
    assert_eq!(taken_over.broken(), [], "kept");
    let released = others(story(false, 1)).put("Job", "b", job(false));
    assert_eq!(released.broken(), [Invariant::WithinQuota]);
}

/// The leader of term 2 gave the quota to a pod: that counts like a Workload.
#[test]
fn an_admission_that_is_older_than_that_of_a_pod_is_decided_again() {
    let signed = |job: &str, term: &str| {
        with(
            workload(job, 3, admission(3)),
            "/status/admission/term",
            json!(term),
        )
    };
    let story = |term: &str| {
        let record = json!({"clusterQueue": "q", "flavors": {"cpu": "f"}, "term": term});
        let record = json!({"sluice.dev/admitted": record.to_string()});
        let by_itself = with(pod("rs"), "/metadata/annotations", record);
        let waiting = with(pod("rs"), "/spec/schedulingGates", json!([{"name": GATE}]));
        let suspended = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
        Story::default()
            .put("ClusterQueue", "q", queue("", 4, json!({})))
            .put("Job", "b", with(job(true), "/status", suspended))
            .put("Lease", "l", lease(1))
            .put("Workload", "w-b", signed("b", "1.l"))
            .put("Pod", "p", waiting)
            .put("Lease", "l", lease(2))
            .put("Pod", "p", by_itself)
            .put("Lease", "l", lease(3))
            .put("Workload", "w-a", signed("a", "3.l"))
    };
    assert_eq!(story("2.l").broken(), [], "given to others");
    assert_eq!(story("1.l").broken(), [Invariant::WithinQuota]);
}

/// As its admission is its release, it runs until the present leader has seen it, which keeps or evicts it.
#[test]
fn a_pod_that_was_admitted_in_a_term_that_has_ended_counts_when_it_is_taken_over() {
    let admitted = |term: &str| {
        let record = json!({"clusterQueue": "q", "flavors": {"cpu": "f"}, "term": term});
        let record = json!({"sluice.dev/admitted": record.to_string()});
        with(pod("rs"), "/metadata/annotations", record)
    };
    let waiting = with(pod("rs"), "/spec/schedulingGates", json!([{"name": GATE}]));
    let story = || {
        Story::default()
            .put("ClusterQueue", "q", queue("", 1, json!({})))
            .put("Lease", "l", lease(1))
            .put("Pod", "p1", waiting.clone())
            .put("Pod", "p2", waiting.clone())
            .put("Lease", "l", lease(2))
            .put("Pod", "p2", admitted("2.l"))
            .put("Pod", "p1", admitted("1.l"))
    };
    assert_eq!(story().broken(), []);
    let taken_over = story().put("Pod", "p1", admitted("2.l"));
    assert_eq!(taken_over.broken(), [Invariant::WithinQuota]);
    let next_to_one_that_ended = story()
        .put("Pod", "p2", phase(admitted("2.l"), "Succeeded"))
        .put("Pod", "p1", admitted("2.l"));
    assert_eq!(next_to_one_that_ended.broken(), []);
    let in_time = Story::default()
        .put("ClusterQueue", "q", queue("", 1, json!({})))
        .put("Lease", "l", lease(1))
        .put("Pod", "p1", waiting.clone())
        .put("Pod", "p1", admitted("1.l"))
        .put("Pod", "p2", waiting.clone())
        .put("Lease", "l", lease(2))
        .put("Pod", "p2", admitted("2.l"));
    assert_eq!(in_time.broken(), [Invariant::WithinQuota]);
}

#[test]
fn a_pod_that_is_admitted_by_itself_is_counted() {
    let record = json!({"clusterQueue": "q", "flavors": {"cpu": "f"}}).to_string();
    let admitted = with(
        pod("rs"),
        "/metadata/annotations",
        json!({"sluice.dev/admitted": record}),
    );
    let waiting = with(pod("rs"), "/spec/schedulingGates", json!([{"name": GATE}]));
    let mut story = Story::default().put("ClusterQueue", "q", queue("", 2, json!({})));
    for name in ["p1", "p2"] {
        story = story
            .put("Pod", name, waiting.clone())
            .put("Pod", name, admitted.clone());
    }
    let story = story.put("Pod", "p3", waiting);
    assert_eq!(story.broken(), []);
    let unrecorded = Story(story.0.clone()).put("Pod", "p3", pod("rs"));
    assert_eq!(unrecorded.broken(), [Invariant::AdmittedFirst]);
    let third = Story(story.0.clone()).put("Pod", "p3", admitted.clone());
    assert_eq!(third.broken(), [Invariant::WithinQuota]);
    let after_one_ended = story.put("Pod", "p1", phase(admitted.clone(), "Failed"));
    assert_eq!(after_one_ended.put("Pod", "p3", admitted).broken(), []);
}

#[test]
fn the_amounts_are_what_the_pods_ask_for() {
    for (path, wrong) in [
        (
            "/status/admission/podSetAssignments/0/resourceUsage/cpu",
            json!("1"),
        ),
        ("/spec/podSets/0/requests/cpu", json!("500m")),
    ] {
        let wrong = with(workload("a", 2, admission(2)), path, wrong);
        let story = Story::of_one_job().put("Workload", "w-a", wrong);
        assert_eq!(story.broken(), [Invariant::RightAmounts], "{path}");
    }
}

#[test]
fn nothing_is_released_without_an_admission() {
    assert_eq!(
        Story::of_one_job().put("Job", "a", job(false)).broken(),
        [Invariant::AdmittedFirst]
    );
    assert_eq!(
        Story::default().put("Job", "a", job(false)).broken(),
        [Invariant::AdmittedFirst]
    );
    assert_eq!(Story::admitted().put("Job", "a", job(false)).broken(), []);
    // Nobody queued it.
    let unqueued = with(job(false), "/metadata/labels", json!({}));
    assert_eq!(Story::default().put("Job", "a", unqueued).broken(), []);
    // The Workload of another job of that name is not its own.
    let other = Story::default().put("Workload", "w", workload("before", 2, admission(2)));
    let story = other
        .put("ClusterQueue", "q", queue("", 4, json!({})))
        .put("Job", "a", job(false));
    assert!(
        check(&story.0)
            .iter()
            .any(|v| v.invariant == Invariant::AdmittedFirst)
    );
}

#[test]
fn nothing_goes_on_while_a_gate_is_left() {
    let held = Story::default().put("Job", "a", gated(job(true)));
    assert_eq!(held.broken(), []);
    let with_workload = Story(held.0.clone()).put("Workload", "w-a", workload("a", 2, json!(null)));
    assert_eq!(with_workload.broken(), [Invariant::GatesHold]);
    let with_pod = Story(held.0.clone()).put("Pod", "p", pod("a"));
    assert_eq!(with_pod.broken(), [Invariant::GatesHold]);
    let released = held.put("Job", "a", gated(job(false))).broken();
    assert!(released.contains(&Invariant::GatesHold), "{released:?}");
}

#[test]
fn sluice_lifts_no_gate_that_stands() {
    let gates = |names: &[&str]| {
        let gates: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        with(pod("a"), "/spec/schedulingGates", json!(gates))
    };
    let held = || {
        let owner = with(
            gated(job(true)),
            "/spec/template/spec/schedulingGates",
            json!([{"name": "acme.io/x"}]),
        );
        Story::default()
            .put("Job", "a", owner)
            .put("Pod", "p", gates(&["acme.io/x", GATE]))
    };
    let lifted = held().by_sluice("Pod", "p", gates(&[GATE]));
    assert_eq!(lifted.broken(), [Invariant::GatesHold]);
    assert_eq!(
        held().put("Pod", "p", gates(&[GATE])).broken(),
        [],
        "its user lifted it"
    );
}

#[test]
fn no_more_pods_run_than_were_admitted() {
    let story = Story::running;
    assert_eq!(
        story().put("Pod", "p3", pod("a")).broken(),
        [Invariant::NoMorePods]
    );
    let gated = with(pod("a"), "/spec/schedulingGates", json!([{"name": GATE}]));
    assert_eq!(story().put("Pod", "p3", gated).broken(), []);
    let replaced = story()
        .put("Pod", "p1", terminating(pod("a")))
        .put("Pod", "p3", pod("a"));
    assert_eq!(replaced.broken(), []);
}

#[test]
fn of_two_workloads_that_are_gone_the_last_one_counts() {
    let story = Story::default()
        .put("ClusterQueue", "q", queue("", 4, json!({})))
        .put("Job", "a", job(true))
        .put("Workload", "w-a", workload("a", 2, admission(2)))
        .gone("Workload", "w-a")
        .put("Workload", "w-a", workload("a", 2, admission(2)))
        .put("Pod", "p1", pod("a"))
        .gone("Job", "a")
        .gone("Workload", "w-a")
        .put("Workload", "w-b", workload("b", 3, admission(3)));
    assert_eq!(story.broken(), [], "one pod is left, and counts once");
}

#[test]
fn a_leader_can_not_know_what_was_gone_before_its_term() {
    let story = |is_over: bool| {
        let story = Story::default()
            .put("ClusterQueue", "q", queue("", 4, json!({})))
            .put("Lease", "sluice", lease(1))
            .put("Job", "a", job(true))
            .put("Workload", "w-a", workload("a", 2, admission(2)))
            .put("Pod", "p1", pod("a"))
            .gone("Job", "a")
            .gone("Workload", "w-a");
        let story = if is_over {
            story.put("Lease", "sluice", lease(2))
        } else {
            story
        };
        story.put("Workload", "w-b", workload("b", 4, admission(4)))
    };
    assert_eq!(story(false).broken(), [Invariant::WithinQuota]);
    assert_eq!(story(true).broken(), []);
}

#[test]
fn what_is_released_is_what_was_admitted() {
    let more = |field: &str, number: u8| with(job(false), field, json!(number));
    let grown = |completions: u8| {
        with(
            more("/spec/parallelism", 3),
            "/spec/completions",
            json!(completions),
        )
    };
    let cases = [
        ("as it was", job(false), None),
        ("with fewer", more("/spec/parallelism", 1), None),
        (
            "with more",
            more("/spec/parallelism", 3),
            Some(Invariant::NoMorePods),
        ),
        ("with more that never run", grown(2), None),
        ("with more that run", grown(3), Some(Invariant::NoMorePods)),
        (
            "to end: it is decided how, and no pod is made any more",
            with(
                grown(3),
                "/status",
                json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}),
            ),
            None,
        ),
    ];
    for (name, released, expected) in cases {
        let edited = with(released.clone(), "/spec/suspend", json!(true));
        let story = Story::admitted()
            .put("Job", "a", edited)
            .by_sluice("Job", "a", released);
        let broken = story.broken();
        assert_eq!(broken, Vec::from_iter(expected), "{name}");
    }
}

#[test]
fn quota_is_freed_when_the_work_has_ended() {
    let evicted = || workload("a", 2, json!(null));
    let reclaimed = || {
        with(
            workload("a", 2, admission(2)),
            "/status/reclaimablePods",
            json!([{"name": "main", "count": 1}]),
        )
    };
    let early = [Invariant::FreedAtTheEnd];
    assert_eq!(
        Story::running().put("Workload", "w-a", evicted()).broken(),
        early
    );
    assert_eq!(Story::running().gone("Workload", "w-a").broken(), early);
    assert_eq!(
        Story::running()
            .put("Workload", "w-a", reclaimed())
            .broken(),
        early
    );
    assert_eq!(
        Story::admitted()
            .put("Job", "a", job(false))
            .put("Workload", "w-a", evicted())
            .broken(),
        early
    );

    let all_reclaimed = || {
        let both = json!([{"name": "main", "count": 2}]);
        with(reclaimed(), "/status/reclaimablePods", both)
    };
    let decided = |status: &str| {
        let criteria = json!({"conditions": [{"type": "SuccessCriteriaMet", "status": status}]});
        let job = with(job(false), "/status", criteria);
        let ending = Story::running().put("Job", "a", job);
        let pods_gone = ending.gone("Pod", "p1").gone("Pod", "p2");
        pods_gone.put("Workload", "w-a", all_reclaimed())
    };
    assert_eq!(decided("True").broken(), []);
    assert_eq!(decided("False").broken(), early);

    let one_left = || {
        let suspended = Story::running()
            .put("Job", "a", job(true))
            .gone("Pod", "p1");
        suspended.put("Pod", "p2", terminating(pod("a")))
    };
    assert_eq!(one_left().put("Workload", "w-a", evicted()).broken(), early);
    assert_eq!(one_left().put("Workload", "w-a", reclaimed()).broken(), []);
    assert_eq!(
        one_left()
            .gone("Pod", "p2")
            .put("Workload", "w-a", evicted())
            .broken(),
        []
    );
}

#[test]
fn a_deleted_job_has_usage_until_its_pods_are_gone() {
    let deleted = || Story::running().gone("Job", "a").gone("Pod", "p1");
    let early = || deleted().put("Pod", "p2", terminating(pod("a")));
    assert_eq!(
        early()
            .put("Workload", "w-a", workload("a", 2, json!(null)))
            .broken(),
        [Invariant::FreedAfterDeletion]
    );
    // The garbage collector takes the Workload with the job: what it held stays in use.
    let next = |pods| workload("b", pods, admission(pods));
    let collected = || early().gone("Workload", "w-a");
    assert_eq!(
        collected().put("Workload", "w-b", next(4)).broken(),
        [Invariant::WithinQuota]
    );
    assert_eq!(collected().put("Workload", "w-b", next(3)).broken(), []);
    let story = collected().gone("Pod", "p2");
    assert_eq!(story.put("Workload", "w-b", next(4)).broken(), []);
}

#[test]
fn a_job_has_one_workload_with_one_admission() {
    let second = Story::admitted().put("Workload", "w-2", workload("a", 2, json!(null)));
    assert_eq!(second.broken(), [Invariant::Once]);
    let elsewhere = with(
        workload("a", 2, admission(2)),
        "/status/admission/clusterQueue",
        json!("o"),
    );
    let moved = Story::admitted().put("ClusterQueue", "o", queue("", 4, json!({})));
    assert_eq!(
        moved.put("Workload", "w-a", elsewhere).broken(),
        [Invariant::Once]
    );
    assert_eq!(
        Story::admitted()
            .put("Workload", "w-a", workload("a", 3, admission(3)))
            .broken(),
        [Invariant::Once]
    );
    assert_eq!(
        Story::admitted()
            .put("Workload", "w-a", workload("a", 2, admission(1)))
            .broken(),
        []
    );
}

#[test]
fn sluice_writes_only_what_is_its_own() {
    let released = || job(false);
    for (changed, path, value) in [
        (
            false,
            "/spec/template/spec/nodeSelector",
            json!({"pool": "spot"}),
        ),
        (
            false,
            "/metadata/annotations/sluice.dev~1released",
            json!("true"),
        ),
        (true, "/metadata/annotations/acme.io~1cost", json!("9")),
        (true, "/metadata/labels", json!({})),
        (
            true,
            "/spec/template/spec/containers/0/image",
            json!("evil"),
        ),
        (true, "/spec/backoffLimit", json!(9)),
        (true, "/unknown", json!("lost or made up")),
    ] {
        let story = Story::admitted().by_sluice("Job", "a", with(released(), path, value.clone()));
        assert_eq!(!story.broken().is_empty(), changed, "{path}");
        let by_user = Story::admitted().put("Job", "a", with(released(), path, value));
        assert!(!by_user.broken().contains(&Invariant::OwnFields), "{path}");
    }
}

#[test]
fn no_finalizer_of_sluice_on_a_job() {
    let with_finalizer = |name: &str| with(job(true), "/metadata/finalizers", json!([name]));
    let story = |name: &str| {
        Story::of_one_job()
            .put("Job", "a", with_finalizer(name))
            .broken()
    };
    assert_eq!(story("sluice.dev/quota"), [Invariant::NoFinalizer]);
    assert_eq!(story("batch.kubernetes.io/job-tracking"), []);
}

#[test]
fn at_the_end_everything_is_as_it_should_be() {
    let found = |story: Story| {
        let mut checker = Checker::default();
        story.0.iter().for_each(|revision| checker.apply(revision));
        let found = checker.unfinished("ns");
        found.into_iter().map(|v| v.found).collect::<Vec<_>>()
    };
    assert!(found(Story::of_one_job()).is_empty(), "it waits");
    assert!(found(Story::running()).is_empty(), "it runs");
    assert_eq!(
        found(Story::admitted()),
        ["it holds quota, and is suspended"]
    );
    let ended = Story::running().put("Job", "a", complete(job(false)));
    assert_eq!(found(ended), ["it has ended, and its Workload holds quota"]);
    let forgotten = Story::default().put("Job", "a", job(true));
    assert_eq!(
        found(forgotten),
        ["nothing holds it, and it has no Workload"]
    );
    let orphan = Story::admitted().gone("Job", "a");
    assert_eq!(found(orphan), ["it holds quota, and its owner is gone"]);
}
