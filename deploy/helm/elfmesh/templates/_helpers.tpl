{{- define "elfmesh.labels" -}}
{{ include "elfmesh.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "elfmesh.selector" -}}
app.kubernetes.io/name: elfmesh
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
