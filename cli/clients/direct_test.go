package clients

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	directJSON = `{
  // mine
  "mcpServers": {
    "disk": {"command": "npx", "args": ["-y", "disk-mcp", "/srv"]}, // the disk
    "wiki": {
      "url": "https://${WIKI_HOST}/mcp",
      "headers": {"X": "y"}
    },
    /* kept */
    "shop": {"httpUrl": "https://SHOP.example:443/mcp"},
    "same-name": {"command": "other"},
    "off": {"command": "npx", "disabled": true},
    "svc": {"command": "/usr/bin/svc", "args": ["connect", "--stdio"]},
    "gate": {"url": "https://gw.example/mcp"},
    "unset": {"url": "https://${UNSET}/mcp"}
  },
  "theme": "dark"
}
`
	directTOML = `model = "m"

# the disk
[mcp_servers.disk]
command = "npx"
args = ["-y", "disk-mcp", "/srv"]

[mcp_servers.disk.env]
A = "b"

[mcp_servers.wiki]
url = "https://wiki.example/mcp"

[mcp_servers.same-name]
command = "other"

[tui]
theme = "dark"
`
)

var (
	behind = []Upstream{{Command: []string{"npx", "-y", "disk-mcp", "/srv"}}, {URL: "https://wiki.example/mcp"}, {URL: "https://shop.example/mcp"},
		{Command: []string{"not", "the", "same"}}, {URL: "https:///mcp"}}
	directEnv = func(name string) (string, bool) { return "wiki.example", name == "WIKI_HOST" }
)

func gateServer() *Server { return &Server{Name: "svc", URL: "https://gw.example/mcp", KeyEnv: "K"} }

// The servers that a client reaches past the gateway are named. Those behind the gateway are
// recognized by command and arguments or by URL, after variables, never by name alone; they can be
// removed, and the rest of the file, with its comments, is as before.
func TestDirectServersAreNamedAndRemoved(t *testing.T) {
	for _, tt := range []struct {
		client, file, text   string
		direct, gone, absent []string
		kept                 []string // of the text
	}{
		{"cursor", "mcp.json", directJSON, []string{"disk", "wiki", "shop", "same-name", "unset"}, []string{"disk", "wiki", "shop"}, []string{"disk-mcp", "X", "SHOP"},
			[]string{"// mine", "// the disk", "/* kept */", `"off": {"command": "npx", "disabled": true},`, `"theme": "dark"`, `"unset": {"url": "https://${UNSET}/mcp"}`}},
		{"codex", "config.toml", directTOML, []string{"disk", "wiki", "same-name"}, []string{"disk", "wiki"}, []string{"disk-mcp", "wiki"}, []string{`model = "m"`, "# the disk", "[mcp_servers.same-name]", "[tui]\ntheme"}},
	} {
		t.Run(tt.client, func(t *testing.T) {
			c, _ := Find(tt.client)
			text := []byte(tt.text)
			var names, gone []string
			for _, f := range c.Direct(tt.file, text, gateServer()) {
				names = append(names, f.Name)
				if !f.Behind(behind, directEnv) {
					continue
				}
				without, ok, err := c.Remove(text, f)
				if err != nil || !ok {
					t.Fatalf("%s: %v %v\n%s", f.Name, ok, err, without)
				}
				text, gone = without, append(gone, f.Name)
			}
			slices.Sort(names)
			slices.Sort(gone)
			slices.Sort(tt.direct)
			slices.Sort(tt.gone)
			if !reflect.DeepEqual(names, tt.direct) || !reflect.DeepEqual(gone, tt.gone) {
				t.Errorf("direct %v, want %v; removed %v, want %v", names, tt.direct, gone, tt.gone)
			}
			for _, kept := range tt.kept {
				if !strings.Contains(string(text), kept) {
					t.Errorf("%q is lost:\n%s", kept, text)
				}
			}
			for _, part := range tt.absent {
				if strings.Contains(string(text), part) {
					t.Errorf("%q is still there:\n%s", part, text)
				}
			}
		})
	}
}

// The commas of the members that remain are right, whichever member is removed.
func TestRemoveMember(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"a": 1}}`:                            `{"mcpServers": {}}`,
		`{"mcpServers": {"a": 1,}}`:                           `{"mcpServers": {}}`,
		`{"mcpServers": {"a": 1, "b": 2}}`:                    `{"mcpServers": { "b": 2}}`,
		`{"mcpServers": {"b": 2, "a": 1}}`:                    `{"mcpServers": {"b": 2 }}`,
		`{"mcpServers": {"b": 2, "a": 1,}}`:                   `{"mcpServers": {"b": 2, }}`,
		`{"mcpServers": {"b": 2 /* x */ , "a": 1 /* y, */ }}`: `{"mcpServers": {"b": 2 /* x */   /* y, */ }}`,
		"{\"mcpServers\": {\n  \"a\": 1,\n  \"b\": 2\n}}":     "{\"mcpServers\": {\n  \"b\": 2\n}}",
		`{"mcpServers": {"b": {"a": 1}, "a": {"a": 1}}}`:      `{"mcpServers": {"b": {"a": 1} }}`,
	} {
		got, err := removeMember([]byte(text), "mcpServers", "a")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`{"mcpServers": {"b": 1}}`, `{"mcpServers": {"a": 1, "a": 2}}`, `{}`, `{"mcpServers": `} {
		if got, err := removeMember([]byte(text), "mcpServers", "a"); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"mcp_servers = { a = { command = \"x\" } }\n", "[mcp_servers]\na.command = \"x\"\n"} {
		if got, err := removeTOML([]byte(text), "a"); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
}
