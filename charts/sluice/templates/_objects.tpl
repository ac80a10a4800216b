{{- /*
The objects of a folder of manifests, with the values laid over them. Takes the root and a glob.

The manifests are those that kustomize reads, unchanged. Namespace and account are replaced in their text, as they are
also words of expressions.
*/ -}}
{{- define "sluice.objects" -}}
{{- $root := index . 0 -}}
{{- $files := $root.Files.Glob (index . 1) -}}
{{- if not $files }}{{ include "sluice.packedWithoutLinks" $root }}{{ end -}}
{{- range $path, $_ := $files -}}
{{- /* A JobKind and its role have files of their own. */ -}}
{{- $jobKind := base $path | trimSuffix ".yaml" | trimSuffix "-role" -}}
{{- $isLeftOut := and $root.Values.jobKinds (eq (base (dir $path)) "jobkinds") (not (has $jobKind ($root.Values.jobKinds | default list))) -}}
{{- if not (or $isLeftOut (eq (base $path) "kustomization.yaml")) -}}
{{- range $document := regexSplit "(?m)^---\\s*$" ($root.Files.Get $path) -1 -}}
{{- $object := fromYaml $document -}}
{{- if $object.Error }}{{ fail (printf "%s: %s" $path $object.Error) }}{{ end -}}
{{- /* In JSON a namespace that is called 123 stays a string. */ -}}
{{- $text := toJson $object | replace "sluice-system" $root.Release.Namespace -}}
{{- $object = $text | replace ":sluice'" (printf ":%s'" $root.Values.serviceAccount.name) | fromJson -}}
{{- if eq (base $path) "config.yaml" }}{{ $object = include "sluice.config" $root | fromYaml }}{{ end -}}
{{- $state := dict "isKept" true -}}
{{- if $object.kind -}}
{{- $overlay := printf "%s/%s" $object.kind $object.metadata.name -}}
{{- include "sluice.overlay" (list $root $object $state) -}}
{{- include "sluice.common" (list $root $object $overlay) -}}
{{- end -}}
{{- /* Helm 4 knows the kinds of webhook configurations, and would create them before JobKinds, which it does not know:
webhooks that nobody answers yet would refuse these. Kinds that Helm doesn't know come last, by name: a List is one, and
comes after JobKinds in Helm 3, too. What is in it is an object of the release like others. Only `helm lint` wants a name. */ -}}
{{- if hasSuffix "WebhookConfiguration" ($object.kind | default "") -}}
{{- $object = dict "apiVersion" "v1" "kind" "List" "metadata" (dict "name" $object.metadata.name) "items" (list $object) -}}
{{- end -}}
{{- if and $object.kind $state.isKept }}
---
# {{ $path }}
{{ toYaml $object }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sluice.packedWithoutLinks" -}}
{{- fail "the chart has no manifests: it was packed or checked out without its symbolic links, as by a GitRepository of Flux; use sluice-N.tgz of `make release` (docs/installing.md)" -}}
{{- end -}}

{{- /* The folders that the kustomization of a folder of manifests names. Takes the root and the folder. */ -}}
{{- define "sluice.folders" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "manifests/%s/kustomization.yaml" (index . 1)) -}}
{{- if not $text }}{{ include "sluice.packedWithoutLinks" $root }}{{ end -}}
{{- range get (fromYaml $text) "resources" }}{{ base . }} {{ end -}}
{{- end -}}

{{- /* The ConfigMap with the configuration file: the shipped one, or the values in its place. Takes the root. */ -}}
{{- define "sluice.config" -}}
{{- $text := .Files.Get "manifests/manager/config.yaml" -}}
{{- $shipped := fromYaml $text -}}
{{- if eq ($shipped.kind | default "") "ConfigMap" -}}
{{- $text = index $shipped.data "config.yaml" -}}
{{- $shipped = fromYaml $text -}}
{{- end -}}
{{- with .Values.config }}{{ $text = merge (dict) . (pick $shipped "apiVersion" "kind") | toYaml | printf "%s\n" }}{{ end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: sluice-config
  namespace: {{ .Release.Namespace | quote }}
  labels:
    app.kubernetes.io/name: sluice
data:
  config.yaml: {{ $text | toJson }}
{{- end -}}

{{- /* Lays the values over an object. Takes the root, the object, and a state whose isKept says whether it stays. */ -}}
{{- define "sluice.overlay" -}}
{{- $values := (index . 0).Values -}}
{{- $object := index . 1 -}}
{{- $state := index . 2 -}}
{{- $spec := $object.spec | default dict -}}
{{- $isWeb := eq (get ($object.metadata.labels | default dict) "app.kubernetes.io/component") "web" -}}
{{- if eq $object.kind "Namespace" -}}
{{- /* That of the release is Helm's. */ -}}
{{- $_ := set $state "isKept" false -}}
{{- else if and $isWeb (has $object.kind (list "Deployment" "Service" "ServiceAccount" "PodDisruptionBudget")) -}}
{{- /* Its account has no rights, and so no name that anybody knows. */ -}}
{{- if has $object.kind (list "Deployment" "Service") }}{{ include (printf "sluice.web%s" $object.kind) . }}{{ end -}}
{{- else if eq $object.kind "Deployment" -}}
{{- include "sluice.deployment" . -}}
{{- else if eq $object.kind "ServiceAccount" -}}
{{- $_ := set $object.metadata "name" $values.serviceAccount.name -}}
{{- $_ := set $state "isKept" (ne (toString $values.serviceAccount.create) "false") -}}
{{- with $values.serviceAccount.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end -}}
{{- else if has $object.kind (list "RoleBinding" "ClusterRoleBinding") -}}
{{- range $object.subjects }}{{ if eq .kind "ServiceAccount" }}{{ $_ := set . "name" $values.serviceAccount.name }}{{ end }}{{ end -}}
{{- else if eq $object.kind "FlowSchema" -}}
{{- range $spec.rules }}{{ range .subjects }}{{ $_ := set .serviceAccount "name" $values.serviceAccount.name }}{{ end }}{{ end -}}
{{- else if eq $object.kind "PodDisruptionBudget" -}}
{{- /* The budget of one replica would block the drain of its node for ever. */ -}}
{{- $_ := set $state "isKept" (gt (int $values.replicas) 1) -}}
{{- else if eq $object.kind "ResourceQuota" -}}
{{- $web := $values.web | default dict -}}
{{- $classes := list ($values.priorityClassName | default "") (ternary ($web.priorityClassName | default "") "" ($web.enabled | default false)) -}}
{{- $critical := list -}}
{{- range uniq $classes }}{{ if hasPrefix "system-" . }}{{ $critical = append $critical . }}{{ end }}{{ end -}}
{{- $_ := set $state "isKept" (not (empty $critical)) -}}
{{- range $spec.scopeSelector.matchExpressions }}{{ $_ := set . "values" $critical }}{{ end -}}
{{- else if eq $object.kind "NetworkPolicy" -}}
{{- $_ := set $state "isKept" $values.networkPolicy.enabled -}}
{{- if $isWeb }}{{ with $values.web.ingressFrom }}{{ $_ := set (first $spec.ingress) "from" . }}{{ end -}}
{{- else }}{{ with $values.networkPolicy.metricsFrom }}{{ $_ := set (index $spec.ingress 1) "from" . }}{{ end }}{{ end -}}
{{- range concat $spec.ingress $spec.egress }}{{ include "sluice.setPorts" (list $values .ports) }}{{ end -}}
{{- $ports := list -}}
{{- range $values.networkPolicy.apiServerPorts }}{{ $ports = append $ports (dict "port" (int .)) }}{{ end -}}
{{- $_ := set (first $spec.egress) "ports" $ports -}}
{{- else if eq $object.kind "Service" -}}
{{- include "sluice.setPorts" (list $values $spec.ports) -}}
{{- with $object.metadata.annotations }}{{ $_ := set . "prometheus.io/port" (toString (first $spec.ports).port) }}{{ end -}}
{{- else if eq $object.kind "Issuer" -}}
{{- $_ := set $state "isKept" (empty $values.certManager.issuerRef) -}}
{{- else if eq $object.kind "Certificate" -}}
{{- with $values.certManager.issuerRef }}{{ $_ := set $spec "issuerRef" . }}{{ end -}}
{{- else if hasSuffix "WebhookConfiguration" $object.kind -}}
{{- range $object.webhooks }}{{ include "sluice.webhook" (list $values .) }}{{ end -}}
{{- else if has $object.kind (list "ServiceMonitor" "PrometheusRule") -}}
{{- $_ := set $object.metadata "labels" (merge $object.metadata.labels ($values.monitoring.labels | default dict)) -}}
{{- if eq $object.kind "ServiceMonitor" }}{{ include "sluice.merge" (list (first $spec.endpoints) ($values.monitoring.endpoint | default dict)) }}{{ end -}}
{{- end -}}
{{- if ($values.monitoring.tls | default dict).enabled -}}
{{- if eq $object.kind "ServiceMonitor" -}}
{{- $_ := set (first $spec.endpoints) "scheme" "https" -}}
{{- $_ := set (first $spec.endpoints) "tlsConfig" (include "sluice.tlsConfig" (index . 0) | fromYaml) -}}
{{- else if and (eq $object.kind "Service") (eq $object.metadata.name "sluice-metrics") -}}
{{- $_ := set $object.metadata.annotations "prometheus.io/scheme" "https" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Takes the values and a webhook. Those of Sluice's own making are as the shipped ones. */ -}}
{{- define "sluice.webhook" -}}
{{- $values := index . 0 -}}
{{- $webhook := index . 1 -}}
{{- if and $values.jobKinds (hasSuffix ".jobs.sluice.dev" $webhook.name) -}}
{{- /* Sluice would take out the rules for kinds that no JobKind declares, and Helm would put them back. */ -}}
{{- $rules := list -}}
{{- range $rule := $webhook.rules }}{{ if has (first $rule.resources | trimSuffix "s") $values.jobKinds }}{{ $rules = append $rules $rule }}{{ end }}{{ end -}}
{{- $_ := set $webhook "rules" $rules -}}
{{- end -}}
{{- $own := $values.webhooks | default dict -}}
{{- with $own.timeoutSeconds }}{{ $_ := set $webhook "timeoutSeconds" (int .) }}{{ end -}}
{{- with $own.failurePolicy }}{{ $_ := set $webhook "failurePolicy" . }}{{ end -}}
{{- $selector := $webhook.namespaceSelector -}}
{{- $_ := set $selector "matchExpressions" (concat $selector.matchExpressions (($own.namespaceSelector | default dict).matchExpressions | default list)) -}}
{{- range $own.matchConditions -}}
{{- $name := .name -}}
{{- range $webhook.matchConditions }}{{ if eq .name $name }}{{ fail (printf "webhooks.matchConditions: Duplicate value: %q" $name) }}{{ end }}{{ end -}}
{{- $_ := set $webhook "matchConditions" (append $webhook.matchConditions .) -}}
{{- end -}}
{{- end -}}

{{- /* How Prometheus knows Sluice: by the certificate of the webhooks, and all CAs that are trusted while it changes. Takes
the root. */ -}}
{{- define "sluice.tlsConfig" -}}
{{- $secret := dict "name" "sluice-webhook-certificate" "key" "ca-bundle.crt" -}}
{{- $config := dict "ca" (dict "secret" $secret) "serverName" (printf "sluice-webhook.%s.svc" .Release.Namespace) -}}
{{- range $field, $value := .Values.monitoring.tls.config }}{{ $_ := set $config $field $value }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* What all pods have: their image, where they run, and how they are marked. Takes the root, the template of the pods, and
the values that are for them alone. */ -}}
{{- define "sluice.pod" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $metadata := (index . 1).metadata -}}
{{- $pod := (index . 1).spec -}}
{{- $own := index . 2 -}}
{{- $_ := set $metadata "labels" (merge $metadata.labels ($own.podLabels | default dict)) -}}
{{- with $own.podAnnotations }}{{ $_ := set $metadata "annotations" (merge ($metadata.annotations | default dict) .) }}{{ end -}}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- $place := index $own $key -}}
{{- if kindIs "invalid" $place }}{{ $place = index $values $key }}{{ end -}}
{{- with $place }}{{ $_ := set $pod $key (deepCopy .) }}{{ end -}}
{{- end -}}
{{- with $own.topologySpreadConstraints }}{{ $_ := set $pod "topologySpreadConstraints" . }}{{ end -}}
{{- if $own.priorityClassName }}{{ $_ := set $pod "priorityClassName" $own.priorityClassName }}{{ else }}{{ $_ := unset $pod "priorityClassName" }}{{ end -}}
{{- $container := first $pod.containers -}}
{{- $_ := set $container "resources" ($own.resources | default dict) -}}
{{- $image := printf "%s:%s" $values.image.repository ($values.image.tag | default $root.Chart.AppVersion) -}}
{{- with $values.image.digest }}{{ $image = printf "%s@%s" $values.image.repository . }}{{ end -}}
{{- $_ := set $container "image" $image -}}
{{- with $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- end -}}

{{- define "sluice.webDeployment" -}}
{{- $root := index . 0 -}}
{{- $web := $root.Values.web -}}
{{- $spec := (index . 1).spec -}}
{{- $_ := set $spec "replicas" (int ($web.replicas | default 1)) -}}
{{- include "sluice.pod" (list $root $spec.template $web) -}}
{{- $pod := $spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- range $container.env }}{{ if eq .name "PUBLIC_URL" }}{{ $_ := set . "value" $web.publicUrl }}{{ end }}{{ end -}}
{{- if $web.plainHttp -}}
{{- $args := list -}}
{{- range $container.args }}{{ if not (hasPrefix "--tls-" .) }}{{ $args = append $args . }}{{ end }}{{ end -}}
{{- $_ := set $container "args" (append $args "--plain-http") -}}
{{- $_ := unset $container.readinessProbe.httpGet "scheme" -}}
{{- range $key, $parent := dict "volumeMounts" $container "volumes" $pod -}}
{{- $kept := list -}}
{{- range index $parent $key }}{{ if ne .name "certificate" }}{{ $kept = append $kept . }}{{ end }}{{ end -}}
{{- $_ := set $parent $key $kept -}}
{{- end -}}
{{- else -}}
{{- range $pod.volumes }}{{ if eq .name "certificate" }}{{ $_ := set .secret "secretName" $web.tlsSecretName }}{{ end }}{{ end -}}
{{- end -}}
{{- $_ := set $container "args" (concat $container.args ($web.extraArgs | default list)) -}}
{{- end -}}

{{- define "sluice.webService" -}}
{{- if (index . 0).Values.web.plainHttp -}}
{{- $port := first (index . 1).spec.ports -}}
{{- $_ := set $port "name" "http" -}}
{{- $_ := set $port "port" 80 -}}
{{- end -}}
{{- end -}}

{{- define "sluice.deployment" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- $spec := (index . 1).spec -}}
{{- $_ := set $spec "replicas" (int $values.replicas) -}}
{{- include "sluice.pod" (list $root $spec.template $values) -}}
{{- $_ := set $spec.template.metadata.annotations "checksum/config" (include "sluice.config" $root | sha256sum) -}}
{{- $pod := $spec.template.spec -}}
{{- $_ := set $pod "serviceAccountName" $values.serviceAccount.name -}}
{{- $_ := set $pod "volumes" (concat $pod.volumes ($values.extraVolumes | default list)) -}}
{{- if $values.hostNetwork -}}
{{- $_ := set $pod "hostNetwork" true -}}
{{- $_ := set $pod "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- /* A pod more than before may find no node whose ports are free: one of those that are there ends first. */ -}}
{{- $_ := set $spec.strategy "rollingUpdate" (dict "maxUnavailable" 1 "maxSurge" 0) -}}
{{- end -}}
{{- if $values.openshift -}}
{{- range $key := list "runAsUser" "runAsGroup" "fsGroup" }}{{ $_ := unset $pod.securityContext $key }}{{ end -}}
{{- end -}}
{{- $container := first $pod.containers -}}
{{- $_ := set $container "env" (concat $container.env ($values.extraEnv | default list)) -}}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts ($values.extraVolumeMounts | default list)) -}}
{{- include "sluice.bind" (list $values $container) -}}
{{- $args := $container.args -}}
{{- if ne $values.serviceAccount.name "sluice" }}{{ $args = append $args (printf "--service-account=%s" $values.serviceAccount.name) }}{{ end -}}
{{- if ($values.monitoring.tls | default dict).enabled }}{{ $args = append $args "--metrics-tls" }}{{ end -}}
{{- $_ := set $container "args" (concat $args ($values.extraArgs | default list)) -}}
{{- include "sluice.volumes" $pod -}}
{{- end -}}

{{- /* Fails if the API server would refuse the volumes: two of a name, two at a path, or none of the name. Takes the spec
of a pod. */ -}}
{{- define "sluice.volumes" -}}
{{- $names := list -}}
{{- range .volumes -}}
{{- if has .name $names }}{{ fail (printf "extraVolumes: Duplicate value: %q" .name) }}{{ end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $paths := list -}}
{{- range (first .containers).volumeMounts -}}
{{- if not (has .name $names) }}{{ fail (printf "extraVolumeMounts: Not found: %q; add it to extraVolumes" .name) }}{{ end -}}
{{- if has .mountPath $paths }}{{ fail (printf "extraVolumeMounts: Invalid value: %q: must be unique" .mountPath) }}{{ end -}}
{{- $paths = append $paths .mountPath -}}
{{- end -}}
{{- end -}}

{{- /* Fails if the API server knows no such policies, or the configuration has what they would pass over. Takes the root. */ -}}
{{- define "sluice.onlyByWebhooks" -}}
{{- $config := .Values.config | default dict -}}
{{- $problems := list -}}
{{- if not (semverCompare ">= 1.36.0-0" .Capabilities.KubeVersion.Version) -}}
{{- $problems = append $problems (printf "variant: Invalid value: \"policies\": needs Kubernetes 1.36 or newer, where MutatingAdmissionPolicy is generally available, and this is %s; use variant: webhooks (docs/without-webhook.md)" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if .Values.jobKinds -}}
{{- $problems = append $problems "jobKinds: Forbidden: the policies of the chart hold objects of all shipped kinds, also of those that nobody would release; use variant: webhooks, or policies of your own (docs/without-webhook.md)" -}}
{{- end -}}
{{- range $field, $value := $config -}}
{{- if and $value (or (eq $field "aliasPresets") (hasSuffix "Aliases" $field)) -}}
{{- $problems = append $problems (printf "config.%s: Forbidden: the policies of the chart don't know aliases; use variant: webhooks, or policies of your own (docs/without-webhook.md)" $field) -}}
{{- end -}}
{{- end -}}
{{- $own := .Values.webhooks | default dict -}}
{{- $judged := "webhooks.%s: Forbidden: there are none, and the policies of the chart judge everywhere, and fail closed; use variant: webhooks" -}}
{{- if eq ($own.failurePolicy | default "Fail") "Ignore" }}{{ $problems = append $problems (printf $judged "failurePolicy") }}{{ end -}}
{{- if $own.matchConditions }}{{ $problems = append $problems (printf $judged "matchConditions") }}{{ end -}}
{{- if ($own.namespaceSelector | default dict).matchExpressions }}{{ $problems = append $problems (printf $judged "namespaceSelector") }}{{ end -}}
{{- $managed := $config.managedNamespaces | default dict -}}
{{- $forbidden := "config.managedNamespaces.%s: Forbidden: policies know only the label sluice.dev/enforcement of a namespace; %s (docs/enforcement.md)" -}}
{{- $label := "use that label, or variant: webhooks" -}}
{{- /* An empty selector selects all namespaces. */ -}}
{{- if not (kindIs "invalid" $managed.selector) }}{{ $problems = append $problems (printf $forbidden "selector" $label) }}{{ end -}}
{{- if ne ($managed.unlabelled | default "Hold") "Hold" }}{{ $problems = append $problems (printf $forbidden "unlabelled" $label) }}{{ end -}}
{{- if $managed.dryRun }}{{ $problems = append $problems (printf $forbidden "dryRun" "use its value DryRun, or variant: webhooks") }}{{ end -}}
{{- if $managed.exceptions }}{{ $problems = append $problems (printf $forbidden "exceptions" "use variant: webhooks") }}{{ end -}}
{{- if ne ($managed.defaultLocalQueue | default "default") "default" }}{{ $problems = append $problems (printf $forbidden "defaultLocalQueue" "name the LocalQueue default, or use variant: webhooks") }}{{ end -}}
{{- if $problems }}{{ fail (join "\n" $problems) }}{{ end -}}
{{- end -}}
