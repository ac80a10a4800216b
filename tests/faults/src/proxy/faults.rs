//! The faults, and how often each is drawn in a random round.

use std::time::Duration;

use fastrand::Rng;

use super::Asked;

/// When somebody crashes who sent a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the write leaves: it never happens.
    Before,
    /// When it has happened, before the reply comes.
    Committed,
    /// When the reply has come.
    Answered,
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It arrives late.
    Late(Duration),
    /// It lies in the socket of a server that hangs, and arrives when nobody waits for it any more.
    Stranded(Duration),
    /// It never arrives, and the connection ends.
    Lost,
    /// It happens, and the connection ends without a reply.
    ReplyLost,
    /// It happens at once, and the reply comes late.
    ReplyLate(Duration),
    /// It does not happen, and is answered with this code.
    Refused(u16),
    /// It happens, and is answered with this code.
    FailedAfter(u16),
    /// It happens, and is sent once more; the reply is to the second one.
    Twice,
    /// Who sent it is killed.
    Crash(Moment),
    /// The watch says nothing for so long, then everything at once.
    WatchSilent(Duration),
    /// The watch says nothing any more; the connection stays.
    WatchDead,
    /// The watch ends after so many chunks, in the middle of a line.
    WatchCut(u8),
    /// The watch is told at once that its resourceVersion is too old: 410 in an event.
    WatchGone,
}

impl Fault {
    /// A short name, to count it by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Late(_) => "late",
            Self::Stranded(_) => "stranded",
            Self::Lost => "lost",
            Self::ReplyLost => "reply lost",
            Self::ReplyLate(_) => "reply late",
            Self::Refused(_) => "refused",
            Self::FailedAfter(_) => "failed after",
            Self::Twice => "twice",
            Self::Crash(_) => "crash",
            Self::WatchSilent(_) => "watch silent",
            Self::WatchDead => "watch dead",
            Self::WatchCut(_) => "watch cut",
            Self::WatchGone => "watch gone",
        }
    }

    /// Draws what goes wrong with a request, if anything does: with one of 100 requests, `percent`.
    /// The Lease has a fifth of it, or nobody would lead for long.
    pub fn draw(rng: &mut Rng, asked: &Asked, percent: u8) -> Option<Self> {
        if asked.is_watch() {
            // A watch is one request for minutes.
            return (rng.u8(0..100) < percent.saturating_mul(3)).then(|| Self::draw_watch(rng));
        }
        if percent <= rng.u8(0..100) || (asked.is_lease() && 0 < rng.u8(0..5)) {
            return None;
        }
        let some_time = Duration::from_millis(rng.u64(20..2500));
        // Not 429: what is answered so was not executed.
        let code = *[500, 503, 504].get(rng.usize(0..3)).unwrap_or(&500);
        let fault = match rng.u8(0..7) {
            0 => Self::Late(some_time),
            1 => Self::Lost,
            2 => Self::ReplyLost,
            3 => Self::ReplyLate(some_time),
            4 => Self::Refused(
                *[403, 409, 429, 500, 503]
                    .get(rng.usize(0..5))
                    .unwrap_or(&500),
            ),
            5 => Self::FailedAfter(code),
            _ => Self::Twice,
        };
        // A read is not to be told that it may not, or that it is not: neither is ever so by chance.
        let is_read = asked.method == http::Method::GET;
        let is_odd = matches!(fault, Self::Refused(403 | 409) | Self::Twice);
        Some(if is_read && is_odd {
            Self::Refused(503)
        } else {
            fault
        })
    }

    fn draw_watch(rng: &mut Rng) -> Self {
        match rng.u8(0..4) {
            0 => Self::WatchSilent(Duration::from_millis(rng.u64(500..8000))),
            1 => Self::WatchGone,
            _ => Self::WatchCut(rng.u8(0..20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn faults_are_as_often_as_was_asked_for() {
        let mut rng = Rng::with_seed(7);
        let mut count = |method: Method, target: &str| {
            let asked = Asked {
                method,
                target: target.to_owned(),
            };
            (0..10_000)
                .filter(|_| Fault::draw(&mut rng, &asked, 10).is_some())
                .count()
        };
        let writes = count(Method::PATCH, "/apis/batch/v1/namespaces/a/jobs/j");
        assert!((800..1200).contains(&writes), "{writes}");
        let leases = count(
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/s/leases/sluice",
        );
        assert!((120..300).contains(&leases), "{leases}");
        let watches = count(Method::GET, "/apis/batch/v1/jobs?watch=true");
        assert!((2700..3300).contains(&watches), "{watches}");
    }
}
