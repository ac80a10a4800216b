//! Reads one set of equal pods: what each asks for and where it may go, from a pod template or from
//! a pod itself.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::{MANAGED_LABEL, POD_SET_ANNOTATION};

use crate::field::metadata::{annotation_text, label};
use crate::field::problem::Problem;
use crate::gates::scheduling::QueueGates;
use crate::read::claims;
use crate::read::place::Place;
use crate::read::requests::{Amounts, PodDefaults, pod_requests, runtime_class};
use crate::read::template::{self, Placement};
use crate::read::view::{Mark, PodSetView, TemplateMarks};

/// What a pod set is read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) defaults: &'a PodDefaults,
    pub(crate) queue_gates: &'a QueueGates,
}

impl Reader<'_> {
    /// The set `name` of `count` pods like `pod`, a pod or a pod template, for which Sluice writes at
    /// `place`.
    pub(crate) fn read(
        self,
        name: Arc<str>,
        place: Place,
        count: u32,
        pod: &Value,
    ) -> Result<PodSetView, Vec<Problem>> {
        let empty = Value::Null;
        let field = &place.spec_field();
        let spec = pod.get("spec").unwrap_or(&empty);
        let mut problems = Vec::new();
        let requests = pod_requests(spec, field, self.defaults)
            .map_err(|p| problems.extend(p))
            .unwrap_or_default();
        let claims = claims::read(spec);
        // What runs uses its quota, however many claims it has.
        let claims = if place == Place::pod() {
            claims
        } else {
            claims::bounded(claims, field)
                .map_err(|p| problems.push(p))
                .unwrap_or_default()
        };
        let declared = if self.defaults.add_nothing_to(spec) {
            requests.clone()
        } else {
            // What can't be counted was told above.
            pod_requests(spec, field, &PodDefaults::default()).unwrap_or_default()
        };
        let placement = Placement::read(spec, field)
            .map_err(|p| problems.push(p))
            .unwrap_or_default();
        let required_affinity = template::required_affinity(spec, field)
            .map_err(|p| problems.push(p))
            .unwrap_or_default();
        if !problems.is_empty() {
            return Err(problems);
        }
        let class = self.defaults.of_class(spec);
        // A pod that is there was created when there was such a class.
        let runtime_class = runtime_class(spec).filter(|_| place != Place::pod());
        Ok(PodSetView {
            marks: marks(pod, &name),
            name,
            count,
            min_count: None,
            count_at: None,
            reclaimable: 0,
            is_assumed: false,
            is_fixed: false,
            requests,
            declared,
            requested_devices: None,
            devices: if claims.is_empty() {
                Ok(Amounts::new())
            } else {
                Err(claims::not_counted(&claims, field))
            },
            claims,
            placement,
            class_placement: class
                .map(|class| class.placement.clone())
                .unwrap_or_default(),
            runtime_class: runtime_class.map(Into::into),
            lacks_runtime_class: runtime_class.is_some_and(|name| self.defaults.lack_class(name)),
            required_affinity,
            priority_class: spec
                .get("priorityClassName")
                .and_then(Value::as_str)
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            has_external_gates: self.queue_gates.has_external(pod),
            place,
        })
    }
}

fn marks(pod: &Value, pod_set: &str) -> TemplateMarks {
    let mark = |map: &str, is_set: bool| {
        let there = pod.get("metadata").and_then(|metadata| metadata.get(map));
        match (there, is_set) {
            (_, true) => Mark::Set,
            (Some(Value::Object(_)), false) => Mark::Unset,
            (_, false) => Mark::NoMap,
        }
    };
    TemplateMarks {
        has_metadata: pod.get("metadata").is_some_and(Value::is_object),
        managed: mark("labels", label(pod, MANAGED_LABEL) == Some("true")),
        pod_set: mark(
            "annotations",
            annotation_text(pod, POD_SET_ANNOTATION) == Some(pod_set),
        ),
    }
}
