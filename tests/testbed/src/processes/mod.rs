//! One child process: started so that the reaper knows it from its first moment, in a process
//! group of its own (Ctrl-C is for us, not for it), with its output in a log file.

pub(crate) mod http;
pub(crate) mod ports;
pub(crate) mod proxy;
pub(crate) mod reaper;

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

use crate::processes::reaper::Reaper;

/// Says its pid on the reaper's pipe (its stdout), then becomes the program, logging to `$1`.
const REGISTER: &str = r#"echo "+$$" && log=$1 && shift && exec "$@" >>"$log" 2>&1"#;

/// How much of a log goes into an error.
const TAIL_BYTES: u64 = 4096;

/// What to start: kept, so that it can be started again the same way.
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// A process of this name (it names the log file) from this program.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. Of ours the process inherits only PATH; HOME is the run's
    /// folder, so that nobody's own configuration is read or written.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }
}

/// A process of the test bed. It ends when this is dropped, or with the run at the latest.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    log: PathBuf,
    reaper: Arc<Reaper>,
    /// None after it was stopped.
    child: Mutex<Option<Child>>,
}

impl Process {
    pub(crate) fn start(launch: Launch, reaper: &Arc<Reaper>) -> Result<Self> {
        let process = Self::stopped(launch, reaper);
        process.start_again()?;
        Ok(process)
    }

    /// One that waits to be started.
    pub(crate) fn stopped(launch: Launch, reaper: &Arc<Reaper>) -> Self {
        let log = reaper.dir().join(format!("{}.log", launch.name));
        Self {
            launch,
            log,
            reaper: Arc::clone(reaper),
            child: Mutex::new(None),
        }
    }

    /// Starts it again the same way, after [`Process::stop`]; its log goes on in the same file.
    ///
    /// # Errors
    /// When it still runs, or can't be started.
    pub fn start_again(&self) -> Result<()> {
        let mut slot = self.lock();
        if slot.is_some() {
            bail!("{} was not stopped", self.launch.name);
        }
        let child = Command::new("sh")
            .arg("-c")
            .arg(REGISTER)
            .arg("sh")
            .arg(&self.log)
            .arg(&self.launch.program)
            .args(&self.launch.args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.reaper.dir())
            .envs(self.launch.env.iter().map(|(k, v)| (k, v)))
            .current_dir(self.reaper.dir())
            .stdin(Stdio::null())
            .stdout(self.reaper.registration()?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.launch.name))?;
        *slot = Some(child);
        Ok(())
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(Child::id)
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of its output.
    pub fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_else(|e| format!("(no log: {e})"))
    }

    /// How it ended by itself, if it did.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.lock()
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten())
    }

    /// Fails with the end of its log when it no longer runs.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check_alive(&self) -> Result<()> {
        let name = &self.launch.name;
        match self.exit_status() {
            Some(status) => bail!(
                "{name} ended ({status}); its log ends:\n{}",
                self.log_tail()
            ),
            None if self.pid().is_none() => bail!("{name} is stopped"),
            None => Ok(()),
        }
    }

    /// Ends it as a crash does (SIGKILL) and waits until it is gone.
    pub fn stop(&self) {
        let mut slot = self.lock();
        if let Some(mut child) = slot.take() {
            let _ = child.kill();
            let _ = child.wait();
            self.reaper.forget(child.id());
        }
    }

    /// Sends a signal by its name without `SIG`: `TERM`, `STOP`, `CONT`, …
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: &str) -> Result<()> {
        // The lock is held: nobody waits for the child meanwhile, so the pid is still its own.
        let slot = self.lock();
        let child = slot
            .as_ref()
            .with_context(|| format!("{} is stopped", self.launch.name))?;
        send_signal(child.id(), signal)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends a signal by its name without `SIG` to a process. (By the shell's own `kill`: the standard
/// library sends nothing but SIGKILL.)
///
/// # Errors
/// When there is no such process.
pub fn send_signal(pid: u32, signal: &str) -> Result<()> {
    let status = Command::new("sh")
        .arg("-c")
        .arg(r#"kill -s "$1" "$2""#)
        .arg("sh")
        .arg(signal)
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("signal {signal} could not be sent to process {pid}");
    }
    Ok(())
}

/// The last lines of a file, cut to [`TAIL_BYTES`].
pub(crate) fn tail(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
