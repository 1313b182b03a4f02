package config

import (
	"crypto/sha256"
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/pins"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/guardrail"
	"svc/gateway/redis"
	"svc/gateway/upstream"
	"svc/gateway/upstream/targets"
)

// DefaultPath is the path of the gateway's file without --config.
const DefaultPath = "/etc/svc/svc.yaml"

// File is the configuration of one gateway: gateway specification, Top-level
// configuration keys, and the keys that the gateway adds. A File that [Load] or
// [Parse] returned is valid and is not changed afterwards; it may be read by
// many goroutines.
type File struct {
	source      string   // the path of the file itself; empty for a text without one
	secretFiles []string // the paths of ${file:PATH}
	digest      [sha256.Size]byte

	// Listen is the host:port that the gateway binds.
	Listen string `yaml:"listen" env:"true"`
	// TLS makes the gateway serve HTTPS. Absent means plain HTTP.
	TLS *TLS `yaml:"tls"`
	// InputRateLimit bounds the requests of a client address before their bodies are
	// read.
	InputRateLimit InputRateLimit `yaml:"input_rate_limit"`
	// TrustedProxies are the CIDRs of reverse proxies that may state the client
	// address in Forwarded or X-Forwarded-For.
	TrustedProxies []string `yaml:"trusted_proxies" env:"true"`
	// ClientAddressHeader selects the one header in which trusted proxies state the
	// client address: forwarded or x-forwarded-for. The other one is ignored. Empty
	// means Forwarded, and X-Forwarded-For where that is absent.
	ClientAddressHeader string `yaml:"client_address_header" env:"true"`
	// License names the license file.
	License auth.LicenseConfig `yaml:"license"`
	// DefaultUpstream is the upstream of methods without a tool name. Empty means that
	// such requests get 404 no_route.
	DefaultUpstream string `yaml:"default_upstream"`
	// Upstreams are the servers that the gateway forwards to.
	Upstreams []upstream.Config `yaml:"upstreams"`
	// Routes choose an upstream by tool name, top-down, first match wins.
	Routes []upstream.Route `yaml:"routes"`
	// Auth requires an API key or a token from callers.
	Auth auth.Config `yaml:"auth"`
	// Identity names the claims of a token that identify the caller and its groups.
	Identity Identity `yaml:"identity"`
	// Policy holds the rules that decide on every message.
	Policy policy.Config `yaml:"policy"`
	// DataFlow declares labels, which record what a caller has read, for rules and policies.
	DataFlow flow.Config `yaml:"data_flow"`
	// Telemetry exports spans and metrics.
	Telemetry Telemetry `yaml:"telemetry"`
	// Audit configures the audit log.
	Audit audit.Config `yaml:"audit"`
	// ToolSearch answers tools/list with a search tool.
	ToolSearch ToolSearch `yaml:"tool_search"`
	// RateLimitStore stores the token buckets.
	RateLimitStore redis.StoreConfig `yaml:"rate_limit_store"`
	// Guardrails are the webhooks that rules may call.
	Guardrails []guardrail.Config `yaml:"guardrails"`
	// AllowedProtocolVersions are the protocol revisions served; empty means all.
	AllowedProtocolVersions []string `yaml:"allowed_protocol_versions"`
	// TaskAffinity maps tasks to the upstreams that run them.
	TaskAffinity TaskAffinity `yaml:"task_affinity"`
	// Subscriptions bounds subscriptions/listen streams.
	Subscriptions Subscriptions `yaml:"subscriptions"`
	// Shutdown configures how the gateway drains.
	Shutdown Shutdown `yaml:"shutdown"`
	// Limits bounds the memory and connections that all callers together may use.
	Limits Limits `yaml:"limits"`

	// Federation merges the lists of all upstreams into one.
	Federation federation.Config `yaml:"federation"`
	// Views are parts of the merged lists with a path of their own, /mcp/v/NAME. They need
	// federation. Rules, limits and audit are those of /mcp.
	Views []auth.ViewConfig `yaml:"views"`
	// Pins is the file of approved definitions of tools, prompts, instructions and skills for
	// upstreams[].pin_tools and upstreams[].pin_skills, which 'svc tools approve' writes. Empty
	// means that the first list of each upstream is approved as it is, in state_dir.
	Pins string `yaml:"pins" env:"true"`
	// ControlPlane sends traces to the control plane.
	ControlPlane audit.ControlPlaneConfig `yaml:"control_plane"`
	// AllowedOrigins are the origins whose pages may send requests from a browser and
	// read the responses (CORS), such as https://app.example. Empty means that loopback
	// origins may send requests, without CORS headers on the responses.
	AllowedOrigins []string `yaml:"allowed_origins" env:"true"`
	// AllowedHosts are the names, without port, that requests may have as Host. Empty
	// means loopback names only when listen is a loopback address, and any name
	// otherwise. The host of auth.oauth.public_url is allowed with auth.oauth too.
	AllowedHosts []string `yaml:"allowed_hosts" env:"true"`
	// StateDir is the directory of state that is kept across restarts: the reporter's
	// position, the last governance bundle, the session key, the head of the audit chain
	// and digests of known API keys. Empty means the audit path with .state appended.
	StateDir string `yaml:"state_dir" env:"true"`
	// ChildrenDir is the directory in which each program of upstreams[].command has its
	// HOME and TMPDIR. Empty means a directory beside state_dir, and beside every other
	// directory that is hidden from these programs, with -children appended.
	ChildrenDir string `yaml:"children_dir" env:"true"`
	// Sessions configures the key that encrypts session handles.
	Sessions Sessions `yaml:"sessions"`
	// ForwardHeaders are further header names that are forwarded in both directions
	// between client and upstream.
	ForwardHeaders []string `yaml:"forward_headers"`
	// SSEKeepalive is the time without data after which the gateway sends a comment on an
	// event stream. 0 sends none.
	SSEKeepalive time.Duration `yaml:"sse_keepalive"`
}

// Private returns what the file names, or is, that no program of an upstream needs to
// open: files with secrets, the key that the license is verified with, and the state
// directory. Paths are as written.
func (f *File) Private() (files []string, folder string) {
	all := []string{f.source, f.License.Path, f.License.PublicKeyFile, f.Audit.Path, f.Audit.CheckpointKeyFile, f.Sessions.KeyFile, f.Pins}
	all = append(all, f.Sessions.PreviousKeyFiles...)
	if f.TLS != nil {
		all = append(all, f.TLS.KeyFile)
	}
	for i := range f.Upstreams {
		all = append(all, f.Upstreams[i].TLS.KeyFile)
		f.Upstreams[i].Credentials.TokenClients(diag.At{}, func(_ diag.At, t *upstream.TokenClient) { all = append(all, t.ClientKeyFile) })
	}
	for i := range f.Guardrails {
		all = append(all, f.Guardrails[i].TLS.KeyFile)
	}
	for _, path := range all {
		if path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return files, f.StateDirectory()
}

// SetDefaults sets the defaults of the top-level keys.
func (f *File) SetDefaults() {
	f.SSEKeepalive = 15 * time.Second
}

// FiltersLists reports whether lists are cut down to what their caller may ask for:
// policy.filter_lists, which is on by default with federation.
func (f *File) FiltersLists() bool {
	if f.Policy.FilterLists != nil {
		return *f.Policy.FilterLists
	}
	return f.Federation.Enabled
}

// ViewNames returns the names of the views.
func (f *File) ViewNames() []string {
	names := make([]string, len(f.Views))
	for i := range f.Views {
		names[i] = f.Views[i].Name
	}
	return names
}

// Targets returns what concerns the upstreams and their programs.
func (f *File) Targets() *targets.Settings {
	files, state := f.Private()
	return &targets.Settings{Upstreams: f.Upstreams, Federated: f.Federation.Enabled, StateDir: state, ChildrenDir: f.ChildrenDir, PrivateFiles: files, SecretFiles: f.secretFiles}
}

// Pinning returns what concerns approved definitions.
func (f *File) Pinning() pins.Settings {
	return pins.Settings{
		File: f.Pins, StateDir: f.StateDirectory(), AuditPath: f.Audit.Path,
		Federated: f.Federation.Enabled, RefreshInterval: f.Federation.RefreshInterval, Upstreams: f.Upstreams,
	}
}

// StateDirectory returns the directory for state: state_dir, or the audit path with
// .state appended.
func (f *File) StateDirectory() string {
	if f.StateDir != "" {
		return f.StateDir
	}
	return f.Audit.Path + ".state"
}

// Digest returns the SHA-256 of the text of the file, before variables in it are expanded.
func (f *File) Digest() [sha256.Size]byte { return f.digest }
