package foreign

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/gateway/config"
	"svc/gateway/diag"
)

// convert reads one file and writes the configuration. The configuration must be
// valid once all variables of the list are set, and must not contain any of
// secrets.
func convert(t *testing.T, form, text string) (*config.File, *Result) {
	t.Helper()
	servers, err := Read("f", []byte(text), form)
	if err != nil {
		t.Fatal(err)
	}
	NameAll(servers)
	r := Convert(servers)
	set := map[string]string{"PWD": "/w", ClientHash: "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQxMjM0NTY3OA$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"}
	for _, v := range r.Variables {
		set[v.Name] = v.Value
		if v.Value == "" {
			set[v.Name] = "outside"
		}
	}
	f, found := config.Parse("svc.yaml", r.Config, func(name string) (string, bool) { v, ok := set[name]; return v, ok })
	if diag.HasErrors(found) {
		t.Fatalf("%v\n%s", diag.Err(found), r.Config)
	}
	if at := regexp.MustCompile(`planted\d+`).FindString(string(r.Config)); at != "" {
		t.Errorf("a secret is in the configuration: %s\n%s", at, r.Config)
	}
	return f, r
}

// Realistic files of four clients.
func TestMCPJSON(t *testing.T) {
	f, r := convert(t, Auto, `// mine
{
  "mcpServers": {
    "fs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv",], "cwd": "/srv"},
    "Every thing!": {"type": "stdio", "command": "node", "args": ["x.js", "--api-key=planted1", "--token", "planted2", "https://h/?sig=planted3"],
      "env": {"GITHUB_TOKEN": "planted4", "DEBUG": "1", "HOST": "${env:DB_HOST}"}, "alwaysAllow": ["a"]},
    "hosted": {"url": "https://h.example/s/0a1b2c3d4e5f60718293planted5/mcp?api_key=planted6&x=1", "headers": {"Authorization": "Bearer planted7", "X-Team": "blue"}},
    "gem": {"httpUrl": "http://127.0.0.1:3000/mcp", "includeTools": ["a"], "excludeTools": ["b"], "trust": true},
    "remote": {"command": "npx", "args": ["mcp-remote@latest", "https://r.example/mcp", "--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer planted8"}},
    "sse": {"type": "sse", "url": "https://h/sse"},
    "cmd": {"url": "npx -y thing planted9"},
    "self": {"command": "/usr/local/bin/svc", "args": ["connect", "--stdio"]},
    "off": {"command": "x", "disabled": true},
    "none": {},
    "user": {"url": "https://u:planted10@h/mcp"},
    "wrong": 7,
  },
}`)
	if r.Carried != 5 || r.Left != 7 || !f.Federation.Enabled || len(f.Upstreams) != 5 {
		t.Fatalf("%d carried, %d left\n%s", r.Carried, r.Left, r.Config)
	}
	up := f.Upstreams
	if up[0].Prefix != "fs_" || strings.Join(up[0].Command, " ") != "npx -y @modelcontextprotocol/server-filesystem /srv" || up[0].WorkingDir != "/srv" {
		t.Errorf("%+v", up[0])
	}
	if up[1].Name != "Every-thing" || strings.Join(up[1].Command, " ") != "node x.js --api-key=planted1 --token planted2 https://h/?sig=planted3" ||
		up[1].Env["GITHUB_TOKEN"] != "planted4" || up[1].Env["DEBUG"] != "1" || up[1].Env["HOST"] != "outside" {
		t.Errorf("%+v", up[1])
	}
	if up[2].URL != "https://h.example/s/0a1b2c3d4e5f60718293planted5/mcp?api_key=planted6&x=1" || up[2].Headers["Authorization"] != "Bearer planted7" || up[2].Headers["X-Team"] != "blue" {
		t.Errorf("%+v", up[2])
	}
	if strings.Join(up[3].Tools.Allow, "") != "a" || strings.Join(up[3].Tools.Deny, "") != "b" {
		t.Errorf("%+v", up[3])
	}
	if up[4].URL != "https://r.example/mcp" || up[4].Headers["Authorization"] != "Bearer planted8" {
		t.Errorf("%+v", up[4])
	}
	for _, want := range []string{"alwaysAllow", "2024-11-05", "svc itself", "disabled", "neither a command nor a URL", "user or a password", "not an object", "# not imported: trust"} {
		if !strings.Contains(string(r.Config), want) {
			t.Errorf("%q is not a comment\n%s", want, r.Config)
		}
	}
}

func TestVisualStudioCode(t *testing.T) {
	f, r := convert(t, Auto, `{"inputs": [{"id": "the-key", "type": "promptString", "password": true}],
"servers": {"one": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${input:the-key}"}}}}`)
	if len(r.Variables) != 1 || r.Variables[0].Name != "THE_KEY" || f.Upstreams[0].Headers["Authorization"] != "Bearer outside" || f.Upstreams[0].Prefix != "" {
		t.Errorf("%+v\n%s", r.Variables, r.Config)
	}
}

func TestAgentGateway(t *testing.T) {
	f, r := convert(t, Auto, `
binds:
- port: 3000
  listeners:
  - routes:
    - policies: {cors: {allowOrigins: ["*"]}}
      backends:
      - mcp:
          targets:
          - name: everything
            stdio: {cmd: npx, args: ["@modelcontextprotocol/server-everything"], env: {TOKEN: planted1}}
          - name: web
            mcp: {host: tools.example, port: 443, path: /x}
          - name: url
            mcp: {host: "https://h.example/mcp"}
          - name: old
            sse: {host: h, port: 80, path: /sse}
          - name: pets
            openapi: {schema: {file: p.json}, host: h, port: 80}
`)
	if r.Carried != 3 || r.Left != 2 || f.Upstreams[0].Env["TOKEN"] != "planted1" || f.Upstreams[1].URL != "https://tools.example:443/x" || f.Upstreams[2].URL != "https://h.example/mcp" {
		t.Errorf("%s", r.Config)
	}
}

func TestLiteLLM(t *testing.T) {
	f, r := convert(t, Auto, `
model_list: []
mcp_servers:
  a: {url: "https://h/mcp", transport: http, auth_type: bearer_token, auth_value: os.environ/A_KEY, allowed_tools: [x]}
  b: {transport: stdio, command: uvx, args: [mcp-server-time], env: {K_TOKEN: planted1}}
  c: {url: "https://h/c", auth_type: api_key, auth_value: planted2, extra_headers: [x]}
  d: {url: "https://h/sse", transport: sse}
  e: {url: "https://h/e", auth_type: oauth2}
`)
	if r.Carried != 4 || f.Upstreams[0].Headers["Authorization"] != "Bearer outside" || f.Upstreams[2].Headers["X-API-Key"] != "planted2" || f.Upstreams[1].Command[0] != "uvx" {
		t.Errorf("%s", r.Config)
	}
	if !strings.Contains(string(r.Config), "auth_type oauth2") || !strings.Contains(string(r.Config), "extra_headers") {
		t.Errorf("%s", r.Config)
	}
}

// Two servers with the same variable and different values get two variables; with
// the same value one.
func TestVariablesOfOneName(t *testing.T) {
	f, r := convert(t, MCPJSON, `{"mcpServers": {
"a": {"command": "x", "env": {"API_KEY": "planted1"}}, "b": {"command": "x", "env": {"API_KEY": "planted2"}}, "c": {"command": "x", "env": {"API_KEY": "planted1"}},
"d": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}, "A": {"command": "x"}}}`)
	if len(r.Variables) != 3 {
		t.Errorf("%+v", r.Variables)
	}
	for i, want := range []string{"planted1", "planted2", "planted1", "outside"} {
		if got := f.Upstreams[i].Env["API_KEY"]; got != want {
			t.Errorf("%s: %q, want %q", f.Upstreams[i].Name, got, want)
		}
	}
	if f.Upstreams[4].Name != "A-2" {
		t.Errorf("%q", f.Upstreams[4].Name)
	}
	env := string(r.EnvFile())
	if !strings.Contains(env, "API_KEY='planted1'\n") || !strings.Contains(env, "B_API_KEY='planted2'\n") {
		t.Errorf("%s", env)
	}
}

// Programs that download themselves, such as with npx, have a longer start_timeout.
func TestProgramsThatDownloadThemselves(t *testing.T) {
	for command, want := range map[string]time.Duration{
		`"npx", "args": ["-y", "x"]`:                      2 * time.Minute,
		`"C:\\node\\npx.cmd", "args": ["-y", "x"]`:        2 * time.Minute,
		`"/opt/homebrew/bin/uvx", "args": ["x"]`:          2 * time.Minute,
		`"docker", "args": ["run", "-i", "--rm", "x"]`:    2 * time.Minute,
		`"uv", "args": ["run", "--directory", "/x", "y"]`: 2 * time.Minute,
		`"pnpm", "args": ["dlx", "x"]`:                    2 * time.Minute,
		`"node", "args": ["npx"]`:                         30 * time.Second,
		`"npm", "args": ["start"]`:                        30 * time.Second,
	} {
		f, r := convert(t, Auto, `{"mcpServers": {"a": {"command": `+command+`}}}`)
		if got := f.Upstreams[0].StartTimeout; got != want {
			t.Errorf("%s: %s\n%s", command, got, r.Config)
		}
	}
}

// A client that already uses the gateway has it in its list of servers.
func TestTheGatewayItselfIsNoServer(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:8090/mcp", "http://LOCALHOST:8090/mcp/v/ops", "http://[::1]:8090", "http://0.0.0.0:8090/mcp", "http://127.0.0.2:8090/mcp"} {
		_, r := convert(t, Auto, `{"mcpServers": {"svc": {"url": "`+url+`"}, "through": {"command": "npx", "args": ["mcp-remote", "`+url+`"]}, "b": {"url": "http://127.0.0.1:8091/mcp"}}}`)
		if r.Carried != 1 || !strings.Contains(string(r.Config), "would call itself") {
			t.Errorf("%s: %d carried\n%s", url, r.Carried, r.Config)
		}
	}
}

// Names and strings of a file cannot end a comment or a string of the
// configuration.
func TestHostileFiles(t *testing.T) {
	f, r := convert(t, Auto, `{"mcpServers": {"a\nlisten: 0.0.0.0:1": {"command": "x\"\n- y", "x\nauth: {enabled: false}": 1, "env": {"A": "a: {b"}}, "\u2028": {"url": "ftp://x\ny"}, "`+strings.Repeat("n", 500)+`": {"command": "y"}}}`)
	if !f.Auth.Enabled || f.Listen != "127.0.0.1:8090" || r.Carried != 2 || f.Upstreams[0].Env["A"] != "a: {b" {
		t.Errorf("%s", r.Config)
	}
	for _, text := range []string{"", "{}", "[]", "x", `{"mcpServers": []}`, `{"mcpServers": {`, "a: *b", "mcp_servers: 1", "targets: 1", "\x00"} {
		if _, err := Read("f", []byte(text), Auto); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"mcpServers":{"a":{"command":"x","args":["--key","v"],"env":{"A":"b"}}}}`, "mcp_servers:\n  a: {url: 'http://h'}\n", "mcp: {targets: [{name: a, stdio: {cmd: x}}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		servers, err := Read("f", text, Auto)
		if err != nil {
			return
		}
		NameAll(servers)
		r := Convert(servers)
		if r.Carried == 0 {
			return
		}
		_, found := config.Parse("svc.yaml", r.Config, func(string) (string, bool) { return "v", true })
		for _, d := range found {
			if d.Code == "syntax" || d.Code == "unknown-key" || d.Code == "duplicate" {
				t.Errorf("%v\n%s\n%s", d, text, r.Config)
			}
		}
	})
}
