//! What is told of an object that gates hold, or that one of them has deactivated: in its event, and to readers of
//! `visibility.sluice.dev`.

use sluice_crds::reasons::event;
use sluice_kinds::gates::{Gate, GateState};
use sluice_kinds::problem::summarize;

use crate::cache::held::Gated;
use crate::plan::gates::action::{self, GateNow};
use crate::plan::writes::plan_and_notes::Note;

/// The note about an object that gates hold.
pub fn of(gated: Gated<'_>, gate_now: &dyn Fn(&Gate) -> Option<GateNow>) -> Note {
    if let Some(by) = &gated.kept.deactivated_by {
        let now = Gate::parse(by, "").ok().and_then(|by| gate_now(&by));
        return action::deactivated(by, now.as_ref());
    }
    match gated.gates {
        GateState::Invalid(problems) => Note::warning(
            event::INVALID_GATE,
            format!(
                "Held, because a gate annotation is invalid: {}; remove the annotation, or create the object again with a valid one",
                summarize(problems)
            ),
        ),
        held_by => {
            let said: Vec<_> = held_by.names().map(|name| (name, gate_now(name))).collect();
            let described = said.iter();
            let described: Vec<_> = described
                .map(|(name, now)| action::described(name, now.as_ref()))
                .collect();
            let mut told = format!(
                "Held until these gates are removed: {}",
                described.join(", ")
            );
            if let Some(why) = gated.kept.failures() {
                told.push_str("; set because it can't be determined whether they apply: ");
                told.push_str(why);
            }
            // Where a deadline acts, it tells that.
            let has_failed = |now: &GateNow| now.failed.is_some() && now.deadline.is_none();
            if said
                .iter()
                .any(|(_, now)| now.as_ref().is_some_and(has_failed))
            {
                return Note::warning(event::DEPENDENCY_FAILED, told);
            }
            Note::normal(event::GATED, told)
        }
    }
}
