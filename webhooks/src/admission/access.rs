//! The wall to the API server's authorizer: whether a user has a right. The caller of this crate looks that up;
//! nothing here does.

use std::pin::Pin;

use sluice_crds::{GROUP, LIFT_VERB};
use thiserror::Error;

use crate::admission::request::UserInfo;

/// Looks up what users may do.
pub trait Access: Send + Sync {
    /// Whether `user` has `right`. Must answer within a second: an API server waits meanwhile.
    fn has<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + 'a>>;

    /// The resource by which rights name a kind, such as `configmaps`; none if the kind is not served. Must answer
    /// within a second, too.
    fn resource<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, Unanswered>> + Send + 'a>>;
}

/// What somebody may do, as roles say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// What is done.
    pub verb: &'static str,
    /// The API group of what it is done to.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// Its namespace; empty: none, or all.
    pub namespace: String,
    /// Its name; empty: any.
    pub name: String,
}

impl Right {
    /// To lift the Gate of this name in `namespace`.
    pub(crate) fn lift(namespace: &str, gate: &str) -> Self {
        Self {
            verb: LIFT_VERB,
            group: GROUP.to_owned(),
            resource: "gates".to_owned(),
            namespace: namespace.to_owned(),
            name: gate.to_owned(),
        }
    }
}

/// Why a question to the API server has no answer for now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unanswered {
    /// It was not sent.
    #[error("too many such questions came at once")]
    TooMany,
    /// Nobody has answered it in time.
    #[error("no reply within {seconds} s")]
    NoReply {
        /// For how long it was waited.
        seconds: u64,
    },
    /// It has failed, or the reply can't be read.
    #[error("{0}")]
    Failed(String),
}

/// Whether somebody may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// He may.
    Allowed,
    /// He may not.
    Denied,
    /// It can't be found out for now. Says why.
    Unknown(String),
}
