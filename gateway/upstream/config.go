package upstream

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

// The defaults of an upstream.
const (
	// DefaultTimeout bounds the wait for the first byte of a response and then the wait
	// between bytes (gateway specification, Limits: upstream client time-out).
	DefaultTimeout = 60 * time.Second
	// DefaultMaxResponseBytes bounds the body of a response that is not an event stream.
	DefaultMaxResponseBytes = 16 << 20
)

// Config is one element of the upstreams section (gateway specification,
// default_upstream and upstreams).
type Config struct {
	// Name is the unique logical name, which routes, audit and spans use.
	Name string `yaml:"name"`
	// URL is the endpoint: scheme http or https, host required; the path is used
	// unchanged. Exactly one of url and command is set.
	URL string `yaml:"url" env:"true"`
	// Headers are sent with every request and replace a client's headers of the same
	// names; an upstream's credentials belong here.
	Headers map[string]string `yaml:"headers" env:"true"`
	// Credentials configure how the gateway gets a token for the upstream, instead of an
	// Authorization in headers.
	Credentials *CredentialsConfig `yaml:"credentials"`
	// TLS configures what an https upstream needs beyond the system's certificate
	// authorities.
	TLS TLSConfig `yaml:"tls"`
	// Timeout bounds the wait for the first byte, then between bytes.
	Timeout time.Duration `yaml:"timeout"`
	// MaxResponseBytes bounds the body of a response. Event streams are exempt: their
	// number of frames is bounded.
	MaxResponseBytes int64 `yaml:"max_response_bytes"`
	// MaxInFlight bounds the requests in flight at the upstream, including streams of
	// responses; requests beyond it get 503 upstream_busy. 0 sets no bound.
	MaxInFlight int `yaml:"max_in_flight"`
	// Breaker stops the requests to an upstream that refuses connections, exceeds its
	// timeout or responds with 5xx repeatedly: they get 502 upstream_unreachable at once.
	// It is on with federation; without federation it is off unless the section is
	// present.
	Breaker *retry.Config `yaml:"breaker"`

	// Protocol is auto, or the protocol revision that the upstream supports. With auto the
	// gateway asks the upstream with server/discover at the start, hourly, and when an
	// error contradicts the last result; with a revision it never asks. Between a client
	// and an upstream of the same generation nothing is translated.
	Protocol string `yaml:"protocol"`
	// Sessions is pooled or per_call: whether the sessions that are opened at an upstream
	// of a revision before 2026-07-28 for clients of that revision are reused for later
	// calls of the same caller.
	Sessions string `yaml:"sessions"`

	ProcessConfig `yaml:",inline"`

	// Prefix is added to the names of tools and prompts for clients, and removed before a
	// request is sent to the upstream.
	Prefix string `yaml:"prefix"`
	// Tools selects and renames tools.
	Tools ToolsConfig `yaml:"tools"`
	// PinTools is off, warn or block: the handling of tools and prompts whose definition,
	// and of instructions whose text, is not the approved one.
	PinTools string `yaml:"pin_tools"`
	// PinSkills is off, warn or block: the handling of skills whose frontmatter or files,
	// and of files of skills whose bytes, are not the approved ones.
	PinSkills string `yaml:"pin_skills"`
	// SharedLists declares that the lists of this upstream are the same for all callers,
	// whatever its cacheScope is. It requires federation.
	SharedLists bool `yaml:"shared_lists"`
}

// ToolsConfig is upstreams[].tools. Names in keys and globs are the upstream's own.
type ToolsConfig struct {
	// Allow lists globs of the tools that clients see; empty means all.
	Allow []string `yaml:"allow"`
	// Deny lists globs of tools that clients do not see. It takes precedence over
	// allow.
	Deny []string `yaml:"deny"`
	// Rename maps a tool's own name to the name that follows the prefix.
	Rename map[string]string `yaml:"rename"`
}

// Empty reports whether the section selects and renames nothing.
func (c *ToolsConfig) Empty() bool { return len(c.Allow)+len(c.Deny)+len(c.Rename) == 0 }

// TLSConfig is upstreams[].tls. The files are PEM and are read when the client is
// created.
type TLSConfig struct {
	// CAFile is a bundle that is trusted in addition to the system's certificate
	// authorities.
	CAFile string `yaml:"ca_file" env:"true"`
	// CertFile is a client certificate for mutual TLS; requires key_file.
	CertFile string `yaml:"cert_file" env:"true"`
	// KeyFile is the key of the client certificate; requires cert_file.
	KeyFile string `yaml:"key_file" env:"true"`
	// ServerName is the name that the upstream's certificate must have; the host of the
	// URL when empty.
	ServerName string `yaml:"server_name"`
}

// The values of upstreams[].sessions.
const (
	SessionsPooled  = "pooled"
	SessionsPerCall = "per_call"
)

// The values of upstreams[].pin_tools and upstreams[].pin_skills.
const (
	PinOff   = "off"
	PinWarn  = "warn"
	PinBlock = "block"
)

// ProtocolAuto is the value of upstreams[].protocol with which the upstream is asked for
// its revisions.
const ProtocolAuto = "auto"

// SetDefaults sets the documented defaults.
func (c *Config) SetDefaults() {
	c.Protocol, c.Sessions, c.PinTools, c.PinSkills = ProtocolAuto, SessionsPooled, PinOff, PinOff
	c.Timeout = DefaultTimeout
	c.MaxResponseBytes = DefaultMaxResponseBytes
	c.ProcessConfig.SetDefaults()
}

// WithBreaker returns the configuration with its effective breaker if the section is
// absent: the default one, or none.
func (c Config) WithBreaker(byDefault bool) Config {
	if c.Breaker == nil && byDefault {
		c.Breaker = new(retry.Config)
		c.Breaker.SetDefaults()
	}
	return c
}

// Validate reports the errors of one upstream; its caller checks that names are unique.
func (c *Config) Validate(at diag.At) {
	if c.Name == "" {
		at.Field("name").Errorf("required", "an upstream needs a name")
	} else if len(c.Name) > 128 {
		at.Field("name").Errorf("range", "is longer than 128 bytes")
	}
	switch {
	case c.IsProcess():
		c.validateProcess(at)
	case c.URL == "":
		at.Hint("as in url: http://127.0.0.1:3000/mcp, or command: [npx, -y, PACKAGE]").Errorf("required", "an upstream needs a url, or a command")
	default:
		c.validateHTTP(at)
	}
	if c.Timeout <= 0 {
		at.Field("timeout").Hint("the default is %s", DefaultTimeout).
			Errorf("range", "must be above zero, is %s", c.Timeout)
	}
	if c.MaxResponseBytes <= 0 {
		at.Field("max_response_bytes").Hint("the default is %d", DefaultMaxResponseBytes).
			Errorf("range", "must be above zero, is %d", c.MaxResponseBytes)
	}
	if c.MaxInFlight < 0 {
		at.Field("max_in_flight").Hint("0 sets no bound").
			Errorf("range", "must not be negative, is %d", c.MaxInFlight)
	}
	if c.Breaker != nil {
		c.Breaker.Validate(at.Field("breaker"))
	}
	if revisions := append(mcp.LegacyRevisions(), mcp.Revision20260728); c.Protocol != ProtocolAuto && !slices.Contains(revisions, c.Protocol) {
		at.Field("protocol").Hint("one of %s, %s", ProtocolAuto, strings.Join(revisions, ", ")).Errorf("enum", "unknown protocol %q", c.Protocol)
	}
	if c.Sessions != SessionsPooled && c.Sessions != SessionsPerCall {
		at.Field("sessions").Hint("one of %s, %s", SessionsPooled, SessionsPerCall).Errorf("enum", "unknown value %q", c.Sessions)
	}
	for _, pin := range [...]struct{ key, value string }{{"pin_tools", c.PinTools}, {"pin_skills", c.PinSkills}} {
		if pin.value != PinOff && pin.value != PinWarn && pin.value != PinBlock {
			at.Field(pin.key).Hint("one of %s, %s, %s", PinOff, PinWarn, PinBlock).Errorf("enum", "unknown value %q", pin.value)
		}
	}
}

// Pins reports whether a value of pin_tools or pin_skills compares with what was approved.
func Pins(value string) bool { return value == PinWarn || value == PinBlock }

// IsProcess reports whether the upstream is a program on this machine.
func (c *Config) IsProcess() bool { return len(c.Command) > 0 }

// validateHTTP reports the errors of an upstream with a url.
func (c *Config) validateHTTP(at diag.At) {
	u := c.validateURL(at.Field("url"))
	for name, value := range c.Headers {
		c.validateHeader(at.Field("headers").Field(name), name, value)
	}
	c.validateCredentials(at.Field("credentials"))
	c.TLS.validate(at.Field("tls"))
	if c.TLS != (TLSConfig{}) && u != nil && u.Scheme == "http" {
		at.Field("tls").Hint("use an https:// url, or remove the section").
			Errorf("unused", "has no effect on an http upstream")
	}
	for _, key := range c.needingCommand() {
		at.Field(key).Hint("remove it, or set command in the place of url").Errorf("needs-command", "has no effect on an upstream with a url")
	}
}

// validateURL reports errors without quoting the URL, which may come from the environment
// and contain a secret.
func (c *Config) validateURL(at diag.At) *url.URL {
	at = at.Hint("as in http://127.0.0.1:3000/mcp")
	u, err := parseURL(c.URL)
	if err != nil {
		at.Errorf("url", "%s", err)
		return nil
	}
	return u
}

func (c *Config) validateHeader(at diag.At, name, value string) {
	switch {
	case !validName(name):
		at.Errorf("header", "%q is not a header name", name)
	case mcp.IsFraming(name), mcp.EqualName(name, mcp.HeaderHops):
		at.Hint("remove it").Errorf("header", "the gateway writes this header itself")
	case !validValue(value):
		at.Errorf("header", "the value holds a line break or another control character")
	}
	for other := range c.Headers {
		if other < name && strings.EqualFold(other, name) {
			at.Errorf("duplicate", "the same header is given as %q", other)
		}
	}
}

func (t *TLSConfig) validate(at diag.At) {
	if t.CertFile != "" && t.KeyFile == "" {
		at.Field("key_file").Errorf("required", "cert_file is set, so key_file is needed")
	}
	if t.KeyFile != "" && t.CertFile == "" {
		at.Field("cert_file").Errorf("required", "key_file is set, so cert_file is needed")
	}
}
