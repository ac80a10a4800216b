//! The rules for gate annotations (`sluice_kinds::gates`) as CEL, for objects of any kind.
//!
//! What CEL can't do is compare lists of any length: that would cost more than the API server lets a
//! policy spend. A stored list that is longer than any valid one can only be removed, not cut.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::Variable;
use sluice_crds::QUEUE_REQUIRED_GATE;
use sluice_kinds::gates::{
    self, ADMISSION_GATED_BY, GATE_BYTES_MAX, GATES_MAX, SCHEDULING_GATED_BY, VALUE_BYTES_MAX,
};
use sluice_kinds::{Problem, names};

use crate::manifests::cel::syntax::{
    duplicate, field, forbidden, invalid, text, too_long, too_many, variable,
};

/// Longest lists that an edit compares: the cost grows with the product.
const COMPARED_MAX: usize = 64;

/// The regular expressions of the two parts of a gate, their lengths apart.
pub(crate) const SUBDOMAIN: &str =
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
pub(crate) const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
/// The regular expression of what stands behind the slash of a scheduling gate.
const NAME_PART: &str = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?";

/// The rules that are used more than once, as fields of `variables.rules`.
const NO_GATE: &str = "variables.rules.noGate";
const PREFIXED: &str = "variables.rules.prefixed";
const ONE_GATE: &str = "variables.rules.oneGate";
const MANY: &str = "variables.rules.many";
const CREATE_ONLY: &str = "variables.rules.createOnly";
const BAD_PATH: &str = "variables.rules.path";
/// What is said of a name that is no subdomain.
pub(crate) const BAD_SUBDOMAIN: &str = "variables.rules.subdomain";

/// One of the two annotations.
struct Annotation {
    key: &'static str,
    /// What the names of its variables begin with.
    prefix: &'static str,
    is_list: bool,
}

const ANNOTATIONS: [Annotation; 2] = [
    Annotation {
        key: SCHEDULING_GATED_BY,
        prefix: "single",
        is_list: false,
    },
    Annotation {
        key: ADMISSION_GATED_BY,
        prefix: "list",
        is_list: true,
    },
];

/// `variables.gateProblems`: what is wrong with the gates that a request brings in.
/// `variables.gateFaults`: what is wrong with those of the object, whoever brought them in.
pub(crate) fn problems() -> Vec<Variable> {
    let mut variables = vec![rules()];
    for annotation in &ANNOTATIONS {
        let Annotation { key, prefix, .. } = annotation;
        let mut add = |name: &str, expression: String| {
            variables.push(variable(&format!("{prefix}{name}"), expression));
        };
        // A list of the value, or of none.
        let value = |annotations: &str| {
            let (key, annotations) = (text(key), format!("variables.{annotations}"));
            format!("{key} in {annotations} ? [{annotations}[{key}]] : []")
        };
        add("", value("annotations"));
        add("Old", value("oldAnnotations"));
        add("At", field("annotations", key));
        add("Names", annotation.names(""));
        add("OldNames", annotation.names("Old"));
        add("Faults", annotation.faults());
        add("Edits", annotation.edits());
    }
    variables.push(variable(
        "gateFaults",
        "variables.singleFaults + variables.listFaults",
    ));
    variables.push(variable(
        "gateProblems",
        "request.operation == 'CREATE' ? variables.gateFaults : variables.singleEdits + variables.listEdits",
    ));
    variables
}

/// `variables.gates`: the names in both annotations, sorted, each once. Of a value that is not
/// valid, what looks like names.
pub(crate) fn held_by() -> Variable {
    gates_in("gates", "annotations")
}

/// CEL: whether a gate holds the object until it names a queue. Needs [`held_by`].
pub(crate) fn require_queue() -> String {
    format!("'{QUEUE_REQUIRED_GATE}' in variables.gates")
}

/// The variable `name`: the same of the `annotations` in another variable.
pub(crate) fn gates_in(name: &str, annotations: &str) -> Variable {
    let of = |annotation: &Annotation| {
        let value = format!(
            "variables.{annotations}[?{}].orValue('')",
            text(annotation.key)
        );
        format!("{value}.substring(0, size({value}) <= {VALUE_BYTES_MAX} ? size({value}) : 0)")
    };
    let [single, list] = ANNOTATIONS.map(|annotation| of(&annotation));
    variable(
        name,
        format!(
            "({single}.split(',') +\n{list}.split(','))\n\
             .map(n, n.trim()).filter(n, n != '').distinct().sort()"
        ),
    )
}

/// CEL: whether the gate `name` is propagated under its own name: whether that is a scheduling
/// gate's name and not called like a queue gate.
pub(crate) fn is_scheduling_gate(name: &str) -> String {
    format!(
        "({name}.matches({}) && size({name}) <= {GATE_BYTES_MAX} && !{name}.endsWith('/queue-allocation-gate'))",
        text(&format!("^{SUBDOMAIN}/{NAME_PART}$"))
    )
}

/// CEL, a list: which valid gates can't be propagated under their own names. The webhook propagates
/// these by a hash, which CEL can't make.
pub(crate) fn unpropagated() -> String {
    let rule = "'names ' + strings.quote(g) + ', which is not a valid name of a scheduling gate, and the pods wait behind such gates; use a name such as \"acme.io/foo\"'";
    format!(
        "(variables.gateFaults.size() != 0 ? [] :\n\
         variables.gates.filter(g, !{}).map(g, {}))",
        is_scheduling_gate("g"),
        forbidden(
            "(g in variables.singleNames ? variables.singleAt : variables.listAt)",
            rule
        )
    )
}

/// CEL: whether the text `name` is an RFC 1123 subdomain, its length apart.
pub(crate) fn is_subdomain(name: &str) -> String {
    format!("{name}.matches({})", text(&format!("^{SUBDOMAIN}$")))
}

impl Annotation {
    /// The elements of the value; none if it is absent or too long to be looked at.
    fn names(&self, when: &str) -> String {
        let value = format!("variables.{}{when}", self.prefix);
        let trimmed = if self.is_list {
            ".map(n, n.trim())"
        } else {
            ""
        };
        format!(
            "size({value}) != 0 && size(bytes({value}[0])) <= {VALUE_BYTES_MAX} ? {value}[0].split(','){trimmed} : []"
        )
    }

    fn at(&self) -> String {
        format!("variables.{}At", self.prefix)
    }

    /// `gates::check_create` for this annotation.
    fn faults(&self) -> String {
        let (at, prefix) = (self.at(), self.prefix);
        let value = format!("variables.{prefix}[0]");
        let names = format!("variables.{prefix}Names");
        let shape = if self.is_list {
            let many = too_many(&at, &format!("size({names})"), MANY);
            format!("{GATES_MAX} < size({names}) ? [{many}] :\n")
        } else {
            format!(
                "1 < size({names}) ? [{}] :\n",
                invalid(&at, &value, ONE_GATE)
            )
        };
        format!(
            "size(variables.{prefix}) == 0 ? [] :\n\
             {VALUE_BYTES_MAX} < size(bytes({value})) ? [{}] :\n\
             {value}.trim() == '' ? [{}] :\n\
             {shape}\
             {names}.transformList(i, n,\n{}).flatten()",
            too_long(&at, VALUE_BYTES_MAX),
            invalid(&at, &value, NO_GATE),
            name_faults(&at, &names),
        )
    }

    /// `gates::check_update` for this annotation.
    fn edits(&self) -> String {
        let (at, prefix) = (self.at(), self.prefix);
        let (new, old) = (
            format!("variables.{prefix}"),
            format!("variables.{prefix}Old"),
        );
        let (names, old_names) = (
            format!("variables.{prefix}Names"),
            format!("variables.{prefix}OldNames"),
        );
        let create_only = forbidden(&at, CREATE_ONLY);
        // Where a name comes up more often than it was stored.
        let is_surplus = format!(
            "{names}.slice(0, i).filter(m, m == n).size() == {old_names}.filter(m, m == n).size()"
        );
        format!(
            "size({new}) == 0 || {new} == {old} ? [] :\n\
             size({old}) == 0 ? [{create_only}] :\n\
             {VALUE_BYTES_MAX} < size(bytes({new}[0])) ? [{}] :\n\
             {VALUE_BYTES_MAX} < size(bytes({old}[0])) || {COMPARED_MAX} < size({old_names}) ? [{}] :\n\
             {COMPARED_MAX} < size({names}) ? [{}] :\n\
             {names}.exists(n, n != '' && !(n in {old_names})) ? [{create_only}] :\n\
             {names}.transformList(i, n,\n\
             {is_surplus},\n\
             n == '' && !('' in {old_names}) ? {} : {})",
            too_long(&at, VALUE_BYTES_MAX),
            forbidden(
                &at,
                "'is longer than any valid value: it may only be removed'"
            ),
            too_many(&at, &format!("size({names})"), MANY),
            invalid(&at, &format!("{new}[0]"), NO_GATE),
            duplicate(&at, "n"),
        )
    }
}

/// `Gate::parse` of the name `n`, and whether it is a duplicate at index `i` of `names`.
fn name_faults(at: &str, names: &str) -> String {
    let (host, path) = ("n.split('/', 2)[0]", "n.split('/', 2)[1]");
    let is_path = format!("{path}.matches({})", text(&format!("^{PATH}$")));
    let is_gate = format!(
        "n.matches({}) && size(n) <= {GATE_BYTES_MAX}",
        text(&format!("^{SUBDOMAIN}/{PATH}$"))
    );
    format!(
        "n == '' ? [{}] :\n\
         !n.matches('^[^/]+/(?s:.+)$') ? [{}] :\n\
         ({} ? [] : [{}]) +\n\
         ({is_path} ? [] : [{}]) +\n\
         ({GATE_BYTES_MAX} < size(bytes(n)) ? [{}] : []) +\n\
         ({names}.indexOf(n) < i && {is_gate} ? [{}] : [])",
        invalid(at, "''", NO_GATE),
        invalid(at, "n", PREFIXED),
        is_subdomain(host),
        invalid(at, host, BAD_SUBDOMAIN),
        invalid(at, path, BAD_PATH),
        too_long(at, GATE_BYTES_MAX),
        duplicate(at, "n"),
    )
}

/// The texts, from the code that judges for the webhooks, so that they are the same.
fn rules() -> Variable {
    let of = |key: &str, value: &str| gates::check_create(&annotation(key, value));
    let added = gates::check_update(&BTreeMap::new(), &annotation(SCHEDULING_GATED_BY, "a.io/b"));
    let rules = [
        (NO_GATE, of(SCHEDULING_GATED_BY, "")),
        (PREFIXED, of(SCHEDULING_GATED_BY, "a")),
        (ONE_GATE, of(SCHEDULING_GATED_BY, "a.io/b,a.io/c")),
        (MANY, of(ADMISSION_GATED_BY, &",".repeat(GATES_MAX))),
        (CREATE_ONLY, added),
        (BAD_PATH, of(SCHEDULING_GATED_BY, "a/ ")),
        (BAD_SUBDOMAIN, names::subdomain("-", "")),
    ];
    let entries: Vec<_> = rules
        .into_iter()
        .map(|(name, problems)| {
            let name = name.trim_start_matches("variables.rules.");
            format!("{}: {}", text(name), text(&rule(problems)))
        })
        .collect();
    variable("rules", format!("{{{}}}", entries.join(",\n")))
}

/// The rule that the first of these problems breaks.
fn rule(problems: Vec<Problem>) -> String {
    problems
        .into_iter()
        .next()
        .map(|problem| problem.detail)
        .unwrap_or_default()
}

fn annotation(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}
