//! How cohorts and LocalQueues stand, as metrics have it.

use super::*;
use crate::controller::reports::levels::Levels;
use crate::process::metrics::Exposition;

impl Play {
    /// What metrics say, of those whose name begins with this.
    fn measured(&mut self, prefix: &str) -> Vec<String> {
        self.controller.publish_levels();
        let text = self.controller.metrics.text(Exposition::Text);
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.map(str::to_owned).collect()
    }

    fn change(&mut self, source: &Source, object: Value) {
        self.observe(source, Change::Applied(seen(object)));
    }
}

fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

/// One job holds the cpu of the queue, and another waits.
fn mk_play() -> Play {
    let mut play = Play::new();
    play.controller.levels = Levels::new(true);
    play.admit("a");
    play.change(play.jobs.clone().as_ref().unwrap(), job("b"));
    let created = play.cycle().into_iter().find(is_created).unwrap();
    let mut stored = stored(&created, 30);
    stored.data["status"] = json!({"conditions": [{"type": "QuotaReserved", "status": "False",
        "reason": "WaitingForQuota", "message": "", "lastTransitionTime": "2026-11-23T11:30:00Z"}]});
    play.end(created, Reply::Done(Some(Box::new(stored))));
    play
}

#[tokio::test]
async fn a_cohort_is_measured_with_all_below_it() {
    let mut play = mk_play();
    let quota = json!([{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [
        {"name": "cpu", "nominalQuota": "2", "lendingLimit": "500m"}]}]}]);
    let team = own(
        "Cohort",
        "team",
        &json!({"parentName": "all", "resourceGroups": quota}),
    );
    play.change(&Source::Cohort, team);
    let mut queue = queue_spec();
    queue["cohortName"] = json!("team");
    play.change(&Source::ClusterQueue, own("ClusterQueue", "q", &queue));
    let places = play.measured("sluice_cluster_queue_info");
    let place = "parent_cohort=\"team\",root_cohort=\"all\"";
    assert_eq!(
        places,
        [format!(
            "sluice_cluster_queue_info{{cluster_queue=\"q\",{place}}} 1"
        )]
    );
    let told = play.measured("sluice_cohort_").join("\n");
    let told = told.replace("flavor=\"any\",resource=\"cpu\"", "…");
    assert_eq!(
        lines(&told),
        lines(
            r#"
    sluice_cohort_info{cohort="all",parent_cohort="",root_cohort="all"} 1
    sluice_cohort_info{cohort="team",parent_cohort="all",root_cohort="all"} 1
    sluice_cohort_nominal_quota{cohort="team",…} 2
    sluice_cohort_lending_limit{cohort="team",…} 0.5
    sluice_cohort_subtree_quota{cohort="all",…} 0.5
    sluice_cohort_subtree_quota{cohort="team",…} 3
    sluice_cohort_resource_usage{cohort="all",…} 0
    sluice_cohort_resource_usage{cohort="team",…} 1
    sluice_cohort_resource_borrowed{cohort="all",…} 0
    sluice_cohort_resource_borrowed{cohort="team",…} 0
    sluice_cohort_subtree_resource_reservations{cohort="all",…} 1
    sluice_cohort_subtree_resource_reservations{cohort="team",…} 1
    sluice_cohort_subtree_resource_reserved{cohort="all",…} 1
    sluice_cohort_subtree_resource_reserved{cohort="team",…} 1
    sluice_cohort_subtree_resource_pending{cohort="all",resource="cpu"} 1
    sluice_cohort_subtree_resource_pending{cohort="team",resource="cpu"} 1
    sluice_cohort_subtree_admitted_active_workloads{cohort="all"} 1
    sluice_cohort_subtree_admitted_active_workloads{cohort="team"} 1
    "#
        )
    );
    // A circle has no root, and an end all the same.
    let all = own("Cohort", "all", &json!({"parentName": "team"}));
    play.change(&Source::Cohort, all);
    let told = play.measured("sluice_cohort_").join("\n");
    let told = told.replace("flavor=\"any\",resource=\"cpu\"", "…");
    assert_eq!(
        lines(&told),
        lines(
            r#"
    sluice_cohort_info{cohort="all",parent_cohort="team",root_cohort=""} 1
    sluice_cohort_info{cohort="team",parent_cohort="all",root_cohort=""} 1
    sluice_cohort_nominal_quota{cohort="team",…} 2
    sluice_cohort_lending_limit{cohort="team",…} 0.5
    "#
        )
    );
}

#[tokio::test]
async fn a_local_queue_is_measured_until_it_is_gone() {
    let mut play = mk_play();
    let measured = |play: &mut Play| {
        let lines = play.measured("sluice_local_queue_").into_iter();
        let lines = lines.filter(|line| !line.contains("_bucket"));
        let lines: Vec<String> = lines.collect();
        let told = lines
            .join("\n")
            .replace("namespace=\"blue\",name=\"main\"", "…");
        told.replace("flavor=\"any\",resource=\"cpu\"", "…")
    };
    assert_eq!(
        lines(&measured(&mut play)),
        lines(
            r#"
    sluice_local_queue_admitted_workloads_total{…,priority_class=""} 1
    sluice_local_queue_admission_wait_time_seconds_sum{…,priority_class=""} 0.0
    sluice_local_queue_admission_wait_time_seconds_count{…,priority_class=""} 1
    sluice_local_queue_pending_workloads{…} 1
    sluice_local_queue_pending_workloads_by_reason{…,reason="WaitingForQuota"} 1
    sluice_local_queue_resource_pending{…,resource="cpu"} 1
    sluice_local_queue_resource_pending{…,resource="pods"} 1
    sluice_local_queue_reserving_active_workloads{…} 1
    sluice_local_queue_admitted_active_workloads{…} 1
    sluice_local_queue_status{…,active="False"} 0
    sluice_local_queue_status{…,active="True"} 1
    sluice_local_queue_resource_usage{…,…} 1
    sluice_local_queue_resource_reserved{…,…} 1
    "#
        )
    );
    let gone = serde_json::from_value(local_queue()).unwrap();
    play.observe(&Source::LocalQueue, Change::Deleted(Box::new(gone)));
    assert_eq!(measured(&mut play), "");
}
