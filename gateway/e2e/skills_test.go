package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"gopkg.in/yaml.v3"
)

// The types of the extension for the official SDK, which has custom methods and no skills.
type (
	skillsParams struct {
		sdk.ParamsBase
		URI    string `json:"uri,omitempty"`
		Cursor string `json:"cursor,omitempty"`
	}
	skillsResult struct {
		sdk.ResultBase
		ResultType string          `json:"resultType"`
		Skills     []skillsEntry   `json:"skills,omitempty"`
		Skill      *skillsEntry    `json:"skill,omitempty"`
		Resources  []*sdk.Resource `json:"resources,omitempty"`
		TTL        *int            `json:"ttlMs,omitempty"`
		Scope      string          `json:"cacheScope,omitempty"`
	}
	skillsEntry struct {
		URI         string         `json:"uri"`
		Frontmatter map[string]any `json:"frontmatter"`
		Resources   []skillsFile   `json:"resources"`
	}
	skillsFile struct {
		URI    string `json:"uri"`
		Digest string `json:"digest"`
		Size   int    `json:"size"`
	}
)

// sdkSkills starts a skillsServer.
func sdkSkills(t *testing.T, name string, options *sdk.StreamableHTTPOptions) string {
	t.Helper()
	server, err := skillsServer(name)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options))
	t.Cleanup(h.Close)
	return h.URL
}

// skillPrograms begins the names of programs on stdio that are a skillsServer.
const skillPrograms = "skills_"

// skillsServer is a server on the official Go SDK with one skill, at skill://billing/refunds.
func skillsServer(name string) (*sdk.Server, error) {
	const directory = "skill://billing/refunds"
	files := map[string]string{
		directory + "/SKILL.md":       "---\nname: refunds\ndescription: Refunds of " + name + "\nmetadata: {version: \"2\", é: [1, 2.50]}\n---\n# " + name + " </script>\u2028\r\n",
		directory + "/scripts/pay.py": "print('" + name + "')\n",
		directory + "/logo.bin":       string([]byte{0, 255, 254, 10}),
	}
	capabilities := &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{}}
	capabilities.AddExtension("io.modelcontextprotocol/skills", map[string]any{"directoryRead": true})
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, &sdk.ServerOptions{Capabilities: capabilities})
	ttl := 1000
	frontmatter, err := frontmatterOf(files[directory+"/SKILL.md"])
	entry := skillsEntry{URI: directory + "/SKILL.md", Frontmatter: frontmatter}
	for _, uri := range slices.Sorted(maps.Keys(files)) { // processes have the same order
		text := files[uri]
		entry.Resources = append(entry.Resources, skillsFile{uri, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), len(text)})
		server.AddResource(&sdk.Resource{Name: "f", URI: uri}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			contents := &sdk.ResourceContents{URI: req.Params.URI, Text: text}
			if strings.HasSuffix(uri, ".bin") {
				contents.Text, contents.Blob = "", []byte(text)
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
		})
	}
	handle := func(method string, answer func(uri string) *skillsResult) {
		err = errors.Join(err, sdk.AddReceivingCustomMethod(server, method, func(_ context.Context, _ *sdk.ServerSession, p *skillsParams) (*skillsResult, error) {
			if result := answer(p.URI); result != nil {
				result.ResultType = "complete"
				return result, nil
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "nothing is served at " + p.URI}
		}))
	}
	handle("skills/list", func(string) *skillsResult {
		return &skillsResult{Skills: []skillsEntry{entry}, TTL: &ttl, Scope: "public"}
	})
	handle("skills/get", func(uri string) *skillsResult {
		if uri != entry.URI {
			return nil
		}
		return &skillsResult{Skill: &entry, TTL: &ttl, Scope: "public"}
	})
	handle("resources/directory/read", func(uri string) *skillsResult {
		if uri != directory {
			return nil
		}
		return &skillsResult{Resources: []*sdk.Resource{{URI: directory + "/SKILL.md", Name: "SKILL.md"}, {URI: directory + "/scripts", Name: "scripts", MIMEType: "inode/directory"}}}
	})
	return server, err
}

// frontmatterOf parses the frontmatter of a SKILL.md as JSON would have it.
func frontmatterOf(text string) (out map[string]any, err error) {
	_, rest, _ := strings.Cut(text, "---\n")
	front, _, _ := strings.Cut(rest, "---\n")
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(front), &parsed); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(parsed)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(asJSON, &out)
}

// skillsHost is a host that verifies what it reads, as the extension requires.
type skillsHost struct {
	*sdk.ClientSession
	t testing.TB
}

func (r *rig) skillsHost(ctx context.Context) *skillsHost {
	r.t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, nil)
	for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
		if err := sdk.AddSendingCustomMethod[*skillsParams, *skillsResult](client, method); err != nil {
			r.t.Fatal(err)
		}
	}
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = session.Close() })
	return &skillsHost{session, r.t}
}

func (h *skillsHost) call(ctx context.Context, method, uri string) (*skillsResult, error) {
	return sdk.CallCustomMethod[*skillsParams, *skillsResult](ctx, h.ClientSession, method, &skillsParams{URI: uri})
}

// verify reads and verifies every file of an entry, and returns the text of its SKILL.md.
func (h *skillsHost) verify(ctx context.Context, entry *skillsEntry) (doc string) {
	h.t.Helper()
	for _, file := range entry.Resources {
		got, err := h.ReadResource(ctx, &sdk.ReadResourceParams{URI: file.URI})
		if err != nil || len(got.Contents) != 1 {
			h.t.Fatalf("%s: %v", file.URI, err)
		}
		data := got.Contents[0].Blob
		if data == nil {
			data = []byte(got.Contents[0].Text)
		}
		if digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); len(data) != file.Size || digest != file.Digest || got.Contents[0].URI != file.URI {
			h.t.Errorf("%s: %d bytes, %s, of %s; want %d, %s", file.URI, len(data), digest, got.Contents[0].URI, file.Size, file.Digest)
		}
		if file.URI == entry.URI {
			doc = string(data)
		}
	}
	if front, err := frontmatterOf(doc); err != nil || !reflect.DeepEqual(front, entry.Frontmatter) {
		h.t.Errorf("the frontmatter is %v, the entry has %v, %v", front, entry.Frontmatter, err)
	}
	return doc
}

// Two servers on the official SDK that have the same skill, over HTTP in both generations or as programs on
// stdio, behind one URL: a host of either generation verifies every file of both.
func TestSkillsOfTwoServersThroughOneURL(t *testing.T) {
	program := func(name string) string {
		return fmt.Sprintf("command: [%q, %s, %s]", os.Args[0], stdioServer, skillPrograms+name)
	}
	for _, tt := range []struct {
		generation string
		programs   bool
	}{{"2026-07-28", false}, {"2025-11-25", false}, {"2026-07-28", true}, {"2025-11-25", true}} {
		generation := tt.generation
		t.Run(fmt.Sprintf("%s, programs %v", generation, tt.programs), func(t *testing.T) {
			t.Parallel()
			one, two := program("one"), program("two")
			if !tt.programs {
				one = "url: " + sdkSkills(t, "one", &sdk.StreamableHTTPOptions{})
				two = "url: " + sdkSkills(t, "two", &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
			}
			config := federated(fmt.Sprintf("  - {name: one, %s}\n  - {name: Two_b, %s}", one, two), allowEverything)
			if generation == "2025-11-25" {
				config = strings.Replace(config, "federation: {", "allowed_protocol_versions: [\"2025-11-25\"]\nfederation: {", 1)
			}
			r := newRig(t, config)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			h := r.skillsHost(ctx)
			if got := h.InitializeResult(); got.ProtocolVersion != generation || fmt.Sprint(got.Capabilities.Extensions) != "map[io.modelcontextprotocol/skills:map[directoryRead:true]]" || got.Capabilities.Resources == nil {
				t.Fatalf("%s %v", got.ProtocolVersion, got.Capabilities.Extensions)
			}
			list, err := h.call(ctx, "skills/list", "")
			if err != nil || len(list.Skills) != 2 || list.TTL == nil || list.Scope != "private" || list.ResultType != "complete" {
				t.Fatalf("%+v %v", list, err)
			}
			for i, name := range []string{"one", "two"} {
				entry := &list.Skills[i]
				prefix := "skill://" + []string{"one", "two-b"}[i] + "/billing/refunds"
				if doc := h.verify(ctx, entry); entry.URI != prefix+"/SKILL.md" || !strings.Contains(doc, "# "+name) {
					t.Errorf("%s: %q", entry.URI, doc)
				}
				got, err := h.call(ctx, "skills/get", entry.URI)
				if err != nil || !reflect.DeepEqual(got.Skill, entry) || got.TTL == nil || got.ResultType != "complete" {
					t.Errorf("skills/get: %+v %v", got, err)
				}
				children, err := h.call(ctx, "resources/directory/read", prefix)
				if err != nil || len(children.Resources) != 2 || children.Resources[1].URI != prefix+"/scripts" {
					t.Errorf("directory: %+v %v", children, err)
				}
			}
			var wire *jsonrpc.Error
			for _, tt := range []struct{ method, uri string }{
				{"skills/get", "skill://one/unknown/SKILL.md"}, {"skills/get", "skill://nobody/x/SKILL.md"}, {"skills/get", "skill://one/../two-b/billing/refunds/SKILL.md"},
				{"resources/directory/read", "skill://one/billing/refunds/SKILL.md"}, {"resources/directory/read", "git://x/y"},
			} {
				if _, err := h.call(ctx, tt.method, tt.uri); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
					t.Errorf("%s %s: %v", tt.method, tt.uri, err)
				}
			}
			lines := map[string]bool{}
			for _, line := range r.all() {
				lines[fmt.Sprint(line["method"], " ", line["uri"], " ", line["upstream"])] = true
			}
			for _, want := range []string{"skills/get skill://two-b/billing/refunds/SKILL.md Two_b", "resources/read skill://one/billing/refunds/logo.bin one", "resources/directory/read skill://one/billing/refunds one"} {
				if !lines[want] {
					t.Errorf("no audit line %s: %v", want, lines)
				}
			}
		})
	}
}

// Without federation a program's skills have its own addresses, and pin_skills compares its files.
func TestSkillsOfAProgram(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"2026-07-28", "2025-11-25"} {
		r := newRig(t, fmt.Sprintf("allowed_protocol_versions: [%q]\ndefault_upstream: docs\nupstreams:\n  - {name: docs, pin_skills: block, command: [%q, %s, %sdocs]}\n", generation, os.Args[0], stdioServer, skillPrograms)+allowEverything)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		h := r.skillsHost(ctx)
		list, err := h.call(ctx, "skills/list", "")
		if err != nil || h.InitializeResult().ProtocolVersion != generation || len(list.Skills) != 1 || list.Skills[0].URI != "skill://billing/refunds/SKILL.md" {
			t.Fatalf("%s: %+v %v\n%s", generation, list, err, r.logs)
		}
		h.verify(ctx, &list.Skills[0])
		if _, err := h.ReadResource(ctx, &sdk.ReadResourceParams{URI: "skill://billing/refunds/other.md"}); err == nil || !strings.Contains(err.Error(), "policy_denied") {
			t.Errorf("%s: a file that the pin does not name: %v", generation, err)
		}
	}
}

// A rule never rewrites a file or entry of a skill: an answer with one that it would change is denied, and a
// list has the other entries.
func TestSkillsAreNotRewritten(t *testing.T) {
	t.Parallel()
	const rules = `policy: {default_action: allow, rules: [{id: names, action: redact, when: {direction: server_to_client}, redact: [{regex: Ann, replacement: NAME}]}]}`
	for _, stream := range []bool{false, true} {
		for _, federatedLists := range []bool{false, true} {
			s := newRefunds(t)
			s.stream = stream
			s.write("skill://refunds/people.md", "Ask Ann.")
			s.read["file:///note"] = "Ask Ann."
			s.frontmatter[dailyDoc] = `,"author":"Ann"`
			config := fmt.Sprintf("default_upstream: docs\nupstreams:\n  - {name: docs, url: %s}\nroutes: [{match: {tool_name: \"*\"}, upstream: docs}]\n"+rules, s.URL)
			if federatedLists {
				config = federated("  - {name: docs, url: "+s.URL+"}", rules)
			}
			r := newRig(t, config)
			if got := r.listedSkills(); fmt.Sprint(got) != "["+refundsDoc+"]" {
				t.Errorf("stream %v, federated %v: listed %v", stream, federatedLists, got)
			}
			left := false
			for _, l := range r.all() {
				left = left || strings.Contains(fmt.Sprint(l["left_out"]), "names")
			}
			if !left {
				t.Errorf("stream %v, federated %v: no line has the entry that is left out", stream, federatedLists)
			}
			denied := func(what string, got answer) {
				t.Helper()
				if !strings.Contains(got.body, `"reason":"skill_redacted"`) || !stream && got.status != 403 || strings.Contains(got.body, "NAME") || strings.Contains(got.body, "Ann") {
					t.Errorf("stream %v, federated %v: %s: %d %s", stream, federatedLists, what, got.status, got.body)
				}
				if line := r.lastLine(); line["action"] != "deny" || line["error_kind"] != "skill_redacted" || line["rule_id"] != "names" {
					t.Errorf("stream %v, federated %v: %s: line %v", stream, federatedLists, what, line)
				}
			}
			denied("skills/get", r.skillCall("skills/get", fmt.Sprintf(`"uri":%q`, dailyDoc)))
			denied("a file", r.readFile("skill://refunds/people.md"))
			if got := r.readFile(scriptFile); got.status != 200 || !strings.Contains(got.body, "echo 100") {
				t.Errorf("another file: %d %s", got.status, got.body)
			}
			if got := r.readFile("file:///note"); got.status != 200 || !strings.Contains(got.body, "Ask NAME.") {
				t.Errorf("no file of a skill: %d %s", got.status, got.body)
			}
		}
	}
}

// The mask of a guardrail changes no file or entry of a skill, whether the address of the skill is its server's
// or begins with the name of one of several upstreams: the answer is denied, also as a frame of a stream.
func TestGuardrailsMaskNoSkills(t *testing.T) {
	t.Parallel()
	guard := newGuard(t, masks("Ann", "***"))
	rules := fmt.Sprintf("guardrails: [{name: dlp, url: %s/check}]\npolicy: {default_action: allow, rules: [{id: ask, action: guardrail, guardrail: dlp, frames: true, when: {direction: server_to_client}}]}", guard.URL)
	for _, stream := range []bool{false, true} {
		for _, prefix := range []string{"", "docs/"} {
			s, other := newRefunds(t), newRefunds(t)
			s.stream = stream
			s.write("skill://refunds/people.md", "Ask Ann.")
			s.read["file:///note"] = "Ask Ann."
			s.frontmatter[dailyDoc] = `,"author":"Ann"`
			s.tool = `{"type":"resource","resource":{"uri":"skill://refunds/people.md","text":"Ask Ann."}}`
			upstreams, tool := "  - {name: docs, url: "+s.URL+"}", "show"
			if prefix != "" {
				upstreams, tool = "  - {name: docs, prefix: docs_, url: "+s.URL+"}\n  - {name: other, prefix: other_, url: "+other.URL+"}", "docs_show"
			}
			r := newRig(t, federated(upstreams, rules))
			at := func(uri string) string { return strings.Replace(uri, "skill://", "skill://"+prefix, 1) }
			if got := r.listedSkills(); slices.Contains(got, at(dailyDoc)) || !slices.Contains(got, at(refundsDoc)) {
				t.Errorf("stream %v, %s: listed %v", stream, prefix, got)
			}
			for what, got := range map[string]func() answer{
				"skills/get":         func() answer { return r.skillCall("skills/get", fmt.Sprintf(`"uri":%q`, at(dailyDoc))) },
				"a file":             func() answer { return r.readFile(at("skill://refunds/people.md")) },
				"a file in a result": func() answer { return r.skillCall("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, tool)) },
			} {
				got := got()
				if !strings.Contains(got.body, `"reason":"skill_redacted"`) || !stream && got.status != 403 || strings.Contains(got.body, "***") || strings.Contains(got.body, "Ann") {
					t.Errorf("stream %v, %s: %s: %d %s", stream, prefix, what, got.status, got.body)
				}
				if line := r.lastLine(); line["action"] != "deny" || line["error_kind"] != "skill_redacted" || line["rule_id"] != "ask" || line["guardrail_name"] != "dlp" {
					t.Errorf("stream %v, %s: %s: line %v", stream, prefix, what, line)
				}
			}
			if got := r.readFile(at(scriptFile)); got.status != 200 || !strings.Contains(got.body, "echo 100") {
				t.Errorf("stream %v, %s: another file: %d %s", stream, prefix, got.status, got.body)
			}
			if got := r.readFile("file:///note"); got.status != 200 || !strings.Contains(got.body, "Ask ***.") {
				t.Errorf("stream %v, %s: no file of a skill: %d %s", stream, prefix, got.status, got.body)
			}
		}
	}
}

// Lists of skills and directories have what the caller may read; no method of the extension is a discovery
// method.
func TestSkillsUnderRules(t *testing.T) {
	t.Parallel()
	s := newRefunds(t)
	s.children = `{"uri":"skill://refunds/SKILL.md","name":"a"},{"uri":"skill://refunds/scripts","name":"b","mimeType":"inode/directory"}`
	for _, tt := range []struct{ rules, skills, children string }{
		{`{id: a, action: allow, when: {method_in: []}}`, "", ""},
		{`{id: l, action: allow, when: {method: skills/list}}, {id: d, action: allow, when: {method: resources/directory/read}}`, "[]", "[]"},
		{`{id: l, action: allow, when: {method: skills/list}}, {id: d, action: allow, when: {method: resources/directory/read}}, {id: s, action: deny, when: {uri_prefix: "skill://refunds/scripts"}}, {id: u, action: allow, when: {uri_prefix: "skill://refunds/"}}`,
			"[" + refundsDoc + "]", "[skill://refunds/SKILL.md]"},
	} {
		for _, federatedLists := range []bool{false, true} {
			rules := "policy: {filter_lists: true, default_action: deny, rules: [" + tt.rules + "]}"
			if strings.Contains(tt.rules, "method_in") {
				rules = "policy: {filter_lists: true, default_action: deny, rules: []}"
			}
			config := fmt.Sprintf("default_upstream: docs\nupstreams:\n  - {name: docs, url: %s}\nroutes: [{match: {tool_name: \"*\"}, upstream: docs}]\n", s.URL) + rules
			if federatedLists {
				config = federated("  - {name: docs, url: "+s.URL+"}", rules)
			}
			r := newRig(t, config)
			got := r.skillCall("skills/list", "")
			switch {
			case tt.skills == "" && got.status != 403:
				t.Errorf("%s: %d %s", tt.rules, got.status, got.body)
			case tt.skills == "[]" && federatedLists && got.status != 404: // this caller may use no skill
				t.Errorf("%s: %d %s", tt.rules, got.status, got.body)
			case tt.skills != "" && !(tt.skills == "[]" && federatedLists):
				if list := fmt.Sprint(r.listedSkills()); list != tt.skills {
					t.Errorf("%s, federated %v: %s", tt.rules, federatedLists, list)
				}
			}
			got = r.skillCall("resources/directory/read", `"uri":"skill://refunds"`)
			var children struct {
				Result struct{ Resources []struct{ URI string } }
			}
			_ = json.Unmarshal([]byte(got.message()), &children)
			list := []string{}
			for _, c := range children.Result.Resources {
				list = append(list, c.URI)
			}
			if tt.children == "" && got.status != 403 || tt.children != "" && (got.status != 200 || fmt.Sprint(list) != tt.children) {
				t.Errorf("%s, federated %v: %d %v %s", tt.rules, federatedLists, got.status, list, got.body)
			}
		}
	}
}

// Policies of the control plane and masks of guardrails deny what they would change, with tokens too. Labels
// are set by the entries and files of an upstream.
func TestSkillsUnderPolicies(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"replace", "token"} {
		for _, federatedLists := range []bool{false, true} {
			s := newRefunds(t)
			s.write("skill://refunds/people.md", "Ask bob@corp.test.")
			s.read["file:///note"] = "Ask bob@corp.test."
			s.frontmatter[dailyDoc] = `,"author":"bob@corp.test"`
			config := fmt.Sprintf("default_upstream: docs\nupstreams:\n  - {name: docs, url: %s}\nroutes: [{match: {tool_name: \"*\"}, upstream: docs}]\n"+allowEverything, s.URL)
			if federatedLists {
				config = federated("  - {name: docs, url: "+s.URL+"}", allowEverything)
			}
			g := &governor{}
			g.give(responsePII("redact", strategy, "EMAIL"))
			r := governedRig(t, config+"\ndata_flow: {labels: [{name: untrusted, upstreams: [docs]}]}\n"+governance, g)
			if got := r.listedSkills(); fmt.Sprint(got) != "["+refundsDoc+"]" {
				t.Errorf("%s, federated %v: listed %v", strategy, federatedLists, got)
			}
			if line := r.lastLine(); fmt.Sprint(line["sets"]) != "[untrusted]" {
				t.Errorf("%s, federated %v: the list sets %v", strategy, federatedLists, line["sets"])
			}
			for what, got := range map[string]func() answer{
				"skills/get": func() answer { return r.skillCall("skills/get", fmt.Sprintf(`"uri":%q`, dailyDoc)) },
				"a file":     func() answer { return r.readFile("skill://refunds/people.md") },
			} {
				if got := got(); got.status != 403 || !strings.Contains(got.body, `"reason":"skill_redacted"`) {
					t.Errorf("%s, federated %v: %s: %d %s", strategy, federatedLists, what, got.status, got.body)
				}
				if line := r.lastLine(); line["error_kind"] != "skill_redacted" || line["tokens"] != nil || line["rule_id"] != nil || fmt.Sprint(line["pii_detected"]) != "[EMAIL]" {
					t.Errorf("%s, federated %v: %s: line %v", strategy, federatedLists, what, line)
				}
			}
			if got := r.readFile("file:///note"); got.status != 200 || strings.Contains(got.body, "bob") {
				t.Errorf("%s, federated %v: no file of a skill: %d %s", strategy, federatedLists, got.status, got.body)
			}
		}
	}
}

// A server with more skills than the bound, and with entries of all bad forms, takes nothing from others.
func TestHostileSkills(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)
	hostile := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		_ = json.Unmarshal([]byte(body), &m)
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":1}}},"serverInfo":{"name":"h","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}`
		case "skills/list":
			entries := []string{`7`, `{}`, `{"uri":"skill://h/SKILL.md"}`, `{"uri":"skill://h/../x/SKILL.md","frontmatter":{"name":"x","description":"d"},"resources":"dynamic"}`,
				`{"uri":"skill://h/same/SKILL.md","frontmatter":{"name":"same","description":"d"},"resources":"dynamic"}`}
			for i := range 1000 {
				entries = append(entries, fmt.Sprintf(`{"uri":"skill://h/s%d-%s/SKILL.md","frontmatter":{"name":"s%d-%s","description":"d"},"resources":"dynamic"}`, i, m.Params.Cursor+"p", i, m.Params.Cursor+"p"))
			}
			if m.Params.Cursor == "aaaaaaaaaaaa" {
				entries = []string{deep}
			}
			result = `{"skills":[` + strings.Join(entries, ",") + `],"nextCursor":"` + m.Params.Cursor + `a"}`
		case "server/discover":
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	})
	good := newRefunds(t)
	r := newRig(t, federated("  - {name: h, url: "+hostile.URL+"}\n  - {name: docs, url: "+good.URL+"}", allowEverything))
	seen, cursor := map[string]bool{}, ""
	for range 100 {
		got := r.skillCall("skills/list", cursor)
		var page struct {
			Result struct {
				Skills     []struct{ URI string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(got.message()), &page); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body[:min(len(got.body), 500)])
		}
		for _, s := range page.Result.Skills {
			if seen[s.URI] {
				t.Errorf("%s is listed twice", s.URI)
			}
			seen[s.URI] = true
		}
		if page.Result.NextCursor == "" {
			break
		}
		cursor = fmt.Sprintf(`"cursor":%q`, page.Result.NextCursor)
	}
	if !seen["skill://docs/refunds/SKILL.md"] || !seen["skill://h/h/same/SKILL.md"] || len(seen) > 10_002 || len(seen) < 9_900 {
		t.Errorf("%d skills", len(seen))
	}
	if got := r.readFile("skill://docs/refunds/SKILL.md"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.post(call("1", "tool"), "MCP-Protocol-Version", "2025-11-25"); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if log := r.logs.String(); !strings.Contains(log, "over 10000") || !strings.Contains(log, "kind=skill") || strings.Count(log, "an item is omitted") > 200 {
		t.Errorf("%d omitted items in the log", strings.Count(log, "an item is omitted"))
	}
}
