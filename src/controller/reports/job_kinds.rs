//! How JobKinds stand, as their condition Ready and the metric say it.

use sluice_crds::{ConditionType, JobKindStatus};

use crate::cache::cluster::{Fault, Kept};
use crate::cache::conditions::{self, ConditionUpdate};
use crate::controller::kinds::Kinds;
use crate::controller::kinds::watch_state::{WAITING, WatchState};
use crate::jobkinds::webhook_rules::Reach;
use crate::process::metrics::Gathered;
use crate::process::metrics::definitions;

/// What the metric says of a JobKind of which nothing was ever told.
const STARTING: &str = "Starting";

/// Gathers whether each JobKind is ready, and why not. While nothing new is known of one, that is what was told last.
pub(super) fn gather(gathered: &mut Gathered, kinds: &Kinds) {
    for (name, kept, state) in kinds.watch_states() {
        let update = ready(kinds, name, kept, &state);
        let told = conditions::find(&kept.status.conditions, ConditionType::Ready);
        let (is_ready, reason) = match (&update, told) {
            (Some(update), _) => (update.is_true, update.reason),
            (None, Some(told)) => (told.status == "True", told.reason.as_str()),
            (None, None) => (false, STARTING),
        };
        let labels = [&**name, reason];
        gathered.count(&definitions::JOB_KIND_READY, &labels, usize::from(is_ready));
    }
}

/// What the condition of a JobKind is to say, if there is something to say.
pub(super) fn ready(
    kinds: &Kinds,
    name: &str,
    kept: &Kept<JobKindStatus>,
    state: &WatchState,
) -> Option<ConditionUpdate> {
    match state {
        WatchState::Starting => None,
        WatchState::Listed => match &kept.fault {
            Some(Fault::Unreadable(error)) => Some(as_before(error)),
            Some(Fault::Broken(_)) | None => watched(kinds.reach(name)),
        },
        WatchState::Unserved { message } => Some(not_ready(WAITING, message)),
        WatchState::Unavailable { reason, message } => Some(not_ready(reason.as_str(), message)),
    }
}

fn not_ready(reason: &'static str, message: &str) -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::Ready,
        is_true: false,
        reason,
        message: message.to_owned(),
    }
}

/// What is said of a JobKind that can't be read any more, and whose objects are watched.
fn as_before(error: &str) -> ConditionUpdate {
    let message = format!(
        "Objects of this kind are managed by the JobKind as it was before: it can't be read now: {error}"
    );
    ConditionUpdate {
        kind: ConditionType::Ready,
        is_true: true,
        reason: "Unreadable",
        message,
    }
}

/// What is said of a JobKind whose objects are watched: nothing while its rule is being written, which
/// takes a moment.
fn watched(reach: Reach) -> Option<ConditionUpdate> {
    let (is_true, reason, message) = match reach {
        Reach::InPlace => (
            true,
            "Watched",
            "Objects of this kind are managed".to_owned(),
        ),
        Reach::NoWebhook(missing) => (
            true,
            "Watched",
            format!(
                "Objects of this kind are managed, but not held at their creation unless an admission policy does it: there is no {missing}"
            ),
        ),
        Reach::Pending(None) => return None,
        Reach::Pending(Some(why)) => (
            false,
            "WebhookPending",
            format!(
                "Objects of this kind are managed, but the webhooks are not called for them yet: {why}; trying again"
            ),
        ),
    };
    Some(ConditionUpdate {
        kind: ConditionType::Ready,
        is_true,
        reason,
        message,
    })
}
