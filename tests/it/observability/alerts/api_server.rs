//! What goes wrong between Sluice and the API server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_faults::proxy::{Asked, Fault, Proxy};
use sluice_testbed::{ControlPlane, eventually};

use crate::support::bed::Bed;
use crate::support::objects::{self, GATES, Job, own_gate};
use crate::support::visibility::{free_port, register};
use crate::support::{DEADLINE, Scene};

use super::firing::Alerts;

/// Longer than the webhook waits to be told of a right.
const TOO_LATE: Duration = Duration::from_millis(1500);
/// What is known of a right is not asked for again for some seconds: the user is refused at once then.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// Watches of Cohorts are told that what they ask for is too old, each time.
    WatchesExpire,
    /// Watches of PriorityClasses are refused.
    WatchesAreRefused,
    /// Nobody says in time what users may do.
    RightsAreUnknown,
    /// Workloads are created, and Sluice does not hear of that.
    RepliesAreLost,
    /// Edits of the pods of Jobs named `uncounted…` are refused.
    LabelsAreRefused,
    /// Events are refused.
    EventsAreRefused,
}

impl Trouble {
    fn fault(self, asked: &Asked) -> Option<Fault> {
        let watches = |resource: &str| asked.is_watch() && asked.target.contains(resource);
        let creates =
            |resource: &str| asked.method == Method::POST && asked.target.contains(resource);
        let (is_so, fault) = match self {
            Self::WatchesExpire => (watches("/cohorts?"), Fault::WatchGone),
            Self::WatchesAreRefused => (watches("/priorityclasses?"), Fault::Refused(403)),
            Self::RightsAreUnknown => (creates("/subjectaccessreviews"), Fault::Late(TOO_LATE)),
            Self::RepliesAreLost => (creates("/workloads"), Fault::ReplyLost),
            Self::LabelsAreRefused => {
                let edits = asked.method == Method::PATCH;
                let is_so = edits && asked.target.contains("/pods/uncounted");
                (is_so, Fault::Refused(403))
            }
            Self::EventsAreRefused => (creates("/events"), Fault::Refused(403)),
        };
        is_so.then_some(fault)
    }
}

/// A proxy in front of the API server, and what goes wrong there now.
pub struct Troubles {
    proxy: Proxy,
    present: Arc<Mutex<BTreeSet<Trouble>>>,
}

impl Troubles {
    /// Between whoever asks the proxy and the API server, with nothing that goes wrong.
    pub async fn between(cp: &ControlPlane) -> Result<Self> {
        let proxy = Proxy::start(cp.server(), &cp.dir().join("pki")).await?;
        let present = Arc::new(Mutex::new(BTreeSet::new()));
        let script = present.clone();
        proxy.follow(Box::new(move |asked| {
            lock(&script)
                .iter()
                .find_map(|trouble| trouble.fault(asked))
        }));
        Ok(Self { proxy, present })
    }

    /// The proxy's address.
    pub fn server(&self) -> &str {
        self.proxy.url()
    }

    fn begin(&self, trouble: Trouble) {
        lock(&self.present).insert(trouble);
    }

    fn end(&self, trouble: Trouble) {
        lock(&self.present).remove(&trouble);
    }
}

fn lock(present: &Mutex<BTreeSet<Trouble>>) -> MutexGuard<'_, BTreeSet<Trouble>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

pub async fn watches_that_fail(troubles: &Troubles, alerts: &Alerts) -> Result<()> {
    let with = async |trouble: Trouble, alert: &'static str| {
        troubles.begin(trouble);
        alerts.see_firing(alert).await?;
        troubles.end(trouble);
        alerts.see_over(alert).await
    };
    tokio::try_join!(
        with(Trouble::WatchesExpire, "SluiceWatchErrors"),
        with(Trouble::WatchesAreRefused, "SluiceWatchSilent"),
    )?;
    Ok(())
}

/// A user tries again and again to lift a gate, and nobody says in time whether that is allowed.
pub async fn rights_that_nobody_tells(
    scene: &Scene<'_>,
    troubles: &Troubles,
    alerts: &Alerts,
) -> Result<()> {
    let (gate, object) = own_gate(&scene.ns, "owned");
    let spec = json!({"description": "Its owners lift it"});
    scene.create(&objects::own("Gate", &object, spec)).await?;
    let held = Job::new("owned").queue("q").gates(&gate);
    scene.create(&held.json()).await?;
    let tenant = scene.acting_as(&scene.editor("tenant").await?)?;
    let refused = async || -> Result<()> {
        let lifted = json!({"metadata": {"annotations": {GATES: null}}});
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let jobs = tenant.api("Job");
        let answer = jobs.patch("owned", &dry_run, &Patch::Merge(lifted)).await;
        ensure!(answer.is_err(), "the gate can be lifted");
        Ok(())
    };
    eventually("the Gate to be known", DEADLINE, &refused).await?;
    let lifting = async {
        loop {
            refused().await?;
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    };
    let seen = async {
        alerts.see_firing("SluiceWebhookSlow").await?;
        alerts.see_firing("SluiceWebhookFails").await
    };
    troubles.begin(Trouble::RightsAreUnknown);
    tokio::select! {
        seen = seen => seen?,
        lifted = lifting => return lifted,
    }
    troubles.end(Trouble::RightsAreUnknown);
    scene.delete("Job", "owned").await?;
    alerts.see_over("SluiceWebhookSlow").await?;
    alerts.see_over("SluiceWebhookFails").await
}

/// The APIService leads to a port on which nobody listens.
pub async fn an_api_that_is_not_reached(bed: &Bed, port: u16, alerts: &Alerts) -> Result<()> {
    register(bed, free_port()?).await?;
    alerts.see_firing("SluiceVisibilityUnavailable").await?;
    register(bed, port).await?;
    alerts.see_over("SluiceVisibilityUnavailable").await
}

/// Of a Job that is in no queue itself the template carries the label. One without labels would get those of its template
/// from the API server.
pub async fn a_pod_that_is_not_labelled(
    scene: &Scene<'_>,
    troubles: &Troubles,
    alerts: &Alerts,
) -> Result<()> {
    troubles.begin(Trouble::LabelsAreRefused);
    let number = std::cell::Cell::new(0);
    // One pod is tried again after half a minute, which is no shorter here; so there are more and more. Later they count in no
    // queue that others need.
    let not_labelled = async || {
        number.set(number.get() + 1);
        let labels = json!({"sluice.dev/queue-name": "nowhere"});
        let job = Job::new(&format!("uncounted-{}", number.get())).runs_forever();
        let job = job.label("tests/own", "yes");
        let job = job.with(&["spec", "template", "metadata", "labels"], labels);
        scene.create(&job.json()).await?;
        alerts.fires("SluicePodsUncounted").await
    };
    eventually("SluicePodsUncounted to fire", DEADLINE, not_labelled).await?;
    troubles.end(Trouble::LabelsAreRefused);
    alerts.see_over("SluicePodsUncounted").await
}

/// Gates hold jobs, whose users are to be told of that.
pub async fn events_that_are_refused(
    scene: &Scene<'_>,
    troubles: &Troubles,
    alerts: &Alerts,
) -> Result<()> {
    let (gate, _) = own_gate(&scene.ns, "untold");
    troubles.begin(Trouble::EventsAreRefused);
    let number = std::cell::Cell::new(0);
    let held = async || {
        number.set(number.get() + 1);
        let job = Job::new(&format!("untold-{}", number.get())).queue("q");
        scene.create(&job.gates(&gate).json()).await?;
        alerts.fires("SluiceReportsDropped").await
    };
    eventually("SluiceReportsDropped to fire", DEADLINE, held).await?;
    troubles.end(Trouble::EventsAreRefused);
    alerts.see_over("SluiceReportsDropped").await
}

/// Without the right to write statuses nothing is admitted. Meanwhile the replies to the creation of Workloads are lost.
pub async fn writes_that_fail(
    scene: &Scene<'_>,
    troubles: &Troubles,
    alerts: &Alerts,
) -> Result<()> {
    let role = scene.get("ClusterRole", "sluice-core").await?;
    let rules = role["rules"].as_array().context("no rules")?;
    let is_of_statuses = |rule: &&Value| rule["resources"] == json!(["workloads/status"]);
    let fewer: Vec<&Value> = rules.iter().filter(|rule| !is_of_statuses(rule)).collect();
    ensure!(fewer.len() + 1 == rules.len(), "{rules:?}");
    scene
        .merge("ClusterRole", "sluice-core", json!({ "rules": fewer }))
        .await?;
    troubles.begin(Trouble::RepliesAreLost);
    let number = std::cell::Cell::new(0);
    for alert in ["SluiceWritesRefused", "SluiceWritesUnanswered"] {
        let waiting = async || {
            number.set(number.get() + 1);
            let job = Job::new(&format!("waits-{}", number.get())).queue("q");
            scene.create(&job.json()).await?;
            alerts.fires(alert).await
        };
        eventually(&format!("{alert} to fire"), DEADLINE, waiting).await?;
    }
    troubles.end(Trouble::RepliesAreLost);
    scene
        .merge("ClusterRole", "sluice-core", json!({ "rules": rules }))
        .await?;
    alerts.see_over("SluiceWritesRefused").await?;
    alerts.see_over("SluiceWritesUnanswered").await
}
