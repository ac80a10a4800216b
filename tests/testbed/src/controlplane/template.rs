//! What etcd holds once an API server and the controllers have begun: roles, accounts, flow schemas, CRDs. From the second
//! start with the same manifests on, the control planes of a process begin with a copy: half of a cold start goes into
//! these objects. How one is made is in `start`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::controlplane::ControlPlane;
use crate::controlplane::components::{Component, DATA};
use crate::processes::reaper::Reaper;

/// The template of each list of manifests. Whoever has the lock of one may make it.
type Slot = Arc<tokio::sync::Mutex<State>>;

static SLOTS: Mutex<BTreeMap<Vec<String>, Slot>> = Mutex::new(BTreeMap::new());

/// How far a template has come.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// Nobody has asked: a process with one control plane needs none.
    #[default]
    New,
    /// The next who asks makes it.
    Wanted,
    Made(Arc<Template>),
}

/// The state of the template with these manifests.
pub(crate) fn slot(manifests: &[String]) -> Slot {
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(slots.entry(manifests.to_vec()).or_default())
}

/// The data of an etcd that has ended.
#[derive(Debug)]
pub(crate) struct Template {
    data: PathBuf,
    /// It removes the folder when this process ends.
    _reaper: Arc<Reaper>,
}

impl Template {
    /// What a control plane leaves; its processes end.
    ///
    /// # Errors
    /// When the files can't be read or shortened.
    pub(crate) fn of(control_plane: &ControlPlane) -> Result<Self> {
        let reaper = Arc::clone(&control_plane.reaper);
        // Who writes ends before etcd does.
        for component in [
            Component::ControllerManager,
            Component::ApiServer,
            Component::Etcd,
        ] {
            control_plane.process(component)?.stop();
        }
        let data = reaper.dir().join(DATA);
        shorten_logs(&data.join("member/wal")).context("etcd's write-ahead log")?;
        Ok(Self {
            data,
            _reaper: reaper,
        })
    }

    /// Copies the data into the folder of another run.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub(crate) fn copy_to(&self, dir: &Path) -> Result<()> {
        copy_folder(&self.data, &dir.join(DATA)).context("copying etcd's data")
    }
}

/// etcd allocates 64 MB for each file of its log in advance. What is not written yet is zero, and a log that ends before
/// is read just as well
/// (<https://github.com/etcd-io/etcd/blob/v3.6.8/server/storage/wal/decoder.go>).
fn shorten_logs(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(|e| e.to_str()) {
            Some("tmp") => fs::remove_file(&path)?,
            Some("wal") => {
                let written = written(&fs::read(&path)?);
                let file = fs::File::options().write(true).open(&path)?;
                file.set_len(u64::try_from(written)?)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The length up to the last byte that is not zero, and a frame more: its padding is of zeros.
fn written(bytes: &[u8]) -> usize {
    const FRAME: usize = 8;
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let end = end.map_or(0, |last| last + 1).next_multiple_of(FRAME);
    bytes.len().min(end + FRAME)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    // etcd wants its data to be its own.
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_a_frame_after_what_is_written() {
        let log = |text: &[u8], zeros: usize| [text, &vec![0; zeros][..]].concat();
        assert_eq!(written(&log(b"123456789", 100)), 24);
        assert_eq!(written(&log(b"12345678", 100)), 16);
        assert_eq!(written(&log(b"12345678", 3)), 11);
        assert_eq!(written(&[0; 100]), 8);
    }
}
