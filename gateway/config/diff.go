package config

import (
	"reflect"
	"strings"
	"time"
)

// Effect is the effect of a reload on a changed field.
type Effect uint8

// The effects: gateway specification, column Hot-reload.
const (
	// Hot fields take effect with the reload.
	Hot Effect = iota + 1
	// Restart fields keep their old value until the process is restarted.
	Restart
	// Partial sections have one row for each field below.
	Partial
)

// String returns "yes", "no" or "partial", as in the specification's column.
func (e Effect) String() string {
	switch e {
	case Hot:
		return "yes"
	case Restart:
		return "no"
	case Partial:
		return "partial"
	}
	return "unknown"
}

// effects has a row for each field of the file. A row applies to all fields below it,
// unless it is Partial: then each field below has its own row (decisions CFG11, CFG12,
// CFG13).
var effects = []struct {
	path   string
	effect Effect
}{
	{"listen", Restart},
	{"tls", Partial}, // switching TLS on or off needs a restart
	{"tls.cert_file", Hot},
	{"tls.key_file", Hot},
	{"tls.client_ca", Hot},
	{"input_rate_limit", Hot},
	{"trusted_proxies", Restart},
	{"client_address_header", Restart},
	{"license", Restart},
	{"default_upstream", Restart},
	{"upstreams", Restart},
	{"routes", Restart},
	{"auth", Partial},
	{"auth.enabled", Hot},
	{"auth.header", Restart},
	{"auth.scheme", Restart},
	{"auth.keys", Hot},
	{"auth.oauth", Partial},
	{"auth.oauth.enabled", Hot},
	{"auth.oauth.issuer", Restart},
	{"auth.oauth.audience", Restart},
	{"auth.oauth.jwks_url", Restart},
	{"auth.oauth.required_scopes", Hot},
	{"auth.oauth.jwks_cache_ttl", Hot},
	{"auth.oauth.leeway", Hot},
	{"auth.oauth.metadata_path", Restart},
	{"auth.oauth.public_url", Restart},
	{"auth.oauth.cimd", Hot},
	{"identity", Hot},
	{"policy", Hot},
	{"telemetry", Partial},
	{"telemetry.customer", Partial},
	{"telemetry.customer.enabled", Restart},
	{"telemetry.customer.endpoint", Restart},
	{"telemetry.customer.headers", Restart},
	{"telemetry.customer.service_name", Restart},
	{"telemetry.customer.resource_attrs", Restart},
	{"telemetry.customer.sample_ratio", Hot},
	{"telemetry.customer.compression", Restart},
	{"telemetry.operator", Partial},
	{"telemetry.operator.enabled", Restart},
	{"telemetry.operator.endpoint", Restart},
	{"telemetry.operator.headers", Restart},
	{"telemetry.operator.service_name", Restart},
	{"telemetry.operator.resource_attrs", Restart},
	{"telemetry.operator.sample_ratio", Hot},
	{"telemetry.operator.compression", Restart},
	{"telemetry.metrics", Restart},
	{"audit", Hot},
	{"tool_search", Restart},
	{"rate_limit_store", Restart},
	{"guardrails", Hot},
	{"allowed_protocol_versions", Restart},
	{"task_affinity", Restart},
	{"subscriptions", Restart},
	{"shutdown", Hot},
	{"limits", Hot},
	{"federation", Restart},
	{"views", Restart},
	{"pins", Restart}, // its path; what it holds is read at each reload
	{"control_plane", Restart},
	{"allowed_origins", Hot},
	{"allowed_hosts", Hot},
	{"state_dir", Restart},
	{"children_dir", Restart},
	{"sessions", Restart},
	{"forward_headers", Hot},
	{"sse_keepalive", Hot},
}

// Diff returns the fields of next that a running process cannot change from old without a
// restart, in the order of the specification; nil when there are none.
func Diff(old, next *File) []string {
	_, pending := Apply(old, next)
	return pending
}

// Apply returns the configuration that is in effect after a reload: next, with the
// running values of the fields that need a restart, and the names of those that differ
// (restart_pending). Neither argument is changed; the result shares their lists and maps.
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
		case e.effect == Restart && ok && there && !same(was, now),
			e.effect == Partial && ok && there && was.Kind() == reflect.Pointer && was.IsNil() != now.IsNil():
			pending = append(pending, e.path)
			now.Set(was)
		}
	}
	return &merged, pending
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
