//! The executable: reads its arguments, starts the log and the runtime, and runs the process.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::Parser;
use sluice::{Args, LogFormat};
use tracing_subscriber::EnvFilter;

fn main() -> Result<()> {
    let args = Args::parse();
    start_log(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(sluice::run(args));
    // A task that hangs must not keep the process from ending.
    runtime.shutdown_background();
    ended
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
