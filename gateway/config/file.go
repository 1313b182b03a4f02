package config

import (
	"net/netip"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/guardrail"
	"svc/gateway/license"
	"svc/gateway/policy"
	"svc/gateway/ratelimit"
	"svc/gateway/report"
	"svc/gateway/upstream"
)

// DefaultPath is where the gateway looks for its file when --config is not given.
const DefaultPath = "/etc/svc/svc.yaml"

// File is the configuration of one gateway: gateway specification, Top-level
// configuration keys, and the keys that the gateway adds. A File that [Load] or
// [Parse] returned is valid and is not changed afterwards; it may be read by
// many goroutines.
type File struct {
	// Listen is the host:port that the gateway binds.
	Listen string `yaml:"listen" env:"true"`
	// TLS makes the gateway serve HTTPS. Absent means plain HTTP.
	TLS *TLS `yaml:"tls"`
	// InputRateLimit bounds requests before anything of them is read.
	InputRateLimit InputRateLimit `yaml:"input_rate_limit"`
	// TrustedProxies are the CIDRs of reverse proxies that may state the client
	// address in Forwarded or X-Forwarded-For.
	TrustedProxies []string `yaml:"trusted_proxies" env:"true"`
	// ClientAddressHeader selects the one header in which trusted proxies state the
	// client address: forwarded or x-forwarded-for. The other one is ignored. Empty
	// means Forwarded, and X-Forwarded-For where that is absent.
	ClientAddressHeader string `yaml:"client_address_header" env:"true"`
	// License names the license file.
	License license.Config `yaml:"license"`
	// DefaultUpstream is the upstream of methods that have no tool name. Empty
	// means that they answer 404 no_route.
	DefaultUpstream string `yaml:"default_upstream"`
	// Upstreams are the servers that the gateway forwards to.
	Upstreams []upstream.Config `yaml:"upstreams"`
	// Routes choose an upstream by tool name, top-down, first match wins.
	Routes []upstream.Route `yaml:"routes"`
	// Auth asks callers for an API key or a token.
	Auth auth.Config `yaml:"auth"`
	// Identity says which claims of a token name the caller and its groups.
	Identity Identity `yaml:"identity"`
	// Policy holds the rules that decide on every message.
	Policy policy.Config `yaml:"policy"`
	// Telemetry exports spans and metrics.
	Telemetry Telemetry `yaml:"telemetry"`
	// Audit says where the audit lines go.
	Audit audit.Config `yaml:"audit"`
	// ToolSearch answers tools/list with a search tool.
	ToolSearch ToolSearch `yaml:"tool_search"`
	// RateLimitStore holds the token buckets.
	RateLimitStore ratelimit.StoreConfig `yaml:"rate_limit_store"`
	// Guardrails are the webhooks that rules may ask.
	Guardrails []guardrail.Config `yaml:"guardrails"`
	// AllowedProtocolVersions are the protocol revisions served; empty means all.
	AllowedProtocolVersions []string `yaml:"allowed_protocol_versions"`
	// TaskAffinity remembers which upstream holds a task.
	TaskAffinity TaskAffinity `yaml:"task_affinity"`
	// Subscriptions bounds subscriptions/listen streams.
	Subscriptions Subscriptions `yaml:"subscriptions"`
	// Shutdown says how the gateway drains.
	Shutdown Shutdown `yaml:"shutdown"`
	// Limits bounds what callers together may take of the gateway's memory and
	// connections.
	Limits Limits `yaml:"limits"`

	// ControlPlane sends traces to the control plane.
	ControlPlane report.Config `yaml:"control_plane"`
	// AllowedOrigins are the origins whose pages may send requests from a browser
	// and read the answers (CORS), such as https://app.example. Empty means that
	// loopback origins may send requests, without CORS headers on the answers.
	AllowedOrigins []string `yaml:"allowed_origins" env:"true"`
	// AllowedHosts are the names, without port, that requests may carry as Host.
	// Empty means loopback names only when listen is a loopback address, and any
	// name otherwise.
	AllowedHosts []string `yaml:"allowed_hosts" env:"true"`
	// StateDir is the directory of what outlives the process: the reporter's
	// offset, the last governance bundle, the session key, the head of the audit chain
	// and digests of known API keys. Empty means the audit path with .state appended.
	StateDir string `yaml:"state_dir" env:"true"`
	// Sessions seals the session handles that clients hold.
	Sessions Sessions `yaml:"sessions"`
	// ForwardHeaders are further header names passed both ways between client
	// and upstream.
	ForwardHeaders []string `yaml:"forward_headers"`
	// SSEKeepalive is how long an event stream may be silent before the gateway
	// sends a comment. 0 sends none.
	SSEKeepalive time.Duration `yaml:"sse_keepalive"`
}

// SetDefaults sets the defaults of the keys that stand at top level.
func (f *File) SetDefaults() {
	f.SSEKeepalive = 15 * time.Second
}

// TrustedPrefixes returns trusted_proxies as prefixes. Entries that are not valid
// are left out; a valid File has none.
func (f *File) TrustedPrefixes() []netip.Prefix {
	out := make([]netip.Prefix, 0, len(f.TrustedProxies))
	for _, s := range f.TrustedProxies {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// StateDirectory returns the directory for state: state_dir, or the audit path
// with .state appended.
func (f *File) StateDirectory() string {
	if f.StateDir != "" {
		return f.StateDir
	}
	return f.Audit.Path + ".state"
}
