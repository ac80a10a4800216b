//! All jobs.

use serde::Serialize;

use super::viewer::{Answer, Viewer};
use super::waiting::LISTED_MAX;
use crate::live::jobs::Job;
use crate::live::list::{Keep, tell_places};
use crate::web::problem::{Problem, Problems};

/// The jobs that the caller may see.
#[derive(Debug, Serialize)]
pub struct Jobs {
    /// As `kubectl sluice list --finished -o json` prints them.
    jobs: Vec<Job>,
}

impl Viewer {
    /// The jobs of a namespace, or of all.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn jobs(&self, namespace: Option<&str>) -> Result<Answer<Jobs>, Problem> {
        let mut problems = Problems::default();
        let queues = self.local_queues(namespace, &mut problems).await?;
        let keep = |_: &Job| Keep::Job;
        let objects = self
            .objects(namespace, queues, &keep, &mut problems)
            .await?;
        let mut jobs = objects.into_jobs();
        let told = tell_places(&self.client, &mut jobs, LISTED_MAX).await;
        let told = told.unwrap_or_else(|why| {
            Some(format!(
                "places are counted among the jobs that you may list: {why}"
            ))
        });
        if let Some(text) = told {
            problems.note(text);
        }
        Ok(Answer::new(Jobs { jobs }, problems))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::live::tests::with_a_pod_of_kueue;
    use crate::rules::queue_names::{QueueAliases, QueueNames};
    use crate::simulate::Assumed;

    #[tokio::test]
    async fn pods_that_are_queued_by_an_alias_are_shown_or_told_of() {
        let shown = async |names| {
            let assumed = Assumed {
                names,
                ..Assumed::default()
            };
            let (client, namespace) = (with_a_pod_of_kueue(), "blue".to_owned());
            let viewer = Viewer::new(client, String::new(), namespace, assumed);
            let answer = viewer.jobs(Some("blue")).await.unwrap();
            let answer = serde_json::to_value(&answer).unwrap();
            let notes = answer["problems"].to_string();
            (answer["jobs"][0]["name"].clone(), notes)
        };
        let (name, notes) = shown(QueueNames::default()).await;
        assert!(
            name.is_null() && notes.contains("1 pod that Sluice manages"),
            "{notes}"
        );
        let (name, notes) = shown(QueueAliases::of_kueue().names()).await;
        assert_eq!(name, json!("web-1"));
        assert!(!notes.contains("left out"), "{notes}");
    }
}
