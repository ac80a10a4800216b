//! Which priority classes members of a group may name.

use super::*;

/// A pod of a group of two, of this PriorityClass.
fn member(name: &str, minute: u32, class: &str) -> Value {
    let mut pod = unqueued::member();
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(name);
    metadata["uid"] = json!(format!("uid-{name}"));
    metadata["creationTimestamp"] = json!(format!("2026-11-23T11:{minute:02}:00Z"));
    let spec = &mut pod["spec"];
    spec["containers"][0]["resources"]["requests"]["cpu"] = json!("500m");
    spec["priorityClassName"] = json!(class);
    pod
}

/// The scheduler goes by the class of each pod.
#[tokio::test]
async fn all_pods_of_a_group_name_classes_that_are_allowed() {
    for (classes, is_allowed) in [
        (["low", "low"], true),
        (["high", "low"], false),
        (["low", "high"], false),
    ] {
        let mut play = Play::new();
        play.list_settings();
        play.list_jobs([]);
        let mut spec = queue_spec();
        spec["priorityClasses"] = json!({"allowed": ["low"]});
        let mut queue = own("ClusterQueue", "q", &spec);
        queue["metadata"]["resourceVersion"] = json!("6");
        play.observe(&Source::ClusterQueue, Change::Applied(seen(queue)));
        for (minute, class) in (0..).zip(classes) {
            let pod = member(&format!("p{minute}"), minute, class);
            play.observe(&Source::Pod, Change::Applied(seen(pod)));
        }
        let created = play.cycle().remove(0);
        let mut notes = created.notes.iter();
        let is_refused = notes.any(|note| note.reason == "PriorityClassNotAllowed");
        assert_eq!(is_refused, !is_allowed, "{classes:?}");
        let workload = stored(&created, 20);
        play.end(created, Reply::Done(Some(Box::new(workload))));
        let is_admitted = play.cycle().iter().any(is_admitted);
        assert_eq!(is_admitted, is_allowed, "{classes:?}");
    }
}
