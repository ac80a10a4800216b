{{- /* The ports of the controller by name, as JSON: those of the manifests, or the values in their place. Takes the values. */ -}}
{{- define "sluice.ports" -}}
{{- $shipped := dict "webhook" 9443 "visibility" 9444 "metrics" 8080 "health" 8081 -}}
{{- merge (dict) (.ports | default dict) $shipped | toJson -}}
{{- end -}}

{{- /* Puts them where the manifests have a number. Takes the values, and the ports of a rule or a Service. */ -}}
{{- define "sluice.setPorts" -}}
{{- $ports := include "sluice.ports" (index . 0) | fromJson -}}
{{- $byShipped := dict -}}
{{- range $name, $shipped := include "sluice.ports" dict | fromJson -}}
{{- $_ := set $byShipped (int $shipped | toString) (index $ports $name | int) -}}
{{- end -}}
{{- range $port := index . 1 -}}
{{- with get $byShipped (int $port.port | toString) }}{{ $_ := set $port "port" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Puts them into the container, whose probes go by name. Takes the values and the container. Fails if two are the same, or
if somebody binds another one. */ -}}
{{- define "sluice.bind" -}}
{{- $values := index . 0 -}}
{{- $container := index . 1 -}}
{{- $ports := include "sluice.ports" $values | fromJson -}}
{{- $shipped := include "sluice.ports" dict | fromJson -}}
{{- if ne (values $ports | uniq | len) (len $ports) }}{{ fail (printf "ports: Invalid value: %s: must differ from each other" (toJson $ports)) }}{{ end -}}
{{- range $container.ports }}{{ $_ := set . "containerPort" (index $ports .name | int) }}{{ end -}}
{{- $given := $values.extraArgs | default list -}}
{{- range $values.extraEnv }}{{ $given = append $given (printf "--%s=%s" (.name | lower | trimPrefix "sluice_" | replace "_" "-") .value) }}{{ end -}}
{{- $args := list -}}
{{- range $container.args }}{{ if not (regexMatch "^--[a-z]+-bind=" .) }}{{ $args = append $args . }}{{ end }}{{ end -}}
{{- range $name, $port := $ports -}}
{{- $flag := printf "--%s-bind=" $name -}}
{{- range $given -}}
{{- if and (hasPrefix $flag .) (not (hasSuffix (printf ":%d" (int $port)) .)) -}}
{{- fail (printf "extraArgs, extraEnv: Invalid value: %q: the port must be that of ports.%s, %d, which probes, Services and the NetworkPolicy know" . $name (int $port)) -}}
{{- end -}}
{{- end -}}
{{- /* The others are where Sluice listens without a flag. What is not to be served must not be told as unavailable. */ -}}
{{- if ternary $values.visibility (ne (int $port) (index $shipped $name | int)) (eq $name "visibility") -}}
{{- $args = append $args (printf "%s0.0.0.0:%d" $flag (int $port)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $container "args" $args -}}
{{- end -}}
