//! Devices that the pods of jobs claim: they are counted when a job is seen, and anew for jobs that wait when
//! a template is there, is another one, or is gone. What was admitted keeps its usage.

use crate::cache::{JobKey, JobRecord};
use crate::controller::Controller;
use std::collections::BTreeSet;

impl Controller {
    /// Counts the devices that the pods of a job claim.
    pub(in crate::controller) fn count_devices(&self, key: &JobKey, record: &mut JobRecord) {
        let Ok(reading) = &mut record.reading else {
            return;
        };
        let Ok(pod_sets) = &reading.pod_sets else {
            return;
        };
        if let Some(counted) = self.cluster.devices.count(&key.namespace, pod_sets) {
            reading.pod_sets = Ok(counted);
        }
    }

    /// Counts the devices of those jobs anew that claim by templates which have changed.
    pub(in crate::controller) fn recount_devices(&mut self) {
        let changed = self.agenda.take_templates();
        let jobs: BTreeSet<JobKey> = (changed.iter())
            .flat_map(|template| self.objects.claimants(template))
            .cloned()
            .collect();
        for key in jobs {
            if let Some(record) = self.objects.job(&key).cloned() {
                self.job_seen(&key, record);
            }
        }
    }
}
