package clients

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"gopkg.in/yaml.v3"
)

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

// foreignFiles are files as other programs write them, with the names of the servers that they
// give the gateway.
var foreignFiles = []struct {
	name, file, text string
	servers          string
}{
	{"Claude Code, user and local scope", ".claude.json", `{"numStartups": 41, "theme": "dark", "tipsHistory": {"new-user": 3}, "oauthAccount": {"emailAddress": "ana@shop.example"},
"mcpServers": {"orders": {"type": "http", "url": "https://orders.shop.example/mcp", "headers": {"X-Region": "eu"}}},
"projects": {"/home/ana/till": {"allowedTools": ["Bash(ls)"], "history": [{"display": "hi", "pastedContents": {}}], "hasTrustDialogAccepted": true,
  "mcpServers": {"stock": {"type": "stdio", "command": "uvx", "args": ["stock-mcp"], "env": {}}}, "enabledMcpjsonServers": [], "disabledMcpjsonServers": []},
 "/home/ana/web": {"mcpServers": {}}}}`, "orders stock"},
	{"Claude Code, project scope", ".mcp.json", `{"mcpServers": {"till": {"type": "stdio", "command": "${TILL_HOME:-/opt/till}/bin/till-mcp", "args": ["--shop", "${SHOP:-main}"], "env": {"TILL_URL": "${TILL_URL:-http://127.0.0.1:4000}"}, "timeout": 5000}}}`, "till"},
	{"Claude Desktop", "claude_desktop_config.json", `{"globalShortcut": "Ctrl+Space", "mcpServers": {"notes": {"command": "npx", "args": ["-y", "notes-mcp", "/home/ana/notes"]}}, "preferences": {"menuBarEnabled": false, "localAgent": {"enabled": true}}}`, "notes"},
	{"Cursor", "mcp.json", `{"mcpServers": {"crm": {"url": "https://crm.shop.example/mcp", "headers": {"Authorization": "Bearer ${env:CRM_KEY}"}, "auth": {"CLIENT_ID": "cursor"}},
 "py": {"type": "stdio", "command": "python", "args": ["${workspaceFolder}/mcp.py"], "env": {"MODE": "dev"}, "envFile": "${workspaceFolder}/.env"}}}`, "crm py"},
	{"Visual Studio Code", "mcp.json", `{
  // the key is asked for once
  "inputs": [{"type": "promptString", "id": "tickets-key", "description": "Key", "password": true, "default": ""}],
  "servers": {"tickets": {"type": "http", "url": "https://tickets.shop.example/mcp", "headers": {"X-Key": "${input:tickets-key}"}, "dev": {"watch": "src/**"}},},
  "sandbox": {"network": {"allowedDomains": ["shop.example"]}},
}`, "tickets"},
	{"Visual Studio Code, settings", "settings.json", `{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"prices": {"command": "prices-mcp"}}, "gallery": {"serviceUrl": "x"}}}`, "prices"},
	{"Codex", "config.toml", `
model = "gpt-5"
approval_policy = "on-request"

[mcp_servers.depot]
url = "https://depot.shop.example/mcp"
bearer_token_env_var = "DEPOT_TOKEN"
http_headers = { "X-Team" = "blue" }
env_http_headers = { "X-Trace" = "TRACE_ID" }
enabled_tools = ["find"]
disabled_tools = ["drop"]
startup_timeout_sec = 20

[mcp_servers.local]
command = "depot-mcp"
args = ["--stdio"]
env_vars = ["DEPOT_HOME"]
env = { "MODE" = "ro" }

[projects."/home/ana/depot"]
trust_level = "trusted"
`, "depot local"},
	{"Gemini CLI", "settings.json", `{"ui": {"theme": "GitHub"}, "tools": {"exclude": ["run_shell_command"]}, "mcp": {"allowed": ["mail", "maps"], "serverCommand": "x"},
"mcpServers": {"mail": {"httpUrl": "https://mail.shop.example/mcp", "includeTools": ["send"], "excludeTools": ["purge"], "trust": true, "timeout": 3000, "oauth": {"enabled": true, "scopes": ["a"]}},
 "maps": {"command": "maps-mcp", "cwd": "/srv/maps"}}}`, "mail maps"},
	{"agentgateway", "config.yaml", `
config: {adminAddr: "127.0.0.1:15000"}
binds:
- port: 3000
  listeners:
  - name: front
    protocol: HTTP
    routes:
    - matches: [{path: {pathPrefix: /mcp}}]
      policies:
        cors: {allowOrigins: ["https://shop.example"]}
        mcpAuthorization: {rules: ['mcp.tool.name == "find"']}
        localRateLimit: [{maxTokens: 10, fillInterval: 60s}]
      backends:
      - mcp:
          statefulMode: stateless
          targets:
          - {name: shop, mcp: {host: "https://shop.example/mcp", tls: {insecure: true}}, policies: {backendAuth: {key: {file: /k}}}}
          - {name: disk, stdio: {cmd: disk-mcp, args: [--ro], env: {ROOT: /srv}, clear_env: true}}
`, "shop disk"},
	{"LiteLLM", "config.yaml", `
model_list: [{model_name: m, litellm_params: {model: gpt-4o}}]
general_settings: {master_key: os.environ/MASTER, mcp_client_side_auth_header_name: x}
litellm_settings: {mcp_aliases: {w: wiki}}
guardrails: [{guardrail_name: pii, litellm_params: {mode: pre_mcp_call}}]
mcp_servers:
  wiki: {url: "https://wiki.shop.example/mcp", transport: http, auth_type: bearer_token, auth_value: os.environ/WIKI_KEY, static_headers: {X-A: b}, allowed_tools: [find], disallowed_tools: [drop], access_groups: [dev], allowed_params: {find: [q]}, mcp_info: {server_name: w}, description: d}
`, "wiki"},
	{"Windsurf", "mcp_config.json", `{"mcpServers": {"board": {"serverUrl": "https://board.shop.example/mcp", "disabledTools": ["wipe"], "disabled": false}}}`, "board"},
	{"Zed", "settings.json", `{"vim_mode": true, "context_servers": {"schema": {"source": "custom", "command": "schema-mcp", "args": [], "env": {"A": "b"}}, "old": {"command": {"path": "old-mcp", "args": ["-x"], "env": {}}, "settings": {"k": 1}}}}`, "schema old"},
	{"opencode", "opencode.jsonc", `{"$schema": "https://opencode.ai/config.json", "permission": {"bash": "ask"}, "mcp": {"lab": {"type": "local", "command": ["bun", "x", "lab-mcp"], "environment": {"LAB": "1"}, "enabled": true}, "far": {"type": "remote", "url": "https://far.shop.example/mcp", "headers": {"Authorization": "Bearer {env:FAR_KEY}"}, "timeout": 100}}}`, "lab far"},
	{"Goose", "config.yaml", `
GOOSE_MODEL: m
extensions:
  memo: {type: stdio, cmd: memo-mcp, args: [], envs: {A: b}, env_keys: [MEMO_KEY], enabled: true, timeout: 300, bundled: null, name: memo, available_tools: [read]}
  wide: {type: streamable_http, uri: "https://wide.shop.example/mcp", headers: {X: y}, enabled: true}
`, "memo wide"},
	{"Continue", "config.yaml", `
name: mine
models: [{name: m, provider: x}]
mcpServers:
  - {name: docs, type: streamable-http, url: "https://docs.shop.example/mcp", requestOptions: {timeout: 3}}
  - {name: sqlite, command: sqlite-mcp, args: [--db, a.db], connectionTimeout: 4}
`, "docs sqlite"},
	{"LibreChat", "librechat.yaml", `
version: 1.2.1
mcpServers:
  mail: {type: streamable-http, url: "https://mail.shop.example/mcp", headers: {X: "${MAIL_KEY}"}, serverInstructions: true, chatMenu: false}
`, "mail"},
	{"Amp", "settings.json", `{"amp.notifications.enabled": true, "amp.mcpServers": {"graph": {"command": "graph-mcp", "args": ["serve"]}}}`, "graph"},
}

// The formats of other programs are recognized, and give valid configurations.
func TestFormatsOfOtherPrograms(t *testing.T) {
	for _, tt := range foreignFiles {
		t.Run(tt.name, func(t *testing.T) {
			read, err := Read(tt.file, []byte(tt.text), Auto)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range read.Servers {
				if names = append(names, s.Name); s.Refused != "" {
					t.Errorf("%s is not imported: %s", s.Name, s.Refused)
				}
			}
			slices.Sort(names)
			want := strings.Fields(tt.servers)
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("servers %v, want %v", names, want)
			}
			convert(t, Auto, tt.text)
		})
	}
}

// Every key at every level of a file is read, or named as not imported: a key that no program
// knows is put into each object of each file, one at a time.
func TestEveryKeyIsReadOrNamed(t *testing.T) {
	const planted = "planted_key"
	for _, tt := range foreignFiles {
		t.Run(tt.name, func(t *testing.T) {
			doc, encode := parseForeign(t, tt.file, tt.text)
			var objects []map[string]any
			var visit func(v any)
			visit = func(v any) {
				switch v := v.(type) {
				case map[string]any:
					objects = append(objects, v)
					for _, member := range v {
						visit(member)
					}
				case []any:
					for _, member := range v {
						visit(member)
					}
				}
			}
			visit(doc)
			if len(objects) < 3 {
				t.Fatalf("%d objects", len(objects))
			}
			for _, object := range objects {
				object[planted] = "x"
				text := encode(doc)
				read, err := Read(tt.file, text, Auto)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				var out strings.Builder
				for _, u := range read.Unread {
					out.WriteString(u.String() + "\n")
				}
				for _, s := range read.Servers { // notes, and what became a header or a variable, or why it is no server
					fmt.Fprintln(&out, s.Name, s.Notes, s.Headers, s.Env, s.Refused)
				}
				if !strings.Contains(out.String(), planted) {
					t.Errorf("the key is not named:\n%s\n%s", text, out.String())
				}
				delete(object, planted)
			}
		})
	}
}

// parseForeign decodes a file, and returns the function that encodes it.
func parseForeign(t *testing.T, name, text string) (any, func(any) []byte) {
	t.Helper()
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var doc map[string]any
	var err error
	encode := func(v any) []byte { return must(json.Marshal(v)) }
	switch {
	case strings.HasSuffix(name, ".toml"):
		doc, err = parseTOML([]byte(text))
		encode = func(v any) []byte { return must(toml.Marshal(v)) }
	case strings.HasSuffix(name, ".yaml"):
		err = yaml.Unmarshal([]byte(text), &doc)
		encode = func(v any) []byte { return must(yaml.Marshal(v)) }
	default:
		err = json.Unmarshal(must(strictJSON([]byte(text))), &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc, encode
}

func TestVisualStudioCode(t *testing.T) {
	f, r := convert(t, Auto, `{"inputs": [{"id": "the-key", "type": "promptString", "password": true}],
"servers": {"one": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${input:the-key}"}}}}`)
	if len(r.Variables) != 1 || r.Variables[0].Name != "ONE_THE_KEY" || f.Upstreams[0].Headers["Authorization"] != "Bearer outside" || f.Upstreams[0].Prefix != "" {
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
