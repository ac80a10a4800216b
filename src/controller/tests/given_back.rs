//! What the release of a job has put into its templates, where the job loses its admission on another way than by an
//! eviction that ends as it should.

use super::*;
use crate::plan::{JobPatch, JobPurpose};

/// A job of four pods of which two will do, in a queue with quota for two, by a flavor with nodes of its own.
struct Placed {
    play: Play,
    job: Value,
    workload: DynamicObject,
    revision: u64,
}

impl Placed {
    /// It is released with two pods, which run.
    fn new() -> Self {
        let mut play = Play::new();
        play.list_settings();
        let mut flavor = own(
            "ResourceFlavor",
            "any",
            &json!({"nodeLabels": {"pool": "spot"}}),
        );
        flavor["metadata"]["resourceVersion"] = json!("6");
        play.observe(&Source::ResourceFlavor, Change::Applied(seen(flavor)));
        let mut job = job("a");
        job["metadata"]["annotations"]["sluice.dev/min-parallelism"] = json!("2");
        job["spec"]["parallelism"] = json!(4);
        job["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "500m"}});
        play.list_jobs([job.clone()]);
        let created = play.cycle().remove(0);
        let workload = stored(&created, 100);
        let mut placed = Self {
            play,
            job,
            workload: workload.clone(),
            revision: 100,
        };
        placed
            .play
            .end(created, Reply::Done(Some(Box::new(workload))));
        assert_eq!(placed.next(), "Admit");
        assert_eq!(placed.next(), "Release");
        assert!(placed.is_placed(), "{}", placed.job);
        placed.see(&json!({"active": 2, "conditions": [{"type": "Suspended", "status": "False"}]}));
        placed
    }

    fn revision(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    fn is_placed(&self) -> bool {
        let spec = &self.job["spec"];
        let found = (
            &spec["parallelism"],
            &spec["template"]["spec"]["nodeSelector"]["pool"],
        );
        found == (&json!(2), &json!("spot"))
    }

    /// The job is seen with this status.
    fn see(&mut self, status: &Value) {
        self.job["metadata"]["resourceVersion"] = json!(self.revision());
        self.job["status"] = status.clone();
        let jobs = self.play.jobs.clone().unwrap();
        self.play
            .observe(&jobs, Change::Applied(seen(self.job.clone())));
    }

    fn see_stopped(&mut self) {
        self.see(&json!({"conditions": [{"type": "Suspended", "status": "True"}]}));
    }

    fn see_without_workload(&mut self) {
        let gone = Box::new(self.workload.clone());
        self.play.observe(&Source::Workload, Change::Deleted(gone));
    }

    /// The next write for the job, which is done; in a word.
    fn next(&mut self) -> String {
        let mut writes = self.play.cycle().into_iter();
        let Some(sent) = writes.find(|write| write.subject == Subject::Job("uid-a".into())) else {
            return "nothing".to_owned();
        };
        let revision = self.revision();
        let (word, shown) = match &sent.write {
            Write::PatchJob { patch, purpose, .. } => {
                match patch {
                    JobPatch::Json(patch) | JobPatch::JsonOfStatus(patch) => {
                        json_patch::patch(&mut self.job, patch).unwrap();
                    }
                    JobPatch::Merge(patch) => json_patch::merge(&mut self.job, patch),
                }
                self.job["metadata"]["resourceVersion"] = json!(revision);
                let shown = serde_json::from_value(self.job.clone()).unwrap();
                (format!("{purpose:?}"), shown)
            }
            Write::SetWorkloadStatus {
                purpose, status, ..
            } => {
                self.workload.data["status"] = serde_json::to_value(status).unwrap();
                (format!("{purpose:?}"), self.workload.clone())
            }
            Write::UpdateWorkloadSpec { spec, .. } => {
                self.workload.data["spec"] = serde_json::to_value(spec).unwrap();
                ("UpdateSpec".to_owned(), self.workload.clone())
            }
            Write::CreateWorkload(_) => {
                self.workload = stored(&sent, self.revision);
                ("Create".to_owned(), self.workload.clone())
            }
            other => panic!("{other:?}"),
        };
        if !matches!(sent.write, Write::PatchJob { .. }) {
            self.workload.metadata.resource_version = Some(revision.clone());
        }
        let mut shown: DynamicObject = shown;
        shown.metadata.resource_version = Some(revision);
        self.play.end(sent, Reply::Done(Some(Box::new(shown))));
        word
    }

    /// The next write that is no explanation.
    fn next_step(&mut self) -> String {
        loop {
            let word = self.next();
            if word != format!("{:?}", StatusPurpose::Explain) {
                return word;
            }
        }
    }

    /// Whether its Workload asks for what the user wrote.
    fn asks_for_its_own(&self) -> bool {
        let set = &self.workload.data["spec"]["podSets"][0];
        set["count"] == 4 && set["nodeSelector"].is_null()
    }
}

/// Else it would never run in another flavor, nor with all its pods.
#[tokio::test]
async fn a_job_that_loses_its_workload_is_queued_as_its_user_wrote_it() {
    let mut placed = Placed::new();
    placed.see_without_workload();
    assert_eq!(placed.next(), format!("{:?}", JobPurpose::Suspend));
    assert_eq!(placed.next(), "nothing", "its pods run");
    placed.see_stopped();
    assert_eq!(placed.next(), format!("{:?}", JobPurpose::Restore));
    assert_eq!(placed.next(), "Create");
    assert!(!placed.is_placed() && placed.asks_for_its_own());
}

/// Its quota is free for others meanwhile.
#[tokio::test]
async fn a_job_that_can_t_be_read_while_it_is_evicted_is_queued_as_its_user_wrote_it_once_it_can_be()
 {
    let mut placed = Placed::new();
    placed
        .play
        .edit_queue(33, |spec| spec["stopPolicy"] = json!("HoldAndDrain"));
    assert_eq!(placed.next(), "Evict");
    assert_eq!(placed.next(), "Suspend");
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let template = |job: &mut Value, cpu: &str| {
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = requests(cpu);
    };
    template(&mut placed.job, "much");
    placed.see_stopped();
    assert_eq!(placed.next(), "Requeue");
    assert_eq!(placed.next_step(), "nothing");
    placed.play.edit_queue(34, |_| ());
    template(&mut placed.job, "500m");
    placed.see_stopped();
    assert_eq!(placed.next_step(), "Restore");
    assert_eq!(placed.next_step(), "Admit");
    assert!(!placed.is_placed() && placed.asks_for_its_own());
}

/// What the user writes after that is the user's own, though it is what Sluice wrote.
#[tokio::test]
async fn what_is_given_back_is_so_once() {
    let mut placed = Placed::new();
    placed.see_without_workload();
    let template = placed.job["spec"]["template"].clone();
    placed.next();
    placed.see_stopped();
    let steps = [placed.next(), placed.next()];
    assert_eq!(steps, ["Restore", "Create"]);
    placed
        .play
        .edit_queue(33, |spec| spec["stopPolicy"] = json!("Hold"));
    placed.next_step();
    placed.job["spec"]["template"] = template;
    placed.see_stopped();
    assert_eq!(placed.next_step(), "UpdateSpec");
    assert!(!placed.asks_for_its_own());
}
