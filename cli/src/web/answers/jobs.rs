//! All jobs.

use serde::Serialize;

use super::viewer::{Answer, Viewer};
use crate::live::jobs::Job;
use crate::live::list::tell_places;
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
        let objects = self.objects(namespace, &mut problems).await?;
        let mut jobs = objects.jobs();
        if let Err(why) = tell_places(&self.client, &mut jobs).await {
            let text = format!("places are counted among the jobs that you may list: {why}");
            problems.note(text);
        }
        Ok(Answer::new(Jobs { jobs }, problems))
    }
}
