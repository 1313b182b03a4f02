package server

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "generate openapi.json from openapi.yaml")

// fromYAML makes the served document from its source.
func fromYAML(t *testing.T) []byte {
	t.Helper()
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(source, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "x-anchors")
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// openapi.json matches openapi.yaml.
func TestOpenAPIIsMadeOfItsSource(t *testing.T) {
	want := fromYAML(t)
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(document, want) {
		t.Error("openapi.json does not match openapi.yaml; run go test ./server -run TestOpenAPIIsMadeOfItsSource -update")
	}
}

// The document is valid OpenAPI 3.1, checked with a third-party library.
func TestOpenAPIDocumentIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version is %q", doc.OpenAPI)
	}
}

// The document and the route table name the same endpoints with the same key
// scopes and team scopes, and the same POSTs take an Idempotency-Key.
func TestOpenAPIMatchesRouteTable(t *testing.T) {
	contract := theContract(t)
	documented := map[string]bool{}
	for path, item := range contract.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				documented[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	for _, rt := range routes() {
		name := rt.method + " " + rt.path
		if !documented[name] {
			t.Errorf("%s is a route and not in the document", name)
			continue
		}
		delete(documented, name)
		op := contract.operation(rt.path, rt.method)
		var keys []string
		for _, k := range rt.keys {
			keys = append(keys, string(k))
		}
		if got := stringsOf(op["x-key-scopes"]); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(keys))) {
			t.Errorf("%s: x-key-scopes %v, route table %v", name, got, keys)
		}
		if got := stringsOf(op["x-team-scopes"]); !slices.Equal(got, rt.team) && len(got)+len(rt.team) > 0 {
			t.Errorf("%s: x-team-scopes %v, route table %v", name, got, rt.team)
		}
		if got, _ := op["x-no-team"].(bool); got != rt.unlimited {
			t.Errorf("%s: x-no-team %v, route table %v", name, got, rt.unlimited)
		}
		params, _ := op["parameters"].([]any)
		once := slices.ContainsFunc(params, func(p any) bool {
			return p.(map[string]any)["$ref"] == "#/components/parameters/idempotencyKey"
		})
		if once != rt.idempotent {
			t.Errorf("%s: idempotency documented %v, route table %v", name, once, rt.idempotent)
		}
		if _, open := op["security"]; open != rt.public {
			t.Errorf("%s: no key needed: documented %v, route table %v", name, open, rt.public)
		}
		var inQuery []string
		for _, p := range params {
			one := p.(map[string]any)
			if ref, ok := one["$ref"].(string); ok {
				_, one = contract.resolve(strings.TrimPrefix(ref, "#"))
			}
			if one["in"] == "query" {
				inQuery = append(inQuery, one["name"].(string))
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(inQuery)), slices.Sorted(slices.Values(rt.query))) {
			t.Errorf("%s: parameters %v, route table %v", name, inQuery, rt.query)
		}
		answers, _ := op["responses"].(map[string]any)
		if _, full := answers["507"]; full != (rt.window == apiWindow && rt.method != "GET") {
			t.Errorf("%s: a full disk (507) documented %v", name, full)
		}
		if op["operationId"] == nil {
			t.Errorf("%s has no operationId", name)
		}
	}
	for name := range documented {
		t.Errorf("%s is in the document and no route", name)
	}
}

func stringsOf(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].(string)
	}
	return out
}

func TestOpenAPIEndpoint(t *testing.T) {
	r := newRig(t)
	a := r.ask(r.admin, "GET", "/api/openapi.json", "").want(200)
	if !bytes.Equal(a.raw, document) {
		t.Error("the served document differs")
	}
	r.ask(r.admin, "GET", "/api/openapi.json", "", "If-None-Match", a.header.Get("ETag")).want(304)
	r.ask("", "GET", "/api/openapi.json", "").want(401)
	for _, scope := range []string{"agent", "ingest"} {
		key, _ := r.key(r.admin, scope)
		r.ask(key, "GET", "/api/openapi.json", "").want(403)
	}
}

// contract is the document in a form that responses are validated with.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	seen    map[string]bool // operations and statuses of which a response was seen
}

// loadContract compiles the document once; all tests record in it which
// responses they saw.
var loadContract = sync.OnceValues(newContract)

func theContract(t testing.TB) *contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newContract() (*contract, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	root := doc.(map[string]any)
	schemas := root["components"].(map[string]any)["schemas"].(map[string]any)
	lenient := schemas["WebhookEvent"] // the identity provider may add fields
	schemas["WebhookEvent"] = true
	closed(root)
	schemas["WebhookEvent"] = lenient
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		return nil, err
	}
	return &contract{doc: root, compiler: c, schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}, nil
}

// closed makes object schemas reject members that the document does not name:
// clients must accept new members, but the tests must not overlook them.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["type"] == "object" && v["properties"] != nil && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, child := range v {
			closed(child)
		}
	case []any:
		for _, child := range v {
			closed(child)
		}
	}
}

// find returns the documented path that matches a request's path; literal
// segments take precedence.
func (c *contract) find(path string) string {
	best := ""
	for pattern := range c.doc["paths"].(map[string]any) {
		want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
		fits := len(want) == len(got)
		for i := range want {
			fits = fits && (want[i] == got[i] || strings.HasPrefix(want[i], "{") && got[i] != "")
		}
		if fits && (best == "" || strings.Count(pattern, "{") < strings.Count(best, "{")) {
			best = pattern
		}
	}
	return best
}

func (c *contract) operation(path, method string) map[string]any {
	item, _ := c.doc["paths"].(map[string]any)[path].(map[string]any)
	op, _ := item[strings.ToLower(method)].(map[string]any)
	return op
}

func (c *contract) compile(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[pointer]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile("openapi.json#" + pointer)
	if err == nil {
		c.schemas[pointer] = s
	}
	return s, err
}

// validate checks a JSON text against the schema at a pointer into the
// document.
func (c *contract) validate(pointer string, text []byte) error {
	s, err := c.compile(pointer)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func escape(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// resolve follows one reference of a response.
func (c *contract) resolve(pointer string) (string, map[string]any) {
	at := any(c.doc)
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		m, _ := at.(map[string]any)
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	m, _ := at.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return c.resolve(strings.TrimPrefix(ref, "#"))
	}
	return pointer, m
}

// checkAnswer validates a response of the tests against the document.
func checkAnswer(t testing.TB, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	if !underAPI(path) {
		return
	}
	c := theContract(t)
	what := fmt.Sprintf("%s %s: %d", method, path, status)
	pattern := c.find(path)
	op := c.operation(pattern, method)
	if op == nil { // there is no such endpoint: only the error body can be checked
		if status < 400 {
			t.Errorf("%s from an undocumented endpoint", what)
		} else if err := c.validate("/components/schemas/Error", body); err != nil {
			t.Errorf("%s: %v\n%s", what, err, body)
		}
		return
	}
	pointer, response := c.resolve("/paths/" + escape(pattern) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(status))
	if response == nil {
		t.Errorf("%s is a status that is not documented: %s", what, body)
		return
	}
	c.mu.Lock()
	c.seen[method+" "+pattern+" "+strconv.Itoa(status)] = true
	c.mu.Unlock()
	if documented, ok := response["headers"].(map[string]any); ok {
		for name := range documented {
			if header.Get(name) == "" {
				t.Errorf("%s without the documented header %s", what, name)
			}
		}
	}
	content, _ := response["content"].(map[string]any)
	if content == nil {
		if len(body) > 0 {
			t.Errorf("%s has a body, documented is none: %s", what, body)
		}
		return
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	if _, ok := content[media]; !ok {
		t.Errorf("%s: Content-Type %q, documented are %v", what, media, slices.Collect(maps.Keys(content)))
		return
	}
	if media == "application/json" {
		if err := c.validate(pointer+"/content/application~1json/schema", body); err != nil {
			t.Errorf("%s: %v\n%s", what, err, body)
		}
	}
}

// checkRequest validates the body of a successful request against the
// document.
func checkRequest(t testing.TB, method, path, body string) {
	t.Helper()
	c := theContract(t)
	pattern := c.find(path)
	if body == "" || c.operation(pattern, method) == nil {
		return
	}
	pointer := "/paths/" + escape(pattern) + "/" + strings.ToLower(method) + "/requestBody/content/application~1json/schema"
	if err := c.validate(pointer, []byte(body)); err != nil {
		t.Errorf("%s %s was accepted with a body that is not as documented: %v\n%s", method, path, err, body)
	}
}

// unseen lists the documented successes of which no test had a response.
func (c *contract) unseen() []string {
	var out []string
	for path, item := range c.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			responses, ok := c.operation(path, method)["responses"].(map[string]any)
			if !ok {
				continue
			}
			for status := range responses {
				name := strings.ToUpper(method) + " " + path + " " + status
				if status < "400" && !c.seen[name] {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestMain checks that no test leaves a goroutine running, and that the tests
// together have a response of every documented success, so that every part of
// the document is checked.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.bench").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" && !testing.Short()
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	if code == 0 && whole {
		c, err := loadContract()
		if err != nil {
			fmt.Println(err)
			code = 1
		} else if missing := c.unseen(); len(missing) > 0 {
			fmt.Println("documented successes without a response in the tests:", strings.Join(missing, ", "))
			code = 1
		}
	}
	os.Exit(code)
}
