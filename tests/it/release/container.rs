//! A container of the image, made as a kubelet makes it from the shipped Deployment: the same user, rights, limits,
//! arguments, configuration, and the account's token and CA at the same place. It shares the network with this
//! machine, where the API server of the test bed is.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Folder, ROOT, run};
use crate::support::bed::BINARY;
use crate::support::plugin::plugin;

/// Where the kubelet mounts the account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the default seccomp profiles of container runtimes refuse to a container without capabilities.
const REFUSED: [&str; 46] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "finit_module",
    "get_mempolicy",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "mount",
    "move_pages",
    "name_to_handle_at",
    "open_by_handle_at",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vmsplice",
    "_sysctl",
];

/// Who a process is in the container.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// The group that may read the token.
    pub fs_group: u32,
}

/// Whether containers can be run here. Says why not.
pub fn is_possible() -> bool {
    let is_root = run(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let has_runc = run(Command::new("runc").arg("--version")).is_ok();
    if !(is_root && has_runc) {
        eprintln!(
            "SKIPPED: a container needs root and runc (Debian: apt-get install runc); root: {is_root}, runc: {has_runc}"
        );
    }
    is_root && has_runc
}

/// A container that is not running yet.
pub struct Container {
    folder: Folder,
    name: String,
    /// The configuration of the image.
    image: Value,
    /// The shipped Deployment.
    deployment: Value,
}

impl Container {
    /// Makes the image of the program under test, and unpacks it. `manifests` are those of `config/default`.
    pub fn make(name: &str, manifests: &[Value]) -> Result<Self> {
        let folder = Folder::new(name)?;
        let path = folder.path();
        let archive = path.join("image.tar");
        let arch = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        let binaries = format!("{arch}={BINARY},{}", plugin()?.display());
        run(Command::new(Path::new(ROOT).join("release/image.sh"))
            .arg(&archive)
            .args(["v0.0.0-test", &binaries])
            .env("SOURCE_DATE_EPOCH", "0"))?;
        let layout = path.join("layout");
        unpack(&archive, &layout)?;
        let index = read(&layout.join("index.json"))?;
        let images = blob(&layout, &index["manifests"][0])?;
        let manifest = blob(&layout, &images["manifests"][0])?;
        let root = path.join("bundle/rootfs");
        unpack(&blob_path(&layout, &manifest["layers"][0])?, &root)?;
        fs::set_permissions(&root, Permissions::from_mode(0o755))?;
        let of_kind = |kind: &str, name: &str| {
            let mut all = manifests.iter();
            let found = all.find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
            found.cloned().with_context(|| format!("no {kind} {name}"))
        };
        // Its name ends with a hash of what is in it.
        let mut maps = manifests.iter().filter(|o| o["kind"] == "ConfigMap");
        let config = maps.find(|map| {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with("sluice-config-")
        });
        let config = config.context("no ConfigMap sluice-config")?;
        fs::create_dir_all(path.join("config"))?;
        for (file, text) in config["data"].as_object().context("no data")? {
            fs::write(path.join("config").join(file), text.as_str().unwrap())?;
        }
        Ok(Self {
            name: format!("{name}-{}", std::process::id()),
            image: blob(&layout, &manifest["config"])?,
            deployment: of_kind("Deployment", "sluice")?,
            folder,
        })
    }

    /// The user that the Deployment names, or else the image.
    pub fn shipped_user(&self) -> Result<User> {
        let context = &self.pod()["securityContext"];
        let image = self.image["config"]["User"].as_str().unwrap_or_default();
        let (uid, gid) = image.split_once(':').context("the image names no user")?;
        let number = |field: &str, of_image: &str| {
            let number = context[field].as_u64().map(u32::try_from);
            anyhow::Ok(number.transpose()?.unwrap_or(of_image.parse()?))
        };
        ensure!(context["runAsNonRoot"] == true && uid != "0", "it is root");
        Ok(User {
            uid: number("runAsUser", uid)?,
            gid: number("runAsGroup", gid)?,
            fs_group: number("fsGroup", gid)?,
        })
    }

    /// What the plugin in the image says of itself, with nothing but what is in there.
    pub fn plugin_version(&self) -> Result<String> {
        let root = self.folder.path().join("bundle/rootfs");
        run(Command::new("chroot")
            .arg(root)
            .args(["/kubectl-sluice", "--version"]))
    }

    /// Mounts the account as its projected volume has it.
    pub fn mount_account(&self, user: User, token: &str, ca: &str, namespace: &str) -> Result<()> {
        let account = self.folder.path().join("account");
        fs::create_dir_all(&account)?;
        fs::set_permissions(&account, Permissions::from_mode(0o755))?;
        for (file, text, mode) in [
            ("token", token, 0o640),
            ("ca.crt", ca, 0o644),
            ("namespace", namespace, 0o644),
        ] {
            let file = account.join(file);
            fs::write(&file, text)?;
            fs::set_permissions(&file, Permissions::from_mode(mode))?;
            chown(&file, Some(0), Some(user.fs_group))?;
        }
        Ok(())
    }

    /// Writes the program that runs Sluice in the container, as this user, with the arguments of the Deployment and
    /// its own. `server` is the URL of the API server.
    pub fn program(&self, user: User, server: &str) -> Result<PathBuf> {
        let path = self.folder.path();
        let config = self.runtime_config(user, server)?;
        fs::write(path.join("config.json"), config.to_string())?;
        let program = path.join("run");
        let script = format!(
            "#!/bin/sh\nset -eu\ncd '{folder}'\nargs=\nfor arg in \"$@\"; do args=\"$args,\\\"$arg\\\"\"; done\n\
             sed \"s|,\\\"@ARGS@\\\"|$args|; s|@POD_NAME@|$POD_NAME|\" config.json >bundle/config.json\n\
             exec runc --root '{folder}/state' run --bundle bundle --pid-file pid {name}\n",
            folder = path.display(),
            name = self.name,
        );
        fs::write(&program, script)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        Ok(program)
    }

    /// The process id of Sluice in the container, as this machine sees it.
    pub fn pid(&self) -> Result<u32> {
        let pid = fs::read_to_string(self.folder.path().join("pid"))?;
        Ok(pid.trim().parse()?)
    }

    /// The limit of memory, in bytes, that the Deployment sets.
    pub fn memory_limit(&self) -> Result<u64> {
        let limit = &self.container()["resources"]["limits"]["memory"];
        let gib = limit.as_str().and_then(|limit| limit.strip_suffix("Gi"));
        let gib = gib.context("no limit in Gi")?;
        Ok(gib.parse::<u64>()? << 30)
    }

    fn pod(&self) -> &Value {
        &self.deployment["spec"]["template"]["spec"]
    }

    fn container(&self) -> &Value {
        &self.pod()["containers"][0]
    }

    fn runtime_config(&self, user: User, server: &str) -> Result<Value> {
        let container = self.container();
        let context = &container["securityContext"];
        ensure!(
            context["capabilities"] == json!({"drop": ["ALL"]}),
            "{context}"
        );
        let address = server.strip_prefix("https://").context("no https")?;
        let (host, port) = address.rsplit_once(':').context("no port")?;
        let strings = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|s| s.as_str().map(str::to_owned)).collect()
        };
        let mut args = strings(&self.image["config"]["Entrypoint"]);
        args.extend(strings(&container["args"]));
        args.push("@ARGS@".to_owned());
        let mut env = strings(&self.image["config"]["Env"]);
        env.extend([
            format!("KUBERNETES_SERVICE_HOST={host}"),
            format!("KUBERNETES_SERVICE_PORT={port}"),
            "POD_NAME=@POD_NAME@".to_owned(),
        ]);
        let folder = self.folder.path();
        let mount = |at: &str, from: &str| json!({"destination": at, "type": "bind", "source": folder.join(from), "options": ["bind", "ro"]});
        let namespaces = ["pid", "ipc", "uts", "mount"];
        let namespaces: Vec<_> = namespaces.map(|kind| json!({"type": kind})).into();
        Ok(json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user.uid, "gid": user.gid, "additionalGids": [user.fs_group]},
                "args": args,
                "env": env,
                "cwd": "/",
                "capabilities": {},
                "noNewPrivileges": context["allowPrivilegeEscalation"] == false,
            },
            "root": {"path": "rootfs", "readonly": context["readOnlyRootFilesystem"]},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                mount("/etc/sluice", "config"),
                mount(ACCOUNT, "account"),
            ],
            "linux": {
                "namespaces": namespaces,
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger"],
                "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"],
                "cgroupsPath": format!("/{}", self.name),
                "resources": {"memory": {"limit": self.memory_limit()?}},
                "seccomp": {
                    "defaultAction": "SCMP_ACT_ALLOW",
                    "syscalls": [{"names": REFUSED.as_slice(), "action": "SCMP_ACT_ERRNO"}],
                },
            },
        }))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let mut delete = Command::new("runc");
        delete.arg("--root").arg(self.folder.path().join("state"));
        delete.args(["delete", "--force", &self.name]);
        let _ = delete.stderr(Stdio::null()).status();
    }
}

fn unpack(archive: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(to))
    .map(drop)
}

fn read(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn blob_path(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().context("no digest")?;
    let digest = digest.strip_prefix("sha256:").context("no SHA-256")?;
    let path = layout.join("blobs/sha256").join(digest);
    let sum = run(Command::new("sha256sum").arg(&path))?;
    ensure!(
        sum.starts_with(digest),
        "the blob {digest} has another digest"
    );
    let size = fs::metadata(&path)?.len();
    ensure!(descriptor["size"] == size, "{descriptor}: it has {size}");
    Ok(path)
}

fn blob(layout: &Path, descriptor: &Value) -> Result<Value> {
    read(&blob_path(layout, descriptor)?)
}
