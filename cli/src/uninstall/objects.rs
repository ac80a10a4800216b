//! What becomes of one object: its pod templates lose the gates that nobody lifts any more, and it is started if Sluice
//! suspended it.

use json_patch::Patch as JsonPatch;
use kube::api::Patch;
use kube::core::Status;
use serde_json::Value;
use sluice_kinds::CompiledKind;

use crate::cluster::{ClusterError, DryRun};
use crate::uninstall::held::{self, Todo};
use crate::uninstall::named::{Held, Named, Road, TRIES, value, write};
use crate::uninstall::outcome::{UninstallError, UninstallReport};

pub(super) async fn of_object(
    all: &Held<'_>,
    kind: &CompiledKind,
    named: &Named<'_>,
    report: &mut UninstallReport<'_>,
) -> Result<(), UninstallError> {
    let value = value(named.object);
    if held::is_finished(kind, &value) {
        return Ok(());
    }
    if let Some(patch) = held::ungate(kind, &value) {
        let what = "Sluice's gate is in its pod template, so pods that are still to come wait";
        let uid = named.object.metadata.uid.as_deref().unwrap_or_default();
        match (all.road, all.queued.keeps_gate(uid)) {
            // Pods that are made of a template without the gate would run.
            (_, Some(why)) => report.left(format!("{named}: {what}: {why}"))?,
            (Road::List, None) => report.left(format!("{named}: {what}"))?,
            (Road::Start { dry_run }, None) => match ungate(all, kind, named, patch, dry_run).await {
                Ok(Ungated::Done) => {
                    report.done(format!("{named}: gate taken out of its pod template"))?;
                }
                Ok(Ungated::Gone) => {}
                Ok(Ungated::Immutable) => report.left(format!("{named}: {what}; the template can't be changed: run this again when they are there, to take the gate off them"))?,
                Err(error) => report.failed(format!("{named}: {what}: {error}"))?,
            },
        }
    }
    match (held::todo(kind, &value, &all.queued), all.road) {
        (Todo::Nothing, _) => {}
        (Todo::Leave(why), _) => report.left(format!("{named} stays suspended: {why}"))?,
        (Todo::Start(_), Road::List) => {
            let awaited = all.queued.awaited(&value);
            report.left(format!("{named} stays suspended: {awaited}"))?;
        }
        (Todo::Start(patch), Road::Start { dry_run }) => {
            match start(all, kind, named, patch, dry_run).await {
                Ok(true) => report.done(format!("{named} started"))?,
                Ok(false) => {}
                Err(error) => report.failed(format!("{named}: {error}"))?,
            }
        }
    }
    Ok(())
}

/// What has become of the gates in the pod templates of an object.
enum Ungated {
    /// They were taken out.
    Done,
    /// There are none any more.
    Gone,
    /// The API server lets nobody change the templates, as those of a Job that runs. To suspend it would end its pods.
    Immutable,
}

/// Takes gates out of pod templates; looks at the object again if it was changed meanwhile.
async fn ungate(
    all: &Held<'_>,
    kind: &CompiledKind,
    named: &Named<'_>,
    mut patch: JsonPatch,
    dry_run: DryRun,
) -> Result<Ungated, ClusterError> {
    for _ in 1..TRIES {
        match write(
            all.client,
            named,
            &Patch::Json::<()>(patch.clone()),
            dry_run,
        )
        .await
        {
            Ok(()) => return Ok(Ungated::Done),
            Err(error) if error.is_conflict() => {}
            Err(ClusterError::Refused(status)) if is_immutable(&status) => {
                return Ok(Ungated::Immutable);
            }
            Err(error) if error.is_not_found() => return Ok(Ungated::Gone),
            Err(error) => return Err(error),
        }
        let Some(object) = named.again(all.client).await? else {
            return Ok(Ungated::Gone);
        };
        match held::ungate(kind, &value(&object)) {
            Some(again) => patch = again,
            None => return Ok(Ungated::Gone),
        }
    }
    write(all.client, named, &Patch::Json::<()>(patch), dry_run)
        .await
        .map(|()| Ungated::Done)
}

/// Whether the API server says that a field never changes, and not just that this change is wrong.
fn is_immutable(status: &Status) -> bool {
    status.code == 422 && status.message.contains("field is immutable")
}

/// Starts an object; looks at it again if it was changed meanwhile. False if there is nothing to start any more.
async fn start(
    all: &Held<'_>,
    kind: &CompiledKind,
    named: &Named<'_>,
    mut patch: Value,
    dry_run: DryRun,
) -> Result<bool, ClusterError> {
    for _ in 1..TRIES {
        match write(all.client, named, &Patch::Merge(patch.clone()), dry_run).await {
            Ok(()) => return Ok(true),
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        let Some(object) = named.again(all.client).await? else {
            return Ok(false);
        };
        match held::todo(kind, &value(&object), &all.queued) {
            Todo::Start(again) => patch = again,
            Todo::Nothing | Todo::Leave(_) => return Ok(false),
        }
    }
    write(all.client, named, &Patch::Merge(patch), dry_run)
        .await
        .map(|()| true)
}
