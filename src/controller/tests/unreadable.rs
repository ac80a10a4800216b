//! Objects of Sluice's own that are stored in a form that can't be read.

use super::*;

impl Play {
    /// What is told of objects in one cycle, and the writes.
    pub(super) fn told(&mut self) -> (Vec<String>, Vec<InFlightWrite>) {
        let (mut told, mut writes) = (Vec::new(), Vec::new());
        for output in self.controller.cycle(self.now) {
            match output {
                Output::Tell(about, note) => told.push(format!(
                    "{} {}: {}",
                    about.kind.unwrap_or_default(),
                    note.reason,
                    note.message
                )),
                Output::Write(write) => writes.push(write),
                _ => {}
            }
        }
        (told, writes)
    }

    fn unreadable(&self, kind: &str) -> Option<String> {
        let text = self
            .controller
            .metrics
            .text(crate::process::metrics::Exposition::Text);
        let series = format!("sluice_unreadable_objects{{kind=\"{kind}\"}} ");
        let mut found = text.lines().filter_map(|line| line.strip_prefix(&series));
        found.next().map(str::to_owned)
    }

    /// Queues these jobs. Returns the writes that follow, the first of which are admissions.
    fn queue(&mut self, created: Vec<InFlightWrite>) -> Vec<InFlightWrite> {
        for (write, revision) in created.into_iter().zip(8..) {
            let stored = stored(&write, revision);
            self.end(write, Reply::Done(Some(Box::new(stored))));
        }
        self.cycle()
    }
}

/// The settings of [`Play::list_settings`], with one of them in a form that can't be read.
fn unreadable_at_the_start(unreadable: &Source, bad: &Value) -> Play {
    let mut play = Play::new();
    let mut kind: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    kind["metadata"]["uid"] = json!("JobKind-job");
    for source in FIXED_SOURCES {
        let object = match source {
            Source::JobKind => kind.clone(),
            Source::ResourceFlavor => own("ResourceFlavor", "any", &json!({})),
            Source::ClusterQueue => own("ClusterQueue", "q", &queue_spec()),
            Source::LocalQueue => local_queue(),
            Source::Namespace => json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}}),
            _ => {
                play.list(&source, []);
                continue;
            }
        };
        let object = if source == *unreadable {
            with_spec(object, bad)
        } else {
            object
        };
        play.list(&source, [object]);
    }
    play
}

fn with_spec(mut object: Value, spec: &Value) -> Value {
    object["spec"] = spec.clone();
    object["metadata"]["resourceVersion"] = json!("20");
    object
}

/// What was known of a setting before stays in force.
#[tokio::test]
async fn settings_that_become_unreadable_stay_in_force() {
    let bad_queue = json!({"resourceGroups": "none"});
    let bad_flavor = json!({"nodeLabels": 7});
    let bad_local = json!({"clusterQueue": {}});
    for (source, object) in [
        (
            Source::ClusterQueue,
            with_spec(own("ClusterQueue", "q", &json!({})), &bad_queue),
        ),
        (
            Source::ResourceFlavor,
            with_spec(own("ResourceFlavor", "any", &json!({})), &bad_flavor),
        ),
        (Source::LocalQueue, with_spec(local_queue(), &bad_local)),
    ] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([job("a")]);
        let created = play.cycle();
        play.observe(&source, Change::Applied(seen(object.clone())));
        let (told, _) = play.told();
        assert!(
            told[0].starts_with(&format!("{kind} Unreadable: This {kind} can't be read: "))
                && told[0].ends_with("; what it said before stays in force"),
            "{told:?}"
        );
        assert_eq!(play.unreadable(&kind).as_deref(), Some("1"));
        let admitted = play.queue(created);
        assert!(admitted.iter().any(is_admitted), "{kind}: {admitted:?}");
        // It is told once.
        play.observe(&source, Change::Applied(seen(object.clone())));
        assert!(play.told().0.is_empty());
        // Once it is gone nothing is counted.
        let gone: DynamicObject = serde_json::from_value(object).unwrap();
        play.observe(&source, Change::Deleted(Box::new(gone)));
        assert_eq!(play.unreadable(&kind).as_deref(), Some("0"));
    }
}

/// After a restart nothing is known of it: what depends on it waits until it can be read.
#[tokio::test]
async fn settings_of_which_nothing_is_known_hold() {
    let good_local = json!({"clusterQueue": "q"});
    for (source, good, bad) in [
        (
            Source::ClusterQueue,
            queue_spec(),
            json!({"resourceGroups": "none"}),
        ),
        (Source::ResourceFlavor, json!({}), json!({"nodeLabels": 7})),
        (
            Source::LocalQueue,
            good_local,
            json!({"clusterQueue": "q", "stopPolicy": "Never"}),
        ),
    ] {
        let mut play = unreadable_at_the_start(&source, &bad);
        play.list_jobs([job("a")]);
        let (_, created) = play.told();
        let writes = play.queue(created);
        assert!(!writes.iter().any(is_admitted), "{source:?}: {writes:?}");
        let readable = match source {
            Source::LocalQueue => with_spec(local_queue(), &good),
            Source::ClusterQueue => with_spec(own("ClusterQueue", "q", &json!({})), &good),
            _ => with_spec(own("ResourceFlavor", "any", &json!({})), &good),
        };
        play.observe(&source, Change::Applied(seen(readable)));
        let writes = play.cycle();
        assert!(writes.iter().any(is_admitted), "{source:?}: {writes:?}");
    }
}

#[tokio::test]
async fn a_job_kind_that_cannot_be_read_is_told_and_comes_back() {
    let bad = json!({"group": "batch", "version": "v1", "kind": "Job", "podSets": "none"});
    let mut play = unreadable_at_the_start(&Source::JobKind, &bad);
    let (told, _) = play.told();
    assert!(
        told[0].starts_with("JobKind Unreadable: This JobKind can't be read: ")
            && told[0].ends_with("; nothing is known of it, and what depends on it waits"),
        "{told:?}"
    );
    let state = play.controller.kinds.watch_states().next().unwrap().2;
    assert!(
        matches!(
            &state,
            kinds::watch_state::WatchState::Unavailable {
                reason: kinds::watch_state::UnavailableReason::Invalid,
                ..
            }
        ),
        "{state:?}"
    );
    let mut good: Value =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    good["metadata"]["resourceVersion"] = json!("21");
    play.observe(&Source::JobKind, Change::Applied(seen(good.clone())));
    assert_eq!(play.unreadable("JobKind").as_deref(), Some("0"));
    play.list_jobs([job("a")]);
    let created = play.cycle();
    let admitted = play.queue(created);
    assert!(admitted.iter().any(is_admitted), "{admitted:?}");
    // Once it is known, it stays in force.
    play.observe(
        &Source::JobKind,
        Change::Applied(seen(with_spec(good, &bad))),
    );
    let (told, _) = play.told();
    assert!(
        told[0].ends_with("; what it said before stays in force"),
        "{told:?}"
    );
}

/// A Workload keeps what it was admitted with, whatever is wrong with its spec.
#[tokio::test]
async fn a_workload_that_cannot_be_read_holds_its_quota() {
    let uncountable = json!([{"name": "main", "count": 1, "requests": {"cpu": "1e40"}}]);
    for pod_sets in [json!("none"), uncountable] {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([job("a"), job("b")]);
        let created = play.cycle();
        let workload = stored(&created[0], 8);
        let admission = play.queue(created).remove(0);
        assert!(is_admitted(&admission));
        let Reply::Done(Some(mut admitted)) = with_status(&workload, &admission, 30) else {
            panic!("it is done");
        };
        let reply = with_status(&workload, &admission, 30);
        play.end(admission, reply);
        let releases = play.cycle();
        assert_eq!(releases.len(), 1, "{releases:?}");
        let mut running = job("a");
        running["metadata"]["resourceVersion"] = json!("31");
        running["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
        running["spec"]["suspend"] = json!(false);
        running["status"] = json!({"active": 1});
        let running: DynamicObject = serde_json::from_value(running).unwrap();
        for release in releases {
            play.end(release, Reply::Done(Some(Box::new(running.clone()))));
        }
        admitted.data["spec"]["podSets"] = pod_sets;
        admitted.metadata.resource_version = Some("40".to_owned());
        let changed = Seen::Object(admitted.clone());
        play.observe(&Source::Workload, Change::Applied(changed));
        let (told, writes) = play.told();
        assert!(writes.is_empty(), "it runs on, and b waits: {writes:?}");
        let of_workload = told
            .iter()
            .find(|told| told.starts_with("Workload Unreadable"));
        let of_workload = of_workload.unwrap();
        assert!(
            of_workload.ends_with("; it keeps the quota that it was admitted with"),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|told| told.starts_with("Job WorkloadUnreadable")),
            "{told:?}"
        );
        let holds = |play: &Play| {
            let id = Subject::Job("uid-a".into()).id();
            play.controller.engine.admission(&id).is_some()
        };
        assert!(holds(&play));
    }
}
