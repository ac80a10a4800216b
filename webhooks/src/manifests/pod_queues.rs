//! Which queues and gates an object names for its pods alone, in CEL: by the metadata in its pod templates. The same as
//! in `crate::rules::applies::requested_object` and `crate::rules::advice::templates`.

use sluice_crds::QUEUE_NAME_LABEL;
use sluice_kinds::PodMetadata;
use sluice_kinds::aliases::MetadataKey;
use sluice_kinds::gates::GATE_ANNOTATIONS;
use sluice_kinds::path::FieldPath;

use crate::manifests::options::{ManagedResource, Options};

/// CEL: `object`, which is of a kind of these `resources`, names a queue for its pods of which `is` is true.
pub(crate) fn of_kinds<'a>(
    resources: impl Iterator<Item = &'a ManagedResource>,
    object: &str,
    options: &Options,
    is: &dyn Fn(&str) -> String,
) -> String {
    in_places(resources, &|place| names_queue(place, object, options, is))
}

/// CEL: `object`, which is of a kind of these `resources`, names a gate for its pods.
pub(crate) fn name_gate<'a>(
    resources: impl Iterator<Item = &'a ManagedResource>,
    object: &str,
) -> String {
    let keys = GATE_ANNOTATIONS.map(|key| ("annotations", key));
    in_places(resources, &|place| {
        has_key(place, object, &keys, &|_| "true".to_owned())
    })
}

/// CEL: `is` is true of a place where the object of the request, which is of a kind of these `resources`, has the
/// metadata of pods.
fn in_places<'a>(
    resources: impl Iterator<Item = &'a ManagedResource>,
    is: &dyn Fn(&PodMetadata) -> String,
) -> String {
    let of_kinds = by_resource(resources);
    let clauses = of_kinds.iter().map(|(names, places)| {
        let named: Vec<_> = places.iter().map(is).collect();
        let names: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
        format!(
            "{RESOURCE} in [{}] && ({})",
            names.join(", "),
            named.join(" ||\n")
        )
    });
    let clauses: Vec<_> = clauses.collect();
    if clauses.is_empty() {
        "false".to_owned()
    } else {
        clauses.join(" ||\n")
    }
}

/// The resources that have the metadata of their pods at the same places.
fn by_resource<'a>(
    resources: impl Iterator<Item = &'a ManagedResource>,
) -> Vec<(Vec<String>, &'a [PodMetadata])> {
    let mut all: Vec<(Vec<String>, &[PodMetadata])> = Vec::new();
    for resource in resources.filter(|resource| !resource.pod_metadata.is_empty()) {
        let name = format!("{}/{}", resource.group, resource.resource);
        match all
            .iter_mut()
            .find(|(_, places)| *places == resource.pod_metadata)
        {
            Some((names, _)) => names.push(name),
            None => all.push((vec![name], &resource.pod_metadata)),
        }
    }
    all
}

/// CEL: the resource of the request.
pub(crate) const RESOURCE: &str = "request.resource.group + '/' + request.resource.resource";

/// CEL: at this place `object` has the metadata of pods that names a queue of which `is` is true.
pub(crate) fn names_queue(
    place: &PodMetadata,
    object: &str,
    options: &Options,
    is: &dyn Fn(&str) -> String,
) -> String {
    let own = MetadataKey::Label(QUEUE_NAME_LABEL.to_owned());
    let aliases = options.key_aliases.of(&own).iter();
    let labels = options.queue_labels.iter();
    let labels = labels.map(|key| ("labels", key.as_str()));
    let keys: Vec<_> = labels.chain(aliases.map(MetadataKey::parts)).collect();
    has_key(place, object, &keys, is)
}

/// CEL: at this place `object` has one of these keys of a map, and a value there of which `is` is true.
fn has_key(
    place: &PodMetadata,
    object: &str,
    keys: &[(&str, &str)],
    is: &dyn Fn(&str) -> String,
) -> String {
    within(&place.lists, object, 0, &|element| {
        let named = keys.iter().map(|(map, key)| {
            let fields = place.path.segments().iter().map(String::as_str);
            let Field { is_there, value } = field(element, fields.chain([*map]));
            let queue = format!("{value}['{key}']");
            // A kind without a schema keeps the null of an empty map.
            format!(
                "{is_there} && {value} != null && '{key}' in {value} && {}",
                is(&queue)
            )
        });
        let named: Vec<_> = named.map(|named| format!("({named})")).collect();
        format!("({})", named.join(" || "))
    })
}

/// CEL: `is` is true of an element of the first list or map in `object`, or of one in such an element, and so on.
fn within(lists: &[FieldPath], object: &str, depth: usize, is: &dyn Fn(&str) -> String) -> String {
    let Some((list, rest)) = lists.split_first() else {
        return is(object);
    };
    let Field { is_there, value } = field(object, list.segments().iter().map(String::as_str));
    let (all, name) = (format!("dyn({value})"), format!("e{depth}"));
    let inner = depth.saturating_add(1);
    let of_map = within(rest, &format!("{all}[{name}]"), inner, is);
    let of_list = within(rest, &name, inner, is);
    format!(
        "({is_there} && (type({all}) == map ?\n{all}.exists({name}, {of_map}) :\n{all}.exists({name}, {of_list})))"
    )
}

/// A field of an object, in CEL.
struct Field {
    /// Whether it is there.
    is_there: String,
    value: String,
}

fn field<'a>(object: &str, names: impl Iterator<Item = &'a str>) -> Field {
    let mut value = object.to_owned();
    let mut there = Vec::new();
    for name in names {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.chars().all(is_letter) && !RESERVED.contains(&name) {
            value = format!("{value}.{name}");
            there.push(format!("has({value})"));
        } else {
            there.push(format!("'{name}' in {value}"));
            value = format!("{value}['{name}']");
        }
    }
    Field {
        is_there: there.join(" && "),
        value,
    }
}

/// Words that name no field in CEL.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];
