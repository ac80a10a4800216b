//! Whether the author of a request is the controller that he would be by what his object says: the one
//! that makes such objects for the owner that it names. JobKinds name the accounts of controllers
//! (`spec.children[].madeBy`). Which objects are asked about is up to the rules that ask (`jobs`, `pods`).

use serde_json::Value;
use sluice_crds::{ChildKind, MANAGED_LABEL};
use sluice_kinds::metadata::{controller, group_and_kind, label};
use sluice_kinds::pod_hold::MadeFor;

use crate::admission::policy::Policy;
use crate::admission::request::{Request, UserInfo};

/// What the user name of a service account begins with.
pub(crate) const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The controllers of Kubernetes, if they run with one credential.
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
/// What the names of their accounts begin with, if each has its own.
pub(crate) const KUBERNETES: &str = "system:serviceaccount:kube-system:";
/// Administrators.
pub(crate) const ADMINISTRATORS: &str = "system:masters";

/// Controllers that only copy the labels of pod templates: nothing that they belong to has usage for
/// pods that carry no gate.
pub(crate) const COPIERS: [(&str, &str); 2] = [("apps", "ReplicaSet"), ("apps", "StatefulSet")];

/// Who asks for an object in a namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    user: &'a UserInfo,
    namespace: &'a str,
}

impl<'a> Author<'a> {
    /// Who sends `request`.
    pub(crate) fn of(request: &'a Request) -> Self {
        Self {
            user: &request.user_info,
            namespace: &request.namespace,
        }
    }

    /// Whether this is a controller that makes objects of `child`; of one that no JobKind declares
    /// nothing is named.
    ///
    /// An account of the object's own namespace never is: whoever may create pods there can use it.
    fn makes(self, child: Option<&ChildKind>) -> bool {
        let named = child.map_or(&[][..], |child| &child.made_by);
        self.is_one_of(named.iter())
    }

    /// Whether this is one of the controllers that these accounts are, or may be one if none is named.
    fn is_one_of<'n>(self, named: impl Iterator<Item = &'n String> + Clone) -> bool {
        let username = self.user.username.as_str();
        if self.is_of_namespace() {
            return false;
        }
        if named.clone().any(|name| name == username) {
            return true;
        }
        if named.clone().next().is_none() {
            return username.starts_with(SERVICE_ACCOUNT)
                || username == CONTROLLER_MANAGER
                || self.is_administrator();
        }
        self.is_administrator() && !is_kubernetes_own(named)
    }

    /// Whether a JobKind names this account as one that makes objects of this kind for its own.
    pub(crate) fn is_named_maker(self, group: &str, kind: &str, policy: &Policy) -> bool {
        let is_named = |account| account == &self.user.username;
        !self.is_of_namespace() && policy.makers(group, kind).any(is_named)
    }

    /// Whether this may be a controller of anything.
    pub(crate) fn is_controller(self) -> bool {
        self.makes(None)
    }

    /// Whether this is a controller of Kubernetes itself.
    pub(crate) fn is_kubernetes(self) -> bool {
        let username = self.user.username.as_str();
        !self.is_of_namespace()
            && (username == CONTROLLER_MANAGER || username.starts_with(KUBERNETES))
    }

    fn is_of_namespace(self) -> bool {
        let account = self.user.username.strip_prefix(SERVICE_ACCOUNT);
        let namespace = account.and_then(|account| account.split_once(':'));
        namespace.is_some_and(|(namespace, _)| namespace == self.namespace)
    }

    fn is_administrator(self) -> bool {
        self.user.groups.iter().any(|group| group == ADMINISTRATORS)
    }
}

/// Whether all these accounts are parts of Kubernetes, whose names are known for certain: nobody else
/// acts for them.
pub(crate) fn is_kubernetes_own<'a>(accounts: impl IntoIterator<Item = &'a String>) -> bool {
    let is_own = |name: &String| name == CONTROLLER_MANAGER || name.starts_with(KUBERNETES);
    accounts.into_iter().all(is_own)
}

/// Whether `author` makes objects such as `object` for the kind of owner that it names. `object` is of
/// a kind that this owner makes.
pub(crate) fn is_made_by_controller(object: &Value, author: Author<'_>, policy: &Policy) -> bool {
    let Some(((owner_group, owner_kind), (group, kind))) =
        controller(object).zip(group_and_kind(object))
    else {
        return false;
    };
    let owner = policy.kind(owner_group, owner_kind);
    author.makes(owner.and_then(|owner| owner.child(group, kind)))
}

/// Whether a new `pod` was made by the controller of the object that it names as its owner, so that Gates were asked
/// about that one: a controller of Kubernetes, or that of an owner of a kind that JobKinds know. That some account
/// could be a controller is not enough: whoever deploys into the namespace from another one has such an account.
pub(crate) fn is_made_for_owner(pod: &Value, author: Author<'_>, policy: &Policy) -> bool {
    let Some((group, kind)) = controller(pod) else {
        return false;
    };
    author.is_kubernetes()
        || match policy.kind(group, kind) {
            Some(owner) => match owner.child("", "Pod") {
                // Its pods are those of the objects that its controller makes.
                None if owner.makes_objects() => false,
                pod => author.makes(pod),
            },
            None => policy.is_child(group, kind) && author.is_one_of(policy.makers(group, kind)),
        }
}

/// Whom a new `pod` was made for that names a controller. One that goes with its owner needs no gate beside those that it
/// brings, and has no usage of its own.
///
/// One that is gated as Sluice gates templates waits for its object, whoever the controller is. One
/// with a queue label alone would run at once: it is believed if a JobKind declares what owns it, or
/// that one of them makes such owners.
pub(crate) fn made_for(pod: &Value, author: Author<'_>, policy: &Policy) -> MadeFor {
    let if_so = |is_believed, made_for| {
        if is_believed {
            made_for
        } else {
            MadeFor::Unknown
        }
    };
    let Some((group, kind)) = controller(pod) else {
        return MadeFor::Unknown;
    };
    if label(pod, MANAGED_LABEL).is_some() && policy.queue_gates().carried(pod).is_some() {
        return if_so(author.makes(None), MadeFor::Owner);
    }
    if COPIERS.contains(&(group, kind)) {
        return MadeFor::Unknown;
    }
    let is_believed = match policy.kind(group, kind) {
        // Each of its pods has usage of its own.
        Some(owner) if owner.is_opaque() => {
            let waits_by_pods = !owner.is_suspended_by_gates();
            let is_believed = waits_by_pods && author.makes(owner.child("", "Pod"));
            return if_so(is_believed, MadeFor::GatedByPods);
        }
        Some(owner) => author.makes(owner.child("", "Pod")),
        None => policy.is_child(group, kind) && author.makes(None),
    };
    if_so(is_believed, MadeFor::Owner)
}
