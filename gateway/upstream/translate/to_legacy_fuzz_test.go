package translate

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// plain is a simple model of a message: the result of encoding/json, with numbers as
// written. It is nil for messages that encoding/json rejects, or reads differently because
// it ignores the case of names.
func plain(t *testing.T, text []byte) map[string]any {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var out map[string]any
	if d.Decode(&out) != nil {
		return nil
	}
	return out
}

// object returns a member that is an object, empty if there is none.
func object(in map[string]any, name string) map[string]any {
	out, ok := in[name].(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return out
}

// FuzzRequestForALegacyServer compares the request for an upstream with sessions with that
// of a simple model: the same params without the members of 2026-07-28.
func FuzzRequestForALegacyServer(f *testing.F) {
	for _, text := range []string{
		calling(1, "plain", ""), calling(2, "ask", `{"a":[1,2.50,{"b":null}]}`), retryOf(3, "ask", "state"),
		`{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"progressToken":7,"own":{"k":1}},"uri":"a:b"}}`,
		`{"params":{"_meta":{},"a":"\u00e9\ud83d\ude00","b":1e400},"method":"tools/call","id":1,"jsonrpc":"2.0","extra":true}`,
		`{"jsonrpc":"2.0","id":1,"method":"x"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var m mcp.Message
		if mcp.Scan(text, &m) != nil || m.Kind != mcp.Request {
			return
		}
		want := plain(t, text)
		if want == nil {
			t.Fatalf("the scanner reads what encoding/json does not: %q", text)
		}
		c := callToLegacy{message: m, sentID: []byte("77")}
		body := c.body()
		got := plain(t, body)
		if got == nil {
			t.Fatalf("no JSON object: %q", body)
		}
		params, meta := object(want, "params"), object(object(want, "params"), "_meta")
		for _, name := range []string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel} {
			delete(meta, name)
		}
		delete(params, "inputResponses")
		delete(params, "requestState")
		delete(params, "_meta")
		if len(meta) > 0 {
			params["_meta"] = meta
		}
		want["id"], want["params"] = json.Number("77"), params
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nbecame %s\nwant   %v", text, body, want)
		}
		var again mcp.Message
		if err := mcp.Scan(body, &again); err != nil || again.Method != m.Method || again.Name != m.Name {
			t.Errorf("%s became %s, which is another message: %v", text, body, err)
		}
	})
}

// FuzzResultOfALegacyServer compares the response for a client of 2026-07-28 with that of
// a simple model: the same result with the members that the revision requires.
func FuzzResultOfALegacyServer(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"t"}],"structuredContent":{"n":1.10}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"contents":[],"ttlMs":5,"cacheScope":"public","resultType":"input_required"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{"uri":"u"}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"https://x"}]}}}`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	seal, err := newSealer(make([]byte, 32), "i")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, reads bool) {
		var m mcp.Message
		if _, err := mcp.ScanReplacing(text, &m); err != nil || m.Kind != mcp.Response {
			return
		}
		request := `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"n"}}`
		if reads {
			request = `{"jsonrpc":"2.0","id":"c","method":"resources/read","params":{"uri":"u"}}`
		}
		c := callToLegacy{t: &ToLegacy{seal: seal}, id: []byte(`"c"`)}
		if err := mcp.Scan([]byte(request), &c.message); err != nil {
			t.Fatal(err)
		}
		in := plain(t, m.Body)
		status, body := c.translate(&m)
		got := plain(t, body)
		if in == nil || got == nil || got["id"] != "c" || got["jsonrpc"] != "2.0" {
			t.Fatalf("%s became %q", text, body)
		}
		if m.IsError {
			failure := object(in, "error")
			wantStatus := 200
			switch failure["code"] {
			case json.Number("-32002"):
				if reads {
					failure["code"] = json.Number("-32602")
				}
			case json.Number("-32601"):
				wantStatus = 404
			}
			if !reflect.DeepEqual(got["error"], any(failure)) || status != wantStatus {
				t.Errorf("%s became %d %s, want %d %v", text, status, body, wantStatus, failure)
			}
			return
		}
		result := object(in, "result")
		result["resultType"] = "complete"
		if reads {
			result["ttlMs"], result["cacheScope"] = json.Number("0"), "private"
		}
		if !reflect.DeepEqual(got["result"], any(result)) || status != 200 {
			t.Errorf("%s became %s, want %v", text, body, result)
		}
	})
}
