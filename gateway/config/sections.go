package config

import "time"

// TLS is the gateway's own certificate: gateway specification, tls.
type TLS struct {
	// CertFile is the PEM certificate chain; it needs key_file.
	CertFile string `yaml:"cert_file" env:"true"`
	// KeyFile is the PEM private key; it needs cert_file.
	KeyFile string `yaml:"key_file" env:"true"`
	// ClientCA is a PEM bundle; with it every client must present a certificate that one
	// of these authorities signed.
	ClientCA string `yaml:"client_ca" env:"true"`
}

// InputRateLimit is the token bucket per client address that is checked before the body
// is read: gateway specification, input_rate_limit.
type InputRateLimit struct {
	// Enabled turns the limit on.
	Enabled bool `yaml:"enabled"`
	// RequestsPerSecond is the refill rate; above 0, fractions allowed.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Burst is the capacity of a bucket; above 0.
	Burst int `yaml:"burst"`
}

// Identity names the claims of a verified token: gateway specification, identity.
type Identity struct {
	// PrincipalClaim is the claim that identifies the caller, a JSON Pointer if it starts with
	// /; for a token without it the gateway uses client_id, then the client address.
	PrincipalClaim string `yaml:"principal_claim"`
	// GroupsClaim is the claim with the caller's groups, a list of texts or one text; a JSON
	// Pointer, such as /realm_access/roles, if it starts with /.
	GroupsClaim string `yaml:"groups_claim"`
}

// SetDefaults sets the documented defaults.
func (c *Identity) SetDefaults() {
	c.PrincipalClaim = "sub"
	c.GroupsClaim = "groups"
}

// Telemetry exports spans over OTLP and metrics to Prometheus.
type Telemetry struct {
	// Customer is the pipeline for the owner of the agents.
	Customer Pipeline `yaml:"customer"`
	// Operator is the pipeline for the operator of the gateway.
	Operator Pipeline `yaml:"operator"`
	// Metrics serves Prometheus metrics.
	Metrics Metrics `yaml:"metrics"`
}

// Pipeline is one OTLP/HTTP exporter.
type Pipeline struct {
	// Enabled turns the pipeline on.
	Enabled bool `yaml:"enabled"`
	// Endpoint is the base URL; /v1/traces is appended.
	Endpoint string `yaml:"endpoint" env:"true"`
	// Headers are sent with every export.
	Headers map[string]string `yaml:"headers" env:"true" secret:"true"`
	// ServiceName is the service.name of the spans.
	ServiceName string `yaml:"service_name" env:"true"`
	// ResourceAttrs are further resource attributes.
	ResourceAttrs map[string]string `yaml:"resource_attrs" env:"true"`
	// SampleRatio is the share of traces exported, from 0 to 1, of the traces that begin
	// at the gateway. A trace that a caller began is exported if the caller records it.
	SampleRatio float64 `yaml:"sample_ratio"`
	// Compression is none or gzip.
	Compression string `yaml:"compression"`
}

// The values of compression.
const (
	CompressionNone = "none"
	CompressionGzip = "gzip"
)

// SetDefaults sets the documented defaults.
func (c *Pipeline) SetDefaults() {
	c.ServiceName = "svc-gateway"
	c.SampleRatio = 1
	c.Compression = CompressionNone
}

// Metrics is the Prometheus endpoint.
type Metrics struct {
	// Listen is the host:port that serves /metrics. Empty serves none.
	Listen string `yaml:"listen" env:"true"`
}

// ToolSearch answers tools/list from an index: gateway specification,
// tool_search.
type ToolSearch struct {
	// Enabled turns tool search on.
	Enabled bool `yaml:"enabled"`
	// Mode is passthrough or synthesize.
	Mode string `yaml:"mode"`
	// RefreshInterval is the interval at which the tools of an upstream are listed again; less
	// than 1s counts as 1s.
	RefreshInterval time.Duration `yaml:"refresh_interval"`
	// MaxResults bounds the results of one search.
	MaxResults int `yaml:"max_results"`
	// Call lists the tool mcp_call beside mcp_search, which calls a tool by its name, for
	// clients that call listed tools only. It is on by default with federation, and has no
	// effect without mode synthesize.
	Call *bool `yaml:"call"`
}

// Calls reports whether the gateway has the tool mcp_call.
func (c *ToolSearch) Calls(federated bool) bool {
	if c.Call != nil {
		return *c.Call
	}
	return federated
}

// The modes of tool search.
const (
	ToolSearchPassthrough = "passthrough"
	ToolSearchSynthesize  = "synthesize"
)

// SetDefaults sets the documented defaults.
func (c *ToolSearch) SetDefaults() {
	c.Mode = ToolSearchPassthrough
	c.RefreshInterval = time.Minute
	c.MaxResults = 20
}

// TaskAffinity is the map from task to upstream: gateway specification,
// task_affinity. Replicas share it where rate_limit_store is redis.
type TaskAffinity struct {
	// MaxEntries is the capacity; the least recently used entry is evicted first.
	MaxEntries int `yaml:"max_entries"`
	// TTL is the lifetime of an entry after it was stored or overwritten.
	TTL time.Duration `yaml:"ttl"`
}

// SetDefaults sets the documented defaults.
func (c *TaskAffinity) SetDefaults() {
	c.MaxEntries = 16384
	c.TTL = 24 * time.Hour
}

// Subscriptions bounds subscriptions/listen streams: gateway specification,
// subscriptions.
type Subscriptions struct {
	// MaxFrames is the largest number of frames of one stream.
	MaxFrames int `yaml:"max_frames"`
	// IdleTimeout is the time without a frame after which a stream is closed.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// SetDefaults sets the documented defaults.
func (c *Subscriptions) SetDefaults() {
	c.MaxFrames = 1_000_000
	c.IdleTimeout = 5 * time.Minute
}

// Shutdown configures how the gateway stops: gateway specification, shutdown.
type Shutdown struct {
	// Grace is the longest wait for requests in flight, including event streams.
	Grace time.Duration `yaml:"grace"`
	// DrainSignalWindow is the time for which /readyz returns 503 before connections are
	// refused.
	DrainSignalWindow time.Duration `yaml:"drain_signal_window"`
}

// Limits bounds the resources that callers together may use.
type Limits struct {
	// BodyBytes is the number of bytes of request and response bodies that may be in
	// memory at one time. One caller may use a quarter of them, or half where
	// authentication is off and callers are addresses; requests whose caller is not known
	// yet may together use a sixteenth. A request beyond that gets 503 overloaded. Bodies of
	// more than 64 KiB with a Content-Length reserve their bytes before they are read, one
	// caller at most a quarter, with an eighth left free for responses: they wait up to one
	// second, in order of arrival, and those that arrive slower than 16 KiB/s give back what
	// has not arrived. Other requests of more than 16 KiB leave a sixteenth free.
	BodyBytes int64 `yaml:"body_bytes"`
	// ConnectionsPerAddress is the number of connections that may be open from one
	// address, or one IPv6 network of 64 bits. Loopback and trusted_proxies are not
	// limited. 0 means no limit.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
}

// SetDefaults sets the documented defaults.
func (c *Limits) SetDefaults() {
	c.BodyBytes = 512 << 20
	c.ConnectionsPerAddress = 4096
}

// SetDefaults sets the documented defaults.
func (c *Shutdown) SetDefaults() { c.Grace = 30 * time.Second }

// Sessions configures the key that encrypts the session handles of clients.
type Sessions struct {
	// KeyFile contains the key, for replicas that share it. Empty means a key in
	// state_dir, generated at the first start.
	KeyFile string `yaml:"key_file" env:"true"`
	// PreviousKeyFiles are files of earlier keys, at most 3. They only open tokens that
	// replaced values in answers (redactionStrategy: token of policies), for clients that
	// still have them; session handles of an earlier key are not opened.
	PreviousKeyFiles []string `yaml:"previous_key_files" env:"true"`
}
