//! The log: of what form, from which level on, and to where. Lines wait in a bounded queue for a thread of their own, so that
//! nobody waits for whoever reads them: what does not fit is dropped and counted.

use clap::ValueEnum;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::process::metrics::count_dropped_lines;

/// So many lines may wait: a few seconds of a busy leader, and some megabytes.
const LINES_MAX: usize = 16_384;

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that need an operator.
    Error,
    /// What has failed and is tried again.
    Warn,
    /// What the process does.
    Info,
    /// What it does in detail.
    Debug,
    /// Everything.
    Trace,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts the log, on stderr. What is logged is written until what this returns is dropped.
pub fn start(format: LogFormat, level: LogLevel) -> WorkerGuard {
    let filter = EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(level.filter().to_string()));
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr());
    count_dropped_lines(writer.error_counter());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    guard
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
