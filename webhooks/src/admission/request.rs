//! The question: an `AdmissionReview` read and checked. What gets past here is well-formed: it has a
//! uid, and the objects that its operation needs, of the kind it speaks of.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// The only version that is understood; `admission.k8s.io/v1beta1` is gone since Kubernetes 1.22.
pub(crate) const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of question and answer.
pub(crate) const KIND: &str = "AdmissionReview";

/// One admission request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names this request; the answer repeats it.
    pub uid: String,
    /// What the object is, after conversion to the version that the webhook rule names.
    pub kind: GroupVersionKind,
    /// The namespace of the object; empty for one that is in none.
    #[serde(default)]
    pub namespace: String,
    /// Empty, or the subresource that is written: `status`, `scale`.
    #[serde(default)]
    pub sub_resource: String,
    /// What is done.
    pub operation: Operation,
    /// Who does it.
    pub user_info: UserInfo,
    /// The object as it shall be; absent on deletion.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it is; present on update and deletion.
    #[serde(default)]
    pub old_object: Option<Value>,
    /// Whether nothing is stored.
    #[serde(default)]
    pub dry_run: bool,
    /// What the request says besides.
    #[serde(default)]
    pub options: WriteOptions,
    /// When it was received, if that matters to whoever asks.
    #[serde(skip)]
    pub received: Option<Timestamp>,
}

/// The options of a request that writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteOptions {
    /// Whose the written fields are; empty if the request does not say it.
    #[serde(default)]
    pub field_manager: String,
}

/// What an object is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// For instance `v1`.
    #[serde(default)]
    pub version: String,
    /// For instance `Job`.
    pub kind: String,
}

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct UserInfo {
    /// For a service account `system:serviceaccount:<namespace>:<name>`.
    #[serde(default)]
    pub username: String,
    /// Tells users of one name apart who were there at different times.
    #[serde(default)]
    pub uid: String,
    /// The groups that the user is in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What else the authenticator says.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is edited, by whatever verb.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection is opened, as by `exec`.
    Connect,
}

/// Why a body is not an admission request that can be answered.
#[derive(Debug, Error)]
pub enum Malformed {
    /// It is not JSON of the right shape.
    #[error("the body is not an AdmissionReview: {0}")]
    Shape(#[source] serde_json::Error),
    /// It says that it is something else.
    #[error("the body must be {KIND} of {API_VERSION}")]
    Type,
    /// There is no request in it.
    #[error("request: Required value")]
    NoRequest,
    /// The answer could not be matched to the question.
    #[error("request.uid: Required value")]
    NoUid,
    /// The operation needs an object.
    #[error("request.object: Required value")]
    NoObject,
    /// The operation needs the object as it was.
    #[error("request.oldObject: Required value")]
    NoOldObject,
    /// An object is of another kind than the request says.
    #[error("{field}: must be of the kind in request.kind")]
    WrongKind {
        /// Which of the two objects.
        field: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

impl Request {
    /// Whether it is about a pod.
    pub(crate) fn is_pod(&self) -> bool {
        self.kind.group.is_empty() && self.kind.kind == "Pod"
    }

    /// That somebody creates this object.
    pub(crate) fn creating(object: Value) -> Self {
        Self {
            uid: String::new(),
            kind: GroupVersionKind::default(),
            namespace: String::new(),
            sub_resource: String::new(),
            operation: Operation::Create,
            user_info: UserInfo::default(),
            object: Some(object),
            old_object: None,
            dry_run: false,
            options: WriteOptions::default(),
            received: None,
        }
    }

    /// Reads the body of a call.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let review: Review = serde_json::from_slice(body).map_err(Malformed::Shape)?;
        if review.api_version != API_VERSION || review.kind != KIND {
            return Err(Malformed::Type);
        }
        let request = review.request.ok_or(Malformed::NoRequest)?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Malformed> {
        if self.uid.is_empty() {
            return Err(Malformed::NoUid);
        }
        let (object, old_object) = (self.object.as_ref(), self.old_object.as_ref());
        match self.operation {
            Operation::Create | Operation::Update if object.is_none() => {
                return Err(Malformed::NoObject);
            }
            Operation::Update if old_object.is_none() => return Err(Malformed::NoOldObject),
            _ => {}
        }
        if !self.is_of_kind(object) {
            return Err(Malformed::WrongKind {
                field: "request.object",
            });
        }
        if !self.is_of_kind(old_object) {
            return Err(Malformed::WrongKind {
                field: "request.oldObject",
            });
        }
        Ok(())
    }

    fn is_of_kind(&self, object: Option<&Value>) -> bool {
        let kind =
            |o: &Value| o.get("kind").and_then(Value::as_str) == Some(self.kind.kind.as_str());
        object.is_none_or(kind)
    }
}
