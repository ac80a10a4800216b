//! Finds the elements and pod templates that a rule is about in an object, and counts their pods. What a template asks for is in `read/requests`.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sluice_crds::WhenAbsent;

use crate::expression::compiled::{Expression, Variables};
use crate::field::location::Location;
use crate::field::names;
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::read::place::Place;
use crate::read::template::Placement;

use crate::pod_sets::added::Added;
use crate::pod_sets::rule::{COUNT_MAX, Rule, Source};

#[cfg(test)]
mod tests;

/// Most pod sets of an object; the CRD of the Workload has the same limit.
pub(crate) const SETS_MAX: usize = 64;

/// A pod template of an object.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    /// The name of the pod set.
    pub(crate) set: Arc<str>,
    /// Where Sluice writes for these pods.
    pub(crate) place: Place,
    /// What is said of the pods, as a pod has it; none if that is still to be made.
    pub(crate) pod: Option<Cow<'a, Value>>,
    /// What it is about.
    pub(crate) element: Option<(&'a Value, Value)>,
    /// The rule that has found it.
    pub(crate) rule: &'a Rule,
}

/// What a rule is about: the object, or an element of a list or map in it.
struct Element<'a> {
    at: Location,
    value: &'a Value,
    /// What holds the list.
    holder: (Location, &'a Value),
    key: Value,
    /// Its place in the list, and how long that is.
    place: (usize, usize),
    /// Its name, if nothing in it says another.
    name: String,
}

impl Rule {
    /// The pod templates in `object`. With `problems`, what does not fit is told there; it is left out
    /// all the same.
    pub(crate) fn templates<'a>(
        &'a self,
        object: &'a Value,
        problems: &mut Vec<Problem>,
    ) -> Vec<Template<'a>> {
        let mut elements = Vec::new();
        let root = Element {
            at: Location::default(),
            value: object,
            holder: (Location::default(), object),
            key: Value::Null,
            place: (0, 1),
            name: self.name.to_string(),
        };
        self.walk(&self.lists, root, &mut elements, problems);
        elements
            .iter()
            .filter_map(|element| self.template(element, object, problems))
            .collect()
    }

    /// Finds the elements of `lists` in `above`.
    fn walk<'a>(
        &self,
        lists: &[FieldPath],
        above: Element<'a>,
        found: &mut Vec<Element<'a>>,
        problems: &mut Vec<Problem>,
    ) {
        let Some((list, lists)) = lists.split_first() else {
            found.push(above);
            return;
        };
        let at = above.at.below(list);
        let elements: Vec<(Value, Location, &Value)> = match list.get(above.value) {
            Some(Value::Array(elements)) => elements
                .iter()
                .enumerate()
                .map(|(place, element)| (json!(place), at.place(place), element))
                .collect(),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(key, element)| (json!(key), at.key(key), element))
                .collect(),
            Some(other) => {
                let rule = "must be a list or a map, as its JobKind says";
                return problems.push(Problem::invalid(at.to_string(), other.to_string(), rule));
            }
            None if self.when_absent == WhenAbsent::Skip => return,
            None => {
                let rule = "its JobKind reads the pod sets from here";
                return problems.push(Problem::required(at.to_string(), rule));
            }
        };
        let len = elements.len();
        if len == 0 && self.when_absent != WhenAbsent::Skip {
            let rule = "must have at least one element: its JobKind reads the pod sets from here";
            return problems.push(Problem::required(at.to_string(), rule));
        }
        if SETS_MAX < len {
            let rule = format!("must have at most {SETS_MAX} elements");
            return problems.push(Problem::too_many(at.to_string(), len, rule));
        }
        for (place, (key, at, value)) in elements.into_iter().enumerate() {
            let name = match key.as_str() {
                Some(key) => key.to_ascii_lowercase(),
                None => format!("{}-{place}", above.name),
            };
            let element = Element {
                at,
                value,
                holder: (above.at.clone(), above.value),
                key,
                place: (place, len),
                name,
            };
            self.walk(lists, element, found, problems);
            if SETS_MAX < found.len() {
                return;
            }
        }
    }

    fn template<'a>(
        &'a self,
        element: &Element<'a>,
        object: &'a Value,
        problems: &mut Vec<Problem>,
    ) -> Option<Template<'a>> {
        let set = self.set_name(element, problems)?;
        let (at, pod) = match &self.source {
            Source::Template(path) => (element.at.below(path), path.get(element.value)),
            Source::TemplateFrom(path) => {
                let at = pointed_at(path, element, problems)?;
                let pod = at.get(object);
                (at, pod)
            }
            Source::Metadata(path) => {
                let at = element.at.below(path);
                let metadata = path.get(element.value);
                if let Some(other) = metadata.filter(|metadata| !metadata.is_object()) {
                    let rule = "must be labels and annotations of pods, as its JobKind says";
                    problems.push(Problem::invalid(at.to_string(), other.to_string(), rule));
                    return None;
                }
                return Some(Template {
                    set,
                    place: Place::Metadata(at),
                    pod: metadata.map(|metadata| Cow::Owned(json!({"metadata": metadata}))),
                    element: self.element(element),
                    rule: self,
                });
            }
        };
        match pod {
            None if self.when_absent == WhenAbsent::Skip => return None,
            None if matches!(self.when_absent, WhenAbsent::Create | WhenAbsent::Assume) => {}
            Some(pod) if pod.is_object() => {}
            Some(_) | None => {
                let rule = "its JobKind reads a pod template from here";
                problems.push(Problem::required(at.to_string(), rule));
                return None;
            }
        }
        let (place, pod) = match (&self.infos, pod) {
            (Some(infos), Some(pod)) => with_info(infos, element, at, pod),
            (_, pod) => (Place::Template(at), pod.map(Cow::Borrowed)),
        };
        Some(Template {
            set,
            place,
            pod,
            element: self.element(element),
            rule: self,
        })
    }

    fn element<'a>(&self, element: &Element<'a>) -> Option<(&'a Value, Value)> {
        (!self.lists.is_empty()).then(|| (element.value, element.key.clone()))
    }

    /// The name of the set of an element: a DNS label.
    fn set_name(&self, element: &Element<'_>, problems: &mut Vec<Problem>) -> Option<Arc<str>> {
        if self.lists.is_empty() {
            return Some(self.name.clone());
        }
        let (field, name) = match &self.name_from {
            None => (element.at.to_string(), element.name.clone()),
            Some(path) => {
                let field = element.at.below(path).to_string();
                let Some(Value::String(name)) = path.get(element.value) else {
                    let rule = "its JobKind reads the name of a pod set from here";
                    problems.push(Problem::required(field, rule));
                    return None;
                };
                (field, name.to_ascii_lowercase())
            }
        };
        let wrong = names::label(&name, &field);
        if wrong.is_empty() {
            return Some(name.into());
        }
        problems.extend(wrong);
        None
    }
}

impl Template<'_> {
    /// Whether the pods are made from a template that is not in the object.
    pub(crate) fn is_assumed(&self) -> bool {
        self.pod.is_none() && self.rule.when_absent == WhenAbsent::Assume
    }

    /// The pod as it is counted: with what the kind's controller adds.
    ///
    /// # Errors
    /// An expression does not fit the object.
    pub(crate) fn counted(&self, object: &Value) -> Result<Cow<'_, Value>, Problem> {
        let pod = self.pod.as_deref();
        let mut counted = pod.map_or(Cow::Owned(Value::Null), Cow::Borrowed);
        for added in &self.rule.added {
            if self.is_added(added, object)? {
                added.add_to(counted.to_mut(), object);
            }
        }
        Ok(counted)
    }

    fn is_added(&self, added: &Added, object: &Value) -> Result<bool, Problem> {
        let Some(when) = &added.when else {
            return Ok(true);
        };
        let element = self.element.as_ref().map(|(item, key)| (*item, key));
        let what = match when.evaluate(Variables { object, element }) {
            Ok(cel::Value::Bool(is_added)) => return Ok(is_added),
            Ok(other) => format!("gave {}, not a bool", other.type_of()),
            Err(error) => format!("does not fit this object: {error}"),
        };
        let field = format!("the container {:?} of pod set {:?}", added.name, self.set);
        Err(Problem::forbidden(field, format!("the expression {what}")))
    }

    /// How many pods there are.
    pub(crate) fn count(&self, object: &Value) -> Result<u32, Problem> {
        self.number(object, self.rule.count.as_ref(), "count", 1)
    }

    /// How many of `count` pods have ended for good. Where that can't be told, for instance as there
    /// is no status yet, none have: nothing is freed.
    pub(crate) fn reclaimable(&self, object: &Value, count: u32) -> u32 {
        self.number(object, self.rule.reclaimable.as_ref(), "reclaimable", 0)
            .map_or(0, |given| given.min(count))
    }

    fn number(
        &self,
        object: &Value,
        expression: Option<&Expression>,
        what: &str,
        otherwise: u32,
    ) -> Result<u32, Problem> {
        let Some(expression) = expression else {
            return Ok(otherwise);
        };
        let field = || format!("the {what} of pod set {:?}", self.set);
        let element = self.element.as_ref().map(|(item, key)| (*item, key));
        let number = match expression.evaluate(Variables { object, element }) {
            Ok(cel::Value::Int(number)) => number,
            Ok(cel::Value::UInt(number)) => i64::try_from(number).unwrap_or(i64::MAX),
            Ok(other) => {
                let detail = format!("the expression gave {}, not an int", other.type_of());
                return Err(Problem::forbidden(field(), detail));
            }
            Err(error) => {
                let detail = format!("the expression does not fit this object: {error}");
                return Err(Problem::forbidden(field(), detail));
            }
        };
        u32::try_from(number)
            .ok()
            .filter(|number| *number <= COUNT_MAX)
            .ok_or_else(|| {
                let rule = format!("must be between 0 and {COUNT_MAX}");
                Problem::invalid(field(), number.to_string(), rule)
            })
    }
}

/// Where the text at `path` in `element` says that the template lies.
fn pointed_at(
    path: &FieldPath,
    element: &Element<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Location> {
    let field = || element.at.below(path).to_string();
    let Some(Value::String(text)) = path.get(element.value) else {
        let rule = "its JobKind reads the path of a pod template from here";
        problems.push(Problem::required(field(), rule));
        return None;
    };
    let (above, _) = &element.holder;
    above
        .follow(text)
        .map_err(|rule| problems.push(Problem::invalid(field(), text.clone(), rule.to_string())))
        .ok()
}

/// Where Sluice writes for a template at `at` whose pods get more from a list beside it, and the
/// template with what they get.
fn with_info<'a>(
    infos: &FieldPath,
    element: &Element<'a>,
    at: Location,
    template: &'a Value,
) -> (Place, Option<Cow<'a, Value>>) {
    let (above, holder) = &element.holder;
    let (index, len) = element.place;
    let list = infos.get(holder).and_then(Value::as_array);
    let is_there = list.is_some_and(|list| list.len() == len);
    let info = list.and_then(|list| list.get(index)).filter(|_| is_there);
    let beneath = template
        .get("spec")
        .and_then(|spec| Placement::read(spec, "").ok())
        .unwrap_or_default();
    let place = Place::Info {
        template: at,
        list: above.below(infos),
        index,
        len,
        is_there,
        beneath: Box::new(beneath),
    };
    let info = info.and_then(Value::as_object);
    (place, Some(Cow::Owned(with_more(template, info))))
}

/// What is said of the pods of `template` that get `info` besides. Their marks are in `info` and
/// nowhere else, also where the template has some.
fn with_more(template: &Value, info: Option<&Map<String, Value>>) -> Value {
    let Value::Object(pod) = template else {
        return template.clone();
    };
    let mut pod = pod.clone();
    let mut metadata = Map::new();
    let spec = pod.get("spec");
    let is_readable = spec.is_none_or(Value::is_object);
    let spec = spec.and_then(Value::as_object);
    let mut spec = spec.cloned().unwrap_or_default();
    for (field, more) in info.into_iter().flatten() {
        match (field.as_str(), spec.get_mut(field), more) {
            ("labels" | "annotations", _, more) => {
                metadata.insert(field.clone(), more.clone());
            }
            ("nodeSelector", Some(Value::Object(all)), Value::Object(more)) => {
                all.extend(more.clone());
            }
            ("tolerations" | "schedulingGates", Some(Value::Array(all)), Value::Array(more)) => {
                all.extend(more.iter().cloned());
            }
            ("nodeSelector" | "tolerations" | "schedulingGates", None, more) => {
                spec.insert(field.clone(), more.clone());
            }
            _ => {}
        }
    }
    pod.insert("metadata".to_owned(), metadata.into());
    // A spec that is no object is refused as it is.
    if is_readable {
        pod.insert("spec".to_owned(), spec.into());
    }
    pod.into()
}
