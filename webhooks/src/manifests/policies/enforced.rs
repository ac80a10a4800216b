//! The policies for namespaces with the label `sluice.dev/enforcement`, and for those that the configuration selects if they
//! are generated with one: what holds objects, once more, for those that name no queue and are given one, or the gate; and
//! what refuses.
//!
//! They repeat the others, as a policy that changes nothing at first is not asked again after another one has changed the
//! object: <https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go>.

use k8s_openapi::api::admissionregistration::v1::{Mutation, Validation, Variable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use sluice_crds::{HELD_ANNOTATION, QUEUE_NAME_LABEL};
use sluice_kinds::gates::{ADMISSION_GATED_BY, Gate, field_of};

use crate::manifests::applied::requests_for;
use crate::manifests::cel::path::Path;
use crate::manifests::cel::syntax::{
    self, field, filled, forbidden, required as missing, text, variable, when,
};
use crate::manifests::cel::{gate_marks, lifting, metadata, owners, queue, required, suspension};
use crate::manifests::conditions::entry::{
    any, condition, gate_annotations, loses_controller, queue_names,
};
use crate::manifests::conditions::{enforced as conditions, pods};
use crate::manifests::held::{self, HeldKind, PolicyKinds};
use crate::manifests::options::{EnforcedNamespaces, Options};
use crate::manifests::policies::policy::{Mutating, Rules, Validating, apply};
use crate::manifests::policies::{gate_pods, hold, marking, suspending};
use crate::manifests::webhook_rules::{job_rule, pod_edits};
use crate::rules::applies::makers::{self, Maker};
use crate::rules::enforcement::creation::{NOT_SET, OWNED};
use crate::rules::enforcement::removal::REMOVED;
use crate::rules::enforcement::required::REQUIRED;
use crate::rules::enforcement::start::NEW_POD;
use crate::rules::lifting::lift::{BY_ITS_OWNERS, NAME_A_QUEUE};

/// The name of the policy for objects.
const NAME: &str = "sluice-enforcement";
/// The name of the policy for what makes objects.
const NAME_FOR_MAKERS: &str = "sluice-enforcement-makers";
/// What the names of policies end with for the namespaces that the configuration selects.
pub(super) const SELECTED: &str = "-selected";
/// CEL: who stands at the top, of pods and of other objects.
pub(super) const POD_IS_TOP: &str = "!variables.isOwned || !variables.isController";
pub(super) const JOB_IS_TOP: &str =
    "!(variables.isChild && variables.isMadeByController) && !variables.isMadeForPod";

/// The policies that give objects what they need, and hold them.
pub(super) fn mutating(options: &Options, kinds: &[HeldKind]) -> Vec<Mutating> {
    let of = |(suffix, namespaces): &(&str, LabelSelector)| {
        let all = giving_rules(options, kinds).into_iter().map(|mut rules| {
            rules.name.push_str(suffix);
            rules.mutating(options).in_namespaces(namespaces)
        });
        all.collect::<Vec<_>>()
    };
    namespaces(options).iter().flat_map(of).collect()
}

fn giving_rules(options: &Options, kinds: &[HeldKind]) -> Vec<Rules<Mutation>> {
    let jobs = held::policy_kinds(kinds).into_iter();
    let jobs = jobs.map(|subject| match subject {
        PolicyKinds::Templates(kind) => {
            of_jobs(hold::policy(options, kind, kinds), &[kind], options, kinds)
        }
        PolicyKinds::Metadata(kind) => of_jobs(
            marking::mutating(options, kind, kinds),
            &[kind],
            options,
            kinds,
        ),
        PolicyKinds::Suspended(group) => of_jobs(
            suspending::mutating(options, &group, kinds),
            &group.kinds,
            options,
            kinds,
        ),
    });
    let of_pods = {
        let rules = gate_pods::policy(options, kinds);
        let before = owners::of_any_pod();
        giving(rules, before, POD_IS_TOP, is_new_pod(options), options)
    };
    jobs.chain([of_pods]).collect()
}

/// The policies that refuse.
pub(super) fn validating(options: &Options, kinds: &[HeldKind]) -> Vec<Validating> {
    let of = |(suffix, namespaces): &(&str, LabelSelector)| {
        [objects(options, kinds), makers(options)].map(|mut rules| {
            rules.name.push_str(suffix);
            rules.validating(options).in_namespaces(namespaces)
        })
    };
    namespaces(options).iter().flat_map(of).collect()
}

/// The namespaces that require a queue, with what the names of their policies end with.
fn namespaces(options: &Options) -> Vec<(&'static str, LabelSelector)> {
    let labelled = ("", EnforcedNamespaces::labelled().namespaces);
    let configured = EnforcedNamespaces::configured(&options.managed_namespaces);
    let selected = configured.filter(|configured| !configured.is_dry_run);
    let selected = selected.map(|selected| (SELECTED, selected.namespaces));
    std::iter::once(labelled).chain(selected).collect()
}

fn of_jobs(
    rules: Rules<Mutation>,
    own: &[&HeldKind],
    options: &Options,
    kinds: &[HeldKind],
) -> Rules<Mutation> {
    let mut before = owners::variables(own, kinds);
    before.extend(owners::author_of(own, kinds));
    before.push(owners::made_for_pod(own, kinds));
    let is_new = format!("!({})", any(queue_names(options), "object"));
    giving(rules, before, JOB_IS_TOP, is_new, options)
}

/// CEL: a new pod names no queue, and no controller made it.
fn is_new_pod(options: &Options) -> String {
    format!(
        "!({}) && {}",
        any(queue_names(options), "object"),
        pods::stands_alone()
    )
}

/// `rules` for new objects that are given what they need first. `before` are the variables that say who stands at the top.
fn giving(
    rules: Rules<Mutation>,
    before: Vec<Variable>,
    is_top: &str,
    is_new: String,
    options: &Options,
) -> Rules<Mutation> {
    let renamed = |variable: Variable| match variable.name.as_str() {
        "labels" => Some(("ownLabels", variable.expression)),
        "annotations" => Some(("ownAnnotations", variable.expression)),
        _ => None,
    };
    let own = metadata::variables().into_iter().filter_map(renamed);
    let own = own.map(|(name, expression)| variable(name, expression));
    let mut variables: Vec<Variable> = own.chain(before).collect();
    let named = format!(
        "{}.exists(k, k in variables.ownLabels)",
        queue::keys(options)
    );
    let managed = &options.managed_namespaces;
    let queue = managed.default_local_queue.as_str();
    variables.extend(required::variables(is_top, &named, managed));
    variables.push(variable(
        "isGiven",
        format!(
            "variables.required == 'Hold' && !({})",
            required::has_gate("variables.ownAnnotations")
        ),
    ));
    let given = required::given("variables.ownLabels", "variables.ownAnnotations", queue);
    variables.extend(given);
    let is_known = |name: &str, known: &[Variable]| known.iter().any(|known| known.name == name);
    for variable in rules.variables {
        if !is_known(&variable.name, &variables) {
            variables.push(variable);
        }
    }
    let mut requests = rules.requests;
    for request in &mut requests {
        request.operations = Some(vec!["CREATE".to_owned()]);
    }
    let first = apply(required::configuration(queue));
    Rules {
        name: rules.name.replacen("sluice-", "sluice-enforced-", 1),
        requests,
        condition: condition("names-no-queue", is_new),
        judges_deleted: rules.judges_deleted,
        variables,
        outcomes: std::iter::once(first).chain(rules.outcomes).collect(),
    }
}

/// What is refused of objects that name no queue, or not any more; and of what lifts their gate.
fn objects(options: &Options, kinds: &[HeldKind]) -> Rules<Validation> {
    let own: Vec<&HeldKind> = kinds.iter().collect();
    let mut variables = metadata::variables();
    variables.extend(queue::variables(options));
    variables.extend(owners::variables(&own, kinds));
    variables.extend(owners::author_of(&own, kinds));
    variables.push(owners::made_for_pod(&own, kinds));
    variables.push(variable("isOwned", "variables.owners.size() != 0"));
    let is_top = format!("request.kind.group == '' ? {POD_IS_TOP} : {JOB_IS_TOP}");
    variables.extend(required::variables(
        &is_top,
        "variables.queue.size() != 0",
        &options.managed_namespaces,
    ));
    let namespace = "strings.quote(request.namespace)";
    let at = field("labels", QUEUE_NAME_LABEL);
    let has_gate = required::has_gate("variables.annotations");
    let created = format!(
        "variables.required == 'Refuse' ? [{}] :\n\
         variables.required == 'Hold' && request.kind.group == '' && variables.isOwned ? [{}] :\n\
         variables.required == 'Ignore' || {has_gate} ? [] : [{}]",
        missing(&at, &filled(REQUIRED, &[namespace])),
        forbidden("'metadata.ownerReferences'", &text(OWNED)),
        forbidden(&at, &text(NOT_SET)),
    );
    let removed = when(
        "variables.required != 'Ignore' && variables.oldQueue.size() != 0",
        &forbidden(
            "'metadata.labels[' + variables.oldQueue[0].key + ']'",
            &filled(REMOVED, &[namespace]),
        ),
    );
    let required = missing(&at, &filled(REQUIRED, &[namespace]));
    let of_pod = missing(&at, &filled(&format!("{REQUIRED}{NEW_POD}"), &[namespace]));
    let begun = when("variables.runsFree && variables.begins", &required);
    let last_lifted = format!(
        "!(variables.runsFree && !variables.begins && {}) ? [] :\n\
         request.kind.group == '' ? [{of_pod}] : [{required}]",
        is_last_lifted(),
    );
    variables.push(variable(
        "runsFree",
        format!(
            "variables.required != 'Ignore' && variables.oldQueue.size() == 0 && !({})",
            any(gate_annotations(), "object")
        ),
    ));
    variables.push(variable("begins", begins(options, kinds)));
    let problems =
        format!("request.operation == 'CREATE' ? ({created}) :\n({removed}) + ({begun})");
    variables.push(variable("problems", problems));
    let lifts = format!(
        "request.operation == 'CREATE' ? [] :\n({}) +\n({last_lifted})",
        lifted()
    );
    variables.push(variable("lifts", lifts));
    // Labels, annotations and owners can be edited by the status too.
    let of_kinds = kinds.iter().map(|kind| {
        let resource = &kind.resource;
        job_rule(resource, &resource.subresources, &["CREATE", "UPDATE"])
    });
    let names = |object: &str| any(queue_names(options), object);
    let is_asked = format!(
        "!({}) && (request.operation == 'CREATE' ? request.kind.group != '' || {} :\n({}) || {} || {} || request.kind.group != '' && {})",
        names("object"),
        pods::stands_alone(),
        names("oldObject"),
        required::has_gate("oldObject.metadata.?annotations.orValue({})"),
        conditions::loses_gates(),
        conditions::may_begin(options),
    );
    Rules {
        name: NAME.to_owned(),
        requests: of_kinds.chain(pod_edits()).collect(),
        condition: condition("names-no-queue", is_asked),
        judges_deleted: false,
        variables,
        // Asked there, as the expression of a message knows no authorizer.
        outcomes: vec![
            syntax::no_problems(),
            lifting::or_owner(syntax::none_of("lifts"), &text(&object_name())),
        ],
    }
}

/// CEL: an edit by which an object begins to run: it is started, also by Sluice, loses its controller, or is no exception
/// any more.
fn begins(options: &Options, kinds: &[HeldKind]) -> String {
    let started = kinds.iter().filter_map(|kind| {
        let path = Path::parse(kind.job_kind.suspend.as_ref()?);
        let resource = &kind.resource;
        Some(format!(
            "request.resource.group == '{}' && request.resource.resource == '{}' && {} && (!({}) || {})",
            resource.group,
            resource.resource,
            suspension::is_suspended(&path, "oldObject"),
            suspension::is_suspended(&path, "object"),
            is_handed_over(),
        ))
    });
    // An object grows by its spec, which a subresource leaves as it is. An exception reads `object`.
    let was_excepted = required::exceptions(&options.managed_namespaces)
        .map(|any| format!("request.subResource == '' && [oldObject].exists(object, {any})"));
    let all: Vec<_> = started
        .chain([loses_controller()])
        .chain(was_excepted)
        .map(|begins| format!("({begins})"))
        .collect();
    format!(
        "request.operation == 'UPDATE' && request.kind.group != '' && ({})",
        all.join(" ||\n")
    )
}

/// CEL: the edit says that Sluice has suspended the object, which starts it then, as no queue and no gate holds it.
fn is_handed_over() -> String {
    let is_marked = |object: &str| {
        format!("{object}.metadata.?annotations[?'{HELD_ANNOTATION}'].orValue('false') != 'false'")
    };
    let (old, new) = (is_marked("oldObject"), is_marked("object"));
    format!("({new} && !({old}))")
}

/// CEL: the edit lifts the last gate. Where the gate that requires a queue is or was among them, its owners decide. The
/// gates of a pod with a controller hold nothing.
fn is_last_lifted() -> String {
    let gate = text(Gate::queue_required().as_str());
    format!(
        "{} && !(request.kind.group == '' && variables.oldOwners.size() != 0) &&\n!({}) && !({})",
        conditions::loses_gates(),
        required::has_gate("variables.oldAnnotations"),
        gate_marks::was_lifted(&gate, "variables.oldAnnotations"),
    )
}

/// The name of the Gate.
fn object_name() -> String {
    Gate::queue_required().object_name().unwrap_or_default()
}

/// CEL, a list: the gate is lifted from an object that names no queue.
fn lifted() -> String {
    let gate = Gate::queue_required();
    let object = object_name();
    let quoted = |value: &str| text(&format!("{value:?}"));
    let rule = filled(
        &format!("{BY_ITS_OWNERS}{NAME_A_QUEUE}"),
        &[
            &quoted(gate.as_str()),
            "strings.quote(request.userInfo.username)",
            &quoted(&object),
            "strings.quote(request.namespace)",
        ],
    );
    when(
        &format!(
            "{} && !({}) && !variables.isOwned",
            required::has_gate("variables.oldAnnotations"),
            required::has_gate("variables.annotations"),
        ),
        &forbidden(&text(&field_of(ADMISSION_GATED_BY)), &rule),
    )
}

/// What is refused of objects that make jobs or pods and are no jobs.
fn makers(options: &Options) -> Rules<Validation> {
    let by_kind = |value: &dyn Fn(&Maker) -> String| {
        let entries = makers::that_need_queues().map(|maker| {
            let key = text(&format!("{}/{}", maker.group, maker.kind));
            format!("{key}: {}", value(maker))
        });
        let entries: Vec<_> = entries.collect();
        format!("{{{}}}[variables.maker]", entries.join(",\n"))
    };
    let names_queue = |object: &str, maker: &Maker| {
        let path = maker.template.replace('.', ".?");
        let template = format!("{object}.?{path}.?metadata");
        queue::is_named(options, |map| format!("{template}.?{map}.orValue({{}})"))
    };
    let at = |maker: &Maker| text(&format!("{}.{}", maker.template, label_field()));
    let later = makers::that_need_queues().filter(|maker| maker.is_judged_later);
    let later: Vec<_> = later
        .map(|maker| text(&format!("{}/{}", maker.group, maker.kind)))
        .collect();
    let mut variables = vec![
        variable("maker", "request.kind.group + '/' + request.kind.kind"),
        variable("at", by_kind(&at)),
        variable("namesQueue", by_kind(&|maker| names_queue("object", maker))),
        variable(
            "namedQueue",
            format!(
                "oldObject != null && {}",
                by_kind(&|maker| names_queue("oldObject", maker))
            ),
        ),
    ];
    // The Jobs of a CronJob are made by the controller of CronJobs.
    let managed = &options.managed_namespaces;
    let later = later.join(", ");
    let is_top = if required::may_cover_cron_jobs(managed) {
        format!("!(variables.maker in [{later}])")
    } else {
        "true".to_owned()
    };
    variables.extend(required::variables(
        &is_top,
        "variables.namesQueue",
        managed,
    ));
    let rule = missing(
        "variables.at",
        &filled(REQUIRED, &["strings.quote(request.namespace)"]),
    );
    variables.push(variable(
        "problems",
        when(
            &format!(
                "(variables.required == 'Refuse' || variables.required != 'Ignore' && !(variables.maker in [{later}])) &&\n\
                 (oldObject == null || variables.namedQueue)"
            ),
            &rule,
        ),
    ));
    let requests = makers::that_need_queues().map(requests_for);
    Rules {
        name: NAME_FOR_MAKERS.to_owned(),
        requests: requests.collect(),
        condition: conditions::is_maker(),
        judges_deleted: false,
        variables,
        outcomes: vec![syntax::no_problems()],
    }
}

fn label_field() -> String {
    format!("metadata.labels[{QUEUE_NAME_LABEL}]")
}
