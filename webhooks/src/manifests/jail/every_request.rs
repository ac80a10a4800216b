//! Every request of Sluice's account: in which namespaces, what it may make and delete, and what may
//! change in the objects that it edits. RBAC allows less; this holds whatever role somebody adds to it.

use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;
use sluice_crds::{CERTIFICATE_SECRET, GROUP, JobKindSpec};

use crate::manifests::cel::syntax::{forbidden, text, texts, variable, when};
use crate::manifests::declared::DECLARED;
use crate::manifests::jail::cell::{Cell, rule};
use crate::manifests::jail::difference::{self, DifferenceRules};
use crate::manifests::jail::{
    api_service, entries, kinds, start_time, system_namespaces, webhook_rules,
};
use crate::manifests::webhooks::CONFIGURATION;

/// CEL: the resources of webhook configurations.
const WEBHOOK_CONFIGURATIONS: &str =
    "['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']";

/// Parts of pods and objects that are never looked into: nothing in them is Sluice's.
const CLOSED: [&str; 20] = [
    "affinity",
    "containers",
    "data",
    "dnsConfig",
    "env",
    "ephemeralContainers",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "overhead",
    "readinessGates",
    "resourceClaims",
    "resources",
    "schedulingGates",
    "securityContext",
    "selector",
    "status",
    "topologySpreadConstraints",
    "volumeClaimTemplates",
    "volumes",
];

/// Switches of a pod, and numbers of it, which are no suspend field and no count.
const OF_PODS: [&str; 13] = [
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "backoffLimit",
    "enableServiceLinks",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "priority",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "terminationGracePeriodSeconds",
    "ttlSecondsAfterFinished",
];

/// The policy for all requests.
pub(super) fn cell(shipped: &[JobKindSpec]) -> Cell {
    let mut variables = vec![
        variable("home", "request.userInfo.username.split(':')[2]"),
        variable(
            "resource",
            "request.resource.resource + (request.?subResource.orValue('') == '' ? '' : '/' + request.subResource)",
        ),
        variable(
            "where",
            format!(
                "'{GROUP}/' == request.resource.group + '/' ? 'own' : request.resource.group == '' ? 'core' : request.resource.group"
            ),
        ),
        variable(
            "isEdit",
            format!(
                "request.operation == 'UPDATE' && !(request.resource.group in ['', '{GROUP}', 'admissionregistration.k8s.io', 'apiregistration.k8s.io'])"
            ),
        ),
        variable(
            "kind",
            format!(
                "{}[?(request.kind.group + '/' + request.kind.version + '/' + request.kind.kind)]",
                kinds::table(shipped)
            ),
        ),
    ];
    variables.extend([
        variable("isShipped", "variables.kind.hasValue()"),
        variable("paths", "variables.kind.value()"),
        variable("isStatus", "request.?subResource.orValue('') == 'status'"),
        variable(
            "hasStartTime",
            format!(
                "!variables.isShipped || ({})",
                start_time::is_cleared(shipped)
            ),
        ),
        variable(
            "isSuspended",
            format!(
                "!variables.isShipped || ({})",
                start_time::is_suspended(shipped)
            ),
        ),
        variable("closed", texts(CLOSED)),
        variable("ofPods", texts(OF_PODS)),
    ]);
    variables.extend(difference::variables(&difference_rules()));
    variables.push(variable("namespaceProblems", system_namespaces::problems()));
    variables.push(variable("requestProblems", table()));
    variables.push(variable(
        "problems",
        format!(
            "variables.namespaceProblems + variables.requestProblems +\n\
             (variables.isEdit ? variables.changes +\n{} : [])",
            entries::metadata_problems()
        ),
    ));
    Cell {
        name: "sluice-jail",
        rules: vec![rule(
            "*",
            &["CREATE", "UPDATE", "DELETE", "CONNECT"],
            &["*/*"],
        )],
        excluded: excluded(),
        compared_with: None,
        variables,
    }
}

/// What nodes write all the time, and Sluice has no right on; events and the Lease, on which RBAC allows
/// no more than is needed; questions about rights, which change nothing.
fn excluded() -> Vec<NamedRuleWithOperations> {
    let all = ["*"];
    vec![
        rule(
            "",
            &all,
            &["nodes", "nodes/status", "pods/status", "endpoints"],
        ),
        rule("discovery.k8s.io", &all, &["endpointslices"]),
        rule("", &all, &["events"]),
        rule("events.k8s.io", &all, &["events"]),
        rule("coordination.k8s.io", &all, &["leases"]),
        rule("authentication.k8s.io", &all, &["*/*"]),
        rule("authorization.k8s.io", &all, &["*/*"]),
    ]
}

/// What may be made, edited and deleted.
fn table() -> String {
    let own_status = [
        "clusterqueues/status",
        "cohorts/status",
        "gates/status",
        "jobkinds/status",
        "localqueues/status",
        "workloads",
        "workloads/status",
    ];
    let of_jobs =
        "!variables.resource.contains('/') || variables.isStatus && variables.hasStartTime";
    let edited = format!(
        "variables.where == 'own' ? variables.resource in {} :\n\
         variables.where == 'core' ? variables.resource == 'pods' || variables.resource == 'secrets' && \
         request.name == '{CERTIFICATE_SECRET}' && request.namespace == variables.home :\n\
         variables.where == 'admissionregistration.k8s.io' ? variables.resource in \
         {WEBHOOK_CONFIGURATIONS} && request.name in ['{CONFIGURATION}', '{DECLARED}'] :\n\
         variables.where == 'apiregistration.k8s.io' ? variables.resource == 'apiservices' && request.name == '{}' :\n\
         {} && ({of_jobs})",
        texts(own_status),
        api_service::NAME,
        webhook_rules::may_be_managed("variables.where")
    );
    let allowed = format!(
        "request.operation == 'CREATE' ? variables.where == 'own' && variables.resource == 'workloads' ||\n\
         variables.where == 'admissionregistration.k8s.io' && variables.resource in {WEBHOOK_CONFIGURATIONS} && request.name == '{DECLARED}' :\n\
         request.operation == 'DELETE' ? variables.where == 'own' && variables.resource == 'workloads' ||\n\
         variables.where == 'core' && variables.resource == 'pods' :\n\
         request.operation == 'UPDATE' && ({edited})"
    );
    when(
        &format!("!({allowed})"),
        &forbidden(
            "variables.resource + (request.resource.group == '' ? '' : '.' + request.resource.group)",
            &format!(
                "{} + request.operation.lowerAscii() + {}",
                text("Sluice's account may not "),
                text(" this: it may only hold and release jobs")
            ),
        ),
    )
}

/// In objects of shipped kinds the paths of their JobKinds; in others node selectors and tolerations,
/// marks, and fields that may be a suspend field or a count.
fn difference_rules() -> DifferenceRules {
    let own = |map: &str| {
        let (new, old) = (
            format!("(c.new == null ? dyn({{}}) : {map}.new)"),
            format!("(c.old == null ? dyn({{}}) : {map}.old)"),
        );
        let changed = entries::changed(&new, &old);
        format!(
            "(type(c.new) == map || c.new == null) && (type(c.old) == map || c.old == null) &&\n\
             {changed}.all(k, {})",
            entries::is_own("k")
        )
    };
    let marks = own("c");
    let is_a = |kind: &str| {
        format!(
            "(type(c.new) == {kind} || c.new == null) && (type(c.old) == {kind} || c.old == null)"
        )
    };
    let (switch, number) = (is_a("bool"), is_a("int"));
    let known = format!(
        "c.at in variables.paths.free ||\n\
         c.at in variables.paths.suspend && {switch} ||\n\
         c.at in variables.paths.counts && {number} ||\n\
         c.at in variables.paths.marked && {marks}"
    );
    let unknown = format!(
        "c.key in ['nodeSelector', 'tolerations'] ||\n\
         !(c.key in variables.ofPods) && ({switch} || {number}) ||\n\
         c.key in ['labels', 'annotations'] && {marks}"
    );
    let holds = |object: &str| {
        format!("(type(c.{object}) == map || type(c.{object}) == list || c.{object} == null)")
    };
    let containers = format!("{} && {}", holds("new"), holds("old"));
    let into_known =
        "variables.paths.all.exists(a, a.startsWith(c.at + '.') || a.startsWith(c.at + '['))";
    let into_unknown = "!(c.key in variables.closed)";
    DifferenceRules {
        allowed: format!(
            "variables.isStatus ? {} :\nvariables.isShipped ? ({known}) : ({unknown})",
            start_time::GOES
        ),
        looked_into: format!(
            "{containers} && (variables.isStatus ? c.at == '.status' : variables.isShipped ? {into_known} : {into_unknown})"
        ),
        // A name with a dot in it must not look like two.
        path: "variables.isShipped && p.at in variables.paths.each ? p.at + '[]' :\n\
               p.at + '.' + (k.matches('^[A-Za-z0-9_-]+$') ? k : '?')"
            .to_owned(),
        rule: text(
            "Sluice's account may change only the suspend field, node selectors, tolerations, and its own labels and annotations",
        ),
    }
}
