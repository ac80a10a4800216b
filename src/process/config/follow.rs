//! Follows the file while the process runs. What can change without a restart takes effect within seconds; of the
//! rest it is told that a restart is due. A file that can't be used changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluice_configuration::{Configuration, parse};
use sluice_engine::Settings;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::process::metrics::Metrics;

/// How often the file is read. A kubelet brings a changed ConfigMap within a minute or so, by exchanging a link:
/// so the text is compared, and not the time of the file.
const PERIOD: Duration = Duration::from_secs(5);

/// Follows one file.
pub struct Follower {
    path: PathBuf,
    /// What the process has started with: by it the fields count that need a restart.
    started: Configuration,
    settings: watch::Sender<Settings>,
    metrics: Arc<Metrics>,
    /// The text, or the error, that was dealt with last.
    seen: Option<Result<String, String>>,
}

impl Follower {
    /// Follows `path`, from which `started` was read, and tells `settings` what the engine is to know.
    pub fn new(
        path: &Path,
        started: Configuration,
        settings: watch::Sender<Settings>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            started,
            settings,
            metrics,
            seen: None,
        }
    }

    /// Looks at what the file says now.
    fn look(&mut self, read: std::io::Result<String>) {
        let read = read.map_err(|error| error.to_string());
        if self.seen.as_ref() == Some(&read) {
            return;
        }
        let is_first = self.seen.is_none();
        match &read {
            Err(error) => self.refuse(&[format!("the file can't be read: {error}")]),
            Ok(text) => match parse(text) {
                Err(error) => self.refuse(&error.lines()),
                Ok(configuration) => self.accept(&configuration, is_first),
            },
        }
        self.seen = Some(read);
    }

    fn refuse(&self, problems: &[String]) {
        for problem in problems {
            error!(
                file = %self.path.display(),
                problem,
                "the changed configuration can't be used; the one before stays in force"
            );
        }
        self.metrics.process.configuration_is_valid(false);
    }

    fn accept(&self, configuration: &Configuration, is_first: bool) {
        self.metrics.process.configuration_is_valid(true);
        let fields = self.started.fields_for_restart(configuration);
        self.metrics
            .process
            .configuration_needs_restart(!fields.is_empty());
        if !fields.is_empty() {
            warn!(
                file = %self.path.display(),
                fields = fields.join(", "),
                "the configuration has changed in fields that are read at the start: restart Sluice"
            );
        }
        let settings = configuration.settings();
        let is_other = self.settings.send_if_modified(|known| {
            let is_other = *known != settings;
            *known = settings;
            is_other
        });
        if is_other {
            info!(file = %self.path.display(), "the changed configuration is in force");
        } else if !is_first && fields.is_empty() {
            info!(file = %self.path.display(), "the configuration has changed in nothing that it says");
        }
    }
}

/// Follows the file until `stop`.
pub async fn follow(mut follower: Follower, stop: CancellationToken) {
    loop {
        let read = tokio::fs::read_to_string(&follower.path).await;
        follower.look(read);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(PERIOD) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::metrics::Exposition;

    fn text(fields: &str) -> String {
        format!("apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n{fields}\n")
    }

    #[test]
    fn what_can_change_does_and_a_bad_file_changes_nothing() {
        let (sender, receiver) = watch::channel(Configuration::default().settings());
        let metrics = Arc::new(Metrics::new());
        let started = Configuration::default();
        let mut follower = Follower::new(Path::new("x"), started, sender, metrics.clone());
        let no_file = || Err(std::io::ErrorKind::NotFound.into());
        let steps = [
            ("as at the start", Ok(text("")), (false, 1, 0)),
            ("sharing", Ok(text("fairSharing: {}")), (true, 1, 0)),
            (
                "bad",
                Ok(text("fairSharing: 3\nqueueGateAliases: [a.io/b]")),
                (true, 0, 0),
            ),
            ("no YAML", Ok("{".to_owned()), (true, 0, 0)),
            ("gone", no_file(), (true, 0, 0)),
            ("back", Ok(text("fairSharing: {}")), (true, 1, 0)),
            (
                "both",
                Ok(text("queueGateAliases: [a.io/b]")),
                (false, 1, 1),
            ),
            ("taken back", Ok(text("")), (false, 1, 0)),
        ];
        for (name, read, (is_fair, valid, restart)) in steps {
            follower.look(read);
            assert_eq!(receiver.borrow().fair_sharing.is_some(), is_fair, "{name}");
            let said = metrics.text(Exposition::OpenMetrics);
            for line in [
                format!("\nsluice_config_last_reload_successful {valid}\n"),
                format!("\nsluice_config_restart_required {restart}\n"),
            ] {
                assert!(said.contains(&line), "{name}: {line} in {said}");
            }
        }
    }

    #[test]
    fn what_has_not_changed_is_told_once() {
        let (sender, mut receiver) = watch::channel(Configuration::default().settings());
        let metrics = Arc::new(Metrics::new());
        let mut follower = Follower::new(Path::new("x"), Configuration::default(), sender, metrics);
        follower.look(Ok(text("fairSharing: {}")));
        assert!(receiver.has_changed().unwrap());
        receiver.mark_unchanged();
        follower.look(Ok(text("fairSharing: {}")));
        follower.look(Ok(text("# a comment\nfairSharing: {}")));
        assert!(!receiver.has_changed().unwrap());
    }
}
