//! Watches: the changes after a revision, as they come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::answer::{Refusal, shown};
use super::request::Request;
use super::server::Server;
use super::store::{Change, Follower};

/// How often a bookmark is sent, and before the end.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// A watch that is open.
#[derive(Debug)]
pub struct Stream {
    server: Arc<Server>,
    request: Request,
    /// The revision up to which all was sent.
    seen: u64,
    ends: Instant,
    /// When the next bookmark is due; none: they are not wanted.
    bookmark: Option<Instant>,
    follow: Follower,
    ready: VecDeque<String>,
    is_over: bool,
}

impl Stream {
    pub(super) fn open(
        server: &Arc<Server>,
        request: &Request,
        from: u64,
        seconds: u64,
        bookmarks: bool,
    ) -> Self {
        let now = Instant::now();
        let ends = now + Duration::from_secs(seconds);
        let follow = server.store().follow();
        Self {
            server: server.clone(),
            request: request.clone(),
            seen: from,
            ends,
            bookmark: bookmarks.then(|| (now + BOOKMARKS).min(ends)),
            follow,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// The next line; none when the watch has ended.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.is_over {
                return None;
            }
            self.take_in();
            if !self.ready.is_empty() {
                continue;
            }
            let due = self.bookmark.unwrap_or(self.ends).min(self.ends);
            tokio::select! {
                biased;
                () = self.follow.changed() => {}
                () = sleep_until(due) => self.due(due),
            }
        }
    }

    fn take_in(&mut self) {
        let store = self.server.store();
        self.follow.mark_seen();
        let Some(changes) = store.since(self.seen) else {
            let gone = Refusal::new(410, "too old resource version").status();
            self.ready.push_back(line("ERROR", &gone));
            self.is_over = true;
            return;
        };
        let lines = changes
            .iter()
            .filter_map(|change| line_of(&self.request, change));
        self.ready.extend(lines);
        self.seen = store.revision().max(self.seen);
    }

    fn due(&mut self, due: Instant) {
        if self.bookmark.is_some() {
            let resource = self.request.place.resource;
            let bookmark = json!({
                "apiVersion": resource.api_version(), "kind": resource.kind,
                "metadata": {"resourceVersion": self.seen.to_string()},
            });
            self.ready.push_back(line("BOOKMARK", &bookmark));
        }
        if self.ends <= due {
            self.is_over = true;
            return;
        }
        self.bookmark = self.bookmark.map(|_| (due + BOOKMARKS).min(self.ends));
    }
}

/// A change as a watch tells it; none if it has nothing to do with what is watched.
fn line_of(request: &Request, change: &Change) -> Option<String> {
    let Request {
        place,
        selector,
        metadata_only,
        ..
    } = request;
    let is_here = place.resource == change.place.resource
        && (place.namespace.is_empty() || place.namespace == change.place.namespace)
        && (place.name.is_empty() || place.name == change.place.name);
    if !is_here {
        return None;
    }
    let of = |object: &Option<Arc<Value>>| object.clone().filter(|object| selector.selects(object));
    let (what, mut object) = match (of(&change.before), of(&change.after)) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", shown(&after, *metadata_only)),
        (Some(_), Some(after)) => ("MODIFIED", shown(&after, *metadata_only)),
        (Some(before), None) => ("DELETED", shown(&before, *metadata_only)),
    };
    object["metadata"]["resourceVersion"] = json!(change.number.to_string());
    Some(line(what, &object))
}

/// An event of a watch, its type first as the API server writes it.
fn line(what: &str, object: &Value) -> String {
    format!("{{\"type\":\"{what}\",\"object\":{object}}}")
}
