{{- /* What the values say of any object: the fields of its overlay, and the common labels and annotations. Takes the root, the
object, and the name of its overlay. */ -}}
{{- define "sluice.common" -}}
{{- $values := (index . 0).Values -}}
{{- $object := index . 1 -}}
{{- $metadata := $object.metadata -}}
{{- with get ($values.overlays | default dict) (index . 2) }}{{ include "sluice.merge" (list $object .) }}{{ end -}}
{{- with $values.commonLabels -}}
{{- $_ := set $metadata "labels" (merge (dict) ($metadata.labels | default dict) .) -}}
{{- if eq $object.kind "Deployment" -}}
{{- $pod := $object.spec.template.metadata -}}
{{- $_ := set $pod "labels" (merge (dict) $pod.labels .) -}}
{{- end -}}
{{- end -}}
{{- with $values.commonAnnotations }}{{ $_ := set $metadata "annotations" (merge (dict) ($metadata.annotations | default dict) .) }}{{ end -}}
{{- end -}}

{{- /* Merges a map into another: maps field by field, lists whose items all have names item by item, and everything else takes
the place of what is there; null takes it away. Takes both. */ -}}
{{- define "sluice.merge" -}}
{{- $target := index . 0 -}}
{{- range $field, $value := index . 1 -}}
{{- $old := index $target $field -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $target $field -}}
{{- else if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- include "sluice.merge" (list $old $value) -}}
{{- else if and (kindIs "slice" $value) (kindIs "slice" $old) (eq "" (include "sluice.nameless" (concat $old $value))) -}}
{{- range $item := $value -}}
{{- $isNew := true -}}
{{- range $old }}{{ if eq .name $item.name }}{{ $isNew = false }}{{ include "sluice.merge" (list . $item) }}{{ end }}{{ end -}}
{{- if $isNew }}{{ $old = append $old $item }}{{ end -}}
{{- end -}}
{{- $_ := set $target $field $old -}}
{{- else -}}
{{- $_ := set $target $field $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Some text if an item of a list has no name. */ -}}
{{- define "sluice.nameless" -}}
{{- range . }}{{ if not (kindIs "map" .) }}x{{ else if not .name }}x{{ end }}{{ end -}}
{{- end -}}
