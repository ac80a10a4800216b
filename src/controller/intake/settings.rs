//! Taking in what jobs are judged by: queues, flavors, classes, Gates, namespaces, and what these add to pods. What each
//! says is read in `cache/cluster.rs`.

use kube::api::DynamicObject;
use sluice_kinds::pod::PodMode;

use crate::cache::{Source, Subject, Uid};
use crate::controller::Controller;

impl Controller {
    /// Takes in a queue, a flavor, a class, a Gate, a namespace or what is added to pods; `None` if it is gone.
    pub(in crate::controller) fn setting(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) {
        match self.cluster.change(source, namespace, name, object) {
            Ok(effect) => {
                self.note_readable(source, namespace, name);
                for event in effect.events {
                    self.engine.apply(event);
                }
                if effect.priorities {
                    let jobs = self.objects.jobs();
                    let subjects = jobs.map(|(_, job)| Subject::Job(job.uid.clone()));
                    let subjects: Vec<_> = subjects.collect();
                    self.agenda.sync_all(subjects.iter().cloned());
                    self.agenda.plan_all(subjects);
                    self.look_at_all_pods();
                }
                self.agenda.recount_claims(effect.template);
                if let Some(added) = effect.added {
                    self.additions_changed(&added);
                }
                if let Some(gate) = effect.gate {
                    self.gate_changed(&gate);
                }
                if effect.keeps {
                    self.look_at_all_pods();
                }
                if effect.first_choice {
                    self.recharge_unrecorded_pods();
                }
                if object.is_none() && *source == Source::Gate {
                    self.metrics.forget_gate(name);
                }
                if object.is_none() && *source == Source::ClusterQueue {
                    self.metrics.forget_queue(name);
                }
                if object.is_none() && *source == Source::LocalQueue {
                    self.metrics.forget_local_queue(namespace, name);
                }
            }
            Err(unreadable) => {
                for event in unreadable.events {
                    self.engine.apply(event);
                }
                if let Some(object) = object {
                    let about = source.reference(&object.metadata);
                    let (error, is_in_force) = (unreadable.error, unreadable.is_in_force);
                    self.note_unreadable(source, about, &error, is_in_force);
                }
            }
        }
    }

    /// Looks again at all pods that are admitted by themselves.
    fn look_at_all_pods(&mut self) {
        let uids: Vec<Uid> = self
            .objects
            .pods
            .all()
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.pod_changed(&uid);
        }
    }

    /// What runs without a record of its admission has usage in the flavors that its queue says.
    fn recharge_unrecorded_pods(&mut self) {
        let uids: Vec<Uid> = self
            .objects
            .pods
            .all()
            .filter(|(_, pod)| pod.mode == PodMode::Single && pod.is_released())
            .filter(|(_, pod)| pod.recorded_admission().is_none())
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.sync_pod(&uid);
        }
    }
}
