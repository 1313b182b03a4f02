package config

import (
	"net/url"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/mcp"
	"svc/gateway/session/bodies"
)

// Validate reports the errors of the section. It opens no file.
func (c *TLS) Validate(at diag.At) {
	pair(at, c.CertFile, c.KeyFile)
	if c.CertFile == "" && c.KeyFile == "" {
		if c.ClientCA != "" {
			at.Field("client_ca").Hint("set cert_file and key_file").
				Errorf("tls-pair", "mutual TLS needs the gateway's own certificate")
		} else {
			at.Hint("set cert_file and key_file, or remove the section to serve plain HTTP").
				Errorf("tls-pair", "names no certificate")
		}
	}
}

// pair reports a certificate without key, or a key without certificate.
func pair(at diag.At, cert, key string) {
	switch {
	case cert != "" && key == "":
		at.Field("key_file").Errorf("tls-pair", "is required with cert_file")
	case cert == "" && key != "":
		at.Field("cert_file").Errorf("tls-pair", "is required with key_file")
	}
}

// Validate reports the errors of the section.
func (c *InputRateLimit) Validate(at diag.At) {
	if c.RequestsPerSecond < 0 || c.Enabled && c.RequestsPerSecond == 0 {
		at.Field("requests_per_second").Hint("as in 50").
			Errorf("range", "must be above 0 when the limit is enabled, is %v", c.RequestsPerSecond)
	}
	if c.Burst < 0 || c.Enabled && c.Burst == 0 {
		at.Field("burst").Hint("as in 100").
			Errorf("range", "must be above 0 when the limit is enabled, is %d", c.Burst)
	}
}

// Validate reports the errors of the section.
func (c *Identity) Validate(at diag.At) {
	if c.PrincipalClaim == "" {
		at.Field("principal_claim").Hint("the default is sub").Errorf("required", "must name a claim")
	}
	pointer(at.Field("principal_claim"), c.PrincipalClaim)
	if c.GroupsClaim == "" {
		at.Field("groups_claim").Hint("the default is groups").Errorf("required", "must name a claim")
	}
	pointer(at.Field("groups_claim"), c.GroupsClaim)
}

// pointer reports a name of a claim that starts with / and is no JSON Pointer.
func pointer(at diag.At, claim string) {
	if !auth.ValidClaim(claim) {
		at.Hint("~ is written ~0 and / is written ~1").Errorf("claim", "%q is not a JSON Pointer (RFC 6901)", claim)
	}
}

// Validate reports the errors of the section.
func (c *Telemetry) Validate(at diag.At) {
	c.Customer.Validate(at.Field("customer"))
	c.Operator.Validate(at.Field("operator"))
	if c.Metrics.Listen != "" {
		hostPort(at.Field("metrics").Field("listen"), c.Metrics.Listen)
	}
}

// Validate reports the errors of the pipeline.
func (c *Pipeline) Validate(at diag.At) {
	switch {
	case c.Endpoint == "" && c.Enabled:
		at.Field("endpoint").Hint("as in http://127.0.0.1:4318").Errorf("required", "is required when the pipeline is enabled")
	case c.Endpoint != "":
		webURL(at.Field("endpoint"), c.Endpoint)
	}
	if c.ServiceName == "" {
		at.Field("service_name").Errorf("required", "must not be empty")
	}
	headers(at.Field("headers"), c.Headers)
	within(at.Field("sample_ratio"), c.SampleRatio, 0, 1)
	if c.Compression != CompressionNone && c.Compression != CompressionGzip {
		at.Field("compression").Hint("use %s or %s", CompressionNone, CompressionGzip).
			Errorf("enum", "unknown compression %q", c.Compression)
	}
}

// Validate reports the errors of the section.
func (c *ToolSearch) Validate(at diag.At) {
	if c.Mode != ToolSearchPassthrough && c.Mode != ToolSearchSynthesize {
		at.Field("mode").Hint("use %s or %s", ToolSearchPassthrough, ToolSearchSynthesize).
			Errorf("enum", "unknown mode %q", c.Mode)
	}
	within(at.Field("refresh_interval"), c.RefreshInterval, time.Millisecond, 24*time.Hour)
	within(at.Field("max_results"), c.MaxResults, 1, 1000)
}

// Validate reports the errors of the section.
func (c *TaskAffinity) Validate(at diag.At) {
	within(at.Field("max_entries"), c.MaxEntries, 1, 10_000_000)
	within(at.Field("ttl"), c.TTL, time.Second, 365*24*time.Hour)
}

// Validate reports the errors of the section.
func (c *Subscriptions) Validate(at diag.At) {
	within(at.Field("max_frames"), c.MaxFrames, 1, 1_000_000_000)
	within(at.Field("idle_timeout"), c.IdleTimeout, time.Second, 24*time.Hour)
}

// Validate reports the errors of the section.
func (c *Shutdown) Validate(at diag.At) {
	within(at.Field("grace"), c.Grace, 0, time.Hour)
	within(at.Field("drain_signal_window"), c.DrainSignalWindow, 0, time.Hour)
}

// Validate reports the errors of the section.
func (c *Limits) Validate(at diag.At) {
	within(at.Field("body_bytes"), c.BodyBytes, bodies.MinLimit, 1<<40)
	within(at.Field("connections_per_address"), c.ConnectionsPerAddress, 0, 1_000_000)
}

// webURL reports errors without quoting the URL, which may come from the environment.
func webURL(at diag.At, s string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		at.Errorf("url", "must be an http or https URL with a host")
		return
	}
	if u.User != nil {
		at.Hint("use a header from the environment").Errorf("url", "must not carry a user name or password")
	}
}

// headers checks static headers without quoting their values.
func headers(at diag.At, h map[string]string) {
	for name, value := range h {
		switch {
		case !mcp.IsToken(name):
			at.Field(name).Errorf("header", "%q is not a header name", name)
		case !mcp.IsValue(value):
			at.Field(name).Errorf("header", "the value holds a line break or another control character")
		}
	}
}

// maxPreviousKeys bounds the keys that only open tokens.
const maxPreviousKeys = 3

// Validate reports the errors of the section. It opens no file.
func (c *Sessions) Validate(at diag.At) {
	at = at.Field("previous_key_files")
	if len(c.PreviousKeyFiles) > maxPreviousKeys {
		at.Hint("remove the oldest").Errorf("range", "at most %d files, are %d", maxPreviousKeys, len(c.PreviousKeyFiles))
	}
	for i, path := range c.PreviousKeyFiles {
		if path == "" {
			at.Index(i).Hint("remove it").Errorf("required", "the entry is empty")
		}
	}
}
