//! One copy of what many pods have: what they ask for, and who owns them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use sluice_kinds::view::PodSetView;

use crate::cache::pod::{Asks, OwnerRef, PodRecord};
use crate::process::hashing::HashSet;

/// What pods have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    asks: HashSet<SameAsks>,
    owners: HashSet<Arc<OwnerRef>>,
}

impl Shared {
    /// Has a pod, one of so many, use the copies that there are.
    pub(super) fn share(&mut self, record: &mut PodRecord, pods: usize) {
        // What no pod has any more is cleared out when there may be as much of it again.
        let max = pods.saturating_mul(2).saturating_add(64);
        if let Some(owner) = &mut record.owner {
            let is_used = |known: &Arc<OwnerRef>| 1 < Arc::strong_count(known);
            *owner = one_copy(&mut self.owners, owner.clone(), max, is_used);
        }
        let is_used = |known: &SameAsks| 1 < Arc::strong_count(&known.0);
        let asks = SameAsks(record.asks.clone());
        record.asks = one_copy(&mut self.asks, asks, max, is_used).0;
    }
}

/// The one of `known` that is equal to `new`, which is one of them from now on.
fn one_copy<T: Clone + Eq + Hash>(
    known: &mut HashSet<T>,
    new: T,
    max: usize,
    is_used: impl Fn(&T) -> bool,
) -> T {
    if let Some(known) = known.get(&new) {
        return known.clone();
    }
    if max < known.len() {
        known.retain(is_used);
        known.shrink_to(known.len().saturating_mul(2));
    }
    known.insert(new.clone());
    new
}

/// What pods ask for, found by what it says.
#[derive(Debug, Clone, PartialEq)]
struct SameAsks(Arc<Asks>);

// There is nothing in it that is not equal to itself.
impl Eq for SameAsks {}

impl Hash for SameAsks {
    /// Takes in all that users can say, so that nobody can make many of the same hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &*self.0 {
            Ok(set) => hash_set(set, state),
            Err(problems) => problems.hash(state),
        }
    }
}

fn hash_set<H: Hasher>(set: &PodSetView, state: &mut H) {
    let PodSetView {
        name,
        requests,
        requested_devices,
        priority_class,
        claims,
        placement,
        required_affinity,
        // Equal for pods, follow from the others, or have few values.
        count: _,
        min_count: _,
        count_at: _,
        reclaimable: _,
        is_assumed: _,
        is_fixed: _,
        declared: _,
        class_placement: _,
        runtime_class: _,
        lacks_runtime_class: _,
        devices: _,
        has_external_gates: _,
        marks: _,
        place: _,
    } = set;
    (name, requests, requested_devices, priority_class, claims).hash(state);
    placement.node_selector.hash(state);
    // Each list comes after its length, so that what stands in one can't be taken for what stands in the next.
    state.write_usize(placement.tolerations.len());
    for toleration in &placement.tolerations {
        (&toleration.key, &toleration.operator, &toleration.value).hash(state);
        (&toleration.effect, toleration.toleration_seconds).hash(state);
    }
    state.write_usize(required_affinity.len());
    for term in required_affinity {
        for requirements in [&term.match_expressions, &term.match_fields] {
            requirements.as_ref().map(Vec::len).hash(state);
            for required in requirements.iter().flatten() {
                (&required.key, &required.operator, &required.values).hash(state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::plan::fixtures::mk_pod;

    /// All that is hashed, as it is.
    #[derive(Default)]
    struct Written(Vec<u8>);

    impl Hasher for Written {
        fn finish(&self) -> u64 {
            0
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }
    }

    /// Pods with these specs have as many hashes as they ask for different things.
    fn assert_all_differ(specs: impl IntoIterator<Item = Value>) {
        let mut known: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for spec in specs {
            let (_, pod) = mk_pod("a", 0, &[], |pod| {
                let own = spec.as_object().into_iter().flatten();
                for (key, value) in own {
                    pod["spec"][key] = value.clone();
                }
            });
            assert!(pod.asks.is_ok(), "{spec}: {:?}", pod.asks);
            let mut written = Written::default();
            SameAsks(pod.asks).hash(&mut written);
            if let Some(other) = known.insert(written.0, spec.clone()) {
                panic!("{other} and {spec} have the same hash");
            }
        }
    }

    fn with_terms(terms: &[Value]) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn terms_have_borders() {
        const COUNT: usize = 6;
        let required = |number: usize| json!({"key": format!("k{number}"), "operator": "Exists"});
        // Each bit says whether a term ends before a requirement, or where in its term it stands.
        let ends_before = |borders: usize, number: usize| borders >> number & 1 == 1;
        let specs = (0..1_usize << (COUNT - 1)).flat_map(|borders| {
            (0..=COUNT).map(move |labels| {
                let mut terms = vec![json!({})];
                for number in 0..COUNT {
                    if 0 < number && ends_before(borders, number - 1) {
                        terms.push(json!({}));
                    }
                    let list = if number < labels {
                        "matchExpressions"
                    } else {
                        "matchFields"
                    };
                    let term = terms.last_mut().unwrap();
                    if term[list].is_null() {
                        term[list] = json!([]);
                    }
                    term[list].as_array_mut().unwrap().push(required(number));
                }
                with_terms(&terms)
            })
        });
        assert_all_differ(specs);
    }

    #[test]
    fn all_that_a_pod_may_ask_for_is_hashed() {
        let required = |key: &str, operator: &str, values: Value| {
            with_terms(&[json!({"matchExpressions": [
                {"key": key, "operator": operator, "values": values}]})])
        };
        let requests =
            |requests: Value| json!({"containers": [{"resources": {"requests": requests}}]});
        let tolerations = |tolerations: Value| json!({"tolerations": tolerations});
        assert_all_differ([
            json!({}),
            requests(json!({"cpu": "2"})),
            requests(json!({"memory": "1"})),
            requests(json!({"cpu": "1", "memory": "1"})),
            json!({"priorityClassName": "high"}),
            json!({"priorityClassName": "low"}),
            json!({"nodeSelector": {"a": "b"}}),
            json!({"nodeSelector": {"ab": ""}}),
            json!({"nodeSelector": {"a": "b", "c": "d"}}),
            json!({"nodeSelector": {"a": "bc", "d": ""}}),
            tolerations(json!([{}])),
            tolerations(json!([{}, {}])),
            tolerations(json!([{"key": "a"}])),
            tolerations(json!([{"value": "a"}])),
            tolerations(json!([{"operator": "a"}])),
            tolerations(json!([{"effect": "a"}])),
            tolerations(json!([{"key": "a", "value": ""}])),
            tolerations(json!([{"key": "a"}, {"key": "b"}])),
            tolerations(json!([{"key": "b"}, {"key": "a"}])),
            tolerations(json!([{"tolerationSeconds": 0}])),
            tolerations(json!([{"tolerationSeconds": 1}])),
            with_terms(&[json!({})]),
            with_terms(&[json!({}), json!({})]),
            with_terms(&[json!({"matchExpressions": []})]),
            with_terms(&[json!({"matchFields": []})]),
            required("a", "In", json!(null)),
            required("a", "In", json!([])),
            required("a", "In", json!([""])),
            required("a", "In", json!(["b"])),
            required("a", "In", json!(["b", "c"])),
            required("a", "In", json!(["bc"])),
            required("a", "NotIn", json!(["b"])),
            required("ab", "In", json!([])),
        ]);
    }
}
