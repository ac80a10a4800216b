//! The server: does what a request asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Response;
use http::request::Parts;
use serde_json::{Value, json};
use sluice::clock;

use super::admission::{Operation, Reviews};
use super::answer::{Refusal, json_of, shown};
use super::patch;
use super::request::{Asked, Request, Verb, parse};
use super::resource::Place;
use super::rules::{self, Part};
use super::store::{Store, in_seconds};
use super::stream::Stream;

/// Who sends a request: a user name.
pub type Author = Arc<str>;

/// How often a change is tried whose object changes meanwhile, as API servers do.
const TRIES: usize = 5;
/// How long pods are given to end.
const GRACE_SECONDS: i64 = 30;

/// What a request is answered with.
#[derive(Debug)]
pub enum Reply {
    /// At once.
    Whole(Response<Vec<u8>>),
    /// By changes as they come.
    Watch(Box<Stream>),
}

/// The API server.
#[derive(Debug)]
pub struct Server {
    store: Mutex<Store>,
    /// Who is asked before something is written.
    pub reviews: Reviews,
}

impl Server {
    /// A server with these objects, created by an administrator.
    pub fn new(seed: u64, objects: &[Value]) -> Arc<Self> {
        let server = Self {
            store: Mutex::new(Store::new(seed)),
            reviews: Reviews::default(),
        };
        for object in objects {
            server.seed(object);
        }
        Arc::new(server)
    }

    /// The objects.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an object that is there from the beginning.
    fn seed(&self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let place = Place::of(
            &text(&object["kind"]),
            &text(&metadata["namespace"]),
            &text(&metadata["name"]),
        );
        let mut store = self.store();
        let uid = store.uid();
        let mut object = object.clone();
        object["apiVersion"] = json!(place.resource.api_version());
        let object = rules::created(place.resource, object, &uid, clock::wall());
        store.put(&place, object, "admin");
    }

    /// Answers a request.
    pub async fn answer(self: &Arc<Self>, author: &Author, head: &Parts, body: &[u8]) -> Reply {
        let answered = match parse(head, body) {
            Ok(Asked::Document(document)) => Ok(Reply::Whole(json_of(200, &document))),
            Ok(Asked::Objects(request)) => self.execute(author, *request).await,
            Err(refusal) => Err(refusal),
        };
        answered.unwrap_or_else(|refusal| Reply::Whole(json_of(refusal.code, &refusal.status())))
    }

    /// Does what is asked for.
    ///
    /// # Errors
    /// As the API server words it.
    pub async fn execute(
        self: &Arc<Self>,
        author: &Author,
        request: Request,
    ) -> Result<Reply, Refusal> {
        let metadata_only = request.metadata_only;
        let whole = |code: u16, object: &Value| {
            Ok(Reply::Whole(json_of(code, &shown(object, metadata_only))))
        };
        match request.verb {
            Verb::Get => {
                let found = self.store().get(&request.place).cloned();
                let found = found.ok_or_else(|| Refusal::not_found(&request.place))?;
                whole(200, &found)
            }
            Verb::List { limit, ref after } => {
                let list = self.list(&request, limit, after.as_deref());
                Ok(Reply::Whole(json_of(200, &list)))
            }
            Verb::Watch {
                from,
                seconds,
                bookmarks,
            } => {
                let stream = Stream::open(self, &request, from, seconds, bookmarks);
                Ok(Reply::Watch(Box::new(stream)))
            }
            Verb::Create(object) => whole(201, &*self.create(author, request.place, object).await?),
            Verb::Update(part, object) => {
                let change = |_: &Value| Ok(object.clone());
                whole(
                    200,
                    &*self
                        .change(author, &request.place, part, false, change)
                        .await?,
                )
            }
            Verb::Patch(part, content_type, patch) => {
                let change = |old: &Value| {
                    let mut new = old.clone();
                    // A patch that names a revision or UID asks for that one.
                    let done = patch::apply(&content_type, &mut new, &patch);
                    done.map_err(|(code, message)| Refusal::new(code, message))?;
                    Ok(new)
                };
                whole(
                    200,
                    &*self
                        .change(author, &request.place, part, true, change)
                        .await?,
                )
            }
            Verb::Delete(options) => {
                let last = self.delete(author, &request.place, &options)?;
                let is_gone = self.store().get(&request.place).is_none();
                if is_gone && request.place.resource.kind != "Pod" {
                    let done = json!({
                        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success",
                    });
                    return whole(200, &done);
                }
                whole(200, &last)
            }
        }
    }

    fn list(&self, request: &Request, limit: usize, after: Option<&str>) -> Value {
        let resource = request.place.resource;
        let store = self.store();
        let (revision, after) = match after.and_then(|token| token.split_once('|')) {
            Some((revision, after)) => (revision.to_owned(), Some(after)),
            None => (store.revision().to_string(), None),
        };
        let selected = store
            .list(resource, &request.place.namespace)
            .filter(|(place, _)| {
                after.is_none_or(|after| *format!("{}/{}", place.namespace, place.name) > *after)
            })
            .filter(|(_, object)| request.selector.selects(object));
        let mut items = Vec::new();
        let (mut last, mut has_more) = (String::new(), false);
        for (place, object) in selected {
            if limit != 0 && items.len() == limit {
                has_more = true;
                break;
            }
            last = format!("{}/{}", place.namespace, place.name);
            items.push(shown(object, request.metadata_only));
        }
        let (kind, api_version) = if request.metadata_only {
            (
                "PartialObjectMetadata".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            )
        } else {
            (resource.kind.to_owned(), resource.api_version())
        };
        let mut metadata = json!({ "resourceVersion": revision });
        if has_more {
            metadata["continue"] = json!(format!("{revision}|{last}"));
        }
        json!({
            "apiVersion": api_version, "kind": format!("{kind}List"),
            "metadata": metadata, "items": items,
        })
    }

    /// Creates an object.
    ///
    /// # Errors
    /// There is one already, its namespace is not there, or admission refuses it.
    pub async fn create(
        self: &Arc<Self>,
        author: &Author,
        mut place: Place,
        mut object: Value,
    ) -> Result<Arc<Value>, Refusal> {
        if let Some(prefix) = object["metadata"]["generateName"].as_str()
            && object["metadata"]["name"].is_null()
        {
            let name = format!("{prefix}{}", self.store().suffix());
            object["metadata"]["name"] = json!(name);
        }
        place.name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        object["apiVersion"] = json!(place.resource.api_version());
        object["kind"] = json!(place.resource.kind);
        if place.resource.is_namespaced {
            object["metadata"]["namespace"] = json!(place.namespace);
        }
        self.check_namespace(&place)?;
        let reviewed = self
            .reviews
            .mutate(author, Operation::Create, &place, None, object)
            .await?;
        let uid = {
            let mut store = self.store();
            if store.get(&place).is_some() {
                return Err(Refusal::exists(&place));
            }
            store.uid()
        };
        let object = rules::created(place.resource, reviewed, &uid, clock::wall());
        let operation = Operation::Create;
        self.reviews
            .validate(author, operation, &place, None, &object)
            .await?;
        let mut store = self.store();
        if store.get(&place).is_some() {
            return Err(Refusal::exists(&place));
        }
        Ok(store.put(&place, object, author))
    }

    fn check_namespace(&self, place: &Place) -> Result<(), Refusal> {
        if !place.resource.is_namespaced {
            return Ok(());
        }
        let namespace = Place::of("Namespace", "", &place.namespace);
        match self.store().get(&namespace) {
            None => Err(Refusal::not_found(&namespace)),
            Some(found) if !found["metadata"]["deletionTimestamp"].is_null() => {
                let why = format!(
                    "{} {:?} is forbidden: unable to create new content in namespace {} because it is being terminated",
                    place.resource.qualified(),
                    place.name,
                    place.namespace
                );
                Err(Refusal::new(403, why))
            }
            Some(_) => Ok(()),
        }
    }

    /// Changes an object.
    ///
    /// # Errors
    /// It is not there, or not as the request says, or may not be so, or admission refuses it.
    pub async fn change(
        self: &Arc<Self>,
        author: &Author,
        place: &Place,
        part: Part,
        is_patch: bool,
        change: impl Fn(&Value) -> Result<Value, Refusal>,
    ) -> Result<Arc<Value>, Refusal> {
        for _ in 0..TRIES {
            let old = self.store().get(place).cloned();
            let old = old.ok_or_else(|| Refusal::not_found(place))?;
            let asked = change(&old)?;
            check_preconditions(place, &old, &asked["metadata"], is_patch)?;
            let new = rules::updated(place.resource, part, &old, asked);
            if let Some(refusal) = rules::forbidden(place, part, &old, &new) {
                return Err(refusal);
            }
            let new = if part == Part::Main {
                let operation = Operation::Update;
                let new = self
                    .reviews
                    .mutate(author, operation, place, Some(&old), new)
                    .await?;
                self.reviews
                    .validate(author, operation, place, Some(&old), &new)
                    .await?;
                new
            } else {
                new
            };
            let mut store = self.store();
            if store.get(place).is_none_or(|now| !Arc::ptr_eq(now, &old)) {
                continue;
            }
            if is_over(&new) {
                let last = store.remove(place, author);
                return last.ok_or_else(|| Refusal::not_found(place));
            }
            return Ok(store.put(place, new, author));
        }
        Err(Refusal::conflict(
            place,
            "the object has been modified; please apply your changes to the latest version and try again",
        ))
    }

    /// Deletes an object, or has it end: one with finalizers, or a pod that runs.
    ///
    /// # Errors
    /// It is not there, or not the one that is meant.
    pub fn delete(
        &self,
        author: &Author,
        place: &Place,
        options: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        let mut store = self.store();
        let old = store
            .get(place)
            .cloned()
            .ok_or_else(|| Refusal::not_found(place))?;
        check_preconditions(place, &old, &options["preconditions"], false)?;
        let mut new = (*old).clone();
        let policy = options["propagationPolicy"]
            .as_str()
            .unwrap_or("Background");
        let finalizer = match policy {
            "Orphan" => Some("orphan"),
            "Foreground" => Some("foregroundDeletion"),
            _ => None,
        };
        if let Some(finalizer) = finalizer {
            let finalizers = &mut new["metadata"]["finalizers"];
            let mut list = finalizers.as_array().cloned().unwrap_or_default();
            if !list.iter().any(|known| known == finalizer) {
                list.push(json!(finalizer));
            }
            *finalizers = json!(list);
        }
        let grace = grace_of(&new, options);
        if new["metadata"]["deletionTimestamp"].is_null() {
            new["metadata"]["deletionTimestamp"] = json!(in_seconds(clock::wall()));
            new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        } else if grace == 0 {
            new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        }
        if is_over(&new) {
            // A pod is marked first, and then removed.
            if place.resource.kind == "Pod" {
                new = (*store.put(place, new, author)).clone();
            }
            let last = store.remove(place, author);
            return Ok(last.unwrap_or_else(|| Arc::new(new)));
        }
        Ok(store.put(place, new, author))
    }
}

/// How many seconds an object is given that is deleted: a pod that is bound and has not ended has some.
fn grace_of(object: &Value, options: &Value) -> i64 {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    let runs = object["kind"] == "Pod"
        && !object["spec"]["nodeName"].is_null()
        && !["Succeeded", "Failed"].contains(&phase);
    if !runs {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    options["gracePeriodSeconds"]
        .as_i64()
        .or(own)
        .unwrap_or(GRACE_SECONDS)
}

/// Whether nothing keeps an object that was deleted.
fn is_over(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let has_finalizers = metadata["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    !metadata["deletionTimestamp"].is_null()
        && !has_finalizers
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

/// Whether an object is the one that a request means: by UID and revision.
fn check_preconditions(
    place: &Place,
    object: &Value,
    asked: &Value,
    is_patch: bool,
) -> Result<(), Refusal> {
    let metadata = &object["metadata"];
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (asked, known) = (&asked[field], &metadata[field]);
        if !asked.is_null() && asked != "" && asked != known {
            let (asked, known) = (asked.as_str().unwrap_or(""), known.as_str().unwrap_or(""));
            // Who patches has no preconditions, and may not change it.
            if field == "uid" && is_patch {
                let why = format!("metadata.uid: Invalid value: {asked:?}: field is immutable");
                return Err(Refusal::invalid(place, &why));
            }
            let why = if field == "uid" {
                format!(
                    "Precondition failed: {name} in precondition: {asked}, {name} in object meta: {known}"
                )
            } else {
                "the object has been modified; please apply your changes to the latest version and try again".to_owned()
            };
            return Err(Refusal::conflict(place, &why));
        }
    }
    Ok(())
}
