//! Jobs whose templates lose the label by which their pods are seen.

use super::*;

/// The CRDs of some kinds drop it from the first: nothing is done about these.
#[tokio::test]
async fn a_running_job_that_loses_the_label_of_its_pods_is_evicted() {
    let rows = [
        ("it stays", vec![true, true], false),
        ("it never was there", vec![false, false], false),
        ("it goes", vec![true, false], true),
        (
            "it goes, and more is edited",
            vec![true, false, false],
            true,
        ),
        ("it comes back", vec![true, false, true], false),
    ];
    for (name, labels, is_evicted) in rows {
        let mut play = Play::new();
        play.admit("a");
        let jobs = play.jobs.clone().unwrap();
        for (is_labelled, revision) in labels.into_iter().zip(30..) {
            let mut running = job("a");
            running["metadata"]["resourceVersion"] = json!(revision.to_string());
            running["spec"]["suspend"] = json!(false);
            running["status"] = json!({"active": 1});
            running["metadata"]["annotations"]["sluice.dev/held"] = json!("false");
            if is_labelled {
                let labels = json!({"sluice.dev/managed": "true"});
                running["spec"]["template"]["metadata"] = json!({"labels": labels});
            }
            play.observe(&jobs, Change::Applied(seen(running)));
        }
        let told: Vec<_> = (play.cycle().into_iter())
            .flat_map(|write| write.notes)
            .map(|note| note.message)
            .collect();
        let expected = "The label sluice.dev/managed was removed from the pod template of pod set \"main\", and pods without it can't be counted: queued again";
        assert_eq!(
            told.iter().any(|told| told == expected),
            is_evicted,
            "{name}: {told:?}"
        );
    }
}
