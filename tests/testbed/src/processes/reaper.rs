//! Makes sure that nothing outlives the run: a tiny `sh` holds the read end of a pipe and the list
//! of our processes. When we end, for whatever reason (SIGKILL too), the pipe closes; it then kills
//! what is left and removes the run's folder.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// Lines: `+PID` began, `-PID` ended and was waited for (so its number may mean another one now).
/// Ctrl-C reaches a whole process group: the reaper has its own and ignores it. A killed process
/// may end a write meanwhile, so removing the folder may need more than one try.
const SCRIPT: &str = r#"
trap '' INT HUP TERM QUIT
pids=
while read -r line; do
    case $line in
    +*) pids="$pids ${line#+}" ;;
    -*)
        left=
        for pid in $pids; do [ "$pid" = "${line#-}" ] || left="$left $pid"; done
        pids=$left
        ;;
    esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
[ "$2" = remove ] && [ -e "$1/.sluice-testbed" ] || exit
tries=0
until rm -rf -- "$1" || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
"#;

/// The run's folder and the process that cleans up after us.
#[derive(Debug)]
pub(crate) struct Reaper {
    dir: PathBuf,
    child: Child,
    /// Taken only by `drop`, which closes it.
    pipe: Mutex<Option<ChildStdin>>,
}

impl Reaper {
    /// Makes a private folder for the run and starts its reaper. With `TESTBED_KEEP` set (and not
    /// `0`) the folder stays and its path is printed.
    pub(crate) fn start() -> Result<Self> {
        let keep = std::env::var_os("TESTBED_KEEP").is_some_and(|v| v != "0" && !v.is_empty());
        let dir = make_dir()?;
        if keep {
            eprintln!("sluice-testbed: keeping {}", dir.display());
        }
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(SCRIPT)
            .arg("sluice-testbed-reaper")
            .arg(&dir)
            .arg(if keep { "keep" } else { "remove" })
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting sh, which ends the control plane when this process ends")?;
        let pipe = Mutex::new(child.stdin.take());
        Ok(Self { dir, child, pipe })
    }

    /// The run's folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// A handle on which a new process tells its own pid before it becomes what it shall be: so
    /// there is no moment at which it lives and the reaper does not know.
    pub(crate) fn registration(&self) -> Result<Stdio> {
        let pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_ref().context("the reaper's pipe is closed")?;
        Ok(Stdio::from(pipe.as_fd().try_clone_to_owned()?))
    }

    /// Puts a process on the list that could not register itself.
    pub(crate) fn remember(&self, pid: u32) {
        self.tell(&format!("+{pid}\n"));
    }

    /// Takes a process off the list: it has ended and was waited for.
    pub(crate) fn forget(&self, pid: u32) {
        self.tell(&format!("-{pid}\n"));
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // In one write: half a line would be lost with us. A reaper that is gone can't be told;
            // the next registration says so.
            let _ = pipe.write_all(line.as_bytes());
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.pipe
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let _ = self.child.wait();
    }
}

fn make_dir() -> Result<PathBuf> {
    use std::hash::{BuildHasher, RandomState};
    let unique = RandomState::new().hash_one("dir");
    let name = format!("sluice-testbed-{}-{unique:016x}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    // Keys and tokens go there: for this user only.
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("making {}", dir.display()))?;
    std::fs::write(dir.join(".sluice-testbed"), "")?;
    Ok(dir)
}
