//! From a rule of a JobKind to a compiled [`Rule`]: all that is wrong with it is told at once.

use sluice_crds::{PartialAdmission, PodSetRule, WhenAbsent};

use crate::expression::compiled::{Declared, Expression, Returns};
use crate::field::names;
use crate::field::path::{FieldPath, PathError};
use crate::field::problem::Problem;
use crate::pod_sets::added::Added;
use crate::pod_sets::rule::{Partial, Rule, Source};

/// Deepest nesting of lists in a `forEach`.
const LISTS_MAX: usize = 4;

impl Rule {
    /// Compiles `rule`, which stands at `field`.
    pub(crate) fn compile(
        rule: &PodSetRule,
        field: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let for_each = rule.for_each.as_deref();
        let lists = for_each.map(|text| lists(text, &format!("{field}.forEach"), problems));
        let (declared, parse) = match lists {
            Some(_) => (
                Declared::Element,
                FieldPath::parse_below as fn(&str) -> Result<_, PathError>,
            ),
            None => (Declared::Object, FieldPath::parse as _),
        };
        let mut told = |name: &str, text: &str, rule: String| {
            problems.push(Problem::invalid(format!("{field}.{name}"), text, rule));
        };
        let mut path = |name: &str, text: &Option<String>| {
            let text = text.as_deref()?;
            let parsed = parse(text);
            parsed
                .map_err(|rule| told(name, text, rule.to_string()))
                .ok()
        };
        let template = path("template", &rule.template).map(Source::Template);
        let from = path("templateFrom", &rule.template_from).map(Source::TemplateFrom);
        let metadata = path("podMetadata", &rule.pod_metadata).map(Source::Metadata);
        let name_from = path("nameFrom", &rule.name_from);
        let infos = path("podInfos", &rule.pod_infos);
        let mut number = |name: &str, source: &Option<String>, returns: Returns| {
            let source = source.as_deref()?;
            Expression::compile(source, declared, returns)
                .map_err(|rule| told(name, source, rule.to_string()))
                .ok()
        };
        let count = number("count", &rule.count, Returns::Int);
        // The policies count pods, too, and free nothing.
        let reclaimable = number("reclaimable", &rule.reclaimable, Returns::OwnInt);
        let partial = rule.partial_admission.as_ref();
        let partial = partial.and_then(|partial| compile_partial(partial, field, problems));
        let added = rule.add_containers.iter().enumerate();
        let added = added.filter_map(|(index, container)| {
            let field = format!("{field}.addContainers[{index}]");
            Added::compile(container, &field, declared, problems)
        });
        let added = added.collect();
        check_shape(rule, field, problems);
        Some(Self {
            name: rule.name.as_str().into(),
            lists: lists.unwrap_or_default(),
            source: template.or(from).or(metadata)?,
            name_from,
            infos,
            when_absent: rule.when_absent,
            count,
            reclaimable,
            partial,
            added,
        })
    }
}

fn compile_partial(
    partial: &PartialAdmission,
    field: &str,
    problems: &mut Vec<Problem>,
) -> Option<Partial> {
    let at = |name: &str| format!("{field}.partialAdmission.{name}");
    let PartialAdmission {
        annotation,
        field: path,
    } = partial;
    problems.extend(names::annotation_key(annotation, &at("annotation")));
    let path = FieldPath::parse(path).map_err(|rule| {
        problems.push(Problem::invalid(
            at("field"),
            path.clone(),
            rule.to_string(),
        ));
    });
    Some(Partial {
        annotation: annotation.clone(),
        field: path.ok()?,
    })
}

/// The lists of a `forEach`, each in an element of the one before.
fn lists(text: &str, field: &str, problems: &mut Vec<Problem>) -> Vec<FieldPath> {
    let parts: Vec<&str> = text.split("[]").collect();
    if LISTS_MAX < parts.len() {
        let rule = format!("must not lead through more than {LISTS_MAX} lists");
        problems.push(Problem::invalid(field, text, rule));
        return Vec::new();
    }
    let parsed = parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| match index {
            0 => FieldPath::parse(part),
            _ => FieldPath::parse_below(part),
        });
    let paths: Result<Vec<_>, _> = parsed.collect();
    paths.unwrap_or_else(|_| {
        let rule = "must be the path of a list or map, in whose path [] stands for each element of a list (such as \".spec.components[].podSets\")";
        problems.push(Problem::invalid(field, text, rule));
        Vec::new()
    })
}

/// What the fields of a rule say together.
fn check_shape(rule: &PodSetRule, field: &str, problems: &mut Vec<Problem>) {
    let sources = [&rule.template, &rule.template_from, &rule.pod_metadata];
    if sources.iter().filter(|source| source.is_some()).count() != 1 {
        problems.push(Problem::required(
            format!("{field}.template"),
            "exactly one of template, templateFrom and podMetadata must be set",
        ));
    }
    let of_elements = [
        ("nameFrom", &rule.name_from),
        ("templateFrom", &rule.template_from),
        ("podInfos", &rule.pod_infos),
    ];
    for (name, value) in of_elements {
        if value.is_some() && rule.for_each.is_none() {
            problems.push(Problem::forbidden(
                format!("{field}.{name}"),
                "requires forEach: it is a path in its elements",
            ));
        }
    }
    if rule.partial_admission.is_some() && (rule.template.is_none() || rule.for_each.is_some()) {
        problems.push(Problem::forbidden(
            format!("{field}.partialAdmission"),
            "requires template and forbids forEach: one annotation can't give a number for each of many pod sets",
        ));
    }
    if rule.when_absent == WhenAbsent::Create && rule.template.is_none() {
        problems.push(Problem::forbidden(
            format!("{field}.whenAbsent"),
            "Create requires template: only a template at a fixed path can be created",
        ));
    }
    let is_assumed = rule.when_absent == WhenAbsent::Assume;
    if is_assumed
        && (rule.template.is_none() || rule.for_each.is_some() || rule.add_containers.is_empty())
    {
        problems.push(Problem::forbidden(
            format!("{field}.whenAbsent"),
            "Assume requires template and addContainers, and forbids forEach: addContainers are then the containers of the pods",
        ));
    }
    if rule.pod_metadata.is_some() && !rule.add_containers.is_empty() {
        problems.push(Problem::forbidden(
            format!("{field}.addContainers"),
            "requires template or templateFrom: the containers are added to those of the template",
        ));
    }
}
