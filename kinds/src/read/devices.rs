//! How many devices pods claim: what a ResourceClaimTemplate asks for, by the class of each of its
//! requests, and what the claims of a pod come to by that. What can't be counted is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_crds::quantity::NANOS;
use thiserror::Error;

use crate::field::problem::Problem;
use crate::read::claims::{self, Claim, ClaimSource};
use crate::read::requests::{Amounts, RequestedDevices};
use crate::read::view::PodSetView;

/// Most requests of a template that are read: the API server takes fewer.
const REQUESTS_MAX: usize = 64;

/// Before the name of a DeviceClass: the extended resource by whose name containers request devices of that class
/// (`ResourceDeviceClassPrefix` in k8s.io/api/resource).
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether `name` is a resource by whose name containers request devices of a class. What it counts as, the configuration
/// of the controller says.
pub fn is_named_by_class(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS_PREFIX)
}

/// What the classes of devices are counted as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceClasses(BTreeMap<String, String>);

/// What one claim that is made from a template comes to.
pub type TemplateDevices = Result<Amounts, Uncountable>;

/// Why devices can't be counted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Uncountable {
    /// A template has too many requests.
    #[error("has more than {REQUESTS_MAX} requests")]
    TooManyRequests,
    /// A request of a template can't be counted.
    #[error("can't be counted, because of its request {name:?}: {rule}")]
    Request {
        /// The name of the request.
        name: String,
        /// The rule that it breaks.
        rule: RequestRule,
    },
    /// The sum is too large.
    #[error("requests too many devices of {0:?}")]
    TooMany(String),
    /// A claim is made from a template that can't be counted.
    #[error("ResourceClaimTemplate {name:?} {why}")]
    Template {
        /// The name of the template.
        name: String,
        /// Why it can't be counted.
        why: Box<Self>,
    },
    /// The template of a claim is not there.
    #[error("there is no ResourceClaimTemplate {0:?}: create it, and its devices are counted")]
    NoTemplate(String),
    /// A claim that is there already.
    #[error(
        "devices of ResourceClaim {0:?} can't be counted, as other pods may share them: name a ResourceClaimTemplate instead"
    )]
    Shared(String),
    /// A claim that names nothing which is known.
    #[error("must name a ResourceClaimTemplate")]
    NotNamed,
}

/// The rule that a request of a ResourceClaimTemplate breaks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestRule {
    /// Several devices may be allocated.
    #[error("firstAvailable leaves open which devices are allocated: use exactly")]
    FirstAvailable,
    /// It says nothing.
    #[error("exactly must be set")]
    NotExactly,
    /// It takes devices of others.
    #[error("adminAccess grants devices that are allocated to others: must be false")]
    AdminAccess,
    /// Any number of devices may be allocated.
    #[error(
        "allocationMode {0:?} leaves open how many devices are allocated: must be \"ExactCount\""
    )]
    AllocationMode(String),
    /// It has no number.
    #[error("count must be a number greater than zero")]
    Count,
    /// Nobody says what its devices count as.
    #[error("deviceClasses in Sluice's configuration names no resource for device class {0:?}")]
    Class(String),
}

impl DeviceClasses {
    /// These classes, each with the resource that its devices are counted as.
    pub fn new(classes: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(classes.into_iter().collect())
    }

    /// Whether no devices are counted at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The resource that devices of `class` are counted as.
    pub fn resource(&self, class: &str) -> Option<&str> {
        self.0.get(class).map(String::as_str)
    }

    /// The resource that devices are counted as which containers request by the name of their class, if `name` is such
    /// a name and the class is known.
    fn requested(&self, name: &str) -> Option<&str> {
        self.resource(name.strip_prefix(DEVICE_CLASS_PREFIX)?)
    }

    /// What one claim comes to that is made from `template`, a ResourceClaimTemplate.
    ///
    /// # Errors
    /// Why that can't be counted: the first of its requests that can't be.
    pub fn count(&self, template: &Value) -> TemplateDevices {
        let requests = template.pointer("/spec/spec/devices/requests");
        let requests = requests.and_then(Value::as_array);
        let requests = requests.map_or(&[][..], Vec::as_slice);
        if REQUESTS_MAX < requests.len() {
            return Err(Uncountable::TooManyRequests);
        }
        let mut amounts = Amounts::new();
        for request in requests {
            let name = text(request, "name");
            let (resource, amount) =
                (self.request(request)).map_err(|rule| Uncountable::Request {
                    name: name.to_owned(),
                    rule,
                })?;
            let total = amounts.entry(resource.to_owned()).or_default();
            *total = (total.checked_add(amount))
                .ok_or_else(|| Uncountable::TooMany(resource.to_owned()))?;
        }
        Ok(amounts)
    }

    /// What one request asks for: a resource, and how much of it in nano-units.
    fn request(&self, request: &Value) -> Result<(&str, i128), RequestRule> {
        if request.get("firstAvailable").is_some() {
            return Err(RequestRule::FirstAvailable);
        }
        let Some(exactly) = request.get("exactly") else {
            return Err(RequestRule::NotExactly);
        };
        if exactly.get("adminAccess").and_then(Value::as_bool) == Some(true) {
            return Err(RequestRule::AdminAccess);
        }
        // Unknown modes must be refused, as the API has it.
        let mode = exactly.get("allocationMode").and_then(Value::as_str);
        if let Some(mode) = mode.filter(|mode| *mode != "ExactCount") {
            return Err(RequestRule::AllocationMode(mode.to_owned()));
        }
        let count = match exactly.get("count") {
            None | Some(Value::Null) => Some(1),
            Some(count) => count.as_i64().filter(|count| 0 < *count),
        };
        let amount = count.and_then(|count| i128::from(count).checked_mul(NANOS));
        let amount = amount.ok_or(RequestRule::Count)?;
        let class = text(exactly, "deviceClassName");
        let resource = self.resource(class);
        let resource = resource.ok_or_else(|| RequestRule::Class(class.to_owned()))?;
        Ok((resource, amount))
    }
}

impl PodSetView {
    /// The names of the templates that the claims of one pod are made from, in order; each as often as it
    /// is claimed.
    pub fn claimed_templates(&self) -> Vec<String> {
        let templates = self.claims.iter().filter_map(Claim::template);
        let mut templates: Vec<_> = templates.map(ToString::to_string).collect();
        templates.sort_unstable();
        templates
    }

    /// Counts devices that one pod requests by the name of their class as the resource of that class.
    pub fn count_requested_devices(&mut self, classes: &DeviceClasses) {
        let names = self.requests.keys().chain(self.declared.keys());
        let resources = names.filter_map(|name| {
            let resource = classes.requested(name)?;
            Some((name.clone(), resource.to_owned()))
        });
        let Some(devices) = RequestedDevices::new(resources.collect(), &self.requests) else {
            return;
        };
        devices.rename(&mut self.requests);
        devices.rename(&mut self.declared);
        self.requested_devices = Some(Arc::new(devices));
    }

    /// What one pod requests by the names that the object has for it.
    pub(crate) fn written_requests(&self) -> &Amounts {
        let devices = self.requested_devices.as_ref();
        devices.map_or(&self.requests, |devices| devices.written())
    }

    /// Leaves out the devices that one pod requests by the name of their class. Whether there are some.
    pub fn leave_out_requested_devices(&mut self) -> bool {
        let before = self.requests.len();
        self.requests.retain(|name, _| !is_named_by_class(name));
        self.declared.retain(|name, _| !is_named_by_class(name));
        self.requests.len() < before
    }

    /// Counts the devices that one pod claims by what `count` says of a template.
    pub fn count_devices<'a>(&mut self, count: impl Fn(&str) -> Option<&'a TemplateDevices>) {
        let field = self.place.spec_field();
        let (mut amounts, mut problems) = (Amounts::new(), Vec::new());
        for (index, claim) in self.claims.iter().enumerate() {
            let counted =
                of_claim(claim, &count).and_then(|more| add(&mut amounts, more, &self.requests));
            if let Err(rule) = counted
                && problems.len() < claims::TOLD_MAX
            {
                problems.push(claims::refuse(claim, index, &field, rule.to_string()));
            }
        }
        self.devices = if problems.is_empty() {
            Ok(amounts)
        } else {
            Err(problems)
        };
    }

    /// The usage of one pod: its requests, and the devices that it claims, as far as they are
    /// counted.
    pub fn usage(&self) -> Amounts {
        let mut usage = self.requests.clone();
        for (resource, amount) in self.devices.iter().flatten() {
            let sum = usage.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        usage
    }
}

/// Why the devices of some pod set are not counted.
pub fn uncounted(pod_sets: &[PodSetView]) -> Vec<Problem> {
    let problems = pod_sets.iter().filter_map(|set| set.devices.as_ref().err());
    problems.flatten().cloned().collect()
}

fn of_claim<'a>(
    claim: &Claim,
    count: &impl Fn(&str) -> Option<&'a TemplateDevices>,
) -> Result<&'a Amounts, Uncountable> {
    match &claim.source {
        ClaimSource::Template(name) => match count(name) {
            Some(Ok(amounts)) => Ok(amounts),
            Some(Err(why)) => Err(Uncountable::Template {
                name: name.to_string(),
                why: Box::new(why.clone()),
            }),
            None => Err(Uncountable::NoTemplate(name.to_string())),
        },
        ClaimSource::Shared(name) => Err(Uncountable::Shared(name.to_string())),
        ClaimSource::Unknown => Err(Uncountable::NotNamed),
    }
}

/// Adds `more` to `total`, which must be countable together with `requests`.
fn add(total: &mut Amounts, more: &Amounts, requests: &Amounts) -> Result<(), Uncountable> {
    for (resource, amount) in more {
        let before = total.get(resource).copied().unwrap_or_default();
        let own = requests.get(resource).copied().unwrap_or_default();
        let sum = (before.checked_add(*amount)).filter(|sum| sum.checked_add(own).is_some());
        let sum = sum.ok_or_else(|| Uncountable::TooMany(resource.clone()))?;
        total.insert(resource.clone(), sum);
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
