//! What `make release` makes, from programs that stand for Sluice's: all that a release needs, digests that are true,
//! and the same bytes each time. The size of the real image is checked by the script itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_testbed::{Assets, ControlPlane, Options, Sluice, SluiceOptions, eventually};

use super::{Folder, ROOT, objects, run};
use crate::support::bed::{BINARY, see_leading};
use crate::support::objects::{Job, quota};
use crate::support::{DEADLINE, Scene};

const VERSION: &str = "v0.7.0-rc.1";

/// The longest time from an install to a job that runs.
const MINUTES_TO_A_JOB: Duration = Duration::from_mins(2);

/// Makes a release into a folder.
fn make(out: &Path) -> Result<()> {
    let programs = out.with_extension("programs");
    std::fs::create_dir_all(&programs)?;
    for name in ["sluice", "kubectl-sluice"] {
        std::fs::copy("/bin/true", programs.join(name))?;
    }
    let mut build = Command::new(Path::new(ROOT).join("release/build.sh"));
    build.env("VERSION", VERSION).env("DRY", "1");
    build.env("BINARIES", &programs).env("OUT", out);
    build.env("KUBECTL", Assets::ensure()?.binary("kubectl")?);
    run(&mut build)?;
    std::fs::remove_dir_all(&programs)?;
    Ok(())
}

#[test]
fn a_release_is_complete_and_the_same_each_time() -> Result<()> {
    let folder = Folder::new("artefacts")?;
    let (out, again) = (folder.path().join("one"), folder.path().join("two"));
    make(&out)?;
    let read = |name: &str| std::fs::read_to_string(out.join(name)).context(name.to_owned());
    let made = std::fs::read_dir(&out)?.map(|entry| Ok(entry?.file_name().into_string().unwrap()));
    let made: BTreeSet<String> = made.collect::<Result<_>>()?;
    let arch = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let plugin = format!("kubectl-sluice_{VERSION}_linux_{arch}.tar.gz");
    for name in [
        "CHANGELOG.md",
        "SHA256SUMS",
        "crds.yaml",
        "install.yaml",
        "install-without-webhook.yaml",
        "krew-sluice.yaml",
        "kubectl-sluice-v0.7.0-rc.1.cdx.json",
        &plugin,
        "sluice-0.7.0-rc.1.tgz",
        "sluice-crds-0.7.0-rc.1.tgz",
        "sluice-image-v0.7.0-rc.1.tar",
        "sluice-v0.7.0-rc.1.cdx.json",
    ] {
        ensure!(made.contains(name), "no {name} in {made:?}");
    }
    // All of it is under a digest that is true.
    let sums = read("SHA256SUMS")?;
    assert_eq!(sums.lines().count(), made.len() - 1, "{sums}");
    let check = ["--check", "--quiet", "SHA256SUMS"];
    run(Command::new("sha256sum").args(check).current_dir(&out))?;
    let krew = objects(&read("krew-sluice.yaml")?)?.remove(0);
    let platforms = krew["spec"]["platforms"]
        .as_array()
        .context("no platforms")?;
    for platform in platforms {
        let uri = platform["uri"].as_str().context("no uri")?;
        let file = uri.rsplit('/').next().unwrap();
        let sum = platform["sha256"].as_str().context("no sha256")?;
        ensure!(sums.contains(&format!("{sum}  {file}")), "{sum} {file}");
    }
    let listed = run(Command::new("tar").arg("-tzf").arg(out.join(&plugin)))?;
    assert_eq!(listed, "kubectl-sluice\nLICENSE\n");
    for name in ["install.yaml", "install-without-webhook.yaml"] {
        let image = format!("image: ghcr.io/sluice-dev/sluice:{VERSION}\n");
        ensure!(read(name)?.contains(&image), "{name} has another image");
    }
    bill_of_materials(&serde_json::from_str(&read(
        "sluice-v0.7.0-rc.1.cdx.json",
    )?)?)?;
    packed_charts(&out)?;
    let changes = read("CHANGELOG.md")?;
    ensure!(
        changes.starts_with(&format!("# Changes\n\n## {VERSION} (")),
        "{changes}"
    );

    make(&again)?;
    let sums_again = std::fs::read_to_string(again.join("SHA256SUMS"))?;
    assert_eq!(sums, sums_again, "other bytes");
    Ok(())
}

/// What somebody else keeps in the folder is not deleted; a release of before is replaced.
#[test]
fn a_release_takes_the_place_of_nothing_but_a_release() -> Result<()> {
    let folder = Folder::new("foreign")?;
    let out = folder.path().join("releases");
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("a.tgz"), "")?;
    let sums = format!("{}  a.tgz\n", "0".repeat(64));
    std::fs::write(out.join("SHA256SUMS"), sums)?;
    std::fs::create_dir(out.join("v0.6.0"))?;
    std::fs::write(out.join("v0.6.0/notes"), "")?;
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&out, &link)?;
    for to in [&out, &link] {
        let refused = make(to).err().context("it was made")?.to_string();
        let told = "is not empty: v0.6.0 is not of an earlier release";
        ensure!(refused.contains(told), "{refused}");
    }
    for kept in ["a.tgz", "v0.6.0/notes"] {
        ensure!(out.join(kept).exists(), "{kept} is gone");
    }
    std::fs::remove_dir_all(out.join("v0.6.0"))?;
    make(&link)?;
    ensure!(!out.join("a.tgz").exists() && out.join("install.yaml").exists());
    Ok(())
}

/// A candidate comes before its release, also where an earlier release is made again.
#[test]
fn changes_are_listed_by_version() -> Result<()> {
    let folder = Folder::new("changes")?;
    let scripts = folder.path().join("release");
    std::fs::create_dir_all(&scripts)?;
    for script in ["archive.sh", "changelog.sh"] {
        let original = Path::new(ROOT).join("release").join(script);
        std::fs::copy(original, scripts.join(script))?;
    }
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@acme.io"]);
        git.args(args).current_dir(folder.path());
        git.env("GIT_CONFIG_GLOBAL", "/dev/null");
        git.env("GIT_CONFIG_NOSYSTEM", "1");
        run(&mut git)
    };
    git(&["init", "--quiet"])?;
    for tag in ["v0.1.0-rc.1", "v0.1.0-rc.2", "v0.1.0", "v0.2.0", "v0.10.0"] {
        let subject = format!("For {tag}");
        git(&["commit", "--quiet", "--allow-empty", "-m", &subject])?;
        git(&["tag", tag])?;
    }
    let listed = |version: &str| -> Result<Vec<String>> {
        let changes = run(Command::new(scripts.join("changelog.sh")).arg(version))?;
        let lines = changes.lines().filter_map(|line| {
            let title = line.strip_prefix("## ").or(line.strip_prefix("* For "));
            Some(title?.split_once(' ')?.0.to_owned())
        });
        Ok(lines.collect())
    };
    let twice = |versions: &[&str]| -> Vec<String> {
        let pairs = versions.iter().flat_map(|&version| [version, version]);
        pairs.map(str::to_owned).collect()
    };
    let all = ["v0.10.0", "v0.2.0", "v0.1.0", "v0.1.0-rc.2", "v0.1.0-rc.1"];
    // Each title, and the one commit below it.
    assert_eq!(listed("v0.10.0")?, twice(&all));
    git(&["checkout", "--quiet", "v0.1.0"])?;
    assert_eq!(listed("v0.1.0")?, twice(&all[2..]));
    Ok(())
}

/// The crates of the controller, with licences and digests, and nothing that only tests need.
fn bill_of_materials(bill: &Value) -> Result<()> {
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    assert_eq!(bill["metadata"]["component"]["name"], "sluice");
    assert_eq!(bill["metadata"]["component"]["version"], VERSION);
    let components = bill["components"].as_array().context("no components")?;
    let find = |name: &str| {
        components
            .iter()
            .find(|component| component["name"] == name)
    };
    for name in ["tokio", "rustls", "kube-client", "ring"] {
        let component = find(name).with_context(|| format!("no {name}"))?;
        let purl = component["purl"].as_str().unwrap_or_default();
        ensure!(
            purl.starts_with(&format!("pkg:cargo/{name}@")),
            "{component}"
        );
        ensure!(
            component["licenses"][0]["expression"].is_string(),
            "{component}"
        );
        let digest = component["hashes"][0]["content"]
            .as_str()
            .unwrap_or_default();
        assert_eq!(digest.len(), 64, "{component}");
    }
    ensure!(
        find("sluice-engine").is_some() && find("libc.so.6").is_some(),
        "a part is missing"
    );
    ensure!(
        find("proptest").is_none() && find("insta").is_none(),
        "it lists what tests need"
    );
    let depends = bill["dependencies"].as_array().context("no dependencies")?;
    let own = depends.iter().find(|entry| {
        entry["ref"]
            .as_str()
            .is_some_and(|r| r.starts_with("pkg:cargo/sluice@"))
    });
    let own = own.context("the controller depends on nothing")?["dependsOn"].to_string();
    ensure!(own.contains("pkg:cargo/tokio@"), "{own}");
    Ok(())
}

/// Without a link in them, and of the release's version.
fn packed_charts(out: &Path) -> Result<()> {
    for chart in ["sluice", "sluice-crds"] {
        let archive = out.join(format!("{chart}-0.7.0-rc.1.tgz"));
        let listed = run(Command::new("tar").arg("-tvzf").arg(&archive))?;
        ensure!(
            listed.lines().all(|line| line.starts_with(['-', 'd'])),
            "{listed}"
        );
        let mut helm = Command::new(Assets::ensure_helm()?);
        let rendered = run(helm.args(["template", "x"]).arg(&archive))?;
        if chart == "sluice" {
            ensure!(
                rendered.contains(&format!("ghcr.io/sluice-dev/sluice:{VERSION}")),
                "{rendered}"
            );
        }
    }
    Ok(())
}

/// As the README says, on a control plane that has never seen Sluice.
#[tokio::test]
async fn what_is_released_is_applied_twice_and_runs_a_job() -> Result<()> {
    let folder = Folder::new("applied")?;
    let out = folder.path().join("out");
    let made = out.clone();
    tokio::task::spawn_blocking(move || make(&made)).await??;
    let cp = ControlPlane::start(Options::default()).await?;
    let began = std::time::Instant::now();
    let kubectl = async |args: &[&str]| cp.kubectl(args, None).await?.ok();
    let path = |name: &str| out.join(name).to_string_lossy().into_owned();
    let (crds, install) = (path("crds.yaml"), path("install.yaml"));
    let sluice = Sluice::install_by(&cp, SluiceOptions::new(BINARY), async |port| {
        kubectl(&["apply", "-f", &crds]).await?;
        cp.crds_established().await?;
        // The webhooks are served by a process of this machine.
        let here =
            format!("{ROOT}/tests/it/release/webhooks-here.sh {port} <{install} >{install}.here");
        run(Command::new("sh").args(["-c", &here]))?;
        kubectl(&["apply", "-f", &format!("{install}.here")]).await?;
        // Over and over, as GitOps does.
        kubectl(&["apply", "-f", &format!("{install}.here")]).await?;
        Ok(())
    })
    .await?;
    sluice.start().await?;
    Scene::play(&cp, &sluice, "released", async |scene: &Scene<'_>| {
        see_leading(scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Job::new("first").queue("q").json()).await?;
        eventually("the job to run", DEADLINE, async || {
            let job = scene.get("Job", "first").await?;
            ensure!(!job["status"]["startTime"].is_null(), "{job}");
            anyhow::Ok(())
        })
        .await?;
        let took = began.elapsed();
        ensure!(took < MINUTES_TO_A_JOB, "it took {took:?}");
        scene.see_complete("first").await.map(drop)
    })
    .await
}
