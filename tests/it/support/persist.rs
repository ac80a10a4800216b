//! Asking again where the API server, or a webhook that it asked, could not answer in time, as any
//! client does on a busy machine. Tests of what is answered at once ask once.

use std::time::Duration;

use anyhow::Result;
use kube::Error;
use sluice_testbed::eventually;

/// For so long it is asked again.
const PATIENCE: Duration = Duration::from_secs(90);

/// Has a request done that is fine to be sent twice.
pub async fn persist<T>(attempt: impl AsyncFnMut() -> kube::Result<T>) -> Result<T> {
    Ok(answered(attempt).await??)
}

/// The answer to a request that is fine to be sent twice, be it a refusal.
pub async fn answered<T>(
    mut attempt: impl AsyncFnMut() -> kube::Result<T>,
) -> Result<kube::Result<T>> {
    eventually("an answer", PATIENCE, async || match attempt().await {
        Err(error) if could_not_answer(&error) => {
            eprintln!("asked again after: {error}");
            Err(error)
        }
        answer => Ok(answer),
    })
    .await
}

/// The same with the last error where nobody has answered at all.
pub async fn judged<T>(mut attempt: impl AsyncFnMut() -> kube::Result<T>) -> kube::Result<T> {
    match answered(&mut attempt).await {
        Ok(answer) => answer,
        Err(_) => attempt().await,
    }
}

/// Whether the same request may succeed a moment later, though nothing else has changed.
fn could_not_answer(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 408 | 429 | 500 | 503 | 504),
        Error::HyperError(_) | Error::Service(_) => true,
        _ => false,
    }
}

/// Whether something of this name was there before.
pub fn is_there_already(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}
