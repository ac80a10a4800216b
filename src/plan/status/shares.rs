//! What the statuses of queues and cohorts say of shares, and of what was used over time. The latter is
//! also the record that the next controller begins with, so it says when a new one is worth a write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::{
    AdmissionFairSharingStatus, FairSharingStatus, LocalQueueFairSharingStatus, Quantity,
    ResourceList,
};
use sluice_engine::{Consumed, Share};

/// What was used is written no more often than this.
const RECORD_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// A change of less than one part in so many is not written.
const VISIBLE_PART: i128 = 100;
/// Billionths in a thousandth.
const THOUSANDTH: i128 = 1_000_000;

/// The share of a queue or cohort in thousandths, rounded up: 0 means that nothing is borrowed.
pub fn share(share: Option<Share>) -> Option<FairSharingStatus> {
    let share = share?;
    let billionths = share.billionths();
    let rounded_up = billionths / THOUSANDTH + i128::from(billionths % THOUSANDTH != 0);
    Some(FairSharingStatus {
        weighted_share: i64::try_from(rounded_up).unwrap_or(i64::MAX),
    })
}

/// What is to be recorded of a LocalQueue's use, `known` being what is recorded. At the end everything
/// that can be seen is worth a write.
pub fn used_over_time(
    known: Option<&LocalQueueFairSharingStatus>,
    consumed: Option<&Consumed>,
    is_last: bool,
) -> Option<LocalQueueFairSharingStatus> {
    let consumed = consumed?;
    let seconds = consumed.at.as_millis().div_euclid(1000);
    let at = Timestamp::from_second(seconds).ok()?;
    let used: ResourceList = (consumed.amounts.iter())
        .map(|(name, amount)| {
            (
                name.to_string(),
                Quantity::about(name.as_str(), amount.get()),
            )
        })
        .filter(|(_, amount)| amount.nanos() != Ok(0))
        .collect();
    let recorded = known.and_then(|known| known.admission_fair_sharing_status.as_ref());
    let is_news = match recorded {
        Some(recorded) => {
            let age = at.duration_since(recorded.last_update.0);
            // A clock that was ahead may have dated it.
            let is_due = is_last || age.is_negative() || RECORD_EVERY <= age;
            is_due && is_visible(&recorded.consumed_resources, &used)
        }
        None => !used.is_empty(),
    };
    if !is_news {
        return known.cloned();
    }
    Some(LocalQueueFairSharingStatus {
        admission_fair_sharing_status: Some(AdmissionFairSharingStatus {
            consumed_resources: used,
            last_update: Time(at),
        }),
    })
}

/// Whether an amount differs enough to be worth a write.
fn is_visible(known: &ResourceList, new: &ResourceList) -> bool {
    let amount = |list: &ResourceList, name: &str| {
        let quantity = list.get(name);
        quantity.map_or(0, |quantity| quantity.nanos().unwrap_or_default())
    };
    known.keys().chain(new.keys()).any(|name| {
        let (known, new) = (amount(known, name), amount(new, name));
        known.max(new) / VISIBLE_PART < known.abs_diff(new).cast_signed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use sluice_engine::{Amount, Time as Moment};

    const HOUR: i64 = 3_600_000;

    /// So many thousandths of a CPU.
    fn cpu(at: i64, millis: i128) -> Consumed {
        Consumed {
            at: Moment::from_millis(at),
            amounts: [("cpu".into(), Amount::new(millis * 1_000_000))].into(),
        }
    }

    fn record(at: i64, amount: &str) -> LocalQueueFairSharingStatus {
        let amount = ("cpu".to_owned(), Quantity(amount.to_owned()));
        LocalQueueFairSharingStatus {
            admission_fair_sharing_status: Some(AdmissionFairSharingStatus {
                consumed_resources: [amount].into(),
                last_update: Time(Timestamp::from_millisecond(at).unwrap()),
            }),
        }
    }

    #[test]
    fn use_is_recorded_when_it_has_changed_visibly() {
        let known = record(HOUR, "2");
        let later = |minutes: i64| HOUR + minutes * 60_000;
        let cases = [
            ("too soon", later(4), 4000, false, false),
            (
                "too soon, but for the last time",
                later(4),
                4000,
                true,
                true,
            ),
            ("as it was", later(60), 2000, false, false),
            ("a little more", later(60), 2020, false, false),
            (
                "a little more, for the last time",
                later(60),
                2020,
                true,
                false,
            ),
            ("more", later(5), 2021, false, true),
            ("less", later(5), 1979, false, true),
            (
                "it is of the future, as the clock went back",
                0,
                4000,
                false,
                true,
            ),
        ];
        for (case, at, millis, is_last, is_written) in cases {
            let said = used_over_time(Some(&known), Some(&cpu(at, millis)), is_last);
            assert_eq!(said.as_ref() != Some(&known), is_written, "{case}");
        }
        let said = used_over_time(Some(&known), Some(&cpu(later(6) + 7, 4000)), false);
        assert_eq!(said, Some(record(later(6), "4")));
    }

    #[test]
    fn what_can_not_be_seen_is_not_recorded() {
        assert_eq!(used_over_time(None, None, true), None);
        let tiny = Consumed {
            amounts: [("cpu".into(), Amount::new(999_999))].into(),
            ..cpu(HOUR, 0)
        };
        assert_eq!(used_over_time(None, Some(&tiny), true), None);
        let first = used_over_time(None, Some(&cpu(HOUR, 1)), false);
        assert_eq!(first, Some(record(HOUR, "1m")));
        // The ClusterQueue doesn't admit by usage any more.
        assert_eq!(used_over_time(first.as_ref(), None, false), None);
    }
}
