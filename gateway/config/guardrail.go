package config

import "time"

// Guardrail is one webhook that a rule may ask: gateway specification,
// guardrails.
type Guardrail struct {
	// Name is what rules call it by: lower-case letters, digits, _ and -.
	Name string `yaml:"name"`
	// URL is the endpoint; https unless the host is loopback.
	URL string `yaml:"url" env:"true"`
	// Timeout bounds the whole round trip; above 0 and at most 10s.
	Timeout time.Duration `yaml:"timeout"`
	// FailOpen lets a request pass when the callout fails.
	FailOpen bool `yaml:"fail_open"`
	// MaxBodyBytes is the largest envelope sent; 0 removes this cap.
	MaxBodyBytes int `yaml:"max_body_bytes"`
	// Headers are sent on every call.
	Headers map[string]string `yaml:"headers" env:"true" secret:"true"`
	// Breaker stops calling an endpoint that keeps failing.
	Breaker Breaker `yaml:"breaker"`
	// TLS is for endpoints with a private authority or client certificates.
	TLS GuardrailTLS `yaml:"tls"`
}

// SetDefaults sets the documented defaults.
func (c *Guardrail) SetDefaults() {
	c.Timeout = time.Second
	c.MaxBodyBytes = 1 << 20
}

// Breaker is the circuit breaker of a guardrail.
type Breaker struct {
	// FailureThreshold is how many consecutive failures open it; 0 disables it.
	FailureThreshold int `yaml:"failure_threshold"`
	// OpenDuration is how long it stays open; at most 5m.
	OpenDuration time.Duration `yaml:"open_duration"`
}

// SetDefaults sets the documented defaults.
func (c *Breaker) SetDefaults() {
	c.FailureThreshold = 5
	c.OpenDuration = 5 * time.Second
}

// GuardrailTLS is the client side of TLS to a guardrail.
type GuardrailTLS struct {
	// Enabled switches the block on.
	Enabled bool `yaml:"enabled"`
	// CAFile is a PEM bundle added to the system's authorities.
	CAFile string `yaml:"ca_file" env:"true"`
	// CertFile is the client certificate; it needs key_file.
	CertFile string `yaml:"cert_file" env:"true"`
	// KeyFile is the client key; it needs cert_file.
	KeyFile string `yaml:"key_file" env:"true"`
	// SkipVerify accepts any certificate; for development only.
	SkipVerify bool `yaml:"skip_verify"`
}
