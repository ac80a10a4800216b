//! The paths that Sluice writes to in objects of the shipped kinds, by what their JobKinds say. A path
//! has `[]` for each element of a list or map.

use sluice_crds::{JobKindSpec, PodSetRule};

use crate::manifests::cel::syntax::{text, texts};

/// Where Sluice writes in objects of one kind.
#[derive(Default)]
struct Paths {
    /// Whatever is written there: node selectors and tolerations.
    free: Vec<String>,
    /// Labels and annotations of which some are Sluice's own.
    marked: Vec<String>,
    /// How many pods there are, where fewer may be admitted.
    counts: Vec<String>,
    /// Lists and maps of pod sets.
    each: Vec<String>,
}

/// CEL, a map: for each kind that has these paths, by group, version and kind, what may be written where.
pub(super) fn table(kinds: &[JobKindSpec]) -> String {
    let known: Vec<_> = kinds.iter().filter_map(entry).collect();
    format!("{{{}}}", known.join(",\n"))
}

/// None for a kind whose pod templates lie where its objects say: it is judged as one that is not known.
fn entry(kind: &JobKindSpec) -> Option<String> {
    let mut paths = Paths::default();
    // An object that can't be suspended is read only: Sluice writes to its pods.
    if kind.suspend.is_some() {
        for set in &kind.pod_sets {
            paths.add(set)?;
        }
    }
    let suspend: Vec<_> = kind.suspend.iter().cloned().collect();
    let all = [&suspend, &paths.free, &paths.marked, &paths.counts];
    let all: Vec<_> = all.into_iter().flatten().map(String::as_str).collect();
    let list = |list: &[String]| texts(list.iter().map(String::as_str));
    Some(format!(
        "{}: {{'suspend': {}, 'free': {}, 'marked': {}, 'counts': {}, 'each': {}, 'all': {}}}",
        text(&format!("{}/{}/{}", kind.group, kind.version, kind.kind)),
        list(&suspend),
        list(&paths.free),
        list(&paths.marked),
        list(&paths.counts),
        list(&paths.each),
        texts(all)
    ))
}

impl Paths {
    fn add(&mut self, set: &PodSetRule) -> Option<()> {
        let base = match &set.for_each {
            Some(list) => {
                self.each.push(list.clone());
                format!("{list}[]")
            }
            None => String::new(),
        };
        if let Some(partial) = &set.partial_admission {
            self.counts.push(partial.field.clone());
        }
        match (&set.template, &set.pod_metadata, &set.pod_infos) {
            (_, _, Some(infos)) => {
                let (above, _) = set.for_each.as_deref()?.rsplit_once('.')?;
                self.place(&format!("{above}{infos}[]"), &format!("{above}{infos}[]"));
            }
            (Some(template), _, None) => self.place(
                &format!("{base}{template}.spec"),
                &format!("{base}{template}.metadata"),
            ),
            (None, Some(metadata), None) => self.mark(&format!("{base}{metadata}")),
            (None, None, None) => return None,
        }
        Some(())
    }

    fn place(&mut self, spec: &str, metadata: &str) {
        self.free
            .extend(["nodeSelector", "tolerations"].map(|field| format!("{spec}.{field}")));
        self.mark(metadata);
    }

    fn mark(&mut self, metadata: &str) {
        self.marked
            .extend(["labels", "annotations"].map(|map| format!("{metadata}.{map}")));
    }
}
