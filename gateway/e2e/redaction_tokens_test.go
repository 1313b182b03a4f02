package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// filesServer is a tool server with one file: read_file returns it, write_file replaces it. Its
// tools/list declares an output schema for lookup.
func filesServer(t *testing.T, content string) *upstreamServer {
	return newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		result := map[string]any{}
		switch {
		case m.Method == "tools/list":
			result["tools"] = []any{map[string]any{"name": "lookup", "inputSchema": map[string]any{"type": "object"}, "outputSchema": map[string]any{
				"type": "object", "properties": map[string]any{
					"plain": map[string]any{"type": "string"}, "mail": map[string]any{"type": "string", "format": "email"},
					"short": map[string]any{"type": "string", "maxLength": 24}, "phone": map[string]any{"type": "string", "pattern": `^\+[0-9 ]+$`},
					"number": map[string]any{"type": "integer"}, "team": map[string]any{"enum": []string{"sales@fjord.example", "help@fjord.example"}}}}}}
		case m.Params.Name == "lookup":
			result["content"] = []any{}
			result["structuredContent"] = map[string]any{"plain": "nora@fjord.example", "mail": "nora@fjord.example", "short": "nora@fjord.example",
				"phone": "+47 22 85 50 50", "number": 4556737586899855, "team": "help@fjord.example"}
		default:
			if m.Params.Name == "write_file" {
				content = m.Params.Arguments.Content
			}
			result["content"] = []any{map[string]any{"type": "text", "text": content},
				map[string]any{"type": "resource_link", "uri": "mailto:nora@fjord.example", "name": "nora@fjord.example"}}
		}
		answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		if strings.Contains(r.Header.Get("X-As"), "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			answer = []byte("event: message\ndata: " + string(answer) + "\n\n")
		}
		_, _ = w.Write(answer)
	})
}

// tokensConfig has two upstreams, files and mail; tools that begin with mail_ go to mail.
func tokensConfig(files, mail, more string) string {
	config := strings.Replace(open(files), "upstreams:", "upstreams:\n  - {name: mail, url: "+mail+"}", 1)
	config = strings.Replace(config, "routes:", "routes:\n  - {match: {tool_prefix: mail_}, upstream: mail}", 1)
	return config + "forward_headers: [X-As]\n" + strings.Replace(governance, "refresh_interval: 1s", "refresh_interval: 1s"+more, 1)
}

func toolCallOf(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

var tokenShape = regexp.MustCompile(`\[[A-Z_]+~[A-Za-z0-9_-]+\]`)

// An agent that reads a file with personal data and writes it back gets tokens, and the file keeps
// its values: masking in requests reached the tool as asterisks and destroyed them.
func TestTokensSurviveReadingAndWriting(t *testing.T) {
	const content = "name,mail,phone\nNora,nora@fjord.example,+47 22 85 50 50\nNora again,nora@fjord.example,\n"
	files, mail := filesServer(t, content), newUpstream(t, echo)
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL", "PHONE"))
	r := governedRig(t, tokensConfig(files.URL, mail.URL, ""), g)

	for _, as := range []string{"json", "stream"} {
		a := r.post(toolCallOf("read_file", `{}`), "X-As", as)
		tokens := tokenShape.FindAllString(a.body, -1)
		if a.status != 200 || len(tokens) != 3 || tokens[0] != tokens[2] || tokens[0] == tokens[1] {
			t.Fatalf("%s: read: %d %s", as, a.status, a.body)
		}
		if text, _, _ := strings.Cut(a.body, `"type":"text"`); strings.Contains(text, "fjord") || strings.Contains(text, "85 50") {
			t.Errorf("%s: the text has a value: %s", as, a.body)
		}
		if !strings.Contains(a.body, `"mailto:nora@fjord.example"`) {
			t.Errorf("%s: the address is no address: %s", as, a.body)
		}
		kept := fmt.Sprintf("name,mail,phone\nNora,%s,%s\nNora again,%s,\nadded\n", tokens[0], tokens[1], tokens[2])
		quoted, _ := json.Marshal(map[string]string{"content": kept})
		r.post(toolCallOf("write_file", string(quoted)), "Mcp-Param-Content", "x", "X-As", as)
		seen := files.seen()
		if last := seen[len(seen)-1].body; !strings.Contains(last, `Nora,nora@fjord.example,+47 22 85 50 50\nNora again,nora@fjord.example,\nadded`) {
			t.Errorf("%s: the tool received %s", as, last)
		}
		if as == "stream" {
			break // whose frames have lines of their own
		}
		lines := r.lines(2)
		if l := lines[0]; fmt.Sprint(l["tokens"]) != "map[EMAIL:2 PHONE:1]" || l["restored"] != nil {
			t.Errorf("line of the reading: %v", l)
		}
		if l := lines[1]; fmt.Sprint(l["restored"]) != "map[EMAIL:2 PHONE:1]" || l["action"] != "redact" && l["action"] != "allow" {
			t.Errorf("line of the writing: %v", l)
		}
	}
}

// A token goes back to the upstream whose answer it was in, for the agent that received it,
// unchanged, and in an argument; anywhere else it is refused, and nothing is sent.
func TestTokensThatAreNotPutBack(t *testing.T) {
	t.Parallel()
	files, mail := filesServer(t, "nora@fjord.example"), newUpstream(t, echo)
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL"))
	for _, row := range []struct {
		name, body, reason, pointer string
	}{
		{"at another upstream", toolCallOf("mail_send", `{"to":["TOKEN"]}`), "token_elsewhere", "/params/arguments/to/0"},
		{"changed", toolCallOf("write_file", `{"content":"CHANGED"}`), "token_invalid", "/params/arguments/content"},
		{"cut off", toolCallOf("write_file", `{"content":"[EMAIL~AAAA"}`), "token_invalid", "/params/arguments/content"},
		{"with another entity", toolCallOf("write_file", `{"content":"OTHER"}`), "token_invalid", "/params/arguments/content"},
		{"with escapes", toolCallOf("write_file", `{"content":"[EMAIL\u007eAAAA]"}`), "token_invalid", "/params/arguments/content"},
		{"as a name", toolCallOf("write_file", `{"a":{"TOKEN":1}}`), "token_elsewhere", "/params/arguments/a/TOKEN"},
		{"in a uri", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"mail://TOKEN"}}`, "token_elsewhere", "/params/uri"},
		{"in an answer to a question", `{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"m":"CHANGED"}}}`, "token_invalid", "/result/content/m"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := governedRig(t, tokensConfig(files.URL, mail.URL, ""), g)
			token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
			changed := token[:20] + map[bool]string{true: "B", false: "A"}[token[20] == 'A'] + token[21:]
			replace := strings.NewReplacer("TOKEN", token, "CHANGED", changed, "OTHER", strings.Replace(token, "EMAIL", "PHONE", 1))
			before := len(files.seen()) + len(mail.seen())
			a := r.post(replace.Replace(row.body))
			var e struct {
				Error struct {
					Data struct{ Reason, Pointer string }
				}
			}
			_ = json.Unmarshal([]byte(a.body), &e)
			if a.status != 403 || e.Error.Data.Reason != row.reason || e.Error.Data.Pointer != strings.ReplaceAll(replace.Replace(row.pointer), "~", "~0") {
				t.Errorf("%d %s", a.status, a.body)
			}
			answers := strings.HasPrefix(row.pointer, "/result") // an error tells the upstream that its question has no answer
			if now := len(files.seen()) + len(mail.seen()); now != before && !answers {
				t.Error("something was sent")
			}
			if l := r.lines(2)[1]; l["error_kind"] != row.reason || l["tokens_refused"] == nil || l["restored"] != nil {
				t.Errorf("line: %v", l)
			}
		})
	}
	t.Run("another agent", func(t *testing.T) {
		config := strings.Replace(tokensConfig(files.URL, mail.URL, ""), "agent: planner", "agent: AGENT", 1)
		reader := governedRig(t, strings.Replace(config, "AGENT", "reader", 1), g)
		writer := governedRig(t, strings.Replace(config, "AGENT", "writer", 1), g)
		token := tokenShape.FindString(reader.post(toolCallOf("read_file", `{}`)).body)
		if a := writer.post(toolCallOf("write_file", `{"content":"`+token+`"}`)); a.status != 403 || !strings.Contains(a.body, "token_invalid") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("the model is told", func(t *testing.T) {
		r := governedRig(t, strings.Replace(tokensConfig(files.URL, mail.URL, ""), "policy:\n", "policy:\n  deny_as: tool_error\n", 1), g)
		a := r.post(toolCallOf("write_file", `{"content":"[EMAIL~AAAA]"}`))
		if a.status != 200 || !strings.Contains(a.body, "copy it exactly as you received it, or leave it out (/params/arguments/content)") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("where it may go", func(t *testing.T) {
		r := governedRig(t, tokensConfig(files.URL, mail.URL, ", restore_to: [mail]"), g)
		token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
		a := r.post(toolCallOf("mail_send", `{"to":"`+token+`"}`), "Mcp-Param-To", token)
		seen := mail.seen()
		if last := seen[len(seen)-1]; a.status != 200 || !strings.Contains(last.body, `"to":"nora@fjord.example"`) || last.header.Get("Mcp-Param-To") != "nora@fjord.example" {
			t.Errorf("%d %s: mail received %s, %v", a.status, a.body, last.body, last.header)
		}
	})
}

// A header Mcp-Param-* opens a token only where it mirrors an argument in which the value was put
// back, and which was judged with it: no other header has the value, or the token.
func TestHeadersOpenNoTokenThatTheMessageDoesNot(t *testing.T) {
	t.Parallel()
	mail := newUpstream(t, echo)
	for _, row := range []struct {
		name, rule, body, header string
		status                   int
		want                     string // the field at the upstream, empty for none
	}{
		{"mirrors", "", `{"content":"TOKEN"}`, "TOKEN", 200, "nora@fjord.example"},
		{"mirrors a longer text", "", `{"content":"to TOKEN now"}`, "to TOKEN now", 200, "to nora@fjord.example now"},
		{"mirrors another part", "", `{"content":"to TOKEN now"}`, "TOKEN", 200, ""},
		{"the message has no tilde", "", `{"content":"plain"}`, "TOKEN", 200, ""},
		{"the message has a tilde", "", `{"content":"~"}`, "TOKEN", 200, ""},
		{"the message has the value", "", `{"content":"nora@fjord.example","x":"~"}`, "TOKEN", 200, ""},
		{"encoded", "", `{"content":"~"}`, "BASE64", 200, ""},
		{"when.restores, no tilde", "{id: no, action: deny, when: {restores: [EMAIL]}}", `{"content":"plain"}`, "TOKEN", 200, ""},
		{"when.restores, a tilde", "{id: no, action: deny, when: {restores: [EMAIL]}}", `{"content":"~"}`, "TOKEN", 200, ""},
		{"when.restores, in both", "{id: no, action: deny, when: {restores: [EMAIL]}}", `{"content":"TOKEN"}`, "TOKEN", 403, ""},
		{"no token", "", `{"content":"~"}`, "plain", 200, "plain"},
	} {
		t.Run(row.name, func(t *testing.T) {
			files, g := filesServer(t, "nora@fjord.example"), &governor{}
			g.give(responsePII("redact", "token", "EMAIL"))
			config := tokensConfig(files.URL, mail.URL, "")
			if row.rule != "" {
				config = strings.Replace(config, "rules:", "rules:\n    - "+row.rule, 1)
			}
			r := governedRig(t, config, g)
			token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
			replace := strings.NewReplacer("TOKEN", token, "BASE64", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(token))+"?=")
			before := len(files.seen())
			a := r.post(toolCallOf("write_file", replace.Replace(row.body)), "Mcp-Param-Content", replace.Replace(row.header))
			if a.status != row.status {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if seen := files.seen()[before:]; (len(seen) == 1) != (row.status == 200) {
				t.Errorf("the upstream received %v", seen)
			} else if len(seen) == 1 && seen[0].header.Get("Mcp-Param-Content") != row.want {
				t.Errorf("the field is %q, want %q", seen[0].header.Get("Mcp-Param-Content"), row.want)
			}
		})
	}
}

// While no policy makes tokens, a text that only looks like one passes as it is; a token of an
// earlier policy is still put back.
func TestTokensAfterTheirPolicy(t *testing.T) {
	t.Parallel()
	files, mail := filesServer(t, "nora@fjord.example"), newUpstream(t, echo)
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL"))
	r := governedRig(t, tokensConfig(files.URL, mail.URL, ""), g)
	token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
	g.give(responsePII("warn", "", "EMAIL"))
	eventually(t, "the new state", func() bool { return strings.Contains(r.post(toolCallOf("read_file", `{}`)).body, `"text":"nora@`) })
	r.post(toolCallOf("write_file", `{"content":"`+token+` [EMAIL~AAAA]"}`))
	seen := files.seen()
	if last := seen[len(seen)-1].body; !strings.Contains(last, `"content":"nora@fjord.example [EMAIL~AAAA]"`) {
		t.Errorf("the tool received %s", last)
	}
}

// What would be sent is judged: rules and policies see the values that were put back, and
// when.restores matches the call.
func TestRulesJudgeValuesThatArePutBack(t *testing.T) {
	mail := newUpstream(t, echo)
	for _, row := range []struct{ name, rule, by string }{
		{"restores", "{id: no, action: deny, when: {restores: [EMAIL], tool_prefix: write_}}", "no"},
		{"restores, observed first", "{id: seen, action: deny, mode: observe, when: {restores: [EMAIL]}}", ""},
		{"arguments", `{id: no, action: deny, when: {tool_name: write_file, arguments: {/content: {suffix: fjord.example}}}}`, "no"},
	} {
		t.Run(row.name, func(t *testing.T) {
			files, g := filesServer(t, "nora@fjord.example"), &governor{}
			g.give(responsePII("redact", "token", "EMAIL"))
			r := governedRig(t, strings.Replace(tokensConfig(files.URL, mail.URL, ""), "rules:", "rules:\n    - "+row.rule, 1), g)
			if a := r.post(toolCallOf("write_file", `{"content":"to nora@fjord.example."}`)); a.status != 200 {
				t.Errorf("a call without a token: %d %s", a.status, a.body)
			}
			token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
			a := r.post(toolCallOf("write_file", `{"content":"`+token+`"}`))
			l := r.lines(3)[2]
			if (a.status == 403) != (row.by != "") || row.by != "" && l["rule_id"] != row.by {
				t.Errorf("%d %s, line %v", a.status, a.body, l)
			}
			if row.by == "" && fmt.Sprint(l["observed"]) != "[map[action:deny rule_id:seen]]" {
				t.Errorf("line %v", l)
			}
		})
	}
	t.Run("policies", func(t *testing.T) {
		files, g := filesServer(t, "nora@fjord.example"), &governor{}
		g.give(responsePII("redact", "token", "EMAIL"), requestPII("block", "", "EMAIL"))
		r := governedRig(t, tokensConfig(files.URL, mail.URL, ""), g)
		token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
		r.post(toolCallOf("write_file", `{"content":"`+token+`"}`)).blocked(t)
	})
}

// Structured content stays what the tool's output schema says, where that does not take a token.
func TestTokensFitTheOutputSchema(t *testing.T) {
	files, mail := filesServer(t, ""), newUpstream(t, echo)
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL", "PHONE", "CREDIT_CARD"))
	r := governedRig(t, tokensConfig(files.URL, mail.URL, ""), g)
	a := r.post(toolCallOf("lookup", `{}`)) // the schema is not known, so that a number becomes a token
	if a.status != 200 || !strings.Contains(a.body, `"number":"[CREDIT_CARD~`) {
		t.Errorf("without a schema: %d %s", a.status, a.body)
	}
	card := regexp.MustCompile(`\[CREDIT_CARD~[^]]*\]`).FindString(a.body)
	r.post(toolCallOf("write_file", `{"content":"`+card+`"}`))
	if seen := files.seen(); !strings.Contains(seen[len(seen)-1].body, `"content":"4556737586899855"`) {
		t.Errorf("the tool received %s", seen[len(seen)-1].body)
	}
	r.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	var got struct {
		Result struct{ StructuredContent map[string]any }
	}
	eventually(t, "the new state", func() bool {
		a := r.post(toolCallOf("lookup", `{}`))
		got.Result.StructuredContent = nil
		return a.status == 200 && json.Unmarshal([]byte(a.body), &got) == nil && got.Result.StructuredContent["mail"] == "xxxx@xxxxx.xxxxxxx"
	})
	c := got.Result.StructuredContent
	if !tokenShape.MatchString(fmt.Sprint(c["plain"])) {
		t.Errorf("plain is %v", c["plain"])
	}
	want := map[string]any{"mail": "xxxx@xxxxx.xxxxxxx", "short": "****@*****.*******", "phone": "+00 00 00 00 00", "number": 1e15, "team": "sales@fjord.example"}
	for name, value := range want {
		if c[name] != value {
			t.Errorf("%s is %v, want %v", name, c[name], value)
		}
	}
}
