package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func server() *Server {
	return &Server{Name: "svc", URL: "https://gw.example/mcp?a=1&b=2", KeyEnv: "K", Program: "/opt/svc"}
}

// read parses a client's file as the client does.
func read(t *testing.T, c *Client, text []byte) map[string]any {
	t.Helper()
	doc := map[string]any{}
	var err error
	if c.container == "" {
		doc, err = parseTOML(text)
	} else {
		var plain []byte
		if _, plain, err = parseJSONC(text); err == nil {
			err = json.Unmarshal(plain, &doc)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.Name, err, text)
	}
	return doc
}

// The text to paste is the same as what is written to an empty file, for every client
// and every source of the key.
func TestTheSnippetIsWhatIsWritten(t *testing.T) {
	for _, c := range Clients() {
		if c.Path == nil {
			continue
		}
		for _, s := range []*Server{
			server(),
			{Name: "svc", URL: "https://gw.example/mcp", KeyEnv: "K", KeyFile: "/home/a b/key", Program: "/opt/svc"},
			{Name: "svc", URL: "https://gw.example/mcp", KeyEnv: "K", Key: "s3cret", Program: "/opt/svc"},
			{Name: "svc", URL: "https://gw.example/mcp", KeyEnv: "K", AskKey: true, Program: "/opt/svc"},
		} {
			snippet, err := c.Snippet(s)
			if err != nil {
				t.Fatal(err)
			}
			merged, changed, err := c.Merge(nil, s)
			if err != nil || !changed {
				t.Fatalf("%s: %v, %v", c.Name, changed, err)
			}
			if got, want := read(t, &c, merged), read(t, &c, snippet); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%s\nwant\n%s", c.Name, merged, snippet)
			}
			if again, changed, err := c.Merge(merged, s); changed || err != nil || string(again) != string(merged) {
				t.Errorf("%s a second time: %v, %v", c.Name, changed, err)
			}
			if has := strings.Contains(string(snippet), "s3cret"); has != (s.Key != "") {
				t.Errorf("%s: the key is shown: %v\n%s", c.Name, has, snippet)
			}
			if s.Key != "" && strings.Contains(string(snippet), `"s3cret"`) && strings.Contains(string(snippet), `"args"`) {
				args := string(snippet)[strings.Index(string(snippet), `"args"`):]
				if end := strings.Index(args, "]"); strings.Contains(args[:end], "s3cret") {
					t.Errorf("%s: the key is an argument\n%s", c.Name, snippet)
				}
			}
		}
	}
}

// The reference to an environment variable in the form of each client.
func TestEachClientHasItsOwnReference(t *testing.T) {
	for name, want := range map[string]string{
		"claude-code": `"Bearer ${K}"`, "cursor": `"Bearer ${env:K}"`, "vscode": `"Bearer ${env:K}"`, "gemini": `"Bearer ${K}"`,
		"codex": `bearer_token_env_var = 'K'`, "python": `os.environ["K"]`, "typescript": `process.env["K"]`, "go": `os.Getenv("K")`, "curl": `"${K:?}"`,
		"claude-desktop": `"--key-file"`,
	} {
		c, ok := Find(name)
		if !ok {
			t.Fatal(name)
		}
		got, err := c.Snippet(server())
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	if _, ok := Find("emacs"); ok {
		t.Error("an unknown client was found")
	}
}

// In realistic files, everything else stays unchanged to the byte.
func TestMergeLeavesTheRestAsItIs(t *testing.T) {
	c, _ := Find("cursor")
	for _, tt := range []struct{ name, file, want string }{
		{"empty object", "{}", "{\n  \"mcpServers\": {\n    \"svc\": ENTRY\n  }\n}"},
		{"comments and trailing commas", "// mine\n{\n\t\"a\": 1, // one\n\t\"mcpServers\": {\n\t\t/* two */\n\t\t\"other\": {\"command\": \"x\",}, // three\n\t\t// four\n\t},\n}\n",
			"// mine\n{\n\t\"a\": 1, // one\n\t\"mcpServers\": {\n\t\t/* two */\n\t\t\"other\": {\"command\": \"x\",}, // three\n\t\t// four\n\t\t\"svc\": ENTRY,\n\t},\n}\n"},
		{"no trailing comma, a comment behind", "{\n    \"mcpServers\": {\n        \"other\": {} // last\n    }\n}\n",
			"{\n    \"mcpServers\": {\n        \"other\": {}, // last\n        \"svc\": ENTRY\n    }\n}\n"},
		{"one line", `{"mcpServers":{"other":{}}}`, "{\"mcpServers\":{\"other\":{},\n  \"svc\": ENTRY\n}}"},
		{"another value", "{\n  \"mcpServers\": {\n    \"svc\": {\"url\": \"old\", \"headers\": {\"Authorization\": \"Bearer ${env:K}\"}},\n    \"z\": 1\n  }\n}\n", "{\n  \"mcpServers\": {\n    \"svc\": ENTRY,\n    \"z\": 1\n  }\n}\n"},
		{"line ends of Windows, byte order mark", "\ufeff{\r\n  \"mcpServers\": {\r\n  }\r\n}\r\n", "\ufeff{\r\n  \"mcpServers\": {\r\n    \"svc\": ENTRY\r\n  }\r\n}\r\n"},
		{"escaped name", "{\"mcp\\u0053ervers\": {}}", "{\"mcp\\u0053ervers\": {\n  \"svc\": ENTRY\n}}"},
		{"no servers yet", "{\n  \"theme\": \"x\"\n  // end\n}\n", "{\n  \"theme\": \"x\",\n  // end\n  \"mcpServers\": {\n    \"svc\": ENTRY\n  }\n}\n"},
	} {
		got, _, err := c.Merge([]byte(tt.file), server())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		before, after, _ := strings.Cut(tt.want, "ENTRY")
		if !strings.HasPrefix(string(got), before) || !strings.HasSuffix(string(got), after) {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
		doc := read(t, &c, got)
		entry, _ := doc["mcpServers"].(map[string]any)["svc"].(map[string]any)
		if entry["url"] != server().URL {
			t.Errorf("%s: %v", tt.name, doc)
		}
		if strings.Contains(tt.file, "\r\n") && strings.Count(string(got), "\n") != strings.Count(string(got), "\r\n") {
			t.Errorf("%s: mixed line ends %q", tt.name, got)
		}
	}
}

// Comments of all forms that clients accept, and at the end of a file; no error repeats a value, which
// may be a secret.
func TestCommentsAndErrorsOfClientFiles(t *testing.T) {
	for _, text := range []string{"{} // x", "{\r// x\r\"a\": 1}\r", "{} // caf\xe9\n", "{} // a\u2028b\n", "{} /* x */", "\ufeff// x\n{}"} {
		if _, err := strictJSON([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{`{"a": planted}`, `{"a": planted, "b": 1}`, `{"a": plant3d`} {
		if _, err := strictJSON([]byte(text)); err == nil || strings.Contains(err.Error(), "plant") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Files that cannot be parsed, or to which no server can be added, are rejected.
func TestMergeRefusesWhatItCannotParse(t *testing.T) {
	for name, files := range map[string][]string{
		"cursor": {"[]", "{", `{"a":}`, `{"a" 1}`, `{"mcpServers": []}`, `{"mcpServers": null}`, `{"mcpServers":{},"mcpServers":{}}`, `{"mcpServers":{"svc":{},"svc":{}}}`,
			"{} x", "{/*", `{"a": "x`, "{'a': 1}", "{a: 1}", `{"a": nope}`, `{"a": 01}`, "{,}", `{"a":1 "b":2}`, strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), "mcpServers: {}"},
		"vscode": {`{"inputs": {}}`, `{"inputs": [], "inputs": []}`},
		"codex":  {"a = ", "[mcp_servers.svc]\nurl = 'other'\n", "mcp_servers = { x = {command = 'y'} }\n", "mcp_servers = 1\n", "[[mcp_servers]]\n"},
	} {
		c, _ := Find(name)
		for _, file := range files {
			s := server()
			s.AskKey = true
			if got, _, err := c.Merge([]byte(file), s); err == nil {
				t.Errorf("%s: %q became %q", name, file, got)
			}
		}
	}
}

// A server of somebody else that is named as the gateway would be, svc, is not replaced: the error
// names it and --name. An earlier entry of the gateway is replaced: with the same URL, with the
// reference to its key, or for svc as a program.
func TestMergeReplacesNoForeignServer(t *testing.T) {
	const url = `https://gw.example/mcp`
	for _, tt := range []struct {
		client, entry string
		replaced      bool
	}{
		{"cursor", `{"command": "subversion-mcp", "args": ["--root", "/repo"]}`, false},
		{"cursor", `{"command": "svc", "args": ["serve"]}`, false},
		{"cursor", `{"url": "https://stock.example/mcp", "headers": {"Authorization": "Bearer ${env:STOCK}"}}`, false},
		{"cursor", `{"url": "https://stock.example/mcp"}`, false},
		{"gemini", `{"httpUrl": "https://stock.example/mcp"}`, false},
		{"vscode", `{"url": "https://stock.example/mcp", "headers": {"Authorization": "Bearer ${input:stock}"}}`, false},
		{"claude-desktop", `{"command": "npx", "args": ["-y", "stock"]}`, false},
		{"cursor", `"stock"`, false},
		{"cursor", `{"url": "` + url + `", "disabled": true}`, true},
		{"gemini", `{"httpUrl": "` + url + `"}`, true},
		{"claude-code", `{"type": "http", "url": "https://before.example/mcp", "headers": {"Authorization": "Bearer ${K}"}}`, true},
		{"vscode", `{"url": "https://before.example/mcp", "headers": {"Authorization": "Bearer ${input:svc-gateway-key}"}}`, true},
		{"claude-desktop", `{"command": "/opt/svc", "args": ["connect", "--stdio", "--url", "https://before.example/mcp"]}`, true},
	} {
		c, _ := Find(tt.client)
		file := `{"` + c.container + `": {"svc": ` + tt.entry + `}}`
		s := &Server{Name: "svc", URL: url, KeyEnv: "K", Program: "/opt/svc"}
		if c.NeedsProgram() {
			s.KeyFile = "/home/ina/key"
		}
		got, changed, err := c.Merge([]byte(file), s)
		if replaced := err == nil && changed; replaced != tt.replaced || err != nil && !strings.Contains(err.Error(), c.container+".svc is there already") {
			t.Errorf("%s, %s: %v, %s", tt.client, tt.entry, err, got)
		}
		s.Name = "gateway"
		if got, changed, err := c.Merge([]byte(file), s); err != nil || !changed || !strings.Contains(string(got), tt.entry) {
			t.Errorf("%s, %s, with another name: %v, %s", tt.client, tt.entry, err, got)
		}
	}
}

// Codex: the table is appended, and comments stay.
func TestMergeAppendsATable(t *testing.T) {
	c, _ := Find("codex")
	file := "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = 'y' # note"
	got, changed, err := c.Merge([]byte(file), server())
	if err != nil || !changed || !strings.HasPrefix(string(got), file+"\n\n[mcp_servers.svc]\n") {
		t.Errorf("%v\n%s", err, got)
	}
}

// Visual Studio Code: an existing input is kept, and others stay.
func TestMergeAppendsAnInput(t *testing.T) {
	c, _ := Find("vscode")
	s := server()
	s.AskKey = true
	file := "{\n  \"inputs\": [\n    {\"id\": \"other\"}, // x\n  ],\n  \"servers\": {}\n}\n"
	got, _, err := c.Merge([]byte(file), s)
	if err != nil {
		t.Fatal(err)
	}
	if list := read(t, &c, got)["inputs"].([]any); len(list) != 2 || !strings.Contains(string(got), "// x") {
		t.Errorf("%s", got)
	}
	file = "{\"inputs\": [{\"id\": \"svc-gateway-key\", \"mine\": true}]}"
	if got, _, err = c.Merge([]byte(file), s); err != nil || !strings.Contains(string(got), `[{"id": "svc-gateway-key", "mine": true}]`) {
		t.Errorf("%v\n%s", err, got)
	}
}

// The Go snippet compiles in each of its forms; the other snippets are checked if
// their programs are installed.
func TestCodeSnippetsAreValid(t *testing.T) {
	dir := t.TempDir()
	for i, s := range []*Server{server(), {URL: "http://h/mcp", KeyEnv: "K", KeyFile: "/home/a b/k"}, {URL: "http://h/mcp", KeyEnv: "K", Key: "s3cret"}} {
		for name, check := range map[string][]string{
			"go":         {"go", "vet"},
			"python":     {"python3", "-m", "py_compile"},
			"typescript": {"node", "--check"},
			"curl":       {"sh", "-n"},
		} {
			if testing.Short() && name == "go" {
				continue
			}
			if _, err := exec.LookPath(check[0]); err != nil {
				continue
			}
			c, _ := Find(name)
			text, err := c.Snippet(s)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, map[string]string{"go": "main.go", "python": "a.py", "typescript": "a.mjs", "curl": "a.sh"}[name])
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(check[0], append(check[1:], path)...).CombinedOutput(); err != nil {
				t.Errorf("%s, form %d: %v\n%s\n%s", name, i, err, out, text)
			}
		}
	}
}

// For any file: no panic, and a result has the intended meaning.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{"{}", `{"mcpServers":{"a":{},}}`, "// x\n{/**/\"mcpServers\":{}}", "{\"a\":[1,2,],}"} {
		f.Add([]byte(seed))
	}
	c, _ := Find("cursor")
	f.Fuzz(func(t *testing.T, file []byte) {
		got, _, err := c.Merge(file, server())
		if err != nil {
			return
		}
		if _, _, err := parseJSONC(got); err != nil {
			t.Errorf("%q became %q: %v", file, got, err)
		}
	})
}
