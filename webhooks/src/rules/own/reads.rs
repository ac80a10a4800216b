//! What a Gate has Sluice read: whoever writes its `spec.after` must be allowed to get that himself. Which rights that
//! takes is found by a pure function; whether the author has them, the API server says.

use sluice_crds::{AfterKind, Gate};
use sluice_kinds::problem::{Problem, fill};

use crate::admission::access::{Access, Permission, Right};
use crate::admission::edit::Edit;
use crate::admission::request::Request;
use crate::admission::verdict::{NoRight, Verdict};
use crate::rules::own::validate::read;

/// The rule: the user, and what is read.
pub(crate) const NOT_READ: &str = "user {} may not \"get\" {}, which Sluice would read for this Gate: whoever writes spec.after needs that right";
/// What is told if it can't be found out: the user, what is read, and why.
const UNKNOWN: &str = "can't find out whether user {} may \"get\" {}: {}; try again";
/// Where what is read is: in a namespace, or in all or none.
pub(crate) const IN_NAMESPACE: &str = " in namespace {}";
pub(crate) const EVERYWHERE: &str = " cluster-wide";

/// The right to get what a Gate has Sluice read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NeededRead<'a> {
    /// Where the Gate says so.
    field: String,
    kind: &'a AfterKind,
    /// None: it has no namespace, or that of whichever object waits.
    namespace: Option<&'a str>,
    /// None: whichever object one that waits names.
    name: Option<&'a str>,
}

/// Whether the author of `request` may get what the Gate has Sluice read, where the request changes that.
pub(crate) async fn judge(request: &Request, edit: &Edit<'_>, access: &dyn Access) -> Verdict {
    if request.kind.kind != "Gate" || !request.sub_resource.is_empty() {
        return Verdict::allowed();
    }
    let Ok(gate) = read::<Gate>(edit.new) else {
        return Verdict::allowed();
    };
    let old = edit.old.and_then(|old| read::<Gate>(old).ok());
    // All at once: each may take as long as there is time for all.
    let asked = needed(&gate, old.as_ref()).into_iter();
    let asked = asked.map(|needed| ask(request, needed, access));
    let missing = futures::future::join_all(asked).await;
    Verdict::of_missing(missing.into_iter().flatten())
}

/// What is asked about of `gate`, which was `old` before.
fn needed<'a>(gate: &'a Gate, old: Option<&Gate>) -> Vec<NeededRead<'a>> {
    let Some(after) = &gate.spec.after else {
        return Vec::new();
    };
    if old.is_some_and(|old| old.spec.after.as_ref() == Some(after)) {
        return Vec::new();
    }
    let object = after.object.as_ref().map(|object| NeededRead {
        field: "spec.after.object".to_owned(),
        kind: &object.kind,
        namespace: object.namespace.as_deref(),
        name: Some(&object.name),
    });
    let kinds = after.kinds.iter().enumerate();
    let kinds = kinds.map(|(index, kind)| NeededRead {
        field: format!("spec.after.kinds[{index}]"),
        kind,
        namespace: None,
        name: None,
    });
    object.into_iter().chain(kinds).collect()
}

/// What is wrong with having this read, if anything is.
async fn ask(request: &Request, needed: NeededRead<'_>, access: &dyn Access) -> Option<NoRight> {
    let (group, kind) = (needed.kind.group.as_str(), needed.kind.kind.as_str());
    let user = &format!("{:?}", request.user_info.username);
    let found = access.resource(group, kind).await;
    let resource = match &found {
        Ok(Some(resource)) => resource.clone(),
        // It may be served later, and is read then.
        Ok(None) | Err(_) => plural(kind),
    };
    let what = &needed.described(&resource);
    let unknown = |why: &str| {
        let told = fill(UNKNOWN, &[user, what, why]);
        Some(NoRight::Unknown(Problem::forbidden(
            needed.field.as_str(),
            told,
        )))
    };
    if let Err(why) = found {
        return unknown(&why.to_string());
    }
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let right = Right {
        verb: "get",
        group: group.to_owned(),
        resource,
        namespace: text(needed.namespace),
        name: text(needed.name),
    };
    match access.has(&request.user_info, right).await {
        Permission::Allowed => None,
        Permission::Denied => {
            let told = fill(NOT_READ, &[user, what]);
            Some(NoRight::Denied(Problem::forbidden(
                needed.field.as_str(),
                told,
            )))
        }
        Permission::Unknown(why) => unknown(&why),
    }
}

impl NeededRead<'_> {
    /// As in `configmaps "prices" in namespace "data"`.
    fn described(&self, resource: &str) -> String {
        let mut text = resource.to_owned();
        if !self.kind.group.is_empty() {
            text = format!("{text}.{}", self.kind.group);
        }
        if let Some(name) = self.name {
            text = format!("{text} {name:?}");
        }
        match self.namespace {
            Some(namespace) => text + &fill(IN_NAMESPACE, &[&format!("{namespace:?}")]),
            None => text + EVERYWHERE,
        }
    }
}

/// The resource of a kind that is not served, as most kinds are named; `manifests::policies::gate_reads` has the same in
/// CEL.
pub(crate) fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    if kind == "endpoints" {
        return kind;
    }
    if ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| kind.ends_with(end))
    {
        return kind + "es";
    }
    let is_vowel = |end: &&str| kind.ends_with(*end);
    match kind.strip_suffix('y') {
        Some(stem) if !["ay", "ey", "oy", "uy"].iter().any(is_vowel) => {
            format!("{stem}ies")
        }
        Some(_) | None => kind + "s",
    }
}
