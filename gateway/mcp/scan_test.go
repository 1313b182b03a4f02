package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// call wraps params of a tools/call.
func call(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
}

func TestScanAccepts(t *testing.T) {
	type view struct {
		Kind                                      Kind
		ID, Method, Name, URI, Task, Version      string
		Initialize, ResultType, Subscription      string
		HasName, IsError, ToolError               bool
		ErrorCode                                 int
		Params, Result, Meta, RequestID, Progress string
	}
	for _, c := range []struct {
		name, body string
		want       view
	}{
		{"tools/call", call(`{"name":"add","arguments":{"a":1}}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "add", HasName: true, Params: `{"name":"add","arguments":{"a":1}}`}},
		{"params before method", `{"params":{"name":"add"},"method":"tools/call","id":"x","jsonrpc":"2.0"}`,
			view{Kind: Request, ID: `"x"`, Method: "tools/call", Name: "add", HasName: true, Params: `{"name":"add"}`}},
		{"escaped member name is read as its value", call(`{"na\u006de":"add"}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "add", HasName: true, Params: `{"na\u006de":"add"}`}},
		{"escaped method and name", `{"jsonrpc":"2.0","id":0,"\u006dethod":"tools\/call","params":{"name":"\u0061dd"}}`,
			view{Kind: Request, ID: "0", Method: "tools/call", Name: "add", HasName: true, Params: `{"name":"\u0061dd"}`}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
			view{Kind: Notification, Method: "notifications/cancelled", Params: `{"requestId":7}`, RequestID: "7"}},
		{"progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}`,
			view{Kind: Notification, Method: "notifications/progress", Params: `{"progressToken":"t"}`, Progress: `"t"`}},
		{"modern call", call(`{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":3}}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "add", HasName: true, Version: "2026-07-28", Progress: "3",
				Params: `{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":3}}`,
				Meta:   `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":3}`}},
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
			view{Kind: Request, ID: "1", Method: "initialize", Initialize: "2025-11-25", Params: `{"protocolVersion":"2025-11-25"}`}},
		{"resources/read", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///é"}}`,
			view{Kind: Request, ID: "1", Method: "resources/read", URI: "file:///é", Params: `{"uri":"file:///é"}`}},
		{"tasks/get", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t1"}}`,
			view{Kind: Request, ID: "1", Method: "tasks/get", Task: "t1", Params: `{"taskId":"t1"}`}},
		{"a name of another type is no name for other methods", `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"name":{"a":1}}}`,
			view{Kind: Request, ID: "1", Method: "x/y", Params: `{"name":{"a":1}}`}},
		{"null _meta is none", call(`{"name":"a","_meta":null}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "a", HasName: true, Params: `{"name":"a","_meta":null}`}},
		{"empty string id", `{"jsonrpc":"2.0","id":"","method":"ping"}`, view{Kind: Request, ID: `""`, Method: "ping"}},
		{"id of 10^30", `{"jsonrpc":"2.0","id":1000000000000000000000000000000,"method":"ping"}`,
			view{Kind: Request, ID: "1000000000000000000000000000000", Method: "ping"}},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","isError":true}}`,
			view{Kind: Response, ID: "1", ResultType: "input_required", ToolError: true, Result: `{"resultType":"input_required","isError":true}`}},
		{"task result", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t"}}`,
			view{Kind: Response, ID: "1", ResultType: "task", Task: "t", Result: `{"resultType":"task","taskId":"t"}`}},
		{"result that is no object", `{"jsonrpc":"2.0","id":1,"result":[1]}`, view{Kind: Response, ID: "1", Result: "[1]"}},
		{"error", `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"x"}}`,
			view{Kind: Response, ID: `"a"`, IsError: true, ErrorCode: -32601}},
		{"an error whose code is written with an exponent", `{"jsonrpc":"2.0","id":"a","error":{"code":-3.2042e4,"message":"m"}}`,
			view{Kind: Response, ID: `"a"`, IsError: true, ErrorCode: CodeURLElicitation}},
		{"an error whose code is no integer", `{"jsonrpc":"2.0","id":"a","error":{"code":-32042.5,"message":"m"}}`,
			view{Kind: Response, ID: `"a"`, IsError: true}},
		{"an error whose code is too large", `{"jsonrpc":"2.0","id":"a","error":{"code":1e300,"message":"m"}}`,
			view{Kind: Response, ID: `"a"`, IsError: true}},
		{"an error without a code", `{"jsonrpc":"2.0","id":"a","error":{"message":"m"}}`,
			view{Kind: Response, ID: `"a"`, IsError: true}},
		{"error with null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1.5}}`, view{Kind: Response, IsError: true}},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":99999999999}}`, view{Kind: Response, IsError: true}},
		{"listen frame", `{"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":12}}}`,
			view{Kind: Notification, Method: "notifications/message", Subscription: "12",
				Params: `{"_meta":{"io.modelcontextprotocol/subscriptionId":12}}`, Meta: `{"io.modelcontextprotocol/subscriptionId":12}`}},
		{"embedded resultType in a request cannot trigger server rules", call(`{"name":"a","resultType":"input_required","result":{"resultType":"input_required"}}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "a", HasName: true,
				Params: `{"name":"a","resultType":"input_required","result":{"resultType":"input_required"}}`}},
		{"case variants below the envelope are data", call(`{"name":"a","arguments":{"Name":"b","name":"c","METHOD":1}}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "a", HasName: true, Params: `{"name":"a","arguments":{"Name":"b","name":"c","METHOD":1}}`}},
		{"same names in sibling objects", call(`{"name":"a","arguments":[{"x":1},{"x":1},{"x":{"x":{"x":1}}}]}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "a", HasName: true, Params: `{"name":"a","arguments":[{"x":1},{"x":1},{"x":{"x":{"x":1}}}]}`}},
		{"white space around", " \t\r\n" + `{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" }` + "\n",
			view{Kind: Request, ID: "1", Method: "ping"}},
		{"names that only look alike", call(`{"name":"a","naıme":1,"nаme":2}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "a", HasName: true, Params: `{"name":"a","naıme":1,"nаme":2}`}},
		{"surrogate pair", call(`{"name":"\ud83d\ude00"}`),
			view{Kind: Request, ID: "1", Method: "tools/call", Name: "😀", HasName: true, Params: `{"name":"\ud83d\ude00"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			if err := Scan([]byte(c.body), &m); err != nil {
				t.Fatal(err)
			}
			of := func(s Span) string { return string(s.Of(m.Body)) }
			got := view{m.Kind, string(m.ID), m.Method, m.Name, m.URI, m.TaskID, m.ProtocolVersion, m.InitializeVersion,
				m.ResultType, m.SubscriptionID, m.HasName, m.IsError, m.ToolError, m.ErrorCode,
				of(m.Spans.Params), of(m.Spans.Result), of(m.Spans.Meta), of(m.Spans.RequestID), of(m.Spans.ProgressToken)}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("message (-want +got):\n%s", d)
			}
			if of(m.Spans.ID) != string(m.ID) && m.ID != nil {
				t.Errorf("the span of the id is %q", of(m.Spans.ID))
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(last string) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return `{"name":"a","arguments":{` + b.String() + last + `:2}}`
	}
	for _, c := range []struct {
		name, body, reason string
		code               int
		id                 string // only an id that can be echoed
	}{
		{"empty body", "", "empty_body", -32700, ""},
		{"blank body", " \n", "empty_body", -32700, ""},
		{"byte order mark", "\xEF\xBB\xBF" + call(`{"name":"a"}`), "byte_order_mark", -32700, ""},
		{"not JSON", "<html>", "invalid_json", -32700, ""},
		{"single quotes", `{'jsonrpc':'2.0'}`, "invalid_json", -32700, ""},
		{"comment", `{"jsonrpc":"2.0",/* */"id":1}`, "invalid_json", -32700, ""},
		{"NaN", call(`{"name":"a","arguments":{"x":NaN}}`), "invalid_json", -32700, "1"},
		{"trailing comma in an object", call(`{"name":"a",}`), "invalid_json", -32700, "1"},
		{"trailing comma in an array", call(`{"name":"a","x":[1,]}`), "invalid_json", -32700, "1"},
		{"member without value", call(`{"name"}`), "invalid_json", -32700, "1"},
		{"missing comma", call(`{"name":"a" "x":1}`), "invalid_json", -32700, "1"},
		{"cut short", call(`{"name":"a"`)[:60], "invalid_json", -32700, "1"},
		{"cut in a literal", `{"a":tru`, "invalid_json", -32700, ""},
		{"vertical tab as space", "{\v}", "invalid_json", -32700, ""},
		{"no-break space", "{\u00a0}", "invalid_json", -32700, ""},
		{"second value", call(`{"name":"a"}`) + `{}`, "trailing_data", -32700, "1"},
		{"trailing NUL", call(`{"name":"a"}`) + "\x00", "trailing_data", -32700, "1"},
		{"raw control character in a string", call("{\"name\":\"a\nb\"}"), "control_character", -32700, "1"},
		{"raw NUL in a string", call("{\"name\":\"a\x00\"}"), "control_character", -32700, "1"},
		{"unknown escape", call(`{"name":"\x41"}`), "invalid_escape", -32700, "1"},
		{"short unicode escape", call(`{"name":"\u12"}`), "invalid_escape", -32700, "1"},
		{"invalid UTF-8 in a value", call("{\"name\":\"a\xff\"}"), "invalid_utf8", -32700, "1"},
		{"invalid UTF-8 in a name", call("{\"\xc3\x28\":1}"), "invalid_utf8", -32700, "1"},
		{"overlong UTF-8", call("{\"name\":\"\xc0\xae\"}"), "invalid_utf8", -32700, "1"},
		{"surrogate in UTF-8", call("{\"name\":\"\xed\xa0\x80\"}"), "invalid_utf8", -32700, "1"},
		{"lone high surrogate", call(`{"name":"\ud800"}`), "lone_surrogate", -32700, "1"},
		{"lone low surrogate", call(`{"name":"\udc00x"}`), "lone_surrogate", -32700, "1"},
		{"high surrogate before another escape", call(`{"name":"\ud800\u0041"}`), "lone_surrogate", -32700, "1"},
		{"lone surrogate in data", call(`{"name":"a","arguments":{"x":"\udfff"}}`), "lone_surrogate", -32700, "1"},
		{"leading zero", call(`{"name":"a","x":01}`), "invalid_number", -32700, "1"},
		{"plus sign", call(`{"name":"a","x":+1}`), "invalid_json", -32700, "1"},
		{"minus alone", call(`{"name":"a","x":-}`), "invalid_number", -32700, "1"},
		{"fraction without digits", call(`{"name":"a","x":1.}`), "invalid_number", -32700, "1"},
		{"exponent without digits", call(`{"name":"a","x":1e+}`), "invalid_number", -32700, "1"},
		{"hexadecimal", call(`{"name":"a","x":0x10}`), "invalid_json", -32700, "1"},
		{"depth 129", call(`{"name":"a","x":` + deep(127) + `}`), "nesting_too_deep", -32600, "1"},
		{"depth 200,000", strings.Repeat("[", 200000), "batch_not_supported", -32600, ""},
		{"depth 200,000 in params", call(`{"x":` + strings.Repeat("[", 200000)), "nesting_too_deep", -32600, "1"},
		{"depth 200,000 of objects", call(strings.Repeat(`{"a":`, 200000)), "nesting_too_deep", -32600, "1"},
		{"batch", `[` + call(`{"name":"a"}`) + `]`, "batch_not_supported", -32600, ""},
		{"empty batch", `[]`, "batch_not_supported", -32600, ""},
		{"a string", `"x"`, "not_an_object", -32600, ""},
		{"null", `null`, "not_an_object", -32600, ""},

		{"duplicate name in params", call(`{"name":"safe","name":"evil"}`), "duplicate_member", -32600, "1"},
		{"duplicate name, one escaped", call(`{"name":"safe","n\u0061me":"evil"}`), "duplicate_member", -32600, "1"},
		{"duplicate name, both escaped", call(`{"\u006eame":"safe","n\u0061me":"evil"}`), "duplicate_member", -32600, "1"},
		{"duplicate params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"},"params":{"name":"b"}}`, "duplicate_member", -32600, "1"},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, "duplicate_member", -32600, "1"},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "duplicate_member", -32600, ""},
		{"duplicate deep inside", call(`{"name":"a","arguments":{"x":[{"y":{"z":1,"z":1}}]}}`), "duplicate_member", -32600, "1"},
		{"duplicate empty names", call(`{"name":"a","":1,"":2}`), "duplicate_member", -32600, "1"},
		{"duplicate among many members", call(many(`"k3"`)), "duplicate_member", -32600, "1"},
		{"duplicate among many members, escaped", call(many(`"\u006b99"`)), "duplicate_member", -32600, "1"},
		{"duplicate before the id", `{"method":"a","method":"b","jsonrpc":"2.0","id":9}`, "duplicate_member", -32600, "9"},

		{"case variant of method", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, "case_variant_member", -32600, "1"},
		{"case variant of method alone", `{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`, "case_variant_member", -32600, "1"},
		{"case variant of params with long s", `{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, "case_variant_member", -32600, "1"},
		{"case variant of jsonrpc", `{"jsonrpc":"2.0","id":1,"method":"ping","JsonRPC":"2.0"}`, "case_variant_member", -32600, "1"},
		{"case variant of name", call(`{"name":"safe","Name":"evil"}`), "case_variant_member", -32600, "1"},
		{"case variant of name, escaped", call(`{"name":"safe","\u004eame":"evil"}`), "case_variant_member", -32600, "1"},
		{"case variant of taskId with kelvin sign", call("{\"name\":\"a\",\"tasKId\":\"t\"}"), "case_variant_member", -32600, "1"},
		{"case variant of arguments with long s", call(`{"name":"a","argumentſ":{}}`), "case_variant_member", -32600, "1"},
		{"case variant of _meta", call(`{"name":"a","_Meta":{}}`), "case_variant_member", -32600, "1"},
		{"case variant of the version", call(`{"name":"a","_meta":{"io.modelcontextprotocol/ProtocolVersion":"x"}}`), "case_variant_member", -32600, "1"},
		{"case variant of resultType", `{"jsonrpc":"2.0","id":1,"result":{"ResultType":"input_required"}}`, "case_variant_member", -32600, "1"},

		{"prototype at the top", `{"jsonrpc":"2.0","id":1,"method":"ping","__proto__":{"params":{}}}`, "prototype_member", -32600, "1"},
		{"prototype in params", call(`{"name":"safe","__proto__":{"name":"evil"}}`), "prototype_member", -32600, "1"},
		{"prototype in params, escaped", call(`{"name":"safe","\u005f_proto__":{"task":{}}}`), "prototype_member", -32600, "1"},
		{"prototype in _meta", call(`{"name":"safe","_meta":{"__proto__":{"progressToken":1}}}`), "prototype_member", -32600, "1"},
		{"prototype in a result", `{"jsonrpc":"2.0","id":1,"result":{"__proto__":{"isError":true}}}`, "prototype_member", -32600, "1"},

		{"no jsonrpc", `{"id":1,"method":"ping"}`, "invalid_jsonrpc", -32600, "1"},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "invalid_jsonrpc", -32600, "1"},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, "invalid_jsonrpc", -32600, "1"},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "invalid_id", -32600, ""},
		{"id float", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "invalid_id", -32600, ""},
		{"id with exponent", `{"jsonrpc":"2.0","id":1e2,"method":"ping"}`, "invalid_id", -32600, ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "invalid_id", -32600, ""},
		{"id array", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, "invalid_id", -32600, ""},
		{"id bool", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, "invalid_id", -32600, ""},
		{"id of 1 MiB", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"ping"}`, "invalid_id", -32600, ""},
		{"id of 65 digits", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 65) + `,"method":"ping"}`, "invalid_id", -32600, ""},
		{"result with null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, "invalid_id", -32600, ""},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, "missing_id", -32600, ""},
		{"method missing", `{"jsonrpc":"2.0","id":1}`, "not_a_message", -32600, "1"},
		{"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, "invalid_method", -32600, "1"},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, "invalid_method", -32600, "1"},
		{"method empty", `{"jsonrpc":"2.0","id":1,"method":""}`, "invalid_method", -32600, "1"},
		{"method with a space", `{"jsonrpc":"2.0","id":1,"method":"tools/call "}`, "invalid_method", -32600, "1"},
		{"method with CR LF", `{"jsonrpc":"2.0","id":1,"method":"a\r\nb"}`, "invalid_method", -32600, "1"},
		{"method not ASCII", `{"jsonrpc":"2.0","id":1,"method":"tоols/call"}`, "invalid_method", -32600, "1"},
		{"method of 257 bytes", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 257) + `"}`, "invalid_method", -32600, "1"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, "ambiguous_message", -32600, "1"},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"ping","error":{}}`, "ambiguous_message", -32600, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, "ambiguous_message", -32600, "1"},
		{"result and params", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, "ambiguous_message", -32600, "1"},
		{"error a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, "invalid_error", -32600, "1"},
		{"the code of an error a string", `{"jsonrpc":"2.0","id":1,"error":{"code":"-32042","message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error a string with a blank", `{"jsonrpc":"2.0","id":1,"error":{"code":" -32042","message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error a string of a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":"-32042.0","message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error an escaped string", `{"jsonrpc":"2.0","id":1,"error":{"code":"\u002d32042","message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error null", `{"jsonrpc":"2.0","id":1,"error":{"code":null,"message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error a list", `{"jsonrpc":"2.0","id":1,"error":{"code":[-32042],"message":"m"}}`, "invalid_error", -32600, "1"},
		{"the code of an error true", `{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"m"}}`, "invalid_error", -32600, "1"},
		{"params an array", call(`["add"]`), "invalid_params", -32602, "1"},
		{"params null", call(`null`), "invalid_params", -32602, "1"},
		{"_meta a string", call(`{"name":"a","_meta":"x"}`), "invalid_meta", -32602, "1"},
		{"version array", call(`{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":["2026-07-28"]}}`), "invalid_protocol_version", -32602, "1"},
		{"version null", call(`{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":null}}`), "invalid_protocol_version", -32602, "1"},
		{"version too long", call(`{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"` + strings.Repeat("v", 65) + `"}}`), "invalid_protocol_version", -32602, "1"},
		{"initialize version a number", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`, "invalid_protocol_version", -32602, "1"},
		{"tool name missing", call(`{}`), "invalid_tool_name", -32602, "1"},
		{"tool name without params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, "invalid_tool_name", -32602, "1"},
		{"tool name empty", call(`{"name":""}`), "invalid_tool_name", -32602, "1"},
		{"tool name an array", call(`{"name":["add"]}`), "invalid_tool_name", -32602, "1"},
		{"tool name an object", call(`{"name":{"name":"add"}}`), "invalid_tool_name", -32602, "1"},
		{"tool name a number", call(`{"name":1}`), "invalid_tool_name", -32602, "1"},
		{"tool name null", call(`{"name":null}`), "invalid_tool_name", -32602, "1"},
		{"NUL in the tool name", call(`{"name":"delete\u0000"}`), "invalid_tool_name", -32602, "1"},
		{"tool name of 1,025 bytes", call(`{"name":"` + strings.Repeat("n", 1025) + `"}`), "invalid_tool_name", -32602, "1"},
		{"prompt name a number", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":1}}`, "invalid_name", -32602, "1"},
		{"uri a number", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":1}}`, "invalid_uri", -32602, "1"},
		{"task id an object", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":{}}}`, "invalid_task_id", -32602, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := Scan([]byte(c.body), &m)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Scan accepted it: %+v", m)
			}
			if e.Reason != c.reason || e.Code != c.code {
				t.Errorf("got %d %s (%v), want %d %s", e.Code, e.Reason, e, c.code, c.reason)
			}
			if string(m.ID) != c.id {
				t.Errorf("id to echo is %q, want %q", m.ID, c.id)
			}
			if m.Kind != Invalid || m.Method != "" || m.Name != "" {
				t.Errorf("a refused message holds %+v", m)
			}
			if e.Offset < 0 || e.Offset > len(c.body) {
				t.Errorf("offset %d is outside the body", e.Offset)
			}
		})
	}
}

// Depth 128 is the maximum: the envelope, params and 126 arrays.
func TestScanDepthLimit(t *testing.T) {
	body := call(`{"name":"a","x":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}`)
	var m Message
	if err := Scan([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
}

// The cost of an object with very many members, or with names that share a
// prefix, is at most a fixed multiple of the cost of a body of the same size
// without names.
func TestScanManyMembersIsNotQuadratic(t *testing.T) {
	object := func(n int) []byte {
		var b bytes.Buffer
		b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"x","params":{`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"k%07d":1`, i)
		}
		b.WriteString("}}")
		return b.Bytes()
	}
	measure := func(n int) time.Duration {
		body := object(n)
		best := time.Hour
		for range 3 {
			var m Message
			start := time.Now()
			if err := Scan(body, &m); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	small, large := measure(10_000), measure(320_000)
	if large > 32*8*small {
		t.Errorf("32 times the members took %v, %v for the smaller", large, small)
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	for _, body := range [][]byte{smallCall(), nestedCall(), longCall(),
		[]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`)} {
		var m Message
		if n := testing.AllocsPerRun(100, func() {
			if err := Scan(body, &m); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%.60s… allocates %v times", body, n)
		}
	}
}

// Numbers are kept byte for byte, of any size.
func TestScanKeepsNumbers(t *testing.T) {
	args := `{"a":1e999999,"b":-0,"c":12345678901234567890.10,"d":1E-5}`
	var m Message
	if err := Scan([]byte(call(`{"name":"a","arguments":`+args+`}`)), &m); err != nil {
		t.Fatal(err)
	}
	if got := string(m.Spans.Arguments.Of(m.Body)); got != args {
		t.Errorf("arguments are %s", got)
	}
}

func TestDetachCutsLoose(t *testing.T) {
	body := []byte(`{"jsonrpc":"2.0","id":"abc","method":"custom/method","params":{"name":"tool"}}`)
	var m Message
	if err := Scan(body, &m); err != nil {
		t.Fatal(err)
	}
	m.Detach()
	clear(body)
	if string(m.ID) != `"abc"` || m.Method != "custom/method" || m.Name != "tool" {
		t.Errorf("after the body was overwritten: %q %q %q", m.ID, m.Method, m.Name)
	}
}

func TestPeekID(t *testing.T) {
	for _, c := range []struct{ name, prefix, want string }{
		{"id first", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"na`, "7"},
		{"id last", `{"method":"ping","jsonrpc":"2.0","id":"x"}`, `"x"`},
		{"not reached", `{"method":"tools/call","params":{"a":"`, ""},
		{"cut in the id", `{"id":12`, ""},
		{"duplicate", `{"id":1,"id":2}`, ""},
		{"object", `{"id":{}}`, ""},
		{"nested id does not count", `{"params":{"id":5}}`, ""},
		{"garbage", "\x00\x01", ""},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(PeekID([]byte(c.prefix))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Strings are read word by word, and long strings in larger steps: every
// character that ends a run of plain characters is found at every offset and
// with every neighbor.
func TestScanFindsTheEndOfAStringAtEveryOffset(t *testing.T) {
	message := func(text string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"text":"` + text + `"}}`)
	}
	for n := range 140 {
		for _, fill := range []string{"a", "!", "#", "[", "]", " ", "~"} {
			plain := strings.Repeat(fill, n)
			var m Message
			if err := Scan(message(plain), &m); err != nil {
				t.Fatalf("%d of %q: %v", n, fill, err)
			}
			for c := range 0x20 {
				if err := Scan(message(plain+string(rune(c))+"tail of the text"), &m); err == nil {
					t.Fatalf("%d of %q: control character %#x passes", n, fill, c)
				}
			}
			if err := Scan(message(plain+"\\q"+plain), &m); err == nil {
				t.Fatalf("%d of %q: a bad escape passes", n, fill)
			}
			if err := Scan(message(plain+`" `+plain), &m); err == nil {
				t.Fatalf("%d of %q: text behind the quote passes", n, fill)
			}
			if err := Scan(message(plain+"\xff"+plain), &m); err == nil {
				t.Fatalf("%d of %q: a byte that is not UTF-8 passes", n, fill)
			}
			if err := Scan(message(plain+"é\u007f"+plain), &m); err != nil {
				t.Fatalf("%d of %q: %v", n, fill, err)
			}
		}
	}
}
