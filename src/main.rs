//! The executable: reads its arguments, starts the log and the runtime, and runs the process.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use sluice::{Args, Command, CommandLine, ConfigCommand};

// Gives back what it has not used for ten seconds. glibc's keeps what the lists at a start took: docs/benchmarks.md.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> Result<ExitCode> {
    let CommandLine { command, args } = CommandLine::parse();
    match command {
        Some(Command::Config(ConfigCommand::Check(check))) => {
            Ok(check.run(&mut std::io::stdout())?)
        }
        Some(Command::Config(ConfigCommand::Policies(policies))) => {
            policies.run(&mut std::io::stdout(), &mut std::io::stderr())
        }
        None => run(args),
    }
}

fn run(args: Args) -> Result<ExitCode> {
    // Dropped at the end, when all that was logged is written.
    let _log = sluice::log::start(args.log_format, args.log_level);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(sluice::run(args));
    // A task that hangs must not keep the process from ending.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}
