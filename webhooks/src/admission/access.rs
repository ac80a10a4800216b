//! The wall to the API server's authorizer: whether a user has a right. The caller of this crate looks that up;
//! nothing here does.

use std::pin::Pin;

use crate::admission::request::UserInfo;

/// Looks up what users may do.
pub trait Access: Send + Sync {
    /// Whether `user` may `lift` the Gate of this name in `namespace`. Must answer within a second: an API server
    /// waits meanwhile.
    fn may_lift<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
        gate: &'a str,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + 'a>>;
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
