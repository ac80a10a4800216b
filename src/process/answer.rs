//! What it means that the API server does not do what it is asked: the one place that reads the codes of its answers. What
//! follows from an answer lies with those who ask. Whether a write may have taken effect all the same is judged in
//! `api/write/failure.rs`.

use kube::Error;
use kube::core::Status;

/// How the API server answers a request that it does not fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiAnswer {
    /// The account has no right to it, or an admission plugin refuses it.
    Forbidden,
    /// There is no such object, or no such kind.
    NotFound,
    /// The object has changed since, or exists already.
    Conflict,
    /// It is turned away before anything is begun, by priority and fairness or by the limit of requests in flight.
    Throttled,
    /// Whatever else is refused again if it is asked again.
    Refused,
    /// The API server has a problem, or did not answer: nobody knows what became of it.
    Unknown,
}

impl ApiAnswer {
    /// The answer in an error of a client.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Api(status) => Self::of_status(status),
            // What the API server serves has no such kind.
            Error::Discovery(_) => Self::NotFound,
            _ => Self::Unknown,
        }
    }

    /// Whether there is no such object any more, or another one by its name.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::NotFound | Self::Conflict)
    }

    /// The answer that a status is.
    pub fn of_status(status: &Status) -> Self {
        match status.code {
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::Throttled,
            400..500 => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

/// An error in the API server's own words, if it has said anything.
pub fn words(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_whether_asking_again_helps() {
        for (code, answer) in [
            (403, ApiAnswer::Forbidden),
            (404, ApiAnswer::NotFound),
            (409, ApiAnswer::Conflict),
            (422, ApiAnswer::Refused),
            (429, ApiAnswer::Throttled),
            (500, ApiAnswer::Unknown),
            (504, ApiAnswer::Unknown),
        ] {
            let status = Status::failure("no", "").with_code(code);
            let error = Error::Api(status.boxed());
            assert_eq!(ApiAnswer::of(&error), answer, "{code}");
            assert_eq!(words(&error), "no");
        }
        let lost = Error::Service("connection reset".into());
        assert_eq!(ApiAnswer::of(&lost), ApiAnswer::Unknown);
    }
}
