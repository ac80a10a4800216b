//! The processes of a control plane and how each is called. What is not set here is as
//! Kubernetes has it by default, so that what holds here holds on a real cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use crate::controlplane::certificates::{Certificates, FRONT_PROXY};
use crate::controlplane::kubeconfig::{self, Credentials};
use crate::controlplane::options::Options;
use crate::processes::Launch;
use crate::programs::assets::Assets;

/// A process of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// etcd, without fsync.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// Another kube-apiserver on the same etcd, if the options ask for one. The other components don't use it.
    SecondApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, which plays the kubelets.
    Kwok,
}

/// Client-go's defaults for the controllers (20 a second, for each) would be what a bench
/// measures; these are out of the way.
const QPS: [&str; 2] = ["--kube-api-qps=2000", "--kube-api-burst=4000"];

/// The audit logs of the two API servers, in the folder of the run.
pub(crate) const AUDIT_LOG: &str = "audit.log";
pub(crate) const SECOND_AUDIT_LOG: &str = "audit-2.log";

/// The folder of etcd's data, in the folder of the run.
pub(crate) const DATA: &str = "etcd";

/// The configuration of admission plugins, if there is one.
const ADMISSION: &str = "admission.yaml";

/// KWOK's "fast" stages, with our annotations.
const STAGES: &str = include_str!("stages.yaml");

/// What the arguments are made from: one for each try to start.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) assets: &'a Assets,
    pub(crate) options: &'a Options,
    pub(crate) certificates: &'a Certificates,
    pub(crate) dir: &'a Path,
    pub(crate) etcd_port: u16,
    pub(crate) api_port: u16,
    /// None without a second API server.
    pub(crate) second_api_port: Option<u16>,
}

/// Where a control plane is reached.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) server: String,
    pub(crate) second_server: Option<String>,
    pub(crate) etcd: String,
}

impl Setup<'_> {
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            server: self.server(),
            second_server: self.second_server(),
            etcd: self.etcd_url(),
        }
    }

    /// The API server's address.
    pub(crate) fn server(&self) -> String {
        address(self.api_port)
    }

    /// The second API server's address.
    pub(crate) fn second_server(&self) -> Option<String> {
        self.second_api_port.map(address)
    }

    /// etcd's address.
    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Writes the files that the components read.
    pub(crate) fn write_files(&self) -> Result<()> {
        std::fs::write(
            self.dir.join("audit-policy.yaml"),
            &self.options.audit_policy,
        )?;
        std::fs::write(self.dir.join("stages.yaml"), STAGES)?;
        if let Some(name) = &self.options.webhook_client {
            self.webhook_client(name)?;
        }
        let masters = Some("system:masters");
        self.user("kubernetes-admin", masters, &self.admin_kubeconfig())?;
        self.user("testbed-kwok", masters, &self.kubeconfig_of("kwok"))?;
        // Under their usual names, with the roles that the API server makes for them.
        for name in ["kube-controller-manager", "kube-scheduler"] {
            self.user(&format!("system:{name}"), None, &self.kubeconfig_of(name))?;
        }
        Ok(())
    }

    /// How this component is started.
    pub(crate) fn launch(&self, component: Component) -> Result<Launch> {
        match component {
            Component::Etcd => self.etcd(),
            Component::ApiServer => self.api_server("kube-apiserver", self.api_port, AUDIT_LOG),
            Component::SecondApiServer => {
                let port = self
                    .second_api_port
                    .context("the options ask for no second API server")?;
                self.api_server("kube-apiserver-2", port, SECOND_AUDIT_LOG)
            }
            Component::ControllerManager => self.controller_manager(),
            Component::Scheduler => self.scheduler(),
            Component::Kwok => Ok(self.kwok()),
        }
    }

    fn etcd(&self) -> Result<Launch> {
        let client = self.etcd_url();
        Ok(Launch::new("etcd", self.assets.binary("etcd")?)
            .args(["--name=testbed", "--unsafe-no-fsync", "--log-level=warn"])
            .arg(self.path_flag("data-dir", DATA))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            // Nobody joins: any port will do.
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            .arg("--quota-backend-bytes=4294967296")
            .env("GOGC", "400"))
    }

    fn api_server(&self, name: &str, port: u16, audit_log: &str) -> Result<Launch> {
        let certificates = self.certificates;
        let file = |flag: &str, file: &str| path_flag(flag, &certificates.path(file));
        Ok(Launch::new(name, self.assets.binary("kube-apiserver")?)
            .arg(format!("--etcd-servers={}", self.etcd_url()))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(file("tls-cert-file", "apiserver.crt"))
            .arg(file("tls-private-key-file", "apiserver.key"))
            .arg(file("client-ca-file", "ca.crt"))
            .args(self.aggregation_flags())
            .arg("--authorization-mode=RBAC")
            .arg("--service-account-issuer=https://kubernetes.default.svc.cluster.local")
            .arg(file(
                "service-account-signing-key-file",
                "service-accounts.key",
            ))
            .arg(file("service-account-key-file", "service-accounts.pub"))
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            // It would refuse to publish a loopback address.
            .arg("--endpoint-reconciler-type=none")
            .arg("--allow-privileged=true")
            .arg(self.path_flag("audit-policy-file", "audit-policy.yaml"))
            .arg(self.path_flag("audit-log-path", audit_log))
            // Go's collector waits for more garbage: with its default a fifth of what a start costs goes into it.
            .env("GOGC", "400")
            // In MB: a run's log stays one file.
            .arg("--audit-log-maxsize=10240")
            .args(self.admission_flag())
            .args(self.emulation_flag())
            .args(self.options.api_server_args.iter()))
    }

    /// How the API server passes requests on to the servers of aggregated APIs, as kubeadm sets it.
    fn aggregation_flags(&self) -> Vec<std::ffi::OsString> {
        let file = |flag: &str, file: &str| path_flag(flag, &self.certificates.path(file));
        let mut flags = vec![
            file("requestheader-client-ca-file", "front-proxy-ca.crt"),
            file("proxy-client-cert-file", &format!("{FRONT_PROXY}.crt")),
            file("proxy-client-key-file", &format!("{FRONT_PROXY}.key")),
            format!("--requestheader-allowed-names={FRONT_PROXY}").into(),
        ];
        let headers = [
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ];
        flags.extend(headers.map(Into::into));
        flags
    }

    /// Has API servers show a client certificate to webhooks.
    fn webhook_client(&self, name: &str) -> Result<()> {
        let (certificate, key) = self.certificates.client(name, None)?;
        let credentials = Credentials::Certificate(&certificate, &key);
        let kubeconfig = self.kubeconfig_of("webhooks");
        let ca = self.certificates.path("ca.crt");
        kubeconfig::write_for_webhooks(&kubeconfig, &ca, &credentials)?;
        let plugin = |name: &str| {
            json!({
                "name": name,
                "configuration": {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "WebhookAdmissionConfiguration",
                    "kubeConfigFile": kubeconfig,
                },
            })
        };
        let plugins = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"].map(plugin);
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": plugins,
        });
        std::fs::write(self.dir.join(ADMISSION), configuration.to_string())?;
        Ok(())
    }

    fn admission_flag(&self) -> Option<std::ffi::OsString> {
        self.options.webhook_client.as_ref()?;
        Some(self.path_flag("admission-control-config-file", ADMISSION))
    }

    fn emulation_flag(&self) -> Option<String> {
        let version = self.options.emulated_version.as_ref()?;
        Some(format!("--emulated-version={version}"))
    }

    fn controller_manager(&self) -> Result<Launch> {
        let name = "kube-controller-manager";
        let certificates = self.certificates;
        Ok(Launch::new(name, self.assets.binary(name)?)
            .arg(path_flag("kubeconfig", &self.kubeconfig_of(name)))
            .args([
                "--leader-elect=false",
                "--use-service-account-credentials=true",
            ])
            // Serves nothing: what it did shows in the API.
            .arg("--secure-port=0")
            .arg(path_flag("root-ca-file", &certificates.path("ca.crt")))
            .arg(path_flag(
                "service-account-private-key-file",
                &certificates.path("service-accounts.key"),
            ))
            .args(QPS)
            .args(self.emulation_flag())
            .args(self.options.controller_manager_args.iter())
            .env("GOGC", "400"))
    }

    fn scheduler(&self) -> Result<Launch> {
        let name = "kube-scheduler";
        Ok(Launch::new(name, self.assets.binary(name)?)
            .arg(path_flag("kubeconfig", &self.kubeconfig_of(name)))
            .args(["--leader-elect=false", "--secure-port=0"])
            .args(QPS)
            .args(self.emulation_flag())
            .args(self.options.scheduler_args.iter())
            .env("GOGC", "400"))
    }

    fn kwok(&self) -> Launch {
        Launch::new("kwok", self.assets.kwok())
            .arg(path_flag("kubeconfig", &self.kubeconfig_of("kwok")))
            .arg(self.path_flag("config", "stages.yaml"))
            .arg("--manage-all-nodes=true")
            .arg("--node-ip=127.0.0.1")
            // No server: there are no containers to look into.
            .arg("--node-port=0")
            .arg("--node-lease-duration-seconds=40")
            .arg("--cidr=10.64.0.0/10")
    }

    fn user(&self, user: &str, group: Option<&str>, path: &Path) -> Result<()> {
        let (certificate, key) = self.certificates.client(user, group)?;
        let ca = self.certificates.path("ca.crt");
        let credentials = Credentials::Certificate(&certificate, &key);
        kubeconfig::write(path, &self.server(), &ca, "default", &credentials)
            .with_context(|| format!("user {user}"))
    }

    fn kubeconfig_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.kubeconfig"))
    }

    fn path_flag(&self, flag: &str, file: &str) -> std::ffi::OsString {
        path_flag(flag, &self.dir.join(file))
    }
}

fn address(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn path_flag(flag: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(format!("--{flag}="));
    text.push(path);
    text
}
