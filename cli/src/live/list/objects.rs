//! The objects that jobs are seen by. Of each is kept what is shown, as it is read: whoever creates jobs and pods may make
//! them many and large.

use std::mem::size_of;
use std::ops::ControlFlow;

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use sluice_crds::{LocalQueue, MANAGED_LABEL, Workload};
use sluice_kinds::pod::PodMode;

use super::super::jobs::{Called, Job, jobs, of_pod, of_workload, read};
use super::super::listed::{each, list, unless_refused};
use super::super::outcome::LiveError;
use super::requests::{self, Requests};
use crate::cluster::{Tell, Told};
use crate::rules::queue_names::{QueueNames, has_unknown_queue, unknown_queue_note};

/// What takes memory besides the text of what is kept: a map with anything in it.
const BYTES_OF_MAP: usize = 1 << 10;

/// What is kept of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is not asked for.
    Nothing,
    /// The job.
    Job,
    /// What it requests and holds, too.
    Amounts,
}

/// What is to be kept of each job.
pub type KeepOf<'a> = dyn Fn(&Job) -> Keep + Send + Sync + 'a;

/// A job, as its Workload says it, or the pod if it is admitted by itself.
#[derive(Debug)]
pub struct Listed {
    /// The job.
    pub job: Job,
    /// What it requests, if that is asked for.
    pub requests: Requests,
    /// What it holds, if that is asked for.
    pub held: Requests,
}

/// A pod that is admitted with a group.
#[derive(Debug)]
struct Member {
    uid: String,
    name: String,
    group: String,
}

/// The objects that jobs are seen by, as far as they are kept.
#[derive(Debug)]
pub struct Objects {
    /// The LocalQueues.
    pub queues: Vec<LocalQueue>,
    /// The names by which jobs ask for them.
    pub names: QueueNames,
    listed: Vec<Listed>,
    members: Vec<Member>,
    /// Pods that ask for a queue by a name that is not known here.
    unknown: usize,
    /// How much more may be kept.
    bytes_left: usize,
    is_cut: bool,
}

impl Objects {
    /// These queues, before any job is read. What is kept of jobs takes so much memory at most.
    pub fn new(queues: Vec<LocalQueue>, names: QueueNames, bytes_max: usize) -> Self {
        Self {
            queues,
            names,
            listed: Vec::new(),
            members: Vec::new(),
            unknown: 0,
            bytes_left: bytes_max,
            is_cut: false,
        }
    }

    /// Those of a namespace, or of all. Who may not list pods sees the rest.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn list(
        client: &Client,
        namespace: Option<&str>,
        names: QueueNames,
        keep: &KeepOf<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<Self, LiveError> {
        let queues = list(client, namespace, None, tell).await?;
        let mut objects = Self::new(queues, names, usize::MAX);
        objects.add_workloads(client, namespace, keep, tell).await?;
        let pods = objects.add_pods(client, namespace, keep, tell).await;
        unless_refused("pods that are admitted by themselves", pods, tell)?;
        for note in objects.left_out() {
            tell(Told::Note(note))?;
        }
        Ok(objects)
    }

    /// Adds the jobs that Workloads stand for.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn add_workloads(
        &mut self,
        client: &Client,
        namespace: Option<&str>,
        keep: &KeepOf<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<(), LiveError> {
        each(client, namespace, None, tell, |workload: Workload| {
            let job = of_workload(&workload);
            let of = || (requests::of_workload(&workload), requests::held(&workload));
            self.add(job, keep, of)
        })
        .await
    }

    /// Adds the pods that are admitted by themselves, of all that Sluice manages.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn add_pods(
        &mut self,
        client: &Client,
        namespace: Option<&str>,
        keep: &KeepOf<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<(), LiveError> {
        let managed = format!("{MANAGED_LABEL}=true");
        each(client, namespace, Some(&managed), tell, |pod: Pod| {
            let Some((json, view)) = read(&pod, &self.names) else {
                return ControlFlow::Continue(());
            };
            if has_unknown_queue(&json, &view) {
                self.unknown = self.unknown.saturating_add(1);
            }
            drop(json);
            if let PodMode::Group(Ok(group)) = &view.mode {
                return self.add_member(Member {
                    uid: pod.uid().unwrap_or_default(),
                    name: pod.name_any(),
                    group: group.name.to_string(),
                });
            }
            match of_pod(&pod, &view) {
                Some(job) => self.add(job, keep, || {
                    (requests::of_pod(&view), requests::held_by_pod(&view))
                }),
                None => ControlFlow::Continue(()),
            }
        })
        .await
    }

    fn add(
        &mut self,
        job: Job,
        keep: &KeepOf<'_>,
        amounts: impl FnOnce() -> (Requests, Requests),
    ) -> ControlFlow<()> {
        let (requests, held) = match keep(&job) {
            Keep::Nothing => return ControlFlow::Continue(()),
            Keep::Job => (Requests::new(), Requests::new()),
            Keep::Amounts => amounts(),
        };
        let listed = Listed {
            job,
            requests,
            held,
        };
        self.keep_bytes(listed.bytes())?;
        self.listed.push(listed);
        ControlFlow::Continue(())
    }

    fn add_member(&mut self, member: Member) -> ControlFlow<()> {
        let Member { uid, name, group } = &member;
        let text = [uid, name, group].map(String::len).iter().sum::<usize>();
        self.keep_bytes(size_of::<Member>().saturating_add(text))?;
        self.members.push(member);
        ControlFlow::Continue(())
    }

    /// Breaks off if that is more than may be kept.
    fn keep_bytes(&mut self, bytes: usize) -> ControlFlow<()> {
        let left = self.bytes_left.checked_sub(bytes);
        self.is_cut |= left.is_none();
        self.bytes_left = left.unwrap_or_default();
        if self.is_cut {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The notes about what is left out: pods that ask for a queue by a name that is not known here, and what is too much.
    pub fn left_out(&self) -> impl Iterator<Item = String> {
        let cut = self.is_cut.then(|| {
            let jobs = self.listed.len();
            format!(
                "there are more jobs than one answer can hold: only {jobs} of them are known here"
            )
        });
        unknown_queue_note(self.unknown).into_iter().chain(cut)
    }

    /// The jobs, in no order, with what is kept of them besides.
    pub fn listed(&self) -> &[Listed] {
        &self.listed
    }

    /// The same, where nothing else is asked for any more.
    pub fn into_listed(self) -> Vec<Listed> {
        self.listed
    }

    /// The job that is called so.
    pub fn find(&self, called: Called<'_>) -> Option<&Listed> {
        self.listed.iter().find(|one| called.is_job(&one.job))
    }

    /// All jobs, in the order of their queues.
    pub fn jobs(&self) -> Vec<Job> {
        let own = self.listed.iter().map(|one| one.job.clone());
        jobs(own.collect(), &self.queues)
    }

    /// The same, where nothing else is asked for any more.
    pub fn into_jobs(self) -> Vec<Job> {
        let own = self.listed.into_iter().map(|one| one.job);
        jobs(own.collect(), &self.queues)
    }

    /// The group that a pod of this name is admitted with, if it is.
    pub fn group_of(&self, pod: &str) -> Option<String> {
        let mut members = self.members.iter();
        let member = members.find(|member| member.name == pod)?;
        Some(member.group.clone())
    }

    /// The pods that are admitted with a group, by their UIDs.
    pub fn members_of(&self, group: &str) -> impl Iterator<Item = String> {
        let members = self.members.iter();
        let own = members.filter(move |member| member.group == group);
        own.map(|member| member.uid.clone())
    }
}

impl Listed {
    /// What it takes of memory, also while it is ordered and written.
    fn bytes(&self) -> usize {
        let Self {
            job,
            requests,
            held,
        } = self;
        let text = serde_json::to_vec(&(job, requests, held)).map_or(0, |text| text.len());
        let maps = [requests, held].into_iter().filter(|map| !map.is_empty());
        let of_maps = maps.count().saturating_mul(BYTES_OF_MAP);
        let twice = size_of::<Self>().saturating_mul(2);
        text.saturating_mul(4)
            .saturating_add(twice)
            .saturating_add(of_maps)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A cluster of this many pods that wait by themselves, each with an annotation of this size that nobody asks for, and how
    /// many of them it has answered with.
    fn cluster(pods: usize, size: usize) -> (Client, Arc<AtomicUsize>) {
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = answered.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |name: &str| {
                let value = query.split('&').find_map(|one| one.strip_prefix(name));
                value.and_then(|value| value.parse::<usize>().ok())
            };
            let (limit, from) = (number("limit=").unwrap(), number("continue=").unwrap_or(0));
            let pod = |number: usize| {
                let gate = "sluice.dev/queue-allocation-gate";
                json!({
                    "metadata": {
                        "name": format!("p{number:06}"), "namespace": "blue", "uid": format!("u{number:06}"),
                        "creationTimestamp": "2026-03-01T11:20:00Z",
                        "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
                        "annotations": {gate: "true", "large": "x".repeat(size)},
                        "managedFields": [{"manager": "y".repeat(size / 8)}],
                    },
                    "spec": {"schedulingGates": [{"name": gate}], "containers": [{"name": "c"}]},
                })
            };
            let items: Vec<_> = (from..pods).take(limit).map(pod).collect();
            counted.fetch_add(items.len(), Ordering::Relaxed);
            let rest = from + items.len();
            let token = (rest < pods).then(|| rest.to_string());
            let page = json!({"metadata": {"continue": token}, "items": items}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(page.into_bytes()))) }
        });
        (Client::new(service, "default"), answered)
    }

    async fn read(client: &Client, bytes_max: usize) -> Objects {
        let mut objects = Objects::new(Vec::new(), QueueNames::default(), bytes_max);
        let (keep, mut tell) = (|_: &Job| Keep::Job, |_| Ok(()));
        let read = objects.add_pods(client, None, &keep, &mut tell);
        read.await.unwrap();
        objects
    }

    #[tokio::test]
    async fn what_is_not_shown_of_a_pod_is_not_kept() {
        let kept = async |size| {
            let objects = read(&cluster(20, size).0, 1 << 20).await;
            assert_eq!(objects.listed().len(), 20);
            (1 << 20) - objects.bytes_left
        };
        let small = kept(10).await;
        assert_eq!(kept(256 << 10).await, small);
        assert!(small < 20 * 4096, "{small}");
    }

    #[tokio::test]
    async fn what_is_too_much_is_neither_kept_nor_asked_for() {
        let (client, answered) = cluster(5000, 10);
        let objects = read(&client, 100 * 1024).await;
        let (kept, answered) = (objects.listed().len(), answered.load(Ordering::Relaxed));
        assert!(
            (1..100).contains(&kept) && answered <= 64,
            "{kept} of {answered}"
        );
        let notes: Vec<String> = objects.left_out().collect();
        assert_eq!(
            notes,
            [format!(
                "there are more jobs than one answer can hold: only {kept} of them are known here"
            )]
        );
        assert_eq!(objects.jobs().len(), kept);
    }

    /// Measures, and fails if much more is held than is kept. `docs/web.md` has the figures.
    #[tokio::test]
    #[ignore = "measures"]
    #[allow(clippy::print_stdout, reason = "a measurement prints its figures")]
    async fn what_large_pods_cost() {
        let peak = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("VmHWM:"));
            let line = line.unwrap().split_whitespace().nth(1).unwrap();
            line.parse::<usize>().unwrap() / 1024
        };
        let before = peak();
        let (client, _) = cluster(2000, 256 << 10);
        let bytes_max = 48 << 20;
        let (a, b, c) = tokio::join!(
            read(&client, bytes_max),
            read(&client, bytes_max),
            read(&client, bytes_max)
        );
        let kept = [a, b, c].map(|objects| objects.into_jobs().len());
        let after = peak();
        println!("three lists of 2000 pods of 256 KiB: from {before} MiB to {after} MiB");
        assert_eq!(kept, [2000; 3]);
        assert!(after < 200, "{after}");
    }
}
