//! How a write ended. What follows from that lies in `controller/writes`.

use kube::api::DynamicObject;

/// How a write ended.
#[derive(Debug)]
pub enum Reply {
    /// It has happened, and this is the object now. None for a deletion.
    Done(Option<Box<DynamicObject>>),
    /// It has not happened: the object has changed. This is the object now; none if it is gone.
    Conflict(Option<Box<DynamicObject>>),
    /// It has not happened and never will as it is: the API server's own words.
    Refused(String),
    /// It has not happened: the API server has too much to do (429). Its own words.
    Throttled(String),
    /// It has not happened, or nobody knows: to be looked at again.
    Unknown(String),
}
