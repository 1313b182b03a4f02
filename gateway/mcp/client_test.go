package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClientOf(t *testing.T) {
	initialize := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + `}`
	}
	call := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":` + meta + `,"clientInfo":{"name":"no"}}}`
	}
	for _, tt := range []struct {
		name, body string
		want       ClientInfo
	}{
		{"initialize", initialize(`{"clientInfo":{"name":"claude-code","title":"Claude","version":"2.1"}}`), ClientInfo{"claude-code", "2.1"}},
		{"escapes", initialize(`{"clientInfo":{"name":"a\u00e9\"b","version":"\u0031"}}`), ClientInfo{`aé"b`, "1"}},
		{"without a version", initialize(`{"clientInfo":{"name":"a"}}`), ClientInfo{Name: "a"}},
		{"without a name", initialize(`{"clientInfo":{"version":"1"}}`), ClientInfo{Version: "1"}},
		{"other types", initialize(`{"clientInfo":{"name":1,"version":["x"]}}`), ClientInfo{}},
		{"no object", initialize(`{"clientInfo":"a"}`), ClientInfo{}},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, ClientInfo{}},
		{"_meta of a call", call(`{"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`), ClientInfo{"c", "1"}},
		{"a call without", call(`{}`), ClientInfo{}},
		{"too long", initialize(`{"clientInfo":{"name":"` + strings.Repeat("é", 100) + `","version":"` + strings.Repeat("1", 100) + `"}}`), ClientInfo{strings.Repeat("é", MaxClientName/2), strings.Repeat("1", MaxClientVersion)}},
		{"too long, between characters", initialize(`{"clientInfo":{"name":"` + strings.Repeat("日", 100) + `"}}`), ClientInfo{Name: strings.Repeat("日", MaxClientName/3)}},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"c"}}}}`, ClientInfo{}},
	} {
		body := []byte(tt.body)
		var m Message
		if err := Scan(body, &m); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := ClientOf(&m)
		clear(body) // The names must not share memory with the body.
		if got != tt.want || !utf8.ValidString(got.Name) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
