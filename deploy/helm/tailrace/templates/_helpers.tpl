{{- define "tailrace.fullname" -}}
{{- if contains "tailrace" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-tailrace" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tailrace.selector" -}}
app.kubernetes.io/name: tailrace
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "tailrace.labels" -}}
{{ include "tailrace.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* An image, quoted: its name with the tag, and the digest, if one is given, which decides. */}}
{{- define "tailrace.pinned" -}}
{{ printf "%s%s" .name (ternary (printf "@%s" .digest) "" (ne (default "" .digest) "")) | quote }}
{{- end }}

{{- define "tailrace.image" -}}
{{ include "tailrace.pinned" (dict "name" (printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)) "digest" .Values.image.digest) }}
{{- end }}

{{/* Of a volume claim; "-" is Helm's word for a class without a name, which provisions nothing. */}}
{{- define "tailrace.storageClass" -}}
{{- with .storageClassName }}storageClassName: {{ ternary "" . (eq . "-") | quote }}{{ end }}
{{- end }}

{{- define "tailrace.secretName" -}}
{{ .Values.secret.existingSecret | default (printf "%s-cluster" (include "tailrace.fullname" .)) }}
{{- end }}

{{- define "tailrace.gatewayHost" -}}
{{ include "tailrace.fullname" . }}-gateway.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "tailrace.bootstrap" -}}
{{ include "tailrace.gatewayHost" . }}:{{ .Values.gateway.port }}
{{- end }}

{{/* A selector of the pods of all services, without stores and jobs. */}}
{{- define "tailrace.services" -}}
matchLabels: {app.kubernetes.io/name: tailrace, app.kubernetes.io/instance: {{ .Release.Name | quote }}}
matchExpressions:
  - {key: app.kubernetes.io/component, operator: In, values: [controller, broker, coordinator, quota, gateway]}
{{- end }}

{{/* Ports of a NetworkPolicy: one for each broker. */}}
{{- define "tailrace.clientPorts" -}}
{{- $port := int .Values.gateway.port -}}
- {protocol: TCP, port: {{ $port }}, endPort: {{ sub (add $port (int .Values.broker.replicas)) 1 }}}
{{- end }}

{{/* The Secret with the URL of the metadata log; empty: SQLite on the controller's own volume. */}}
{{- define "tailrace.metadataSecret" -}}
{{- if .Values.metadata.existingSecret }}{{ .Values.metadata.existingSecret }}
{{- else if or .Values.metadata.url .Values.postgresql.enabled }}{{ include "tailrace.fullname" . }}-metadata
{{- end }}
{{- end }}

{{- define "tailrace.quotaSecret" -}}
{{- if .Values.quotaStore.existingSecret }}{{ .Values.quotaStore.existingSecret }}
{{- else if or .Values.quotaStore.url .Values.redis.enabled }}{{ include "tailrace.fullname" . }}-quota-store
{{- end }}
{{- end }}

{{/* YAML's numbers are floats in Helm: 1073741824 must not become 1.073741824e+09. */}}
{{- define "tailrace.value" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* server.properties of every service. Directories are variables (statefulsets.yaml), which the image has, too. */}}
{{- define "tailrace.properties" -}}
{{- $name := include "tailrace.fullname" . -}}
internal.secret.file=/etc/tailrace/cluster.secret
controller.quorum.bootstrap.servers={{ range $n := until (int .Values.controller.replicas) }}{{ if $n }},{{ end }}{{ $name }}-controller-{{ $n }}.{{ $name }}-controller.{{ $.Release.Namespace }}.svc:9190{{ end }}
health.port=9404
health.open=true
allow.insecure.listeners=true
gateway.port={{ include "tailrace.value" .Values.gateway.port }}
gateway.advertised.host={{ .Values.gateway.advertisedHost | default (include "tailrace.gatewayHost" .) }}
admin.port={{ include "tailrace.value" .Values.gateway.adminPort }}
admin.allowed.hosts={{ $name }}-admin,{{ $name }}-admin.{{ .Release.Namespace }},{{ $name }}-admin.{{ .Release.Namespace }}.svc
{{- $brokers := int .Values.broker.replicas }}
{{- range $key, $value := merge (deepCopy .Values.config) (dict "default.replication.factor" (min 3 $brokers) "min.insync.replicas" (ternary 2 1 (ge $brokers 3)) "transaction.state.log.min.isr" (min 2 (max 1 (sub $brokers 1)))) }}
{{ $key }}={{ include "tailrace.value" $value }}
{{- end }}
{{- end }}

{{/* A value that a Secret of this release has already, so that an upgrade does not change it; else a new one. */}}
{{- define "tailrace.kept" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace .name }}
{{- if and $found $found.data (hasKey $found.data .key) }}{{ index $found.data .key | b64dec }}{{ else }}{{ randAlphaNum 48 }}{{ end }}
{{- end }}

{{/* What cannot work is refused before anything is installed. */}}
{{- define "tailrace.check" -}}
{{- if and (gt (int .Values.controller.replicas) 1) (not (include "tailrace.metadataSecret" .)) }}
{{- fail "controller.replicas is more than 1, and SQLite allows one controller: set metadata.existingSecret, metadata.url or postgresql.enabled" }}
{{- end }}
{{- if and (gt (int .Values.quota.replicas) 1) (not (include "tailrace.quotaSecret" .)) }}
{{- fail "quota.replicas is more than 1, and quota services share their leases in Redis: set quotaStore.existingSecret, quotaStore.url or redis.enabled" }}
{{- end }}
{{- if not (has .Values.broker.rackFrom (list "node" "label" "none")) }}
{{- fail "broker.rackFrom is none of node, label, none" }}
{{- end }}
{{- range $of := list "" "controller" "broker" "coordinator" "quota" "gateway" }}
{{- $config := ternary $.Values.config (get (get $.Values $of | default dict) "config") (eq $of "") }}
{{- range $key := list "listeners" "advertised.listeners" }}
{{- if hasKey ($config | default dict) $key }}
{{- fail (printf "%s is not a key for %sconfig: the chart sets the one listener of its gateways, by gateway.port and gateway.advertisedHost" $key (ternary "" (printf "%s." $of) (eq $of ""))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tailrace.affinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "tailrace.selector" . | nindent 12 }}
    - weight: 50
      podAffinityTerm:
        topologyKey: {{ .root.Values.zoneLabel }}
        labelSelector:
          matchLabels: {{- include "tailrace.selector" . | nindent 12 }}
{{- end }}
