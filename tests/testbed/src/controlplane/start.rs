//! The start: one step after the other, each waited for by a condition. A port that was taken
//! between the look and the bind makes the whole start again, with other ports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, GetParams};

use crate::controlplane::certificates::Certificates;
use crate::controlplane::components::{Component, Setup};
use crate::controlplane::kubectl;
use crate::controlplane::nodes;
use crate::controlplane::options::Options;
use crate::controlplane::template::{self, State, Template};
use crate::controlplane::{ControlPlane, admin_client};
use crate::operators::crds;
use crate::processes::Process;
use crate::processes::ports;
use crate::processes::reaper::Reaper;
use crate::programs::assets::Assets;
use crate::wait::eventually;

/// Two runs that choose the same port at the same moment are rare; five times in a row, a bug.
const TRIES: usize = 5;

/// Each look at the API server: more than it ever takes, less than the deadline of the start.
const LOOK: Duration = Duration::from_secs(15);

pub(crate) async fn start(assets: &Assets, options: &Options) -> Result<ControlPlane> {
    let template = template_for(assets, options).await?;
    start_from(assets, options, template.as_deref()).await
}

/// The template with the manifests of the options, unless this is the first start with them.
async fn template_for(assets: &Assets, options: &Options) -> Result<Option<Arc<Template>>> {
    // An older version can't read all that its successor has written.
    if options.emulated_version.is_some() {
        return Ok(None);
    }
    let slot = template::slot(&options.manifests);
    let mut state = slot.lock().await;
    match &*state {
        State::New => {
            *state = State::Wanted;
            Ok(None)
        }
        State::Wanted => {
            let made = Arc::new(make_template(assets, &options.manifests).await?);
            *state = State::Made(Arc::clone(&made));
            Ok(Some(made))
        }
        State::Made(template) => Ok(Some(Arc::clone(template))),
    }
}

async fn make_template(assets: &Assets, manifests: &[String]) -> Result<Template> {
    let options = Options {
        manifests: manifests.to_vec(),
        without: vec![Component::Scheduler, Component::Kwok],
        ..Options::default()
    };
    let begun = start_from(assets, &options, None).await?;
    Template::of(&begun).context("the template of control planes")
}

async fn start_from(
    assets: &Assets,
    options: &Options,
    template: Option<&Template>,
) -> Result<ControlPlane> {
    let mut tries = 1;
    loop {
        let result = start_once(assets, options, template).await;
        match result {
            Err(error)
                if tries < TRIES && format!("{error:#}").contains("address already in use") =>
            {
                tries += 1;
            }
            other => return other,
        }
    }
}

async fn start_once(
    assets: &Assets,
    options: &Options,
    template: Option<&Template>,
) -> Result<ControlPlane> {
    let reaper = Arc::new(Reaper::start()?);
    let dir = reaper.dir().to_owned();
    if let Some(template) = template {
        template.copy_to(&dir)?;
    }
    let certificates = Certificates::create(&dir.join("pki"))?;
    let setup = Setup {
        assets,
        options,
        certificates: &certificates,
        dir: &dir,
        etcd_port: ports::free()?,
        api_port: options.api_port.map_or_else(ports::free, Ok)?,
        second_api_port: options.second_api_server.then(ports::free).transpose()?,
    };
    setup.write_files()?;

    let mut starting = Starting {
        setup,
        reaper,
        processes: BTreeMap::new(),
    };
    starting.launch(Component::Etcd)?;
    starting.etcd_listens().await?;
    starting.launch(Component::ApiServer)?;
    starting.api_server_ready(&starting.setup.server()).await?;
    if let Some(second) = starting.setup.second_server() {
        starting.launch(Component::SecondApiServer)?;
        starting.api_server_ready(&second).await?;
    }
    if template.is_none() {
        starting.apply_manifests().await?;
    }
    for component in [
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ] {
        starting.launch(component)?;
    }
    starting.controllers_work().await?;
    starting.nodes_ready().await?;

    let Starting {
        setup,
        reaper,
        processes,
    } = starting;
    let addresses = setup.addresses();
    let kubeconfig = setup.admin_kubeconfig();
    Ok(ControlPlane::new(
        processes,
        reaper,
        assets.clone(),
        certificates,
        addresses,
        kubeconfig,
        options.manifests.clone(),
    ))
}

/// A control plane on its way up.
struct Starting<'a> {
    setup: Setup<'a>,
    reaper: Arc<Reaper>,
    processes: BTreeMap<Component, Process>,
}

impl Starting<'_> {
    fn launch(&mut self, component: Component) -> Result<()> {
        if !self.setup.options.without.contains(&component) {
            let process = Process::start(self.setup.launch(component)?, &self.reaper)?;
            self.processes.insert(component, process);
        }
        Ok(())
    }

    async fn etcd_listens(&self) -> Result<()> {
        let address = (Ipv4Addr::LOCALHOST, self.setup.etcd_port);
        self.wait("etcd to listen", async || {
            Ok(TcpStream::connect(address).map(drop)?)
        })
        .await
    }

    async fn api_server_ready(&self, server: &str) -> Result<()> {
        let client = admin_client(server, self.setup.certificates)?;
        self.wait("the API server to be ready", async || readyz(&client).await)
            .await
    }

    async fn apply_manifests(&self) -> Result<()> {
        let manifests = self.setup.options.manifests.join("\n---\n");
        if !manifests.is_empty() {
            self.kubectl(&["apply", "--server-side", "-f", "-"], &manifests)
                .await?;
        }
        if manifests.contains("kind: CustomResourceDefinition") {
            crds::established(self.client()?, |_| true).await?;
        }
        Ok(())
    }

    /// No pod can be made in a namespace before its service account is there.
    async fn controllers_work(&self) -> Result<()> {
        if self
            .setup
            .options
            .without
            .contains(&Component::ControllerManager)
        {
            return Ok(());
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.client()?, "default");
        self.wait(
            "the controllers to make the default service account",
            async || Ok(api.get("default").await.map(drop)?),
        )
        .await
    }

    async fn nodes_ready(&self) -> Result<()> {
        let specs = self.setup.options.initial_nodes();
        nodes::create(self.client()?, &specs).await?;
        let ready = nodes::wait_ready(self.client()?, &specs).await;
        self.check_alive()?;
        ready.with_context(|| match self.processes.get(&Component::Kwok) {
            Some(kwok) => format!("KWOK's log ends:\n{}", kwok.log_tail()),
            None => "KWOK was not started".to_owned(),
        })
    }

    /// Waits for a condition, and fails at once when a component ends meanwhile.
    async fn wait(&self, what: &str, mut look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let deadline = self.setup.options.deadline;
        eventually(what, deadline, async || {
            if let Err(ended) = self.check_alive() {
                return Ok::<_, anyhow::Error>(Err(ended));
            }
            match tokio::time::timeout(LOOK, look()).await {
                Ok(Ok(())) => Ok(Ok(())),
                Ok(Err(reason)) => Err(reason),
                Err(_) => Err(anyhow!("no answer in {LOOK:?}")),
            }
        })
        .await?
    }

    fn check_alive(&self) -> Result<()> {
        self.processes.values().try_for_each(Process::check_alive)
    }

    fn client(&self) -> Result<kube::Client> {
        admin_client(&self.setup.server(), self.setup.certificates)
    }

    async fn kubectl(&self, args: &[&str], stdin: &str) -> Result<()> {
        let program = self.setup.assets.binary("kubectl")?;
        let kubeconfig = self.setup.admin_kubeconfig();
        let run =
            async || kubectl::run(&program, &kubeconfig, self.setup.dir, args, Some(stdin)).await;
        // Once more if that went wrong, as applying is for: the API server has just come up.
        if run().await?.ok().is_err() {
            let again = run().await?.ok();
            again.context("applying the manifests of the options")?;
        }
        Ok(())
    }
}

/// The API server's own word on it.
pub(crate) async fn readyz(client: &kube::Client) -> Result<()> {
    let root = kube::core::Request::new("");
    client
        .request_text(root.get("readyz", &GetParams::default())?)
        .await?;
    Ok(())
}
