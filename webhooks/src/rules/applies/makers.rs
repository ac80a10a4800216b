//! Objects of Kubernetes itself that make jobs or pods and that no JobKind declares: nothing can hold them, so they are judged
//! by the template of what they make. The one table of them; what is asked of them is in `pod_controllers`, for Gates, and
//! in `enforcement::owners_without_jobkind`, where a queue is required.

use crate::admission::policy::Policy;
use crate::admission::request::Request;

/// Where those that make pods have the template.
pub(crate) const POD_TEMPLATE: &str = "spec.template";

/// A kind of such objects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    /// Its API group.
    pub(crate) group: &'static str,
    /// Its plural name.
    pub(crate) resource: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
    /// What it makes.
    pub(crate) makes: &'static str,
    /// The path of what it makes.
    pub(crate) template: &'static str,
    /// Whether that is judged when it is made. What controllers make pods of is not.
    pub(crate) is_judged_later: bool,
    /// Whether what it makes is to name a queue where one is required. Pods of DaemonSets are never
    /// refused there.
    pub(crate) needs_queue: bool,
}

impl Maker {
    /// Whether it makes pods, and not jobs: Gates are asked about these by the template.
    pub(crate) fn makes_pods(&self) -> bool {
        self.template == POD_TEMPLATE
    }

    /// Whether what it makes is to name a queue where one is required. Jobs that no JobKind reads are not: they run.
    pub(crate) fn must_name_queue(&self, policy: &Policy) -> bool {
        self.needs_queue && (!self.is_judged_later || policy.manages("batch", "Job"))
    }
}

/// All of them.
const MAKERS: [Maker; 4] = [
    Maker {
        group: "batch",
        resource: "cronjobs",
        kind: "CronJob",
        makes: "Jobs",
        template: "spec.jobTemplate",
        is_judged_later: true,
        needs_queue: true,
    },
    Maker {
        group: "apps",
        resource: "replicasets",
        kind: "ReplicaSet",
        makes: "pods",
        template: POD_TEMPLATE,
        is_judged_later: false,
        needs_queue: true,
    },
    Maker {
        group: "",
        resource: "replicationcontrollers",
        kind: "ReplicationController",
        makes: "pods",
        template: POD_TEMPLATE,
        is_judged_later: false,
        needs_queue: true,
    },
    Maker {
        group: "apps",
        resource: "daemonsets",
        kind: "DaemonSet",
        makes: "pods",
        template: POD_TEMPLATE,
        is_judged_later: false,
        needs_queue: false,
    },
];

/// Those that make pods, about which Gates are asked.
pub(crate) fn of_pods() -> impl Iterator<Item = &'static Maker> + Clone {
    MAKERS.iter().filter(|maker| maker.makes_pods())
}

/// Those whose jobs or pods are to name a queue where one is required.
pub(crate) fn that_need_queues() -> impl Iterator<Item = &'static Maker> + Clone {
    MAKERS.iter().filter(|maker| maker.needs_queue)
}

/// The kind of maker that `request` is about, unless a JobKind declares it.
pub(crate) fn of(request: &Request, policy: &Policy) -> Option<&'static Maker> {
    let (group, kind) = (&request.kind.group, &request.kind.kind);
    let is_it = |maker: &&Maker| maker.group == group && maker.kind == kind;
    let maker = MAKERS.iter().find(is_it)?;
    (!policy.manages(group, kind)).then_some(maker)
}
