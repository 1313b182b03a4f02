package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// required are the sections that a file must have: gateway specification,
// Top-level configuration keys.
var required = []struct{ key, hint string }{
	{"listen", "as in listen: 127.0.0.1:8081"},
	{"license", "as in license: {path: /etc/svc/license.jwt}"},
	{"upstreams", "list at least one upstream with its name and url, or command"},
	{"policy", "as in policy: {default_action: deny, rules: []}"},
	{"audit", "as in audit: {path: /var/log/svc/audit.jsonl}"},
}

// The codes that the loader uses itself.
const (
	codeUnknownUpstream = policy.CodeUnknownUpstream
	codeUnset           = "env-unset"
	codeSecretFile      = "secret-file"

	// codeUnreadable is the code of the single finding about a file that could not be
	// read at all.
	codeUnreadable = "unreadable"
)

// Validate reports the errors in the values of the file: first of each section, then of
// references between sections. It opens no file and uses no network.
func (f *File) Validate(at diag.At) {
	if f.Listen != "" {
		hostPort(at.Field("listen"), f.Listen)
	} else {
		at.Field("listen").Hint("as in 127.0.0.1:8081").Errorf("required", "is required")
	}
	if f.TLS != nil {
		f.TLS.Validate(at.Field("tls"))
	}
	f.InputRateLimit.Validate(at.Field("input_rate_limit"))
	for i, s := range f.TrustedProxies {
		cidr(at.Field("trusted_proxies").Index(i), s)
	}
	f.validateClientAddress(at.Field("client_address_header"))
	f.License.Validate(at.Field("license"))
	f.validateUpstreams(at)
	f.Auth.Validate(at.Field("auth"))
	f.Identity.Validate(at.Field("identity"))
	f.Policy.Validate(at.Field("policy"))
	f.DataFlow.Validate(at.Field("data_flow"))
	f.Telemetry.Validate(at.Field("telemetry"))
	f.Audit.Validate(at.Field("audit"))
	f.ToolSearch.Validate(at.Field("tool_search"))
	f.RateLimitStore.Validate(at.Field("rate_limit_store"))
	f.validateGuardrails(at)
	revisions(at.Field("allowed_protocol_versions"), f.AllowedProtocolVersions)
	f.TaskAffinity.Validate(at.Field("task_affinity"))
	f.Subscriptions.Validate(at.Field("subscriptions"))
	f.Shutdown.Validate(at.Field("shutdown"))
	f.Limits.Validate(at.Field("limits"))
	f.Sessions.Validate(at.Field("sessions"))
	f.validateFederation(at)
	f.ControlPlane.Validate(at.Field("control_plane"))
	f.Policy.CheckApprovals(at.Field("policy"), len(f.ControlPlane.URL) > 0 && f.ControlPlane.IngestKey != "")
	f.Policy.CheckLabels(at.Field("policy"), f.DataFlow.Names())
	f.validateHTTP(at)
}

// validateClientAddress checks the header that is selected for client addresses.
func (f *File) validateClientAddress(at diag.At) {
	switch f.ClientAddressHeader {
	case http1.HeaderAny:
	case http1.HeaderForwarded, http1.HeaderXForwardedFor:
		if len(f.TrustedProxies) == 0 {
			at.Hint("list the addresses of the proxies in trusted_proxies").
				Errorf("client-address-header", "has no effect without trusted_proxies")
		}
	default:
		at.Hint("use %s or %s", http1.HeaderForwarded, http1.HeaderXForwardedFor).
			Errorf("enum", "unknown header %q", f.ClientAddressHeader)
	}
}

// validateUpstreams checks the upstreams and the references to them.
func (f *File) validateUpstreams(at diag.At) {
	if len(f.Upstreams) == 0 {
		at.Field("upstreams").Hint("list at least one upstream with its name and url, or command").
			Errorf("required", "lists no upstream")
	}
	names := make([]string, 0, len(f.Upstreams))
	for i := range f.Upstreams {
		u, here := &f.Upstreams[i], at.Field("upstreams").Index(i)
		u.Validate(here)
		f.validateOwnAddress(here.Field("url"), u.URL)
		if first := slices.Index(names, u.Name); first >= 0 && u.Name != "" {
			here.Field("name").Errorf("duplicate", "%q is the name of upstreams[%d] already", u.Name, first)
		}
		names = append(names, u.Name)
	}
	known := func(at diag.At, name string) {
		if name == "" || slices.Contains(names, name) {
			return
		}
		at.Hint("%s", suggestion(name, names)).Errorf(codeUnknownUpstream, "no upstream is named %q", name)
	}
	known(at.Field("default_upstream"), f.DefaultUpstream)
	for i, name := range f.ControlPlane.Governance.RestoreTo {
		known(at.Field("control_plane").Field("governance").Field("restore_to").Index(i), name)
	}
	for i := range f.Routes {
		here := at.Field("routes").Index(i)
		f.Routes[i].Validate(here)
		known(here.Field("upstream"), f.Routes[i].Upstream)
	}
}

// validateGuardrails checks the guardrails and the rules that refer to them.
func (f *File) validateGuardrails(at diag.At) {
	names := make([]string, 0, len(f.Guardrails))
	for i := range f.Guardrails {
		g, here := &f.Guardrails[i], at.Field("guardrails").Index(i)
		g.Validate(here)
		if first := slices.Index(names, g.Name); first >= 0 && g.Name != "" {
			here.Field("name").Errorf("duplicate", "%q is the name of guardrails[%d] already", g.Name, first)
		}
		names = append(names, g.Name)
	}
	f.Policy.CheckGuardrails(at.Field("policy"), names)
}

// suggestion returns a hint for a name that is not in the list.
func suggestion(name string, known []string) string {
	if near, ok := nearest(name, known); ok {
		return "did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 {
		return "none is defined"
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	if len(known) > 10 {
		known = known[:10]
	}
	return "known: " + strings.Join(known, ", ")
}

// validateHTTP checks the keys of the HTTP endpoint.
func (f *File) validateHTTP(at diag.At) {
	for i, s := range f.AllowedOrigins {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			at.Field("allowed_origins").Index(i).Hint("as in https://app.example or http://localhost:6274").
				Errorf("origin", "must be a scheme, a host and a port if it is not the usual one")
		}
	}
	for i, s := range f.AllowedHosts {
		if _, err := netip.ParseAddr(s); err != nil && !hostName.MatchString(s) {
			at.Field("allowed_hosts").Index(i).Hint("as in gateway.example").
				Errorf("host", "must be a host name or an address, without scheme or port")
		}
	}
	for i, name := range f.ForwardHeaders {
		forwardable(at.Field("forward_headers").Index(i), name, f.Auth.Header)
	}
	if f.SSEKeepalive != 0 {
		within(at.Field("sse_keepalive"), f.SSEKeepalive, time.Second, 10*time.Minute)
	}
}

// heldBack are the headers that cannot be configured to be forwarded: headers of one
// connection, headers that the gateway writes, and credentials.
var heldBack = map[string]string{
	"authorization":        "a caller's credentials are never forwarded; give the upstream its own in upstreams[].headers",
	"proxy-authorization":  "a caller's credentials are never forwarded",
	"www-authenticate":     "an upstream's challenge is not for the caller",
	"proxy-authenticate":   "an upstream's challenge is not for the caller",
	"connection":           "it belongs to one connection",
	"keep-alive":           "it belongs to one connection",
	"proxy-connection":     "it belongs to one connection",
	"te":                   "it belongs to one connection",
	"trailer":              "it belongs to one connection",
	"transfer-encoding":    "it belongs to one connection",
	"upgrade":              "it belongs to one connection",
	"expect":               "it belongs to one connection",
	"host":                 "the gateway writes it",
	"content-length":       "the gateway writes it",
	"content-encoding":     "bodies are read, so they are never compressed",
	"accept-encoding":      "bodies are read, so they are never compressed",
	"mcp-session-id":       "the gateway writes it",
	"mcp-protocol-version": "the gateway writes it",
	"svc-hops":             "the gateway writes it",
}

func forwardable(at diag.At, name, authHeader string) {
	if !mcp.IsToken(name) {
		at.Hint("as in X-Request-Id").Errorf("header", "%q is not a header name", name)
		return
	}
	if why, held := heldBack[strings.ToLower(name)]; held {
		at.Hint("%s", why).Errorf("header", "%s cannot be forwarded", name)
	} else if strings.EqualFold(name, authHeader) {
		at.Hint("auth.header names it").Errorf("header", "%s holds the caller's key and cannot be forwarded", name)
	}
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}\.?)*$`)

// hostPort checks an address to listen on.
func hostPort(at diag.At, s string) {
	at = at.Hint("as in 127.0.0.1:8081, or 0.0.0.0:8081 for every address")
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		at.Errorf("listen", "must be host:port")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 || strings.ContainsAny(port, "+-") {
		at.Errorf("listen", "the port must be a number from 0 to 65535")
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !hostName.MatchString(host) {
		at.Errorf("listen", "the host must be an address or a name")
	}
}

func cidr(at diag.At, s string) {
	if _, err := netip.ParsePrefix(s); err == nil {
		return
	}
	hint := "as in 10.0.0.0/8 or fd00::/8"
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		hint = "for one address write " + netip.PrefixFrom(a, a.BitLen()).String()
	}
	at.Hint("%s", hint).Errorf("cidr", "must be a CIDR")
}

// revisions checks protocol revisions. A revision that the gateway does not know is
// accepted, because upstreams may support it.
func revisions(at diag.At, list []string) {
	for i, s := range list {
		switch {
		case !mcp.IsToken(s):
			at.Index(i).Hint("as in 2025-06-18").Errorf("revision", "must be a protocol revision")
		case slices.Index(list, s) < i:
			at.Index(i).Errorf("duplicate", "is listed twice")
		case !revision.MatchString(s):
			at.Index(i).Hint("as in 2025-06-18").Warnf("revision", "%q does not look like a protocol revision", s)
		}
	}
}

var revision = regexp.MustCompile(`^20[0-9]{2}-[0-9]{2}-[0-9]{2}$`)

// within checks a range, both ends included.
func within[T int | int64 | float64 | time.Duration](at diag.At, got, low, high T) {
	if got < low || got > high {
		at.Errorf("range", "must be from %s to %s, is %s", plain(low), plain(high), plain(got))
	}
}

// plain formats a value briefly: 1h, not 1h0m0s.
func plain(v any) string {
	s := fmt.Sprint(v)
	if _, ok := v.(time.Duration); ok {
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
	}
	return s
}
