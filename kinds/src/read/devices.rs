//! How many devices pods claim: what a ResourceClaimTemplate asks for, by the class of each of its
//! requests, and what the claims of a pod come to by that. What can't be counted is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sluice_crds::quantity::NANOS;

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

/// What one claim that is made from a template comes to, or why that can't be counted.
pub type TemplateDevices = Result<Amounts, String>;

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
            return Err(format!("has more than {REQUESTS_MAX} requests"));
        }
        let mut amounts = Amounts::new();
        for request in requests {
            let name = text(request, "name");
            let (resource, amount) = (self.request(request)).map_err(|rule| {
                format!("can't be counted, because of its request {name:?}: {rule}")
            })?;
            let total = amounts.entry(resource.to_owned()).or_default();
            *total = (total.checked_add(amount))
                .ok_or_else(|| format!("requests too many devices of {resource:?}"))?;
        }
        Ok(amounts)
    }

    /// What one request asks for: a resource, and how much of it in nano-units.
    fn request(&self, request: &Value) -> Result<(&str, i128), String> {
        if request.get("firstAvailable").is_some() {
            let rule = "firstAvailable leaves open which devices are allocated: use exactly";
            return Err(rule.to_owned());
        }
        let Some(exactly) = request.get("exactly") else {
            return Err("exactly must be set".to_owned());
        };
        if exactly.get("adminAccess").and_then(Value::as_bool) == Some(true) {
            let rule = "adminAccess grants devices that are allocated to others: must be false";
            return Err(rule.to_owned());
        }
        // Unknown modes must be refused, as the API has it.
        let mode = exactly.get("allocationMode").and_then(Value::as_str);
        if let Some(mode) = mode.filter(|mode| *mode != "ExactCount") {
            return Err(format!(
                "allocationMode {mode:?} leaves open how many devices are allocated: must be \"ExactCount\""
            ));
        }
        let count = match exactly.get("count") {
            None | Some(Value::Null) => Some(1),
            Some(count) => count.as_i64().filter(|count| 0 < *count),
        };
        let amount = count.and_then(|count| i128::from(count).checked_mul(NANOS));
        let amount = amount.ok_or_else(|| "count must be a number greater than zero".to_owned())?;
        let class = text(exactly, "deviceClassName");
        let resource = self.resource(class).ok_or_else(|| {
            format!(
                "deviceClasses in Sluice's configuration names no resource for device class {class:?}"
            )
        })?;
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
                problems.push(claims::refuse(claim, index, &field, rule));
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
) -> Result<&'a Amounts, String> {
    match &claim.source {
        ClaimSource::Template(name) => match count(name) {
            Some(Ok(amounts)) => Ok(amounts),
            Some(Err(rule)) => Err(format!("ResourceClaimTemplate {name:?} {rule}")),
            None => Err(format!(
                "there is no ResourceClaimTemplate {name:?}: create it, and its devices are counted"
            )),
        },
        ClaimSource::Shared(name) => Err(format!(
            "devices of ResourceClaim {name:?} can't be counted, as other pods may share them: name a ResourceClaimTemplate instead"
        )),
        ClaimSource::Unknown => Err("must name a ResourceClaimTemplate".to_owned()),
    }
}

/// Adds `more` to `total`, which must be countable together with `requests`.
fn add(total: &mut Amounts, more: &Amounts, requests: &Amounts) -> Result<(), String> {
    for (resource, amount) in more {
        let before = total.get(resource).copied().unwrap_or_default();
        let own = requests.get(resource).copied().unwrap_or_default();
        let sum = (before.checked_add(*amount)).filter(|sum| sum.checked_add(own).is_some());
        let sum = sum.ok_or_else(|| format!("requests too many devices of {resource:?}"))?;
        total.insert(resource.clone(), sum);
    }
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
