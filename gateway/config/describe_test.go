package config

import (
	"bytes"
	_ "embed" // comments.json
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/catalog/federation"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/upstream"
	"svc/store/api"
)

// commentsJSON holds the doc comments of the sections' fields, by package, type and
// field; go generate collects them from the source.
//
//go:generate go run ./gendoc -root ../.. -out comments.json
//go:embed comments.json
var commentsJSON []byte

// enums are the allowed values of fields with a fixed set, for the schema and the
// reference. The validation of the sections is authoritative; a test compares the two.
var enums = map[string][]string{
	"client_address_header":            {"", http1.HeaderForwarded, http1.HeaderXForwardedFor},
	"federation.instructions":          {federation.InstructionsJoin, federation.InstructionsNone},
	"views[].prompts":                  {auth.All, auth.None},
	"views[].resources":                {auth.All, auth.None},
	"audit.frames":                     {"matched", "all"},
	"audit.fsync":                      {"never", "interval", "always"},
	"audit.on_write_error":             {"refuse", "count"},
	"audit.sinks[].type":               {audit.SinkHTTP, audit.SinkOTLP, audit.SinkSyslog},
	"data_flow.scope":                  {flow.ScopePrincipal, flow.ScopeSession},
	"policy.default_action":            {"allow", "deny"},
	"policy.deny_as":                   {"", policy.DenyAsHTTP, policy.DenyAsToolError},
	"policy.rules[].mode":              {"", "enforce", policy.ModeObserve},
	"policy.rules[].action":            policy.ActionNames(),
	"policy.rules[].approval.not_self": api.ApprovalNotSelf,
	"policy.rules[].approval.show":     api.ApprovalShow,
	"rate_limit_store.type":            {"in_memory", "redis"},
	"telemetry.customer.compression":   {CompressionNone, CompressionGzip},
	"telemetry.operator.compression":   {CompressionNone, CompressionGzip},
	"upstreams[].protocol":             append([]string{upstream.ProtocolAuto}, mcp.Revisions()...),
	"upstreams[].sessions":             {upstream.SessionsPooled, upstream.SessionsPerCall},
	"upstreams[].pin_tools":            {upstream.PinOff, upstream.PinWarn, upstream.PinBlock},
	"upstreams[].pin_skills":           {upstream.PinOff, upstream.PinWarn, upstream.PinBlock},
	"upstreams[].sharing":              upstream.Sharings,
	"upstreams[].stderr":               upstream.Stderrs,
	"tool_search.mode":                 {ToolSearchPassthrough, ToolSearchSynthesize},
	"policy.rules[].when.direction":    {"client_to_server", "server_to_client", ""},
	"policy.rules[].when.result_type":  {"", "input_required"},
	"audit.sinks[].format":             {audit.FormatSvc, audit.FormatOCSF},
}

// requiredFields are the fields that validation requires, by the path of their parent.
var requiredFields = map[string][]string{
	"":                        {"listen", "license", "upstreams", "policy", "audit"},
	"license":                 {"path"},
	"upstreams[]":             {"name"},
	"routes[]":                {"match", "upstream"},
	"views[]":                 {"name", "upstreams"},
	"auth.keys[]":             {"id"},
	"auth.keys[].hashes[]":    {"hash"},
	"policy.rules[]":          {"id", "action", "when"},
	"policy.rules[].redact[]": {"regex"},
	"data_flow.labels[]":      {"name"},
	"guardrails[]":            {"name", "url"},
	"audit.sinks[]":           {"type", "url"},
	"tls":                     {"cert_file", "key_file"},
}

// alternativeFields are the fields of which validation requires exactly one, by the path
// of their parent.
var alternativeFields = map[string][]string{
	"upstreams[]": {"url", "command"}, "auth.keys[]": {"hash", "hashes"},
	"data_flow.labels[]": {"tool_name", "tool_prefix", "tool_glob", "tool_regex", "tool_name_in", "upstreams", "uri_prefix", "injection_score"},
}

// Patterns of values that are written as text.
const (
	durationPattern = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$`
	timePattern     = `^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt].*)?$`
)

// Node describes a field of the file, for [Schema] and [Markdown].
type Node struct {
	// Name is the key, Path the path with [] for list elements and .* for the
	// entries of a mapping with free keys.
	Name, Path string
	// Type is object, list, map, string, int, number, bool, duration, time, or any for a
	// field that accepts every value.
	Type string
	// Doc is the field's comment.
	Doc string
	// Default is the value when the field is absent; nil when there is none.
	Default any
	// reloadEffect is the effect of a reload on a change.
	Effect reloadEffect
	// Env is set when ${NAME} is expanded, Required when a file without the field is
	// rejected.
	Env, Required bool
	// Enum lists the allowed values, if the set is fixed.
	Enum []string
	// Bool is set for a text of which true and false may be written without quotes.
	Bool bool
	// Single is set for a list that may be written as its only element.
	Single bool
	// Fields are the fields of an object; Elem is the element of a list or map.
	Fields []*Node
	Elem   *Node
}

// Describe returns the whole file as one object node.
func Describe() (*Node, error) {
	d := describer{comments: map[string]string{}, effects: map[string]reloadEffect{}}
	if err := json.Unmarshal(commentsJSON, &d.comments); err != nil {
		return nil, fmt.Errorf("read the comments of the configuration: %w", err)
	}
	for _, e := range effects {
		d.effects[e.path] = e.effect
	}
	f := withDefaults[File]()
	root := &Node{Type: "object"}
	d.fill(root, reflect.ValueOf(f), effectPartial)
	return root, nil
}

type describer struct {
	comments map[string]string
	effects  map[string]reloadEffect
}

// fill describes a value; v holds its defaults.
func (d *describer) fill(n *Node, v reflect.Value, effect reloadEffect) {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		present := reflect.New(t.Elem()).Elem()
		setDefaults(present)
		d.fill(n, present, effect)
		n.Default = nil
		return
	}
	n.Effect, n.Enum = effect, enums[n.Path]
	switch {
	case t == durationType:
		n.Type, n.Default = "duration", plain(v.Interface())
	case t == timeType:
		n.Type = "time"
	case isJSON(t):
		n.Type = "any"
	case isStruct(t):
		n.Type = "object"
		for _, f := range fieldsOf(t) {
			n.Fields = append(n.Fields, d.field(n, v, f, effect))
		}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		suffix := "[]"
		if n.Type = "list"; t.Kind() == reflect.Map {
			n.Type, suffix = "map", ".*"
		}
		n.Single = oneOrList(t)
		n.Elem = &Node{Path: n.Path + suffix, Env: n.Env}
		e := reflect.New(t.Elem()).Elem()
		setDefaults(e)
		d.fill(n.Elem, e, effect)
	default:
		d.scalar(n, v)
	}
}

func (d *describer) scalar(n *Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		n.Type, n.Bool = "string", v.Type().Implements(boolOrTextType)
	case reflect.Bool:
		n.Type, n.Default = "bool", v.Bool()
	case reflect.Interface:
		n.Type = "any"
	case reflect.Float32, reflect.Float64:
		n.Type = "number"
	default:
		n.Type = "int"
	}
	if n.Default == nil && v.Kind() != reflect.Interface && !v.IsZero() {
		n.Default = v.Interface()
	}
}

func (d *describer) field(parent *Node, v reflect.Value, f field, effect reloadEffect) *Node {
	path := f.name
	if parent.Path != "" {
		path = parent.Path + "." + f.name
	}
	if e, ok := d.effects[path]; ok {
		effect = e
	}
	owner := v.Type()
	for _, i := range f.index[:len(f.index)-1] {
		owner = owner.Field(i).Type
	}
	goName := owner.Field(f.index[len(f.index)-1]).Name
	n := &Node{
		Name: f.name, Path: path, Env: f.env,
		Doc:      d.comments[owner.PkgPath()+"."+owner.Name()+"."+goName],
		Required: slices.Contains(requiredFields[parent.Path], f.name),
	}
	d.fill(n, v.FieldByIndex(f.index), effect)
	for _, value := range n.Enum { // a sentence that begins with a value keeps its letters
		if rest, ok := cutFold(n.Doc, value); ok {
			n.Doc = value + rest
		}
	}
	if n.Required {
		n.Default = nil
	}
	return n
}

// cutFold returns the text after its first word, if that is the value in another case.
func cutFold(text, value string) (rest string, ok bool) {
	if value == "" || len(text) < len(value) || !strings.EqualFold(text[:len(value)], value) {
		return "", false
	}
	rest = text[len(value):]
	return rest, rest == "" || strings.ContainsAny(rest[:1], " ,.")
}

// Schema returns a JSON Schema (draft 2020-12) of the file, for editors:
//
//	# yaml-language-server: $schema=svc.schema.json
//
// It helps with writing the file; the validation of the loader is stricter.
func Schema() ([]byte, error) {
	root, err := Describe()
	if err != nil {
		return nil, err
	}
	doc := root.schema()
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "svc gateway configuration"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return out.Bytes(), nil
}

func (n *Node) schema() map[string]any {
	s := map[string]any{}
	if n.Doc != "" {
		s["description"] = n.Doc
	}
	if n.Default != nil {
		s["default"] = n.Default
	}
	switch n.Type {
	case "object":
		n.objectSchema(s)
	case "list":
		s["type"], s["items"] = "array", n.Elem.schema()
		if n.Single {
			s["type"] = []string{n.Elem.Type, "array"}
		}
	case "map":
		s["type"], s["additionalProperties"] = "object", n.Elem.schema()
	case "string":
		s["type"] = "string"
		if n.Enum != nil {
			s["enum"] = n.Enum
		}
		if n.Bool {
			s["type"] = []string{"string", "boolean"}
			all := []any{true, false}
			for _, value := range n.Enum {
				all = append(all, value)
			}
			s["enum"] = all
		}
	case "int":
		s["type"] = "integer"
	case "number":
		s["type"] = "number"
	case "bool":
		s["type"] = "boolean"
	case "duration":
		s["type"], s["pattern"] = []string{"string", "integer"}, durationPattern
		s["maximum"], s["minimum"] = 0, 0 // 0 is the only duration without a unit
	case "time":
		s["type"], s["pattern"] = "string", timePattern
	}
	return s
}

func (n *Node) objectSchema(s map[string]any) {
	s["type"], s["additionalProperties"] = "object", false
	properties := map[string]any{}
	var required []string
	for _, f := range n.Fields {
		if f.Type == "any" {
			continue // a field that its section always rejects
		}
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
	}
	s["properties"] = properties
	if required != nil {
		s["required"] = required
	}
	var one []map[string]any
	for _, name := range alternativeFields[n.Path] {
		one = append(one, map[string]any{"required": []string{name}})
	}
	if one != nil {
		s["oneOf"] = one
	}
}

// withDefaults returns a T with the defaults for an absent section.
func withDefaults[T any]() T {
	var t T
	setDefaults(reflect.ValueOf(&t).Elem())
	return t
}

// String returns "yes", "no" or "partial", as in the specification's column.
func (e reloadEffect) String() string {
	switch e {
	case effectHot:
		return "yes"
	case effectRestart:
		return "no"
	case effectPartial:
		return "partial"
	}
	return "unknown"
}
