// The race detector makes these 10 times slower and finds nothing in them: .ci/tests runs them without.
//go:build !race

package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"svc/store/api"
)

// hole is a place in a request body where any JSON value can stand: the text before and
// after it.
type hole struct{ before, after string }

// holes lists every member of a documented body, of the objects and lists in it too. A document
// of POST /api/apply has the members of each kind.
func (g *samples) holes(schema map[string]any, depth int) []hole {
	if ref, ok := schema["$ref"].(string); ok {
		return g.holes(g.resolve(ref), depth)
	}
	out := []hole{{}}
	if depth == 0 {
		return out
	}
	for _, b := range branchesOf(schema) {
		out = append(out, g.holes(b.(map[string]any), depth)[1:]...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		for _, in := range g.holes(items, depth-1)[1:] {
			out = append(out, hole{"[" + in.before, in.after + "]"})
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		for _, in := range g.holes(property.(map[string]any), depth-1) {
			kinds := []string{""}
			if name == "spec" {
				kinds = nil
				for _, kind := range api.DocumentKinds {
					kinds = append(kinds, fmt.Sprintf(`"kind":%q,"name":"x",`, kind))
				}
			}
			if name == "arguments" {
				kinds = []string{`"type":"tool_arguments","toolName":"t",`}
			}
			for _, kind := range kinds {
				out = append(out, hole{"{" + kind + `"` + name + `":` + in.before, in.after + "}"})
			}
		}
	}
	return out
}

// fillings are values of many small parts: the shortest entries of a list, of a list of lists and of
// an object, and values that the decoder reads or remembers one by one.
var fillings = map[string]func(size int) string{
	"list of objects": func(n int) string { return "[" + strings.Repeat("{},", n/3-2) + "{}]" },
	"list of texts":   func(n int) string { return "[" + strings.Repeat(`"",`, n/3-2) + `""]` },
	"list of nulls":   func(n int) string { return "[" + strings.Repeat("null,", n/5-2) + "null]" },
	"object": func(n int) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := 0; b.Len() < n-20; i++ {
			fmt.Fprintf(&b, `"%x":{},`, i)
		}
		return b.String() + `"z":0}`
	},
}

// cost returns the bytes that are allocated while a request is served, garbage included.
func (r *rig) cost(method, url string, body []byte, header ...string) (int64, int) {
	req := httptest.NewRequest(method, url, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+r.admin)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.srv.ServeHTTP(w, req)
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc), w.Code
}

// TestMemoryOfBodies: a body of 8 MiB costs at most 64 MiB of memory, whatever its shape, at every
// endpoint and in every member. Smaller bodies cost as little in proportion.
func TestMemoryOfBodies(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	b := newBodyRig(t, doc)
	n := 0
	check := func(what, method, url string, body []byte, header ...string) {
		t.Helper()
		n++
		got, status := b.cost(method, url, body, header...)
		if limit := min(int64(8*len(body))+1<<20, 64<<20); got > limit {
			t.Errorf("%s %s, %s: %d KiB for a body of %d KiB, status %d", method, url, what, got>>10, len(body)>>10, status)
		}
		if status != 400 && status != 403 {
			t.Errorf("%s %s, %s: status %d", method, url, what, status)
		}
	}
	for _, rt := range bodyRoutes(doc) {
		for _, h := range b.gen.holes(rt.schema, 8) {
			if h.before == `{"traces":` || h.before == `{"documents":` {
				continue // below, because the longest allowed list costs as much as such a body
			}
			for _, name := range []string{"list of objects", "list of texts", "object"} {
				body := h.before + fillings[name](128<<10-len(h.before)-len(h.after)) + h.after
				check(h.before+" "+name, rt.method, b.url(rt), []byte(body), "Authorization", "Bearer "+b.keyFor(rt))
			}
		}
	}
	if n < 500 {
		t.Errorf("%d bodies", n)
	}
	for _, h := range []hole{ // the largest bodies
		{`{"documents":`, `}`},
		{`{"documents":[{"kind":"Policy","name":"p","spec":{"phase":"request","condition":{"type":"tool_arguments","toolName":"t","arguments":`, `},"action":"block"}}]}`},
	} {
		for name, fill := range fillings {
			check(h.before+" "+name, "POST", "/api/apply", []byte(h.before+fill(api.MaxApplyBody-len(h.before)-len(h.after))+h.after))
		}
	}
	for name, fill := range fillings {
		check(name, "POST", "/api/traces", []byte(`{"traces":`+fill(api.MaxIngestBody-20)+`}`))
		event := `{"type":"user.created","createdAt":"2026-01-01T00:00:00Z","data":` + fill(api.MaxBody-100) + `}`
		check(name, "POST", "/api/auth/webhook", []byte(event), signatureHeader, sign(webhookSecret, b.clock.Now().Unix(), event))
	}
}

// TestMemoryOfOTLP: the same of OTLP requests, in JSON and in protobuf, plain and compressed.
func TestMemoryOfOTLP(t *testing.T) {
	const small = 1 << 20 // of the bodies that are not decoded to spans
	r := newRig(t)
	check := func(what string, body []byte, contentType string) {
		t.Helper()
		sentAs := map[string][]byte{"identity": body}
		if len(body) > small {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(body)
			_ = z.Close()
			sentAs["gzip"] = packed.Bytes()
		}
		for encoding, sent := range sentAs {
			got, status := r.cost("POST", "/api/otlp/v1/traces", sent, "Content-Type", contentType, "Content-Encoding", encoding)
			if got > 64<<20 || len(body) <= small && got > 12*small {
				t.Errorf("%s, %s, %s: %d KiB for a body of %d KiB, status %d", what, contentType, encoding, got>>10, len(body)>>10, status)
			}
			if status >= 500 {
				t.Errorf("%s, %s, %s: status %d", what, contentType, encoding, status)
			}
		}
	}
	for _, h := range []hole{
		{`{"resourceSpans":`, `}`}, {`{"resourceSpans":[{"resource":{"attributes":`, `}}]}`}, {`{"resourceSpans":[{"scopeSpans":`, `}]}`},
		{`{"resourceSpans":[{"scopeSpans":[{"spans":`, `}]}]}`},
		{`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":`, `}]}]}]}`},
		{`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":{"arrayValue":{"values":`, `}}}]}]}]}]}`},
		{`{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":`, `}]}]}]}`},
	} {
		for name, fill := range fillings {
			check(h.before+" "+name, []byte(h.before+fill(small-len(h.before)-len(h.after))+h.after), "application/json")
		}
	}
	one := strings.Repeat(`{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"},`, api.MaxIngestBody/80)
	check("spans", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[`+one[:len(one)-1]+`]}]}]}`), "application/json")
	// In protobuf the shortest part of a message is its tag and a length of 0.
	part := func(field protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
	}
	span := append(part(1, bytes.Repeat([]byte{1}, 16)), part(2, bytes.Repeat([]byte{2}, 8))...)
	for what, path := range map[string][]protowire.Number{
		"resources": {1}, "resource attributes": {1, 1, 1}, "scopes": {1, 2}, "spans": {1, 2, 2}, "attributes": {1, 2, 2, 9}, "events": {1, 2, 2, 11},
	} {
		for entry, value := range map[string][]byte{"empty": nil, "span": span} {
			last := part(path[len(path)-1], value)
			size := small
			if what == "spans" {
				size = api.MaxIngestBody
			}
			body := bytes.Repeat(last, (size-64)/len(last))
			for i := len(path) - 2; i >= 0; i-- {
				body = part(path[i], body)
			}
			check(what+" "+entry, body, "application/x-protobuf")
		}
	}
}
