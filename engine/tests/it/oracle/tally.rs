//! How often each kind of thing happened, so that the generators can't come to produce only dull
//! histories without anybody noticing.

/// Counts over one or many histories.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    pub(crate) admitted_borrowing: u64,
    pub(crate) admitted_in_part: u64,
    /// Claims for which nobody had to go, and such for which someone had.
    pub(crate) later_for_nothing: u64,
    pub(crate) later_with_victims: u64,
    pub(crate) parked: u64,
    /// Evictions.
    pub(crate) own: u64,
    pub(crate) reclaimed: u64,
    pub(crate) while_borrowing: u64,
    pub(crate) by_share: u64,
    pub(crate) stopped: u64,
    pub(crate) timed_out: u64,
    /// Ways to find victims.
    pub(crate) several_victims: u64,
    /// Decisions in which someone holds quota who was preempted in this round, and can't be again.
    pub(crate) protected: u64,
    pub(crate) another_would_gain: u64,
    /// Those who got, or got not, what was left for them.
    pub(crate) promise_kept: u64,
    pub(crate) promise_broken: u64,
    /// One that came before in its queue could be served as well without.
    pub(crate) promise_kept_before_others: u64,
    /// The place of one that was taken on a promise could not be recorded.
    pub(crate) promised_again: u64,
    /// One for whose least others left had as much again, or more.
    pub(crate) least_grows: u64,
    /// A part was kept for one that blocks its queue.
    pub(crate) kept_in_part: u64,
    /// Of these, one that will borrow.
    pub(crate) kept_to_borrow: u64,
    /// One had other flavors for an earlier pod set, as else nothing was left for a later one.
    pub(crate) any_way: u64,
    /// One took back what is its queue's own, with other flavors than would be had for each of its pod sets alone.
    pub(crate) taken_back: u64,
    /// One got flavors that those of its own queue had to leave, other than would be had for each of its pod sets alone.
    pub(crate) with_own: u64,
    /// Others go, or are waited for, so that there is room for the least of one.
    pub(crate) least_waits: u64,
    pub(crate) spared: u64,
    /// One of its own queue would have gone for the right to take something back, and needn't.
    pub(crate) own_spared: u64,
    /// Some who would have gone needn't, for the flavors that one gets in the end.
    pub(crate) needless: u64,
    pub(crate) second_strategy: u64,
    /// Some went only so that nothing is borrowed; or one waited so that another one need not borrow.
    pub(crate) for_nominal: u64,
    pub(crate) nominal_kept: u64,
    /// What the search for a flavor came to, where there was a choice.
    pub(crate) stopped_early: u64,
    pub(crate) by_grade: u64,
    pub(crate) preempt_beats_borrowing: u64,
    pub(crate) borrowing_beats_preempt: u64,
    /// Ranks.
    pub(crate) shares_decide: u64,
    pub(crate) standings_decide: u64,
    pub(crate) queue_full: u64,
    pub(crate) backing_off: u64,
    pub(crate) second_pass: u64,
    /// Explanations that were tried out.
    pub(crate) never_fits: u64,
    pub(crate) lacking: u64,
    pub(crate) one_less: u64,
    pub(crate) one_less_together: u64,
    pub(crate) have_to_end: u64,
}

impl Tally {
    /// Each count with its name.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        macro_rules! counts {
            ($($name:ident)*) => {{
                let Self { $($name),* } = *self;
                vec![$((stringify!($name), $name)),*]
            }};
        }
        counts!(
            admitted admitted_borrowing admitted_in_part later_for_nothing later_with_victims parked
            own reclaimed while_borrowing by_share stopped timed_out several_victims protected another_would_gain promise_kept
            promise_broken promise_kept_before_others promised_again least_grows spared own_spared needless kept_in_part kept_to_borrow any_way taken_back with_own least_waits
            second_strategy for_nominal nominal_kept stopped_early by_grade preempt_beats_borrowing
            borrowing_beats_preempt shares_decide standings_decide queue_full backing_off second_pass
            never_fits lacking one_less one_less_together have_to_end
        )
    }

    pub(crate) fn add(&mut self, other: &Self) {
        macro_rules! add {
            ($($name:ident)*) => {{
                let Self { $($name),* } = other;
                $(self.$name += $name;)*
            }};
        }
        add!(
            admitted admitted_borrowing admitted_in_part later_for_nothing later_with_victims parked
            own reclaimed while_borrowing by_share stopped timed_out several_victims protected another_would_gain promise_kept
            promise_broken promise_kept_before_others promised_again least_grows spared own_spared needless kept_in_part kept_to_borrow any_way taken_back with_own least_waits
            second_strategy for_nominal nominal_kept stopped_early by_grade preempt_beats_borrowing
            borrowing_beats_preempt shares_decide standings_decide queue_full backing_off second_pass
            never_fits lacking one_less one_less_together have_to_end
        );
    }
}
