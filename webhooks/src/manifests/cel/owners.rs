//! Owners in CEL: whose controller an object names, whether that makes such objects, and whether its
//! author is that controller, by the accounts that JobKinds name. The same rules as in
//! `crate::rules::author`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::{ChildKind, JobKindSpec, LIFTED_GATES_ANNOTATION, MANAGED_LABEL};

use crate::manifests::cel::gating::has_queue_gate;
use crate::manifests::cel::syntax::{filled, forbidden, text, texts, variable, when};
use crate::manifests::held::HeldKind;
use crate::manifests::options::Options;
use crate::rules::applies::makers;
use crate::rules::author::{
    ADMINISTRATORS, CONTROLLER_MANAGER, COPIERS, KUBERNETES, SERVICE_ACCOUNT, is_kubernetes_own,
};
use crate::rules::jobs::validate::{LEAVES_GATES, NAMES_OWNER};

/// `variables.owners` and `oldOwners`: the controller that owns the object, as a list. `isChild` and
/// `wasChild`: whether one of `kinds` owns it that makes objects of its kind, which is one of `own`.
pub(crate) fn variables(own: &[&HeldKind], kinds: &[HeldKind]) -> Vec<Variable> {
    let is_child = |object: &str, owners: &str| {
        let clauses: Vec<_> = parents(own, kinds)
            .map(|(owner, child)| is_link(owner, child, own, object))
            .collect();
        format!("variables.{owners}.exists(o, {})", any(&clauses))
    };
    vec![
        owners("owners", "object"),
        old_owners(),
        variable("isChild", is_child("object", "owners")),
        variable(
            "wasChild",
            format!(
                "oldObject != null && {}",
                is_child("oldObject", "oldOwners")
            ),
        ),
    ]
}

/// `variables.oldOwners`: the controller that owned the object, as a list.
pub(crate) fn old_owners() -> Variable {
    variable(
        "oldOwners",
        format!("oldObject == null ? [] : {}", listed("oldObject")),
    )
}

/// `variables.owners`: the controller that owns `object`, as a list.
pub(crate) fn owners(name: &str, object: &str) -> Variable {
    variable(name, listed(object))
}

/// `variables.isAdministrator`, `isOfNamespace` and `isController`: what the author of a request may
/// be. And `isMadeByController`: whether he is the controller that makes the object. Needs
/// [`variables`].
pub(crate) fn author_of(own: &[&HeldKind], kinds: &[HeldKind]) -> Vec<Variable> {
    let clauses: Vec<_> = parents(own, kinds)
        .map(|(owner, child)| {
            let link = is_link(owner, child, own, "object");
            format!("{link} && {}", may_make(Some(child)))
        })
        .collect();
    let mut variables = author();
    variables.push(variable(
        "isMadeByController",
        format!("variables.owners.exists(o, {})", any(&clauses)),
    ));
    variables
}

/// `variables.isMadeByController` of makers of pods, which no JobKind declares: whether the author is the controller
/// that makes them for the owner that they name. With the variables of the author and `owners`.
pub(crate) fn made_by(kinds: &[HeldKind]) -> Vec<Variable> {
    let mut clauses = Vec::new();
    for (owner, child) in kinds.iter().flat_map(|kind| {
        let children = kind.job_kind.children.iter();
        children.map(|child| (&kind.job_kind, child))
    }) {
        let mut makers = makers::of_pods();
        if makers.any(|maker| maker.group == child.group && maker.kind == child.kind) {
            clauses.push(format!(
                "request.kind.kind == {} && {} && {}",
                text(&child.kind),
                is_kind("o", &owner.group, &owner.kind),
                may_make(Some(child))
            ));
        }
    }
    let mut variables = vec![owners("owners", "object")];
    variables.extend(author());
    variables.push(variable(
        "isMadeByController",
        format!("variables.owners.exists(o, {})", any(&clauses)),
    ));
    variables
}

/// `variables.isMadeForPod`: whether a controller that a JobKind names as the maker of such objects made the object for a
/// pod. Needs [`variables`] and [`author_of`].
pub(crate) fn made_for_pod(own: &[&HeldKind], kinds: &[HeldKind]) -> Variable {
    let mut makers: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (_, child) in parents(own, kinds) {
        let named = child.made_by.iter().map(String::as_str);
        let known = makers.entry((&child.group, &child.kind));
        known.or_default().extend(named);
    }
    let clauses: Vec<_> = makers
        .iter()
        .filter(|(_, named)| !named.is_empty())
        .map(|((group, kind), named)| {
            let by = format!(
                "request.userInfo.username in {}",
                texts(named.iter().copied())
            );
            match own {
                [_] => by,
                _ => format!("{} && {by}", is_kind("object", group, kind)),
            }
        })
        .collect();
    variable(
        "isMadeForPod",
        format!(
            "!variables.isOfNamespace && variables.owners.exists(o, {}) && ({})",
            is_kind("o", "", "Pod"),
            any(&clauses)
        ),
    )
}

/// CEL, a list: who says that his object belongs to one that is queued gets it past the queue, so only
/// a controller may say so. Nor may one that has passed its gates leave its place among those that its gates count.
pub(crate) fn problems() -> String {
    let rule = filled(
        NAMES_OWNER,
        &["variables.owners[0].kind", "variables.queue[0].key"],
    );
    let gets_owner = "variables.isChild && !variables.isMadeByController &&\n\
         !(variables.wasChild && variables.owners.map(o, o.uid) == variables.oldOwners.map(o, o.uid))";
    let leaves = filled(LEAVES_GATES, &["variables.owners[0].kind"]);
    let has_passed = format!(
        "variables.annotations[?'{LIFTED_GATES_ANNOTATION}'].orValue('').contains(object.metadata.?uid.orValue('?'))"
    );
    let refused = |condition: &str, rule: &str| {
        when(
            &format!("{condition} && {gets_owner}"),
            &forbidden("'metadata.ownerReferences'", rule),
        )
    };
    format!(
        "{} +\n{}",
        refused("variables.queue.size() != 0", &rule),
        refused(
            &format!("variables.queue.size() == 0 && {has_passed}"),
            &leaves
        )
    )
}

/// `variables.isOwned`: whether the pod has a controller; and `goesWithOwner`: whether it goes with what
/// that works for. With the variables of its author.
pub(crate) fn of_pod(options: &Options, kinds: &[HeldKind]) -> Vec<Variable> {
    let declared = |group: &str, name: &str| {
        let mut specs = kinds.iter().map(|kind| &kind.job_kind);
        specs.any(|spec| spec.group == group && spec.kind == name)
    };
    let mut clauses: Vec<String> = Vec::new();
    for spec in kinds.iter().map(|kind| &kind.job_kind) {
        if COPIERS.contains(&(&spec.group, &spec.kind)) || is_opaque(spec) {
            continue;
        }
        let pod = spec.children.iter().find(|child| child.is_pod());
        clauses.push(format!(
            "{} && {}",
            is_kind("o", &spec.group, &spec.kind),
            may_make(pod)
        ));
    }
    let children = kinds.iter().flat_map(|kind| &kind.job_kind.children);
    for child in children {
        let ChildKind { group, kind, .. } = child;
        let clause = format!("{} && {}", is_kind("o", group, kind), may_make(None));
        let is_copier = COPIERS.contains(&(group, kind));
        if !declared(group, kind) && !is_copier && !clauses.contains(&clause) {
            clauses.push(clause);
        }
    }
    let is_gated = format!(
        "'{MANAGED_LABEL}' in variables.labels && {}",
        has_queue_gate("", options)
    );
    let mut variables = vec![
        owners("owners", "object"),
        variable("isOwned", "variables.owners.size() != 0"),
    ];
    variables.extend(author());
    variables.push(variable(
        "goesWithOwner",
        format!(
            "variables.isOwned && ({is_gated} ? variables.isController :\nvariables.owners.exists(o, {}))",
            any(&clauses)
        ),
    ));
    variables
}

/// `variables.isMadeForOwner`: whether the controller of the owner that the pod names made it. With the variables of
/// its author and `owners`.
pub(crate) fn made_for_owner(kinds: &[HeldKind]) -> Variable {
    let specs = kinds.iter().map(|kind| &kind.job_kind);
    let declared = specs.clone().filter_map(|spec| {
        let pod = spec.children.iter().find(|child| child.is_pod());
        // Without pods among its children, its pods are those of the objects that its controller makes.
        (pod.is_some() || spec.children.is_empty()).then_some(())?;
        let owner = is_kind("o", &spec.group, &spec.kind);
        Some(format!("{owner} && {}", may_make(pod)))
    });
    let is_declared = |child: &ChildKind| {
        let mut specs = kinds.iter().map(|kind| &kind.job_kind);
        specs.any(|spec| spec.group == child.group && spec.kind == child.kind)
    };
    let mut children: BTreeMap<(&str, &str), ChildKind> = BTreeMap::new();
    for child in specs.flat_map(|spec| &spec.children) {
        if child.is_pod() || is_declared(child) {
            continue;
        }
        let same = children.entry((&child.group, &child.kind));
        let same = same.or_insert_with(|| ChildKind {
            made_by: Vec::new(),
            ..child.clone()
        });
        same.made_by.extend(child.made_by.iter().cloned());
    }
    let children = children.values().map(|child| {
        let owner = is_kind("o", &child.group, &child.kind);
        format!("{owner} && {}", may_make(Some(child)))
    });
    let clauses: Vec<_> = declared.chain(children).collect();
    let user = "request.userInfo.username";
    variable(
        "isMadeForOwner",
        format!(
            "variables.owners.size() != 0 && ((!variables.isOfNamespace &&\n\
             ({user} == '{CONTROLLER_MANAGER}' || {user}.startsWith('{KUBERNETES}'))) ||\n\
             variables.owners.exists(o, {}))",
            any(&clauses)
        ),
    )
}

/// `variables.owners`, `isOwned`, and those of the author: what is read of any pod.
pub(crate) fn of_any_pod() -> Vec<Variable> {
    let mut variables = vec![
        owners("owners", "object"),
        variable("isOwned", "variables.owners.size() != 0"),
    ];
    variables.extend(author());
    variables
}

fn author() -> Vec<Variable> {
    let user = "request.userInfo.username";
    vec![
        variable(
            "isAdministrator",
            format!("'{ADMINISTRATORS}' in request.userInfo.?groups.orValue([])"),
        ),
        variable(
            "isOfNamespace",
            format!(
                "{user}.startsWith('{SERVICE_ACCOUNT}' + request.?namespace.orValue('') + ':')"
            ),
        ),
        variable(
            "isController",
            format!(
                "!variables.isOfNamespace && ({user}.startsWith('{SERVICE_ACCOUNT}') || {user} == '{CONTROLLER_MANAGER}' || variables.isAdministrator)"
            ),
        ),
    ]
}

/// CEL: whether the author makes objects of `child`; of one that no JobKind declares nothing is named.
fn may_make(child: Option<&ChildKind>) -> String {
    let named = child.map_or(&[][..], |child| &child.made_by);
    if named.is_empty() {
        return "variables.isController".to_owned();
    }
    let names = texts(named.iter().map(String::as_str));
    let or_administrator = if is_kubernetes_own(named) {
        ""
    } else {
        " || variables.isAdministrator"
    };
    format!("!variables.isOfNamespace && (request.userInfo.username in {names}{or_administrator})")
}

/// The kinds that make objects of one of `own`, and what they say of those.
fn parents<'a>(
    own: &'a [&HeldKind],
    kinds: &'a [HeldKind],
) -> impl Iterator<Item = (&'a JobKindSpec, &'a ChildKind)> {
    let is_own = |child: &ChildKind| {
        own.iter()
            .any(|kind| kind.job_kind.group == child.group && kind.job_kind.kind == child.kind)
    };
    kinds.iter().flat_map(move |kind| {
        let children = kind.job_kind.children.iter();
        children
            .filter(move |child| is_own(child))
            .map(move |child| (&kind.job_kind, child))
    })
}

/// CEL: `o` is of the kind `owner`, and `object` of the kind of `child`, if there are several.
fn is_link(owner: &JobKindSpec, child: &ChildKind, own: &[&HeldKind], object: &str) -> String {
    let is_owner = is_kind("o", &owner.group, &owner.kind);
    match own {
        [_] => is_owner,
        _ => format!(
            "{is_owner} && {}",
            is_kind(object, &child.group, &child.kind)
        ),
    }
}

/// CEL: the object or reference `it` is of this kind.
fn is_kind(it: &str, group: &str, kind: &str) -> String {
    let of_group = match group {
        "" => format!("!{it}.apiVersion.contains('/')"),
        group => format!("{it}.apiVersion.startsWith({})", text(&format!("{group}/"))),
    };
    format!("{it}.kind == {} && {of_group}", text(kind))
}

fn is_opaque(kind: &JobKindSpec) -> bool {
    kind.pod_sets.iter().any(|set| set.pod_metadata.is_some())
}

fn any(clauses: &[String]) -> String {
    if clauses.is_empty() {
        return "false".to_owned();
    }
    let clauses: Vec<_> = clauses.iter().map(|clause| format!("({clause})")).collect();
    format!("\n{}", clauses.join(" ||\n"))
}

fn listed(object: &str) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))\n\
         .map(o, {{'apiVersion': string(o.apiVersion), 'kind': string(o.kind), 'uid': string(o.uid)}})"
    )
}
