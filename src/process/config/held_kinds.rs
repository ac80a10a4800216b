//! The JobKinds in a folder, each with the resource of its kind, which its ClusterRole names. No file is passed over that
//! may have one: without policies its objects would run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt;
use serde_json::Value;
use sluice_crds::{GROUP, JobKind};
use sluice_kinds::metadata::group_version;
use sluice_webhooks::manifests::ManagedResource;
use sluice_webhooks::manifests::policies::HeldKind;

#[cfg(test)]
mod tests;

/// The endings of files that manifests are in.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];
/// What the name of a file with the role of a JobKind ends with, before its ending.
const ROLE: &str = "-role";

/// What a file has.
#[derive(Debug, Default)]
struct Found {
    job_kinds: Vec<JobKind>,
    roles: Vec<ClusterRole>,
}

/// The kinds in `folder` and the folders in it, by their names.
pub(super) fn read(folder: &Path) -> Result<Vec<HeldKind>> {
    let mut files = BTreeMap::new();
    read_folder(folder, &mut files)?;
    let mut kinds = BTreeMap::new();
    let mut read = BTreeSet::new();
    for (file, found) in &files {
        let at = file.display();
        let [job_kind] = &found.job_kinds[..] else {
            if !found.job_kinds.is_empty() {
                bail!("{at}: must have one JobKind: which role is whose can't be told");
            }
            if role_of(file).is_some_and(|of| !has_job_kind(&of, &files)) {
                bail!("{at}: there is no JobKind that this role goes with");
            }
            continue;
        };
        let (name, spec) = (job_kind.name_any(), &job_kind.spec);
        let resource = resource(file, job_kind, &files)?;
        let kind = HeldKind::new(resource, spec.clone());
        let kind = kind.map_err(|problem| anyhow!("JobKind {name}: {problem}"))?;
        if !read.insert((&spec.group, &spec.kind)) || kinds.insert(name, kind).is_some() {
            bail!("{at}: another file has a JobKind of this name or for this kind, too");
        }
    }
    if kinds.is_empty() {
        bail!("{} has no JobKinds", folder.display());
    }
    Ok(kinds.into_values().collect())
}

/// Reads the manifests in `folder`, but those that are hidden.
fn read_folder(folder: &Path, files: &mut BTreeMap<PathBuf, Found>) -> Result<()> {
    let listed = || format!("list {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(listed)? {
        let path = entry.with_context(listed)?.path();
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            read_folder(&path, files)?;
        } else if ENDINGS
            .map(|ending| Some(OsStr::new(ending)))
            .contains(&path.extension())
        {
            let found = read_file(&path).with_context(|| format!("read {}", path.display()))?;
            files.insert(path, found);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Found> {
    let text = std::fs::read_to_string(path)?;
    let mut found = Found::default();
    for document in serde_saphyr::from_multiple::<Value>(&text)? {
        found.take(document)?;
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, mut document: Value) -> Result<()> {
        let text = |field: &str| {
            document
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (group, kind) = (group_version(text("apiVersion")).0, text("kind"));
        match (group, kind) {
            (GROUP, "JobKind") => self.job_kinds.push(serde_json::from_value(document)?),
            ("rbac.authorization.k8s.io", "ClusterRole") => {
                self.roles.push(serde_json::from_value(document)?);
            }
            (_, kind) if kind.ends_with("List") => {
                let items = document.get_mut("items").map(Value::take);
                let Some(Value::Array(items)) = items else {
                    return Ok(());
                };
                items.into_iter().try_for_each(|item| self.take(item))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The path, without its ending, of the file whose JobKind the role in `file` is for, by the names of both.
fn role_of(file: &Path) -> Option<PathBuf> {
    let stem = file.file_stem()?.to_str()?;
    Some(file.with_file_name(stem.strip_suffix(ROLE)?))
}

/// Whether one of the `files` at `path`, which has no ending, has a JobKind.
fn has_job_kind(path: &Path, files: &BTreeMap<PathBuf, Found>) -> bool {
    let mut all = files
        .iter()
        .filter(|(file, _)| file.with_extension("") == path);
    all.any(|(_, found)| !found.job_kinds.is_empty())
}

/// The resource of the kind that the JobKind in `file` is for. The first rule of its role names it: of a ClusterRole
/// beside it in the file, or in the file for its role.
fn resource(
    file: &Path,
    job_kind: &JobKind,
    files: &BTreeMap<PathBuf, Found>,
) -> Result<ManagedResource> {
    let spec = &job_kind.spec;
    let stem = file.with_extension("");
    let is_for = |path: &Path| path == file || role_of(path).as_deref() == Some(&stem);
    let roles = files.iter().filter(|(path, _)| is_for(path));
    let named = |role: &ClusterRole| {
        let rule = role.rules.as_ref()?.first()?;
        let is_of_group = rule.api_groups.iter().flatten().eq([&spec.group]);
        rule.resources
            .as_ref()?
            .first()
            .filter(|_| is_of_group)
            .cloned()
    };
    let mut resources = roles.flat_map(|(_, found)| &found.roles).filter_map(named);
    let resource = resources.next().ok_or_else(|| {
        anyhow!(
            "{}: JobKind {:?} has no ClusterRole, in this file or in one with the name {stem}{ROLE}.yaml beside it, whose first rule names the group and the resource of the kind",
            file.display(),
            job_kind.name_any(),
            stem = stem.file_name().unwrap_or_default().display(),
        )
    })?;
    Ok(ManagedResource {
        group: spec.group.clone(),
        version: spec.version.clone(),
        resource,
        subresources: vec!["status".to_owned()],
        pod_metadata: Vec::new(),
    })
}
