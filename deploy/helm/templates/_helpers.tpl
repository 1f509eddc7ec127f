{{- define "rampmeter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "rampmeter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "rampmeter.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "rampmeter.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rampmeter.labels" -}}
app.kubernetes.io/name: {{ include "rampmeter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "rampmeter.selector" -}}
app.kubernetes.io/name: {{ include "rampmeter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end -}}

{{- define "rampmeter.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "rampmeter.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{/* The [nats] table, and what belongs to it, of `.Values.nats` or `.Values.proxy.nats`. */}}
{{- define "rampmeter.nats" -}}
[nats]
{{- if not .urlSecret.name }}
url = {{ .url | quote }}
{{- end }}
{{- if .credentialsSecret.name }}
credentials_file = "/run/secrets/rampmeter/nats/{{ .credentialsSecret.key }}"
{{- end }}
{{- if .tlsSecret.name }}
{{- if .tlsSecret.clientCertificate }}
tls = { ca_file = "/run/secrets/rampmeter/nats-tls/ca.crt", cert_file = "/run/secrets/rampmeter/nats-tls/tls.crt", key_file = "/run/secrets/rampmeter/nats-tls/tls.key" }
{{- else }}
tls = { ca_file = "/run/secrets/rampmeter/nats-tls/ca.crt" }
{{- end }}
{{- end }}
inbox_prefix = {{ .inboxPrefix | quote }}
{{- end -}}

{{- define "rampmeter.natsEnv" -}}
{{- if .urlSecret.name }}
- name: RAMPMETER_NATS
  valueFrom:
    secretKeyRef: { name: {{ .urlSecret.name | quote }}, key: {{ .urlSecret.key | quote }} }
{{- end }}
{{- end -}}

{{- define "rampmeter.natsMounts" -}}
{{- if .credentialsSecret.name }}
- { name: nats-credentials, mountPath: /run/secrets/rampmeter/nats, readOnly: true }
{{- end }}
{{- if .tlsSecret.name }}
- { name: nats-tls, mountPath: /run/secrets/rampmeter/nats-tls, readOnly: true }
{{- end }}
{{- if (.stateKeySecret).name }}
- { name: state-key, mountPath: /run/secrets/rampmeter/state, readOnly: true }
{{- end }}
{{- end -}}

{{- define "rampmeter.natsVolumes" -}}
{{- if .credentialsSecret.name }}
- name: nats-credentials
  secret: { secretName: {{ .credentialsSecret.name | quote }} }
{{- end }}
{{- if .tlsSecret.name }}
- name: nats-tls
  secret: { secretName: {{ .tlsSecret.name | quote }} }
{{- end }}
{{- if (.stateKeySecret).name }}
- name: state-key
  secret: { secretName: {{ .stateKeySecret.name | quote }} }
{{- end }}
{{- end -}}

{{/* The scheme of HTTP at the schedulers, as Kubernetes writes it. */}}
{{- define "rampmeter.scheme" -}}
{{ ternary "HTTPS" "HTTP" (ne .Values.http.tlsSecret.name "") }}
{{- end -}}

{{/* The configuration of the schedulers. */}}
{{- define "rampmeter.configuration" -}}
{{- $name := include "rampmeter.fullname" . -}}
{{- $own := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{ include "rampmeter.nats" .Values.nats }}
replicas = {{ .Values.nats.replicas }}
{{- with .Values.nats.inboxes }}
inboxes = {{ toJson . }}
{{- end }}
{{- if .Values.nats.stateKeySecret.name }}
state_key_file = "/run/secrets/rampmeter/state/{{ .Values.nats.stateKeySecret.key }}"
{{- end }}

[http]
listen = "0.0.0.0:9480"
hosts = {{ concat $own .Values.http.hosts | toJson }}
front = {{ .Values.http.front }}
{{- if and .Values.http.front .Values.http.tokensSecret.name }}
tokens_file = "/run/secrets/rampmeter/http/{{ .Values.http.tokensSecret.key }}"
{{- else if .Values.http.front }}
{{- if not .Values.http.tokenSecret.name }}
{{- fail "http.front needs http.tokenSecret.name or http.tokensSecret.name" }}
{{- end }}
token_file = "/run/secrets/rampmeter/http/{{ .Values.http.tokenSecret.key }}"
{{- end }}
{{- if .Values.http.behindTls }}
behind_tls = true
{{- end }}
{{- if .Values.http.tlsSecret.name }}

[http.tls]
cert_file = "/run/secrets/rampmeter/http-tls/tls.crt"
key_file = "/run/secrets/rampmeter/http-tls/tls.key"
{{- end }}
{{- with .Values.extraConfiguration }}

{{ trim . }}
{{- end }}

{{ trim .Values.resources }}
{{- end -}}

{{/*
The sidecar of a program, for `initContainers` of its pod: it starts before the program and stops
after it. "rampmeter.sidecarVolumes" belongs to it, and a grace period of `proxy.drainSeconds` and
10 s more.
*/}}
{{- define "rampmeter.sidecar" -}}
- name: rampmeter-proxy
  image: {{ include "rampmeter.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args: ["proxy", "/etc/rampmeter/proxy.toml"]
  {{- with include "rampmeter.natsEnv" .Values.proxy.nats | trim }}
  env:
    {{- . | nindent 4 }}
  {{- end }}
  ports:
    - { name: metrics, containerPort: 9471 }
  startupProbe:
    httpGet: { path: /healthz, port: metrics }
  livenessProbe:
    httpGet: { path: /healthz, port: metrics }
  resources:
    {{- toYaml .Values.proxy.resources | nindent 4 }}
  securityContext:
    {{- include "rampmeter.securityContext" . | nindent 4 }}
  volumeMounts:
    - { name: rampmeter-proxy, mountPath: /etc/rampmeter, readOnly: true }
    {{- with include "rampmeter.natsMounts" .Values.proxy.nats | trim }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "rampmeter.sidecarVolumes" -}}
- name: rampmeter-proxy
  configMap: { name: {{ include "rampmeter.fullname" . }}-proxy }
{{- with include "rampmeter.natsVolumes" .Values.proxy.nats | trim }}
{{ . }}
{{- end }}
{{- end -}}
