//! The command line of the test bed: builds the control plane, starts one for a person, or runs
//! a command against one.

#![allow(clippy::print_stdout, reason = "a command line answers on stdout")]

use std::ffi::OsString;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use sluice_testbed::{Assets, ControlPlane, Options, Sluice, SluiceOptions, send_signal};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A throwaway Kubernetes control plane on this machine.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the programs (once) and print their folder, as `KUBEBUILDER_ASSETS` wants it.
    Build {
        /// Only those of a control plane, and print the path of kubectl.
        #[arg(long)]
        kubectl: bool,
        /// Only those of a real node, which nothing else needs, and print their folders as a PATH.
        #[arg(long, conflicts_with = "kubectl")]
        node: bool,
    },
    /// Start one, print how to reach it, and stop it at the end of stdin, Ctrl-C or SIGTERM.
    Up(Start),
    /// Start one, run a command with KUBECONFIG and kubectl at hand, and exit as it does.
    Run {
        #[command(flatten)]
        start: Start,
        /// The command and its arguments, after `--`.
        #[arg(last = true, required = true, num_args = 1..)]
        command: Vec<OsString>,
    },
}

#[derive(clap::Args)]
struct Start {
    /// How many nodes to play.
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// Play none: real nodes come, and their pods reach the API server at port 6443 of this address. It listens on
    /// all addresses: give it a network namespace of its own.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "nodes")]
    real_nodes: Option<Ipv4Addr>,
    /// YAML to apply before the controllers start, CRDs for example; may be repeated.
    #[arg(long, value_name = "FILE")]
    manifest: Vec<PathBuf>,
    /// Install Sluice and run this program as its controller.
    #[arg(long, value_name = "BINARY")]
    sluice: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Command::Build { kubectl, node } = args.command {
        if node {
            println!(
                "{}",
                std::env::join_paths(Assets::ensure_node()?)?.display()
            );
            return Ok(ExitCode::SUCCESS);
        }
        let assets = Assets::ensure()?;
        if kubectl {
            println!("{}", assets.binary("kubectl")?.display());
            return Ok(ExitCode::SUCCESS);
        }
        println!("{}", assets.dir().display());
        Assets::ensure_crds()?;
        Assets::ensure_karpenter()?;
        Assets::ensure_operators()?;
        Assets::ensure_helm()?;
        Assets::ensure_cert_manager()?;
        Assets::ensure_prometheus()?;
        Assets::ensure_gate_controller()?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        match args.command {
            Command::Up(start) => up(start).await,
            Command::Run { start, command } => run(start, &command).await,
            Command::Build { .. } => Ok(ExitCode::SUCCESS),
        }
    });
    // The thread that reads stdin can't be told to stop.
    runtime.shutdown_background();
    result
}

impl Start {
    fn options(&self) -> Result<Options> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
        };
        let mut options = match self.sluice {
            Some(_) => Options::with_crds()?,
            None => Options::default(),
        };
        for path in &self.manifest {
            options.manifests.push(read(path)?);
        }
        options.nodes = self.nodes;
        Ok(match self.real_nodes {
            Some(address) => options.for_real_nodes(address),
            None => options,
        })
    }

    async fn start(&self) -> Result<Started> {
        let cp = ControlPlane::start(self.options()?).await?;
        let sluice = match &self.sluice {
            Some(binary) => {
                let sluice = Sluice::install(&cp, SluiceOptions::new(binary)).await?;
                sluice.start().await?;
                Some(sluice)
            }
            None => None,
        };
        Ok(Started { sluice, cp })
    }
}

/// What runs; dropped in this order.
struct Started {
    sluice: Option<Sluice>,
    cp: ControlPlane,
}

impl Started {
    /// What a command or a person needs to know of it.
    fn env(&self) -> Result<Vec<(&'static str, OsString)>> {
        let mut env = vec![
            ("KUBECONFIG", self.cp.kubeconfig().into()),
            ("PATH", self.cp.path()?),
        ];
        if let Some(sluice) = &self.sluice {
            env.push(("TESTBED_SLUICE_METRICS", sluice.metrics_url().into()));
            env.push(("TESTBED_SLUICE_LOG", sluice.process().log().into()));
        }
        Ok(env)
    }
}

async fn up(start: Start) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    // A signal during the start ends us here and now: the reaper ends what was started.
    let started = tokio::select! {
        started = start.start() => started?,
        code = signals.next() => std::process::exit(code),
    };
    for (name, value) in started.env()? {
        match name {
            "PATH" => println!(
                "export PATH={}:\"$PATH\"",
                started.cp.assets().dir().display()
            ),
            _ => println!("export {name}={}", value.display()),
        }
    }
    eprintln!("sluice-testbed: up; ends at the end of stdin, at Ctrl-C and at SIGTERM");
    let stdin = tokio::task::spawn_blocking(|| {
        let mut rest = std::io::stdin().lock();
        while rest.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {}
    });
    tokio::select! {
        _ = stdin => {}
        _ = signals.next() => {}
    }
    drop(started);
    Ok(ExitCode::SUCCESS)
}

async fn run(start: Start, command: &[OsString]) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let started = tokio::select! {
        started = start.start() => started?,
        code = signals.next() => std::process::exit(code),
    };
    let (program, args) = command.split_first().context("no command given")?;
    let mut child = started
        .cp
        .command(program)
        .args(args)
        .envs(started.env()?)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let pid = child.id().context("the command has no process id")?;
    started.cp.adopt(pid)?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            // Ctrl-C reached the command too, being in our process group: it decides.
            _ = signals.interrupt.recv() => {}
            _ = signals.terminate.recv() => send_signal(pid, "TERM")?,
        }
    };
    started.cp.disown(pid);
    drop(started);
    let code = status
        .code()
        .or_else(|| Some(128 + status.signal()?))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The exit code that the next signal stands for.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}
