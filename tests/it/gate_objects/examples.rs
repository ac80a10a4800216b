//! The controllers of a gate in `examples/`, as `docs/gates.md` shows them: each runs with an account of its own,
//! which may lift nothing but its gate.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Assets, eventually};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATES, Job, is_suspended, own, own_gate};
use crate::support::{DEADLINE, Scene, refusal};

both_ways!(
    the_example_in_rust_lifts_its_own_gate_alone,
    the_example_in_go_lifts_its_own_gate_alone,
);

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RUST: &str = "examples/gate_controller.rs";
const GO: &str = "examples/gate-controller/main.go";
/// Longest example.
const LINES_MAX: usize = 60;

async fn the_example_in_rust_lifts_its_own_gate_alone(admission: Admission) -> Result<()> {
    plays(admission, "example-rust", rust()?).await
}

async fn the_example_in_go_lifts_its_own_gate_alone(admission: Admission) -> Result<()> {
    let program = tokio::task::spawn_blocking(Assets::ensure_gate_controller).await??;
    plays(admission, "example-go", program).await
}

/// The example in Rust. `cargo test` builds it with all tests, but not with chosen ones: then it is built now. With the
/// whole workspace, so that cargo gives dependencies the features that they have already.
fn rust() -> Result<PathBuf> {
    let folder = Path::new(crate::support::bed::BINARY).parent();
    let program = folder.context("the folder of the binary")?;
    let program = program.join("examples/gate_controller");
    let written = std::fs::metadata(Path::new(ROOT).join(RUST))?.modified()?;
    let built = std::fs::metadata(&program).and_then(|file| file.modified());
    if built.is_ok_and(|built| built >= written) {
        return Ok(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = "build --quiet --locked --workspace --example gate_controller";
    let args = args.split(' ');
    let status = Command::new(cargo).args(args).current_dir(ROOT).status()?;
    ensure!(status.success(), "the example does not build: {status}");
    Ok(program)
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An account that may watch and edit jobs, and lift this Gate.
async fn account(scene: &Scene<'_>, gate: &str) -> Result<PathBuf> {
    scene
        .kubectl(&["create", "serviceaccount", "lifter"], None)
        .await?
        .ok()?;
    let (jobs, lift) = (scene.name("jobs"), scene.name("lift"));
    let resource = format!("--resource-name={gate}");
    let roles = [
        vec![
            "create",
            "clusterrole",
            &jobs,
            "--verb=get,list,watch,patch",
            "--resource=jobs.batch",
        ],
        vec![
            "create",
            "clusterrole",
            &lift,
            "--verb=lift",
            "--resource=gates.sluice.dev",
            &resource,
        ],
    ];
    let user = format!("system:serviceaccount:{}:lifter", scene.ns);
    for (role, args) in [&jobs, &lift].into_iter().zip(roles) {
        scene.kubectl(&args, None).await?.ok()?;
        let binding = [format!("--clusterrole={role}"), format!("--user={user}")];
        let args = [
            "create",
            "clusterrolebinding",
            role,
            &binding[0],
            &binding[1],
        ];
        scene.kubectl(&args, None).await?.ok()?;
    }
    eventually("the right to be known", DEADLINE, async || {
        let (gate, user) = (format!("gates.sluice.dev/{gate}"), format!("--as={user}"));
        let answer = scene
            .kubectl(&["auth", "can-i", "lift", &gate, &user], None)
            .await?;
        ensure!(answer.stdout.trim() == "yes", "{}", answer.stdout);
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    scene
        .cp
        .service_account_kubeconfig(&scene.ns, "lifter")
        .await
}

async fn plays(admission: Admission, prefix: &str, program: PathBuf) -> Result<()> {
    play(admission, prefix, async |scene| {
        let [(own_name, own_object), (other, other_object)] =
            ["budget", "data"].map(|path| own_gate(&scene.ns, path));
        for object in [&own_object, &other_object] {
            scene.apply(&own("Gate", object, json!({}))).await?;
        }
        let both = format!("{own_name}, {other}");
        let job =
            |name: &str, pods: u32, gates: &str| Job::new(name).gates(gates).pods(pods).json();
        // One is there before the controller.
        scene.create(&job("early", 1, &own_name)).await?;
        let kubeconfig = account(scene, &own_object).await?;
        // Gates with owners are known to whoever judges edits.
        let user = scene.editor("tenant").await?;
        let tenant = scene.acting_as(&user)?;
        let lifted = json!({"metadata": {"annotations": {(GATES): null}}});
        eventually("the Gate to be known", DEADLINE, async || {
            refusal(tenant.try_merge("Job", "early", lifted.clone()).await).map(drop)
        })
        .await?;
        let output = || Stdio::inherit();
        let running = Command::new(&program)
            .arg(&own_name)
            .env("KUBECONFIG", &kubeconfig)
            .stdout(output())
            .stderr(output())
            .spawn();
        let _running = Running(running.with_context(|| program.display().to_string())?);
        scene.create(&job("late", 1, &own_name)).await?;
        scene.create(&job("two", 10, &both)).await?;
        scene.create(&job("big", 11, &own_name)).await?;
        // Without a queue a job starts when its last gate is gone.
        scene.see_complete("early").await?;
        scene.see_complete("late").await?;
        let has_other = |job: &Value| job["metadata"]["annotations"][GATES] == *other;
        let two = scene
            .see("Job", "two", "with the other gate alone", has_other)
            .await?;
        ensure!(is_suspended(&two), "{two}");
        let record = two["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
        let by = format!("system:serviceaccount:{}:lifter", scene.ns);
        ensure!(record.is_some_and(|record| record.contains(&by)), "{two}");
        let big = scene.get("Job", "big").await?;
        ensure!(
            big["metadata"]["annotations"][GATES] == *own_name && is_suspended(&big),
            "{big}"
        );
        // The account itself is refused the other gate.
        let lifter = scene.acting_as(&by)?;
        let told = refusal(lifter.try_merge("Job", "two", lifted).await)?;
        ensure!(
            told.contains(&format!("cannot lift gates.sluice.dev {other_object:?}")),
            "{told}"
        );
        Ok(())
    })
    .await
}

/// The page shows the programs as they are tested, and they are short.
#[test]
fn the_page_shows_the_examples() -> Result<()> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/gates.md"))?;
    for (path, language) in [(RUST, "rust"), (GO, "go")] {
        let text = std::fs::read_to_string(Path::new(ROOT).join(path))?;
        ensure!(
            text.lines().count() < LINES_MAX,
            "{path} is longer than {LINES_MAX} lines"
        );
        let shown = format!("```{language}\n{text}```\n");
        ensure!(
            page.contains(&shown),
            "docs/gates.md does not show {path} as it is"
        );
    }
    Ok(())
}
