{{- define "svc.name" -}}
{{- printf "%s-%s" .root.Release.Name .part | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "svc.selector" -}}
app.kubernetes.io/name: svc
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "svc.labels" -}}
{{ include "svc.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "svc.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* Replicas are on nodes and in zones of their own where there are enough. */ -}}
{{- define "svc.spread" -}}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "svc.selector" . | nindent 14 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "svc.selector" . | nindent 8 }}
{{- end }}

{{- define "svc.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "svc.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ .scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ .scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 1
{{- end }}

{{- define "svc.gatewayConfig" -}}
{{- $files := "/run/svc" -}}
{{- $base := dict
  "listen" "0.0.0.0:8090"
  "license" (dict "path" (printf "%s/license.jwt" $files) "public_key_file" (printf "%s/license.pub" $files))
  "state_dir" "/var/lib/svc"
  "sessions" (dict "key_file" (printf "%s/session.key" $files))
  "audit" (dict "path" "/var/lib/svc/audit.jsonl")
  "telemetry" (dict "metrics" (dict "listen" "0.0.0.0:9090"))
  "shutdown" (dict "drain_signal_window" .Values.gateway.drainSignalWindow)
-}}
{{- mergeOverwrite $base (deepCopy .Values.gateway.config) | toYaml -}}
{{- end }}
