package guardrail

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

// Bounds of the section (gateway specification, guardrails).
const (
	maxTimeout = 10 * time.Second
	maxName    = 128 // bytes
)

// Config is one webhook that a rule may call: gateway specification, guardrails.
type Config struct {
	// Name is the name for rules: lower-case letters, digits, _ and -.
	Name string `yaml:"name"`
	// URL is the endpoint; https unless the host is loopback.
	URL string `yaml:"url" env:"true"`
	// Timeout bounds the whole round trip; above 0 and at most 10s.
	Timeout time.Duration `yaml:"timeout"`
	// FailOpen lets a request pass when the callout fails.
	FailOpen bool `yaml:"fail_open"`
	// MaxBodyBytes is the largest envelope that is sent; 0 removes this limit.
	MaxBodyBytes int `yaml:"max_body_bytes"`
	// Headers are sent on every call.
	Headers map[string]string `yaml:"headers" env:"true" secret:"true"`
	// Breaker stops the calls to an endpoint that fails repeatedly.
	Breaker retry.Config `yaml:"breaker"`
	// TLS is for endpoints with a private certificate authority or client certificates.
	TLS TLS `yaml:"tls"`
}

// SetDefaults sets the documented defaults.
func (c *Config) SetDefaults() {
	c.Timeout = time.Second
	c.MaxBodyBytes = 1 << 20
}

// TLS is the client side of TLS to a guardrail.
type TLS struct {
	// Enabled turns the section on.
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

var validName = regexp.MustCompile(`^[a-z0-9_-]+$`)

// Validate reports the errors of one endpoint; its caller checks that names are unique.
// It opens no file.
func (c *Config) Validate(at diag.At) {
	switch {
	case c.Name == "":
		at.Field("name").Errorf("required", "a guardrail needs a name")
	case !validName.MatchString(c.Name) || len(c.Name) > maxName:
		at.Field("name").Hint("use lower-case letters, digits, _ and -").
			Errorf("guardrail-name", "must match ^[a-z0-9_-]+$")
	}
	u := c.validateURL(at.Field("url"))
	if c.Timeout <= 0 || c.Timeout > maxTimeout {
		at.Field("timeout").Errorf("range", "must be above 0s and at most %s, is %s", maxTimeout, c.Timeout)
	}
	if c.MaxBodyBytes < 0 {
		at.Field("max_body_bytes").Hint("0 removes the limit").Errorf("range", "must not be negative, is %d", c.MaxBodyBytes)
	}
	c.validateHeaders(at.Field("headers"))
	c.Breaker.Validate(at.Field("breaker"))
	c.TLS.validate(at.Field("tls"))
	if c.TLS.Enabled && u != nil && u.Scheme == "http" {
		at.Field("tls").Hint("use an https:// url, or remove the section").
			Errorf("unused", "has no effect on an http endpoint")
	}
}

// validateURL reports errors without quoting the URL, which may come from the
// environment. It returns nil for a URL that is not an http or https URL with a host.
func (c *Config) validateURL(at diag.At) *url.URL {
	if c.URL == "" {
		at.Hint("as in https://guard.example/check").Errorf("required", "a guardrail needs a url")
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		at.Errorf("url", "must be an http or https URL with a host")
		return nil
	}
	if u.User != nil {
		at.Hint("use a header from the environment").Errorf("url", "must not carry a user name or password")
	}
	if u.Scheme == "http" && !hostname.IsLoopback(u.Hostname()) {
		at.Hint("whole messages are sent to it").Errorf("url-insecure", "must be https unless the host is loopback")
	}
	return u
}

// ownHeaders are headers that the gateway writes, and headers of one connection.
var ownHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding",
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Upgrade", "Expect"}

// validateHeaders reports errors without quoting values.
func (c *Config) validateHeaders(at diag.At) {
	for name, value := range c.Headers {
		at := at.Field(name)
		switch {
		case !mcp.IsToken(name):
			at.Errorf("header", "%q is not a header name", name)
		case !mcp.IsValue(value):
			at.Errorf("header", "the value holds a line break or another control character")
		}
		for _, own := range ownHeaders {
			if strings.EqualFold(own, name) {
				at.Hint("remove it").Errorf("header", "the gateway writes this header itself")
			}
		}
		for other := range c.Headers {
			if other < name && strings.EqualFold(other, name) {
				at.Errorf("duplicate", "the same header is already set as %q", other)
			}
		}
	}
}

func (c *TLS) validate(at diag.At) {
	switch {
	case c.CertFile != "" && c.KeyFile == "":
		at.Field("key_file").Errorf("tls-pair", "is required with cert_file")
	case c.CertFile == "" && c.KeyFile != "":
		at.Field("cert_file").Errorf("tls-pair", "is required with key_file")
	}
	if !c.Enabled && *c != (TLS{}) {
		at.Hint("set enabled: true, or remove the other keys").
			Errorf("unused", "the keys of this section have no effect while enabled is false")
	}
	if c.Enabled && c.SkipVerify {
		at.Field("skip_verify").Warnf("tls-skip-verify", "any certificate is accepted; for development only")
	}
}
