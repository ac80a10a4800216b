//! How a request fails, and what its sender may make of that.

use kube::Error;
use kube::core::Status;

use super::reply::Reply;
use crate::process::answer::ApiAnswer;
use crate::process::term::WRITE_DEADLINE;

/// What the API server says of a JSON patch whose `test` failed (`NewGenericServerResponse` in
/// apimachinery): it leaves the cause out, and no other 422 reads so.
const FAILED_TEST: &str = "the server rejected our request due to an error in our request";

/// What the API server says where a webhook with `failurePolicy: Fail` can't be reached or gives no answer
/// (`dispatcher.go` of apiserver's webhook admission).
const FAILED_WEBHOOK: &str = "failed calling webhook";

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestFailure {
    Api(Box<Status>),
    Other(String),
}

impl RequestFailure {
    /// The object has changed since the write was planned: 409; 422 for a JSON patch whose `test`
    /// failed, and for another UID in a patch; 404 for an object that is gone.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Api(status) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                self.is_gone()
                    || (status.code == 422 && status.message.starts_with(FAILED_TEST))
                    || (status.code == 422 && causes.into_iter().any(|c| c.field == "metadata.uid"))
            }
            Self::Other(_) => false,
        }
    }

    /// There is no such object, or another one by its name.
    pub(super) fn is_gone(&self) -> bool {
        self.answer().is_gone()
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.answer() == ApiAnswer::NotFound
    }

    fn answer(&self) -> ApiAnswer {
        match self {
            Self::Api(status) => ApiAnswer::of_status(status),
            Self::Other(_) => ApiAnswer::Unknown,
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        match self {
            Self::Api(status) if is_refusal(&status) => Reply::Refused(status.message),
            Self::Api(status) if ApiAnswer::of_status(&status) == ApiAnswer::Throttled => {
                Reply::Throttled(status.message)
            }
            other => Reply::Unknown(other.text()),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Api(status) => format!("{} ({})", status.message, status.code),
            Self::Other(text) => text.clone(),
        }
    }
}

/// Whether the API server has certainly stored nothing. Webhooks are called before anything is stored.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 405 | 413 | 415 | 422)
        || (status.code == 500 && status.message.contains(FAILED_WEBHOOK))
}

/// Sends a request, within the longest time that one may take.
pub(super) async fn deadline<T>(
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, RequestFailure> {
    match tokio::time::timeout(WRITE_DEADLINE, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Error::Api(status))) => Err(RequestFailure::Api(status)),
        Ok(Err(error)) => Err(RequestFailure::Other(error.to_string())),
        Err(_) => Err(RequestFailure::Other(format!(
            "no reply within {} s",
            WRITE_DEADLINE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::write::words::outcome;

    #[test]
    fn it_is_known_what_has_stored_nothing() {
        let down =
            "Internal error occurred: failed calling webhook \"a.acme.io\": connection refused";
        let rows = [
            (403, "pods \"p\" is forbidden: denied", "refused"),
            (
                422,
                "Job.batch \"a\" is invalid: spec: Invalid value",
                "refused",
            ),
            (500, down, "refused"),
            (500, "etcdserver: request timed out", "unknown"),
            (
                429,
                "Too many requests, please try again later.",
                "throttled",
            ),
            (503, "apiserver is shutting down", "unknown"),
            (504, "Timeout: request did not complete", "unknown"),
        ];
        for (code, message, expected) in rows {
            let status = Status {
                code,
                message: message.to_owned(),
                ..Status::default()
            };
            let reply = RequestFailure::Api(Box::new(status)).into_reply();
            assert_eq!(outcome(&reply), expected, "{reply:?}");
        }
    }
}
