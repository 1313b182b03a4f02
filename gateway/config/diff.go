package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/upstream"
)

// reloadEffect is the effect of a reload on a changed field.
type reloadEffect uint8

// The effects: gateway specification, column Hot-reload.
const (
	// effectHot fields take effect with the reload.
	effectHot reloadEffect = iota + 1
	// effectRestart fields keep their old value until the process is restarted.
	effectRestart
	// effectPartial sections have one row for each field below.
	effectPartial
)

// effects has a row for each field of the file. A row applies to all fields below it,
// unless it is effectPartial: then each field below has its own row.
var effects = []struct {
	path   string
	effect reloadEffect
}{
	{"listen", effectRestart},
	{"tls", effectPartial}, // switching TLS on or off needs a restart
	{"tls.cert_file", effectHot},
	{"tls.key_file", effectHot},
	{"tls.client_ca", effectHot},
	{"input_rate_limit", effectHot},
	{"trusted_proxies", effectRestart},
	{"client_address_header", effectRestart},
	{"license", effectRestart},
	{"default_upstream", effectRestart},
	{"upstreams", effectRestart},
	{"routes", effectRestart},
	{"auth", effectPartial},
	{"auth.enabled", effectHot},
	{"auth.header", effectRestart},
	{"auth.scheme", effectRestart},
	{"auth.keys", effectHot},
	{"auth.oauth", effectPartial},
	{"auth.oauth.enabled", effectHot},
	{"auth.oauth.issuer", effectRestart},
	{"auth.oauth.audience", effectRestart},
	{"auth.oauth.jwks_url", effectRestart},
	{"auth.oauth.required_scopes", effectHot},
	{"auth.oauth.jwks_cache_ttl", effectHot},
	{"auth.oauth.leeway", effectHot},
	{"auth.oauth.metadata_path", effectRestart},
	{"auth.oauth.public_url", effectRestart},
	{"auth.oauth.cimd", effectHot},
	{"identity", effectHot},
	{"policy", effectHot},
	{"data_flow", effectPartial},
	{"data_flow.scope", effectRestart},
	{"data_flow.window", effectHot},
	{"data_flow.labels", effectHot},
	{"telemetry", effectPartial},
	{"telemetry.customer", effectPartial},
	{"telemetry.customer.enabled", effectRestart},
	{"telemetry.customer.endpoint", effectRestart},
	{"telemetry.customer.headers", effectRestart},
	{"telemetry.customer.service_name", effectRestart},
	{"telemetry.customer.resource_attrs", effectRestart},
	{"telemetry.customer.sample_ratio", effectHot},
	{"telemetry.customer.compression", effectRestart},
	{"telemetry.operator", effectPartial},
	{"telemetry.operator.enabled", effectRestart},
	{"telemetry.operator.endpoint", effectRestart},
	{"telemetry.operator.headers", effectRestart},
	{"telemetry.operator.service_name", effectRestart},
	{"telemetry.operator.resource_attrs", effectRestart},
	{"telemetry.operator.sample_ratio", effectHot},
	{"telemetry.operator.compression", effectRestart},
	{"telemetry.metrics", effectRestart},
	{"audit", effectHot},
	{"tool_search", effectRestart},
	{"rate_limit_store", effectRestart},
	{"guardrails", effectHot},
	{"allowed_protocol_versions", effectRestart},
	{"task_affinity", effectRestart},
	{"subscriptions", effectRestart},
	{"shutdown", effectHot},
	{"limits", effectHot},
	{"federation", effectRestart},
	{"views", effectRestart},
	{"pins", effectRestart}, // its path; what it holds is read at each reload
	{"control_plane", effectRestart},
	{"allowed_origins", effectHot},
	{"allowed_hosts", effectHot},
	{"state_dir", effectRestart},
	{"children_dir", effectRestart},
	{"sessions", effectRestart},
	{"forward_headers", effectHot},
	{"sse_keepalive", effectHot},
}

// Apply returns the configuration that is in effect after a reload: next, with the
// running values of the fields that need a restart, and the names of those that differ
// (restart_pending). Neither argument is changed; the result shares their lists and maps.
//
// A field that takes effect only together with one that needs a restart does not keep the
// others out: see [File.couple].
func Apply(running, next *File) (*File, []string) {
	merged := *next
	if merged.TLS != nil {
		tls := *merged.TLS
		merged.TLS = &tls
	}
	var pending []string
	a, b := reflect.ValueOf(running).Elem(), reflect.ValueOf(&merged).Elem()
	for _, e := range effects {
		was, ok := lookup(a, e.path)
		now, there := lookup(b, e.path)
		switch {
		case e.path == "state_dir": // its default follows audit.path, which takes effect
			if dir := running.StateDirectory(); dir != next.StateDirectory() {
				pending = append(pending, e.path)
				merged.StateDir = dir
			}
		case e.effect == effectRestart && ok && there && !same(was, now),
			e.effect == effectPartial && ok && there && was.Kind() == reflect.Pointer && was.IsNil() != now.IsNil():
			pending = append(pending, e.path)
			now.Set(was)
		}
	}
	return &merged, append(pending, merged.couple(running, next, pending)...)
}

// couple corrects what the merged fields of two files must not mean together, always to what
// permits less, and returns the names of further fields that wait for the restart.
func (f *File) couple(running, next *File, pending []string) (more []string) {
	// Tokens are not accepted by the values that the file has just replaced.
	waits := func(path string) bool { return slices.Contains(pending, path) }
	if o := &f.Auth.OAuth; o.Enabled && !running.Auth.OAuth.Enabled &&
		(waits("auth.oauth.issuer") || waits("auth.oauth.audience") || waits("auth.oauth.jwks_url")) {
		o.Enabled = false
		more = append(more, "auth.oauth.enabled")
	}
	// The header that still holds the callers' keys is never forwarded.
	if held := func(name string) bool { return strings.EqualFold(name, f.Auth.Header) }; slices.ContainsFunc(f.ForwardHeaders, held) {
		f.ForwardHeaders = slices.DeleteFunc(slices.Clone(f.ForwardHeaders), held)
		more = append(more, "forward_headers")
	}
	f.Policy.Rules = append(leftRules(running, next), f.Policy.Rules...)
	f.DataFlow.Labels = append(leftLabels(running, next), f.DataFlow.Labels...)
	return more
}

// leftLabels returns entries for the upstreams that the next file no longer has and that are used until the
// restart: their messages still set the labels that the next file declares.
func leftLabels(running, next *File) (left []flow.LabelConfig) {
	for _, l := range running.DataFlow.Labels {
		l.Upstreams = slices.DeleteFunc(slices.Clone(l.Upstreams), func(name string) bool { return !running.hasUpstream(name) || next.hasUpstream(name) })
		if len(l.Upstreams) > 0 && next.DataFlow.Names().Of(l.Name) != 0 {
			left = append(left, l)
		}
	}
	return left
}

// hasUpstream reports whether an upstream has the name.
func (f *File) hasUpstream(name string) bool {
	return slices.ContainsFunc(f.Upstreams, func(u upstream.Config) bool { return u.Name == name })
}

// leftRules returns deny rules for the upstreams that the next file no longer has and that are
// used until the restart: one for each restricting rule that named them. What such a rule limited
// or redacted is denied, because no order of it among the rules of another file is surely as
// strict as both files.
func leftRules(running, next *File) (rules []policy.RuleConfig) {
	for i := range running.Policy.Rules {
		r := &running.Policy.Rules[i]
		if r.Action == policy.Allow.String() || r.Mode == policy.ModeObserve || r.When == nil {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(r.When.Upstream), func(name string) bool { return !running.hasUpstream(name) || next.hasUpstream(name) })
		if len(left) == 0 {
			continue
		}
		when := *r.When
		when.Upstream = left
		rule := policy.RuleConfig{ID: r.ID, Action: policy.Deny.String(), When: &when, Message: r.Message}
		for slices.ContainsFunc(next.Policy.Rules, func(other policy.RuleConfig) bool { return other.ID == rule.ID }) {
			rule.ID += " (until the restart)"
		}
		rules = append(rules, rule)
	}
	return rules
}

// incomplete are the codes of findings that two valid files can have when they are merged, and
// that permit nothing: a rule for an upstream that runs only after the restart matches nothing
// before, and without keys or tokens nobody is let in.
var incomplete = []string{policy.CodeUnknownUpstream, "auth-keys-empty", "needs-oauth"}

// CheckMerged validates the result of [Apply]. The findings are what has no effect before the
// restart; err is what keeps the whole result out of force.
func (f *File) CheckMerged() (waiting []diag.Finding, err error) {
	r := diag.New()
	f.Validate(r.Root())
	found := r.Findings()
	waits := func(f diag.Finding) bool { return f.Severity == diag.Error && slices.Contains(incomplete, f.Code) }
	for _, finding := range found {
		if waits(finding) {
			waiting = append(waiting, finding)
		}
	}
	return waiting, diag.Err(slices.DeleteFunc(found, waits))
}

// lookup finds the field at a path. ok is false when a section on the path is absent.
func lookup(v reflect.Value, path string) (reflect.Value, bool) {
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}, false
		}
		f, ok := find(fieldsOf(v.Type()), name)
		if !ok {
			return reflect.Value{}, false
		}
		v = v.FieldByIndex(f.index)
	}
	return v, true
}

// same compares two values of a field. An absent list or mapping equals an empty one, at
// any depth.
func same(a, b reflect.Value) bool {
	switch {
	case a.Type() == timeType:
		return a.Interface().(time.Time).Equal(b.Interface().(time.Time))
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case a.Kind() == reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case a.Kind() == reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); !v.IsValid() || !same(a.MapIndex(k), v) {
				return false
			}
		}
		return true
	case a.Kind() == reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}
