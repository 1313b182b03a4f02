package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The kept elements of a list are unchanged byte for byte, and filtering leaves
// valid JSON.
func TestFilterListKeepsTheRestByteForByte(t *testing.T) {
	keep := func(name string) bool { return !strings.HasPrefix(name, "no") }
	tests := []struct {
		name, result, want string
		modern             bool
		ok                 bool
	}{
		{name: "none denied", result: `{"tools":[ {"name":"a"} , {"name":"b"} ]}`, want: `{"tools":[ {"name":"a"} , {"name":"b"} ]}`, ok: true},
		{name: "first", result: `{"tools":[{"name":"no"}, {"name":"b","n":1e400}]}`, want: `{"tools":[{"name":"b","n":1e400}]}`, ok: true},
		{name: "middle", result: `{"tools":[{"name":"a"} ,{"name":"no"}, {"name":"b"}]}`, want: `{"tools":[{"name":"a"}, {"name":"b"}]}`, ok: true},
		{name: "last", result: `{"tools":[{"name":"a"}, {"name":"no"}],"nextCursor":"x"}`, want: `{"tools":[{"name":"a"}],"nextCursor":"x"}`, ok: true},
		{name: "all, cursor kept", result: `{"nextCursor":"","tools":[{"name":"no"},{"name":"no2"}]}`, want: `{"nextCursor":"","tools":[]}`, ok: true},
		{name: "an escaped name", result: `{"tools":[{"name":"\u006eo"},{"name":"a"}]}`, want: `{"tools":[{"name":"a"}]}`, ok: true},
		{name: "no name, no object", result: `{"tools":[{"title":"x"},7,{"name":7},{"name":"a"}]}`, want: `{"tools":[{"name":"a"}]}`, ok: true},
		{name: "a case variant of name", result: `{"tools":[{"name":"a","Name":"no"},{"name":"b"}]}`, want: `{"tools":[{"name":"b"}]}`, ok: true},
		{name: "public becomes private", result: `{"cacheScope":"public","tools":[{"name":"no"},{"name":"a"}],"ttlMs":5}`, want: `{"cacheScope":"private","tools":[{"name":"a"}],"ttlMs":5}`, ok: true},
		{name: "public behind, nothing cut", result: `{"tools":[{"name":"a"}],"cacheScope":"public"}`, want: `{"tools":[{"name":"a"}],"cacheScope":"private"}`, ok: true},
		{name: "modern without scope", result: `{"tools":[]}`, want: `{"cacheScope":"private","tools":[]}`, modern: true, ok: true},
		{name: "another result", result: `{"content":[],"cacheScope":"public"}`, want: `{"content":[],"cacheScope":"public"}`, ok: true},
		{name: "a case variant of the list", result: `{"tools":[],"Tools":[{"name":"no"}]}`, ok: false},
		{name: "a case variant by the long s", result: `{"toolſ":[{"name":"no"}],"tools":[]}`, ok: false},
		{name: "no array", result: `{"tools":{"name":"no"}}`, ok: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wrap := func(result string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, result) }
			var m Message
			if err := Scan([]byte(wrap(tt.result)), &m); err != nil {
				t.Fatal(err)
			}
			got, changed, ok := FilterList(&m, "tools", "name", tt.modern, keep)
			if changed != (ok && tt.want != tt.result) {
				t.Errorf("changed %v", changed)
			}
			if ok != tt.ok || ok && string(got) != wrap(tt.want) {
				t.Errorf("got %v %s", ok, got)
			}
			if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

// For every form of a result, filtering neither panics nor breaks the JSON, and
// no denied name remains in the list.
func FuzzFilterList(f *testing.F) {
	f.Add(`{"tools":[{"name":"a"},{"name":"no"}]}`)
	f.Add(`{"cacheScope":"public","tools":[{"name":"n\u006f"} , {} ,[],"x"],"nextCursor":"c"}`)
	f.Fuzz(func(t *testing.T, result string) {
		var m Message
		if Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`), &m) != nil {
			return
		}
		got, _, ok := FilterList(&m, "tools", "name", true, func(name string) bool { return name != "no" })
		if !ok {
			return
		}
		var again Message
		if err := Scan(got, &again); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		var out struct {
			Result struct {
				Tools []struct{ Name string }
			}
		}
		if json.Unmarshal(got, &out) == nil {
			for _, tool := range out.Result.Tools {
				if tool.Name == "no" {
					t.Fatalf("a denied name is left: %s", got)
				}
			}
		}
	})
}

// A result without the capability tools gets it; an existing capability is kept.
func TestOfferTools(t *testing.T) {
	for in, want := range map[string]string{
		`{"capabilities":{},"x":1}`:                       `{"capabilities":{"tools":{}},"x":1}`,
		`{"capabilities":{ "prompts":{}}}`:                `{"capabilities":{"tools":{}, "prompts":{}}}`,
		`{"capabilities":{"tools":{"listChanged":true}}}`: `{"capabilities":{"tools":{"listChanged":true}}}`,
		`{"capabilities":7}`:                              `{"capabilities":7}`,
		`{}`:                                              `{}`,
	} {
		var m Message
		if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":`+in+`}`), &m); err != nil {
			t.Fatal(err)
		}
		got, changed := OfferTools(&m)
		if string(got) != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` || changed != (in != want) || !json.Valid(got) {
			t.Errorf("%s: %v %s", in, changed, got)
		}
	}
}

func BenchmarkFilterList(b *testing.B) {
	var tools []string
	for i := range 500 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("x", 300)))
	}
	var m Message
	if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`+strings.Join(tools, ",")+`]}}`), &m); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(m.Body)))
	b.ReportAllocs()
	for b.Loop() {
		FilterList(&m, "tools", "name", true, func(name string) bool { return name[len(name)-1] != '7' })
	}
}

func TestMapList(t *testing.T) {
	upper := func(element []byte) []byte {
		if strings.Contains(string(element), "no") {
			return nil
		}
		return []byte(strings.ToUpper(string(element)))
	}
	for _, tt := range []struct {
		result, want string
		changed, ok  bool
	}{
		{`{"tools":[{"name":"A"} , {"X":1e400}],"t":1}`, `{"tools":[{"NAME":"A"},{"X":1E400}],"t":1}`, true, true},
		{`{"tools":["A","B"]}`, `{"tools":["A","B"]}`, false, true},
		{`{"tools":["no","b", "no"]}`, `{"tools":["B"]}`, true, true},
		{`{"tools":["no"]}`, `{"tools":[]}`, true, true},
		{`{"tools":[]}`, `{"tools":[]}`, false, true},
		{`{"content":["b"]}`, `{"content":["b"]}`, false, true},
		{`{"tools":[],"Tools":["no"]}`, "", false, false},
		{`{"tools":{"name":"no"}}`, "", false, false},
		{`[]`, `[]`, false, true},
	} {
		var m Message
		if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":`+tt.result+`}`), &m); err != nil {
			t.Fatal(err)
		}
		got, changed, ok := MapList(&m, "tools", upper)
		if want := `{"jsonrpc":"2.0","id":1,"result":` + tt.want + `}`; ok != tt.ok || ok && (changed != tt.changed || string(got) != want) {
			t.Errorf("%s: %s %v %v", tt.result, got, changed, ok)
		}
	}
}
