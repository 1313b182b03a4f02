package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mustScan scans a valid body.
func mustScan(t *testing.T, body string) *Message {
	t.Helper()
	m := &Message{}
	if err := Scan([]byte(body), m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// modern is a request that declares the 2026-07-28 revision.
func modern(method, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	if params != "" {
		meta = params + "," + meta
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + `}}`
}

func TestResolveDialect(t *testing.T) {
	for _, c := range []struct {
		name, body, header string
		want               Dialect
	}{
		{"none declared is legacy", call(`{"name":"a"}`), "", Dialect{}},
		{"header alone", call(`{"name":"a"}`), "2025-06-18", Dialect{Version: "2025-06-18"}},
		{"header alone, modern", call(`{"name":"a"}`), "2026-07-28", Dialect{"2026-07-28", true}},
		{"_meta alone", modern("ping", ""), "", Dialect{"2026-07-28", true}},
		{"_meta wins over the header", modern("ping", ""), "2025-06-18", Dialect{"2026-07-28", true}},
		{"a later revision is modern", call(`{"name":"a"}`), "2027-01-01", Dialect{"2027-01-01", true}},
		{"not a date is legacy", call(`{"name":"a"}`), "9999", Dialect{Version: "9999"}},
		{"notification resolves from the header", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "2026-07-28", Dialect{"2026-07-28", true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ResolveDialect(mustScan(t, c.body), c.header); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		list    Allowed
		version string
		want    bool
	}{
		{"unset list accepts all", nil, "2026-07-28", true},
		{"listed", Allowed{"2025-06-18"}, "2025-06-18", true},
		{"outside the list", Allowed{"2025-06-18"}, "2026-07-28", false},
		{"no version is accepted even when the list is set", Allowed{"2026-07-28"}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.list.Allows(Dialect{Version: c.version}); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRewriteInitialize(t *testing.T) {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion": "2025-11-25" ,"capabilities":{}}}`
	for _, c := range []struct {
		name, body string
		list       Allowed
		want       string // "" for an unchanged body
	}{
		{"unset list", body, nil, ""},
		{"allowed", body, Allowed{"2025-11-25"}, ""},
		{"becomes the newest allowed legacy revision", body, Allowed{"2026-07-28", "2025-03-26", "2025-06-18"}, strings.Replace(body, "2025-11-25", "2025-06-18", 1)},
		{"no legacy revision allowed", body, Allowed{"2026-07-28"}, ""},
		{"another method", strings.Replace(body, `"initialize"`, `"x"`, 1), Allowed{"2025-06-18"}, ""},
		{"no version asked for", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, Allowed{"2025-06-18"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, changed := c.want, c.want != ""
			if !changed {
				want = c.body
			}
			if got, ch := c.list.RewriteInitialize(mustScan(t, c.body)); string(got) != want || ch != changed {
				t.Errorf("got %v %s, want %s", ch, got, want)
			}
		})
	}
}

func TestFilterSupported(t *testing.T) {
	body := func(list string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":` + list + `,"x":1}}`
	}
	for _, c := range []struct {
		name, list string
		allowed    Allowed
		want       string
	}{
		{"cut down", `[ "2026-07-28", "2025-11-25","2025-06-18"]`, Allowed{"2026-07-28", "2025-06-18"}, `["2026-07-28","2025-06-18"]`},
		{"escaped", `["2026-07-2\u0038","x"]`, Allowed{"2026-07-28"}, `["2026-07-28"]`},
		{"nothing left", `["x"]`, Allowed{"2026-07-28"}, `[]`},
		{"nothing to cut", `["2026-07-28"]`, Allowed{"2026-07-28"}, `["2026-07-28"]`},
		{"unset", `["x"]`, nil, `["x"]`},
		{"not strings", `[1,null,{"a":[]},"2026-07-28"]`, Allowed{"2026-07-28"}, `["2026-07-28"]`},
		{"no list", `"x"`, Allowed{"2026-07-28"}, `"x"`},
		{"empty", `[ ]`, Allowed{"2026-07-28"}, `[ ]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := c.allowed.FilterSupported(mustScan(t, body(c.list)))
			if string(got) != body(c.want) {
				t.Errorf("got %s, want %s", got, body(c.want))
			}
		})
	}
}

func TestCheckMirrored(t *testing.T) {
	const v = "2026-07-28"
	callBody := modern("tools/call", `"name":"add"`)
	for _, c := range []struct {
		name, body string
		h          Mirrored
		reason     string // "" when the header agrees
	}{
		{"agrees", callBody, Mirrored{v, "tools/call", "add"}, ""},
		{"agrees, encoded name", callBody, Mirrored{v, "tools/call", "=?base64?YWRk?="}, ""},
		{"agrees, method without name", modern("tools/list", ""), Mirrored{v, "tools/list", ""}, ""},
		{"agrees, resource", modern("resources/read", `"uri":"file:///é"`), Mirrored{v, "resources/read", EncodeHeader("file:///é")}, ""},
		{"agrees, task", modern("tasks/get", `"taskId":"t"`), Mirrored{v, "tasks/get", "t"}, ""},
		{"agrees, escapes in the body", modern("tools/call", `"name":"\u0061dd"`), Mirrored{v, "tools/call", "add"}, ""},
		{"version missing", callBody, Mirrored{"", "tools/call", "add"}, "header_mismatch_version"},
		{"version differs", callBody, Mirrored{"2025-11-25", "tools/call", "add"}, "header_mismatch_version"},
		{"version only in the header", call(`{"name":"add"}`), Mirrored{v, "tools/call", "add"}, "missing_protocol_version"},
		{"Mcp-Method missing", callBody, Mirrored{v, "", "add"}, "header_mismatch_method"},
		{"Mcp-Method tools/list with body tools/call", callBody, Mirrored{v, "tools/list", "add"}, "header_mismatch_method"},
		{"Mcp-Method in another case", callBody, Mirrored{v, "Tools/Call", "add"}, "header_mismatch_method"},
		{"Mcp-Name missing", callBody, Mirrored{v, "tools/call", ""}, "header_mismatch_name"},
		{"Mcp-Name differs", callBody, Mirrored{v, "tools/call", "sub"}, "header_mismatch_name"},
		{"Mcp-Name twice", callBody, Mirrored{v, "tools/call", "add, add"}, "header_mismatch_name"},
		{"Mcp-Name malformed", callBody, Mirrored{v, "tools/call", "=?base64?YWRk!?="}, "header_mismatch_name"},
		{"Mcp-Name differs for a resource", modern("resources/read", `"uri":"a"`), Mirrored{v, "resources/read", "b"}, "header_mismatch_name"},
		{"modern header over a legacy body", call(`{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}`), Mirrored{v, "tools/call", "add"}, "header_mismatch_version"},
		{"modern header over an unknown revision", call(`{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0"}}`), Mirrored{v, "tools/call", "add"}, "header_mismatch_version"},
		{"legacy header over another legacy body", call(`{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-03-26"}}`), Mirrored{"2025-06-18", "", ""}, ""},
		{"legacy is not checked", call(`{"name":"add"}`), Mirrored{"2025-06-18", "x", "y"}, ""},
		{"notification is not checked", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, Mirrored{v, "", ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustScan(t, c.body)
			err := CheckMirrored(m, ResolveDialect(m, c.h.Version), c.h)
			var e *Error
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason):
				t.Errorf("got %v, want %s", err, c.reason)
			case c.reason == "missing_protocol_version" && e.Code != CodeInvalidParams,
				strings.HasPrefix(c.reason, "header") && e.Code != CodeHeaderMismatch:
				t.Errorf("code %d", e.Code)
			}
		})
	}
}

// A message that is sent on may lack what the revision requires, but not contradict itself.
func TestCheckContradiction(t *testing.T) {
	const v = "2026-07-28"
	callBody := modern("tools/call", `"name":"add"`)
	for _, c := range []struct {
		name, body string
		h          Mirrored
		reason     string // "" when nothing contradicts
	}{
		{"agrees", callBody, Mirrored{v, "tools/call", "add"}, ""},
		{"no header at all", callBody, Mirrored{}, ""},
		{"version only in the header", call(`{"name":"add"}`), Mirrored{v, "tools/call", "add"}, ""},
		{"version only in the header, and nothing else", call(`{"name":"add"}`), Mirrored{v, "", ""}, ""},
		{"version differs", callBody, Mirrored{"2025-11-25", "tools/call", "add"}, "header_mismatch_version"},
		{"modern header over a legacy body", call(`{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-06-18"}}`), Mirrored{v, "", ""}, "header_mismatch_version"},
		{"Mcp-Method differs", callBody, Mirrored{v, "tools/list", ""}, "header_mismatch_method"},
		{"Mcp-Method differs, version only in the header", call(`{"name":"add"}`), Mirrored{v, "tools/list", ""}, "header_mismatch_method"},
		{"Mcp-Name differs", callBody, Mirrored{"", "", "sub"}, "header_mismatch_name"},
		{"Mcp-Name malformed", callBody, Mirrored{"", "", "=?base64?YWRk!?="}, "header_mismatch_name"},
		{"Mcp-Name where none is due", modern("tools/list", ""), Mirrored{"", "", "x"}, ""},
		{"legacy is not checked", call(`{"name":"add"}`), Mirrored{"2025-06-18", "x", "y"}, ""},
	} {
		m := mustScan(t, c.body)
		err := CheckContradiction(m, ResolveDialect(m, c.h.Version), c.h)
		var e *Error
		if c.reason == "" && err != nil || c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason || e.Code != CodeHeaderMismatch) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.reason)
		}
	}
}

func TestHeaderEncoding(t *testing.T) {
	for _, c := range []struct{ value, form string }{
		{"search", "search"},
		{"two words", "two words"},
		{"", ""},
		{"é", "=?base64?w6k=?="},
		{" x", "=?base64?IHg=?="},
		{"x ", "=?base64?eCA=?="},
		{"a\tb", "=?base64?YQli?="},
		{"=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="},
		{"=?BASE64?YQ==?=", "=?base64?PT9CQVNFNjQ/WVE9PT89?="},
	} {
		if got := EncodeHeader(c.value); got != c.form {
			t.Errorf("EncodeHeader(%q) = %q, want %q", c.value, got, c.form)
		}
		if got, ok := DecodeHeader(c.form); !ok || got != c.value {
			t.Errorf("DecodeHeader(%q) = %q %v", c.form, got, ok)
		}
	}
	for _, bad := range []string{"=?base64?YQ?=", "=?base64?Y Q==?=", "=?base64?YR==?=", "=?base64?/w==?=", "=?base64?YQ==\n?="} {
		if got, ok := DecodeHeader(bad); ok {
			t.Errorf("DecodeHeader(%q) = %q", bad, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		if got, ok := DecodeHeader(EncodeHeader(value)); !ok || got != value {
			t.Fatalf("%q comes back as %q", value, got)
		}
	})
}

func TestAppendError(t *testing.T) {
	for _, c := range []struct {
		name string
		body ErrorBody
		want string
	}{
		{"policy_denied", ErrorBody{ID: []byte("17"), Code: CodePolicyDenied, Message: MessagePolicyDenied, Reason: "policy_denied", RequestID: "r1"},
			`{"jsonrpc":"2.0","id":17,"error":{"code":-32001,"message":"policy_denied","data":{"reason":"policy_denied","request_id":"r1"}}}`},
		{"null id", ErrorBody{Code: CodeRateLimited, Message: MessageRateLimited},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32003,"message":"rate_limited","data":{"reason":"","request_id":""}}}`},
		{"denied notification", ErrorBody{ID: []byte(EmptyID), Code: CodePolicyDenied, Message: MessagePolicyDenied},
			`{"jsonrpc":"2.0","id":"","error":{"code":-32001,"message":"policy_denied","data":{"reason":"","request_id":""}}}`},
		{"unsupported_protocol_version", ErrorBody{ID: []byte(`"a"`), Code: CodeUnsupportedVersion, Message: MessageUnsupportedVersion,
			Supported: []string{"2025-06-18", "2026-07-28"}, Requested: "2\"\n\x01\xff"},
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32022,"message":"unsupported_protocol_version","data":{"reason":"","request_id":"","supported":["2025-06-18","2026-07-28"],"requested":"2\"\n\u0001` + "\uFFFD" + `"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := AppendErrorBody(nil, &c.body)
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			m := mustScan(t, string(got))
			if !m.IsError || m.ErrorCode != c.body.Code {
				t.Errorf("read back as %+v", m)
			}
			if want := "event: message\ndata: " + c.want + "\n\n"; string(AppendErrorEvent(nil, &c.body)) != want {
				t.Errorf("event is %q", AppendErrorEvent(nil, &c.body))
			}
		})
	}
	id, dst := []byte("1"), make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { AppendError(dst, id, -32001, "policy_denied", "policy_denied", "r") }); n != 0 {
		t.Errorf("AppendError allocates %v times", n)
	}
}

func TestAppendStringIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		quoted := AppendString(nil, s)
		var got string
		if err := json.Unmarshal(quoted, &got); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); strings.ToValidUTF8(got, "") != got || len(got) < len(want) {
			t.Fatalf("%q comes back as %q", s, got)
		}
		if !ValidString(quoted) {
			t.Fatalf("%q is refused", quoted)
		}
	})
}

func TestCanonicalize(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"no escapes", `{"a":"b"}`, `{"a":"b"}`},
		{"letter", `"AK\u0049A"`, `"AKIA"`},
		{"solidus", `"a\/b"`, `"a/b"`},
		{"quote and backslash", `"\u0022\u005c\u005C"`, `"\"\\\\"`},
		{"two-character escapes", `"\u0008\u0009\u000a\u000c\u000d"`, `"\b\t\n\f\r"`},
		{"other control characters", `"\u0000\u001F"`, `"\u0000\u001f"`},
		{"two bytes", `"\u00e9"`, `"é"`},
		{"surrogate pair", `"\uD83D\uDE00"`, `"😀"`},
		{"line separator", `"\u2028"`, "\"\u2028\""},
		{"delete", `"\u007f"`, "\"\x7f\""},
		{"escaped backslash before u", `"\\u0041"`, `"\\u0041"`},
		{"names too", `{"\u006eame":1}`, `{"name":1}`},
		{"cut short", `"\u00`, `"\u00`},
		{"lone surrogate", `"\ud800"`, `"\ud800"`},
		{"ends in a backslash", `"\`, `"\`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(Canonicalize(nil, []byte(c.in))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSplice(t *testing.T) {
	m := mustScan(t, call(`{"name":"a","x":1}`))
	got := Splice(nil, m.Body, Edit{m.Spans.ID, []byte(`"new"`)}, Edit{Span{}, []byte("ignored")}, Edit{m.Spans.Name, []byte(`"b"`)})
	want := strings.Replace(strings.Replace(string(m.Body), `"id":1`, `"id":"new"`, 1), `"a"`, `"b"`, 1)
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSameID(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1", true}, {"1", "2", false}, {"1", `"1"`, false}, {`"a"`, `"a"`, true}, {`"a"`, `"\u0061"`, true},
		{`"a\/b"`, `"a/b"`, true}, {`"a"`, `"b"`, false}, {"", "1", false}, {"", "", true}, {`""`, "", false},
	} {
		if got := SameID([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("SameID(%s, %s) = %v", c.a, c.b, got)
		}
	}
}

func TestHasScalar(t *testing.T) {
	m := mustScan(t, call(`{"name":"a","arguments":{"s":"x\u0079","n":-1.5,"b":true,"list":["q",{"deep":null}]}}`))
	for value, want := range map[string]bool{
		"xy": true, "-1.5": true, "true": true, "q": true, "null": true,
		"s": false, "deep": false, "a": false, "x": false, "": false, "1.5": false,
	} {
		if got := HasScalar(m.Body, m.Spans.Arguments, value); got != want {
			t.Errorf("HasScalar(%q) = %v", value, got)
		}
	}
	if HasScalar(m.Body, Span{}, "") {
		t.Error("an absent span holds a scalar")
	}
}

func TestDiscovery(t *testing.T) {
	for method, want := range map[string]bool{
		"initialize": true, "ping": true, "server/discover": true, "tools/list": true, "resources/list": true,
		"resources/templates/list": true, "prompts/list": true, "notifications/initialized": true, "notifications/cancelled": true,
		"notifications/progress": false, "subscriptions/listen": false, "tasks/get": false, "tasks/update": false, "tasks/cancel": false,
		"tools/call": false, "resources/read": false, "Initialize": false, "": false,
	} {
		if Discovery(method) != want {
			t.Errorf("Discovery(%q) = %v", method, !want)
		}
	}
}
