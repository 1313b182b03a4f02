package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// answerWith is a response with a result of the given members.
func answerWith(members string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{` + members + `}}`
}

func TestLoneSurrogatesInTextAreReplaced(t *testing.T) {
	for _, c := range []struct {
		name, body string
		n          int
	}{
		{"an argument", call(`{"name":"a","arguments":{"x":"\ud83d"}}`), 1},
		{"deep in arguments", call(`{"name":"a","arguments":{"uri":[[{"name":"b\uDFFF"}]]}}`), 1},
		{"a text block", answerWith(`"content":[{"type":"text","text":"cut \ud83d"}]`), 1},
		{"several, beside a pair", answerWith(`"content":[{"type":"text","text":"\ud83d\ud83d\ude00\ude00\ud83d"}]`), 3},
		{"before an ordinary escape", answerWith(`"content":[{"text":"\ud83d\u0041\ud83d\n\ud83dx"}]`), 3},
		{"anywhere in a block", answerWith(`"content":[{"type":"resource_link","uri":"file:///\ud83d","name":"\ud83d"}]`), 2},
		{"structured content", answerWith(`"structuredContent":{"a":{"b":["\udc00"]}}`), 1},
		{"a resource", answerWith(`"contents":[{"uri":"u","text":"\ud83d"}]`), 1},
		{"messages of a prompt", answerWith(`"messages":[{"role":"user","content":{"type":"text","text":"\ud83d"}}]`), 1},
		{"a description in a list", answerWith(`"tools":[{"name":"a","title":"\ud83d","description":"\ud83d","annotations":{"title":"\ud83d"},"inputSchema":{"properties":{"x":{"description":"\ud83d"}}}}]`), 4},
		{"the description of a prompt's argument", answerWith(`"prompts":[{"name":"p","arguments":[{"name":"a","description":"\ud83d"}]}]`), 1},
		{"messages of a sampling request", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[{"content":{"text":"\ud83d"}}]}}`, 1},
		{"an answer to an elicitation", answerWith(`"action":"accept","content":{"a":"\ud83d"}`), 1},
		{"input responses", call(`{"name":"a","inputResponses":{"k":{"action":"accept","content":{"a":"\ud83d"}}}}`), 1},
		{"what a task ended with", answerWith(`"resultType":"complete","result":{"content":[{"text":"\ud83d"}]}`), 1},
		{"the message of an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\ud83d"}}`, 1},
		{"the data of an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"uri":["\ud83d"]}}}`, 1},
		{"foreign _meta", call(`{"name":"a","_meta":{"com.example/x":{"y":"\ud83d"},"z":"\ud83d"}}`), 2},
		{"foreign _meta of a tool", answerWith(`"tools":[{"name":"a","_meta":{"vendor":"\ud83d"}}]`), 1},
		{"the title of a client", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"c","title":"\ud83d"}}}`, 1},
		{"an escaped member name", call(`{"name":"a","argument\u0073":{"x":"\ud83d"}}`), 1},
		{"an escaped backslash before it", call(`{"name":"a","arguments":{"x":"\\ud83d\ud83d\\"}}`), 1},
		{"white space everywhere", " { \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"tools/call\" ,\r\n\t\"params\" : { \"name\" : \"a\" , \"arguments\" : { \"x\" : [ 1 , null , \"\\ud83d\" ] } } } ", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			var m Message
			n, err := ScanReplacing(body, &m)
			if err != nil || n != c.n {
				t.Fatalf("replaced %d, %v; want %d", n, err, c.n)
			}
			if got := bytes.Count(body, []byte(`\ufffd`)); got != c.n || len(body) != len(c.body) {
				t.Errorf("became %s", body)
			}
			checkReplaced(t, []byte(c.body), body)
			if &m.Body[0] != &body[0] {
				t.Error("the message is not of the bytes that were replaced in")
			}
		})
	}
}

// A lone surrogate in an identifier is refused as by Scan.
func TestLoneSurrogatesInNamesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"a member name", call(`{"name":"a","arguments":{"\ud83d":1}}`)},
		{"a member name in content", answerWith(`"content":[{"\ud83d":"x"}]`)},
		{"a tool name", call(`{"name":"\ud83d"}`)},
		{"a method", `{"jsonrpc":"2.0","id":1,"method":"\ud83d"}`},
		{"an id", `{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}`},
		{"the revision of JSON-RPC", `{"jsonrpc":"\ud83d","id":1,"method":"ping"}`},
		{"a uri", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"\ud83d"}}`},
		{"a task id", answerWith(`"taskId":"\ud83d"`)},
		{"a cursor", answerWith(`"tools":[],"nextCursor":"\ud83d"`)},
		{"a cursor in a request", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"\ud83d"}}`},
		{"requestState", call(`{"name":"a","requestState":"\ud83d"}`)},
		{"requestState of a result", answerWith(`"requestState":"\ud83d"`)},
		{"a result type", answerWith(`"resultType":"\ud83d"`)},
		{"a progress token", call(`{"name":"a","_meta":{"progressToken":"\ud83d"}}`)},
		{"a progress token of progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"\ud83d"}}`},
		{"a version", call(`{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"\ud83d"}}`)},
		{"a version of initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"\ud83d"}}`},
		{"a subscription", call(`{"name":"a","_meta":{"io.modelcontextprotocol/subscriptionId":"\ud83d"}}`)},
		{"reserved _meta", call(`{"name":"a","_meta":{"dev.mcp.tools/x":"\ud83d"}}`)},
		{"trace context", call(`{"name":"a","_meta":{"traceparent":"\ud83d"}}`)},
		{"the name of a tool in a list", answerWith(`"tools":[{"name":"\ud83d","description":"x"}]`)},
		{"the name of a prompt's argument", answerWith(`"prompts":[{"name":"p","arguments":[{"name":"\ud83d"}]}]`)},
		{"the code of an error", `{"jsonrpc":"2.0","id":1,"error":{"code":"\ud83d","message":"m"}}`},
		{"a member beside params", `{"jsonrpc":"2.0","id":1,"method":"ping","text":"\ud83d"}`},
		{"a case variant of a text member", answerWith(`"Content":[{"text2":"\ud83d"}]`)},
		{"text, and later a name", answerWith(`"content":[{"text":"\ud83d"}],"taskId":"\ud83d"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			n, err := ScanReplacing([]byte(c.body), &m)
			var e *Error
			if n != 0 && err == nil || !errors.As(err, &e) || (e.Reason != "lone_surrogate" && c.name != "a case variant of a text member") {
				t.Errorf("replaced %d, %v", n, err)
			}
			if m.Kind != Invalid {
				t.Errorf("filled %+v", m)
			}
		})
	}
}

// Other faults of a message with lone surrogates are refused too.
func TestReplacedMessagesAreScannedAsStrictly(t *testing.T) {
	for _, c := range []struct{ name, body, reason string }{
		{"a duplicate", call(`{"name":"a","arguments":{"x":"\ud83d","y":1,"y":2}}`), "duplicate_member"},
		{"bad UTF-8", call("{\"name\":\"a\",\"arguments\":{\"x\":\"\\ud83d\",\"y\":\"\xff\"}}"), "invalid_utf8"},
		{"a surrogate in UTF-8", call("{\"name\":\"a\",\"arguments\":{\"x\":\"\\ud83d\xed\xa0\x80\"}}"), "invalid_utf8"},
		{"a control character", call("{\"name\":\"a\",\"arguments\":{\"x\":\"\\ud83d\n\"}}"), "control_character"},
		{"an unknown escape", call(`{"name":"a","arguments":{"x":"\ud83d\x"}}`), "invalid_escape"},
		{"trailing data", call(`{"name":"a","arguments":{"x":"\ud83d"}}`) + "x", "trailing_data"},
		{"a bad number", call(`{"name":"a","arguments":{"x":"\ud83d","y":01}}`), "invalid_number"},
		{"no method", `{"jsonrpc":"2.0","id":1,"params":{"arguments":{"x":"\ud83d"}}}`, "not_a_message"},
		{"cut short", strings.TrimSuffix(call(`{"name":"a","arguments":{"x":"\ud83d`), "}"), "lone_surrogate"},
		{"cut in the escape", `{"params":{"text":"\ud8`, "invalid_escape"},
		{"depth", call(`{"name":"a","arguments":{"x":"\ud83d","y":` + strings.Repeat("[", 200_000)), "lone_surrogate"},
	} {
		var m Message
		_, err := ScanReplacing([]byte(c.body), &m)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason {
			t.Errorf("%s: %v, want %s", c.name, err, c.reason)
		}
	}
}

func TestScanReplacingLeavesOtherMessagesAlone(t *testing.T) {
	for _, body := range []string{call(`{"name":"a","arguments":{"x":"\ud83d\ude00 \ufffd \\ud83d"}}`), call(`{"name":"a"}`)} {
		in := []byte(body)
		var m, want Message
		if n, err := ScanReplacing(in, &m); n != 0 || err != nil || string(in) != body {
			t.Errorf("%s became %s: %d, %v", body, in, n, err)
		}
		if err := Scan([]byte(body), &want); err != nil || want.Kind != m.Kind || want.Spans != m.Spans {
			t.Errorf("%s is read as %+v", body, m)
		}
	}
	small := smallCall()
	if n := testing.AllocsPerRun(100, func() { _, _ = ScanReplacing(small, new(Message)) }); n > 1 {
		t.Errorf("%v allocations for a message without surrogates", n)
	}
}

// checkReplaced checks that after is before with some surrogates replaced by U+FFFD,
// and nothing else.
func checkReplaced(t *testing.T, before, after []byte) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("%q became %q", before, after)
	}
	for i := 0; i < len(before); i++ {
		if before[i] == after[i] {
			continue
		}
		// A surrogate starts with d and its replacement with f, so the first digit always differs.
		r, ok := hex4(before, i)
		if i < 2 || string(before[i-2:i]) != `\u` || !ok || r < 0xD800 || r > 0xDFFF || string(after[i:i+4]) != "fffd" {
			t.Fatalf("byte %d: %q became %q", i, before, after)
		}
		i += 3
	}
	// encoding/json decodes lone surrogates as U+FFFD: both bodies must have the same
	// value.
	var want, got any
	if err := json.Unmarshal(before, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(got)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Fatalf("%q became %q", before, after)
	}
}

// FuzzScanReplacing checks the properties of all bodies: an accepted body is strict
// JSON without lone surrogates, equal to the input except for the replacements, and is
// read without replacements the second time; on input without lone surrogates the
// result is the same as that of Scan.
//
// Ten minutes: go test ./gateway/mcp -run '^$' -fuzz '^FuzzScanReplacing$' -fuzztime
// 10m -fuzzminimizetime 1x -parallel 1
func FuzzScanReplacing(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add([]byte(c.body))
	}
	for _, s := range []string{
		call(`{"name":"a","arguments":{"x":"\ud83d","y":["\ud83d\ude00\udfff"]}}`), call(`{"name":"\ud83d","arguments":{"x":"\ud83d"}}`),
		answerWith(`"content":[{"type":"text","text":"\ud83d"}],"_meta":{"a":"\ud83d","progressToken":"t"}`),
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\ud83d","data":{"a\u0062":"\udc00"}}}`, `{"params":{"text":"\ud8`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		var strict, m, again Message
		strictErr := Scan(before, &strict)
		n, err := ScanReplacing(body, &m)
		if strictErr == nil && (err != nil || n != 0) || n == 0 && err == nil && strictErr != nil {
			t.Fatalf("Scan: %v; ScanReplacing: %d, %v", strictErr, n, err)
		}
		if strictErr != nil && !isLoneSurrogate(strictErr) && (n != 0 || !bytes.Equal(before, body) || err.Error() != strictErr.Error()) {
			t.Fatalf("Scan: %v; ScanReplacing: %d, %v", strictErr, n, err)
		}
		if err != nil {
			return
		}
		if !jsontext.Value(bytes.Clone(body)).IsValid() {
			t.Fatalf("accepted, and is not strict JSON: %q", body)
		}
		if n == 0 {
			if !bytes.Equal(before, body) {
				t.Fatalf("%q became %q", before, body)
			}
			return
		}
		checkReplaced(t, before, body)
		once := bytes.Clone(body)
		if more, err := ScanReplacing(body, &again); more != 0 || err != nil || !bytes.Equal(once, body) || again.Spans != m.Spans {
			t.Fatalf("%q: read again %d were replaced, %v", once, more, err)
		}
		checkSpans(t, &m)
		agree(t, &m)
	})
}
