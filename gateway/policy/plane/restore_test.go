package plane

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
	"svc/store/api"
)

// tokenBundle has a policy for an agent's responses that replaces mail addresses by tokens.
func tokenBundle(t *testing.T, more ...api.GovernancePolicy) *Bundle {
	t.Helper()
	policies := append([]api.GovernancePolicy{{Phase: "response", Condition: pii("EMAIL"), Action: "redact", RedactionStrategy: "token"}}, more...)
	b, err := Compile(bundle(policies...), plainDetectors{}, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func scanned(t *testing.T, body string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(body), m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

// answered returns the redacted form of an answer.
func answered(t *testing.T, b *Bundle, upstream, result string) (string, Verdict) {
	t.Helper()
	in := Input{Message: scanned(t, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`), Now: time.Now}
	in.Tokens.TokenContext = detect.TokenContext{Agent: "planner", Upstream: upstream}
	v := b.For("planner").Judge(Response, &in)
	if v.Err != nil {
		t.Fatalf("%s: %v", result, v.Err)
	}
	body := string(in.Message.Body)
	if v.Changed {
		body = string(v.Redacted.Body)
	}
	return strings.TrimSuffix(strings.TrimPrefix(body, `{"jsonrpc":"2.0","id":1,"result":`), "}"), v
}

// TestTokensReplaceTextsAndNoAddresses: members by which the protocol addresses keep their values,
// and values that no token can hold become hashes.
func TestTokensReplaceTextsAndNoAddresses(t *testing.T) {
	b := tokenBundle(t)
	address := `"bob@example.com"`
	for _, result := range []string{
		`{"content":[{"type":"resource_link","uri":` + address + `,"name":` + address + `}]}`,
		`{"contents":[{"uri":` + address + `,"text":"-"}]}`,
		`{"resourceTemplates":[{"uriTemplate":` + address + `,"name":` + address + `}],"nextCursor":` + address + `}`,
		`{"content":[],"_meta":{"a":{"b":` + address + `}}}`,
		`{"resultType":"input_required","requestState":` + address + `}`,
		`{"taskId":` + address + `}`,
	} {
		if got, v := answered(t, b, "files", result); got != result || v.Tokens != nil {
			t.Errorf("%s became %s", result, got)
		}
	}
	got, v := answered(t, b, "files", `{"content":[{"type":"text","text":"to bob@example.com, bob@example.com"}],"structuredContent":{"name":`+address+`,"uri":[`+address+`]}}`)
	if strings.Contains(got, "bob@") || strings.Count(got, "[EMAIL~") != 4 || fmt.Sprint(v.Tokens) != "[{EMAIL 4}]" {
		t.Errorf("texts: %s, %v", got, v.Tokens)
	}
	if got, v := answered(t, b, "", `{"content":[{"type":"text","text":"bob@example.com"}]}`); !strings.Contains(got, "hash") || strings.Contains(got, "~") || v.Tokens != nil {
		t.Errorf("an answer of the gateway itself: %s", got)
	}
	long := strings.Repeat("b", 250) + "@example.com"
	if got, v := answered(t, b, "files", `{"content":[{"type":"text","text":"`+long+`"}]}`); strings.Contains(got, "bbb") || strings.Contains(got, "~") || v.Tokens != nil {
		t.Errorf("a long value: %s", got)
	}
}

// TestFreeContentHasNoAddresses: personal data in a member of free content becomes a token, also
// where the member has a name by which the protocol addresses elsewhere (name, id, uri, cursor,
// _meta). Where the method of the request is known, only the places of its result address.
func TestFreeContentHasNoAddresses(t *testing.T) {
	b := tokenBundle(t)
	named := `{"name":"ADDRESS","id":"ADDRESS","uri":"ADDRESS","cursor":"ADDRESS","nextCursor":"ADDRESS","taskId":"ADDRESS","requestState":"ADDRESS","_meta":{"x":"ADDRESS"},"input":{"name":"ADDRESS"}}`
	for _, row := range []struct {
		asked, body string
		want        int // tokens
	}{
		{mcp.MethodToolsCall, `"id":1,"result":{"content":[{"type":"text","text":"-","data":NAMED}]}`, 9},
		{mcp.MethodToolsCall, `"id":1,"result":{"content":[{"type":"text","text":"{\"name\":\"ADDRESS\"}"}],"rows":[NAMED]}`, 10},
		{mcp.MethodToolsCall, `"id":1,"result":{"content":[{"type":"text","text":"-","annotations":NAMED}],"structuredContent":NAMED}`, 18},
		{mcp.MethodToolsCall, `"id":1,"result":{"content":[],"name":"ADDRESS","id":"ADDRESS","tools":[{"name":"ADDRESS"}]}`, 3},
		{mcp.MethodToolsList, `"id":1,"result":{"tools":[{"name":"ADDRESS","annotations":NAMED}]}`, 9},
		{mcp.MethodResourcesRead, `"id":1,"result":{"contents":[{"uri":"ADDRESS","text":"-","x":NAMED}]}`, 9},
		{"", `"id":1,"result":{"messages":[{"role":"user","content":{"type":"text","text":"-","x":NAMED}}]}`, 9},
		{"", `"id":1,"error":{"code":1,"message":"-","data":NAMED}`, 9},
		{"", `"method":"notifications/message","params":{"level":"info","data":NAMED}`, 9},
		{"", `"method":"sampling/createMessage","id":1,"params":{"messages":[],"metadata":NAMED}`, 9},
	} {
		body := strings.ReplaceAll(`{"jsonrpc":"2.0",`+row.body+`}`, "NAMED", named)
		in := Input{Message: scanned(t, strings.ReplaceAll(body, "ADDRESS", "bob@example.com")), Asked: row.asked, Now: time.Now}
		in.Tokens.TokenContext = detect.TokenContext{Agent: "planner", Upstream: "files"}
		v := b.For("planner").Judge(Response, &in)
		if got := strings.Count(string(v.Redacted.Body), "[EMAIL~"); v.Err != nil || got != row.want || fmt.Sprint(v.Tokens) != fmt.Sprintf("[{EMAIL %d}]", row.want) {
			t.Errorf("%s %s has %d tokens, want %d: %v %v", row.asked, v.Redacted.Body, got, row.want, v.Tokens, v.Err)
		}
	}
}

// TestTraceContextIsTheProtocolsInOnePlace: what _meta has under a name of the protocol further
// inside is free content, which every strategy redacts, in requests and in responses.
func TestTraceContextIsTheProtocolsInOnePlace(t *testing.T) {
	for _, phase := range []string{"request", "response"} {
		b, err := Compile(bundle(api.GovernancePolicy{Phase: phase, Condition: pii("EMAIL"), Action: "redact", RedactionStrategy: "mask"}), plainDetectors{})
		if err != nil {
			t.Fatal(err)
		}
		for meta, masked := range map[string]bool{
			`{"tracestate":"a=bob@example.com"}`:                         false,
			`{"tracestate":"bob@example.com"}`:                           true,
			`{"tracestate":["a=bob@example.com"]}`:                       true,
			`{"x":{"tracestate":"a=bob@example.com"}}`:                   true,
			`{"x":[{"tracestate":"a=bob@example.com"}]}`:                 true,
			`{"x":{"` + mcp.MetaSubscriptionID + `":"bob@example.com"}}`: true,
		} {
			body, side := `"method":"tools/call","params":{"name":"t","arguments":{},"_meta":`+meta+`}`, Request
			if phase == "response" {
				body, side = `"result":{"content":[],"_meta":`+meta+`}`, Response
			}
			v := b.For("planner").Judge(side, &Input{Message: scanned(t, `{"jsonrpc":"2.0","id":1,`+body+`}`), Now: time.Now})
			if v.Err != nil || v.Changed != masked || masked && strings.Contains(string(v.Redacted.Body), "bob@") {
				t.Errorf("%s %s: changed %v, want %v: %s %v", phase, meta, v.Changed, masked, v.Redacted.Body, v.Err)
			}
		}
	}
}

// TestTokensAreInNoIdentifier: the identifiers of questions and tool calls and the addresses of
// questions keep their values, in requests of upstreams and in errors too; members that only share
// a name with them do not.
func TestTokensAreInNoIdentifier(t *testing.T) {
	b := tokenBundle(t)
	for _, row := range []struct {
		body string
		want int // tokens
	}{
		{`"method":"elicitation/create","params":{"mode":"url","elicitationId":"ADDRESS","url":"https://visit.example/?as=ADDRESS","message":"-"}`, 0},
		{`"method":"elicitation/create","params":{"message":"ADDRESS","requestedSchema":{"type":"object","properties":{"name":{"type":"string","default":"ADDRESS"}}}}`, 2},
		{`"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"ADDRESS","content":[]}}]}`, 0},
		{`"method":"sampling/createMessage","params":{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"ADDRESS","name":"ADDRESS","input":{"id":"ADDRESS"}}}]}`, 1},
		{`"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"url","elicitationId":"ADDRESS","url":"https://visit.example/?as=ADDRESS","message":"ADDRESS"}}}}`, 1},
		{`"error":{"code":-32042,"message":"ADDRESS","data":{"elicitations":[{"mode":"url","elicitationId":"ADDRESS","url":"https://visit.example/?as=ADDRESS","message":"ADDRESS"}]}}`, 2},
		{`"error":{"code":1,"message":"-","data":{"name":"ADDRESS"}}`, 1},
		{`"error":{"code":-32002,"message":"-","data":{"uri":"ADDRESS"}}`, 0},
		{`"error":{"code":1,"message":"-","data":"ADDRESS"}`, 1},
	} {
		in := Input{Message: scanned(t, `{"jsonrpc":"2.0","id":1,`+strings.ReplaceAll(row.body, "ADDRESS", "bob@example.com")+`}`), Now: time.Now}
		in.Tokens.TokenContext = detect.TokenContext{Agent: "planner", Upstream: "files"}
		v := b.For("planner").Judge(Response, &in)
		body, counts := in.Message.Body, ""
		if v.Changed {
			body = v.Redacted.Body
		}
		if row.want > 0 {
			counts = fmt.Sprintf("{EMAIL %d}", row.want)
		}
		if got := strings.Count(string(body), "[EMAIL~"); v.Err != nil || got != row.want || fmt.Sprint(v.Tokens) != "["+counts+"]" {
			t.Errorf("%s has %d tokens, want %d: %v %v", body, got, row.want, v.Tokens, v.Err)
		}
	}
}

// TestBlockDecidesWhereTokensCannotBe: a finding in an address is left by redact, and denied where
// a policy blocks.
func TestBlockDecidesWhereTokensCannotBe(t *testing.T) {
	b := tokenBundle(t, api.GovernancePolicy{Phase: "response", Condition: pii("EMAIL"), Action: "block"})
	in := Input{Message: scanned(t, `{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"bob@example.com","text":""}]}}`), Now: time.Now}
	if v := b.For("planner").Judge(Response, &in); v.Block == nil {
		t.Error("the answer was not blocked")
	}
}

// TestTokensAreForResponses: a bundle that would send tokens to a tool is rejected.
func TestTokensAreForResponses(t *testing.T) {
	_, err := Compile(bundle(api.GovernancePolicy{Phase: "request", Condition: pii(), Action: "redact", RedactionStrategy: "token"}), plainDetectors{})
	if err == nil || !strings.Contains(err.Error(), "the redaction strategy token is for the phase response alone") {
		t.Errorf("error %v", err)
	}
}

// TestRestoreEverywhereAnAgentSends: values are put back in every part of a request in which an agent writes,
// and nothing else changes.
func TestRestoreEverywhereAnAgentSends(t *testing.T) {
	b := tokenBundle(t)
	text, _ := answered(t, b, "files", `{"content":[{"type":"text","text":"bob@example.com"}]}`)
	token := text[strings.Index(text, "[EMAIL~"):strings.Index(text, `"}]`)]
	for _, row := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":["x TOKEN y",  {"b":"TOKENTOKEN"}],"n":1.0}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p","arguments":{"a":"TOKEN"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"TOKEN"},"context":{"arguments":{"b":"TOKEN"}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"inputResponses":{"q":{"action":"accept","content":{"m":"TOKEN"}}},"requestState":"opaque [EMAIL~ TOK"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t1","inputResponses":{"q":{"action":"accept","content":{"m":"TOKEN"}}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"m":"TOKEN"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"role":"assistant","content":{"type":"text","text":"TOKEN"},"model":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"TOKEN"}}`,
	} {
		m := scanned(t, strings.ReplaceAll(row, "TOKEN", token))
		if !MayRestore(m) {
			t.Errorf("%s is not looked into", row)
		}
		done := b.Restoring("planner", "files", []string{"files", "mail"}, nil).Message(m)
		if want := strings.ReplaceAll(row, "TOKEN", "bob@example.com"); string(m.Body) != want || done.Fault != "" || done.Err != nil {
			t.Errorf("%+v\n got %s\nwant %s", done, m.Body, want)
		}
	}
	// The texts with values are known by their number, also after another text has changed.
	put := b.Restoring("planner", "files", nil, nil)
	put.Message(scanned(t, strings.ReplaceAll(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":["bob@example.com",1,"x TOKEN"],"b":"TOKENTOKEN"}}}`, "TOKEN", token)))
	m := scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":["[EMAIL]",1,"x bob@example.com"],"b":"bob@example.combob@example.com"}}}`)
	got := map[string]string{}
	for at, values := range put.values(m) {
		got[string(at.Of(m.Body))] = fmt.Sprint(values)
	}
	if want := map[string]string{`"x bob@example.com"`: "[{EMAIL bob@example.com}]", `"bob@example.combob@example.com"`: "[{EMAIL bob@example.com} {EMAIL bob@example.com}]"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	m = scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a/b":[0,{"~":"[EMAIL~x]"}]}}}`)
	if done := b.Restoring("planner", "files", nil, nil).Message(m); done.Pointer != "/params/arguments/a~1b/1/~0" || done.Fault != detect.TokenInvalid {
		t.Errorf("%+v", done)
	}
	for body, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"\n"}}}`:             false,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"[EMAIL\u007Ex]"}}}`: true,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"~"}}`:              false,
	} {
		if got := MayRestore(scanned(t, body)); got != want {
			t.Errorf("%s: may have tokens: %v", body, got)
		}
	}
}

// TestTokensOfAMessageCostLittle: a request of many tokens that do not open ends at the first, and
// one of tokens of many upstreams takes a bounded number of attempts, whether or not a policy makes
// tokens.
func TestTokensOfAMessageCostLittle(t *testing.T) {
	var names []string
	for i := range 256 {
		names = append(names, fmt.Sprintf("files%d", i))
	}
	call := func(text string) *mcp.Message {
		return scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"`+text+`","b":"`+text+`"}}}`)
	}
	b := tokenBundle(t)
	home := detect.TokenContext{Agent: "planner", Upstream: "files255"}
	token := string(b.tokens.Append(nil, home, detect.Email, []byte("bob@example.com")))
	changed := token[:20] + strings.Map(func(c rune) rune { return map[bool]rune{true: 'B', false: 'A'}[c == 'A'] }, token[20:21]) + token[21:]
	r := b.Restoring("planner", "files0", names, nil)
	if done := r.Message(call(strings.Repeat(changed, 1000))); done.Fault != detect.TokenInvalid || fmt.Sprint(done.Refused) != "[{EMAIL 1}]" || maxOpenings-r.restoring.Left != len(names) {
		t.Errorf("%+v after %d attempts", done, maxOpenings-r.restoring.Left)
	}
	b.makesTokens = false
	r = b.Restoring("planner", "files0", names, nil)
	if done := r.Message(call(strings.Repeat(changed, 1000))); done.Fault != detect.TokenInvalid || r.restoring.Left != -1 {
		t.Errorf("%+v with %d attempts left", done, r.restoring.Left)
	}
	r = b.Restoring("planner", "files255", names, nil)
	if done := r.Message(call(strings.Repeat(token, 5000))); done.Fault != "" || fmt.Sprint(done.Values) != "[{EMAIL 10000}]" {
		t.Errorf("%+v", done)
	}
}

// TestNoTokenPassesWithoutAKey: before the first bundle the gateway has no key for tokens, so that
// with fail_open a request with a token is refused instead of sent as it is. Texts that cannot be
// tokens pass.
func TestNoTokenPassesWithoutAKey(t *testing.T) {
	token := string(tokenBundle(t).tokens.Append(nil, detect.TokenContext{Agent: "planner", Upstream: "files"}, detect.Email, []byte("bob@example.com")))
	for text, want := range map[string]detect.TokenFault{
		"to " + token: detect.TokenInvalid, "[EMAIL~" + token: detect.TokenInvalid,
		token[:len(token)-1]: "", "[EMAIL~AAAA]": "", "~": "", strings.Replace(token, "EMAIL", "NAME", 1): "",
	} {
		for _, arguments := range []string{`{"a":"` + text + `"}`, `{"` + text + `":1}`} {
			m := scanned(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":`+arguments+`}}`)
			var none *Bundle
			if done := none.Restoring("planner", "files", []string{"files"}, nil).Message(m); done.Fault != want || (done.Pointer == "") != (want == "") || len(done.Values) > 0 {
				t.Errorf("%s: %+v, want %q", arguments, done, want)
			}
		}
	}
}
