{{- define "edl.image" -}}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default "latest" }}{{ end }}
{{- end }}

{{- define "edl.labels" -}}
app.kubernetes.io/name: edl
app.kubernetes.io/instance: {{ .Values.listener.name }}
{{- end }}

{{/* Name of the Secret with which etcd is reached; empty: none is needed. */}}
{{- define "edl.etcdSecret" -}}
{{- if .Values.etcd.secret }}{{ .Values.etcd.secret }}{{ else if not .Values.etcd.endpoints }}{{ .Values.listener.name }}-etcd{{ end }}
{{- end }}

{{/* Endpoints of etcd, separated by commas. */}}
{{- define "edl.endpoints" -}}
{{- if .Values.etcd.endpoints }}{{ join "," .Values.etcd.endpoints }}{{ else }}
{{- $etcd := printf "%s-etcd" .Values.listener.name }}
{{- range $i := until (int .Values.etcd.replicas) }}{{ if $i }},{{ end }}https://{{ $etcd }}-{{ $i }}.{{ $etcd }}:2379{{ end }}
{{- end }}
{{- end }}

{{/* A place of jobs: a folder below the claim, or a bucket. */}}
{{- define "edl.place" -}}
{{- if contains "://" .place }}{{ .place }}{{ else }}{{ trimSuffix "/" (printf "%s/%s" .root .place) }}{{ end }}
{{- end }}

{{/* Rights of who looks at TrainingJobs. */}}
{{- define "edl.viewer" }}
- apiGroups: [edl-go.github.io]
  resources: [trainingjobs]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
{{- end }}
