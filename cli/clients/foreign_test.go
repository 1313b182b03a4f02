package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/config"
)

// convert reads one file and writes the configuration. The configuration must be
// valid once all variables of the list are set, and must not contain any of
// secrets.
func convert(t *testing.T, form, text string) (*config.File, *Result) {
	t.Helper()
	read, err := Read("f", []byte(text), form)
	if err != nil {
		t.Fatal(err)
	}
	NameAll(read.Servers)
	r := Convert(read.Servers, read.Unread, "/w")
	set := map[string]string{ClientHash: "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQxMjM0NTY3OA$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"}
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

// Settings that restrict servers or access are applied where the gateway can, and named first
// where it cannot.
func TestRestrictionsAreAppliedOrNamed(t *testing.T) {
	read := func(file, text string) (*Foreign, string) {
		t.Helper()
		f, err := Read(file, []byte(text), Auto)
		if err != nil {
			t.Fatal(err)
		}
		var restricts []string
		for _, u := range f.Unread {
			if u.Restricts {
				restricts = append(restricts, u.String())
			}
		}
		return f, strings.Join(restricts, "\n")
	}
	f, _ := read("settings.json", `{"mcp": {"allowed": ["in", "out"], "excluded": ["out"]}, "mcpServers": {"in": {"command": "x"}, "out": {"command": "x"}, "unlisted": {"command": "x"}}}`)
	for i, want := range []string{"", "it is excluded there", "the list of allowed servers there (mcp.allowed) does not have it"} {
		if f.Servers[i].Refused != want {
			t.Errorf("%s: %q, want %q", f.Servers[i].Name, f.Servers[i].Refused, want)
		}
	}
	f, restricts := read(".claude.json", `{"projects": {"/p": {"allowedTools": [], "disabledMcpServers": ["b"], "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}, "/q": {"mcpServers": {"a": {"command": "x"}}}}}`)
	for i, want := range []string{"", "it is disabled in this project", "it is the same server as .claude.json, projects./p.mcpServers.a"} {
		if f.Servers[i].Refused != want {
			t.Errorf("%s: %q, want %q", f.Servers[i].From, f.Servers[i].Refused, want)
		}
	}
	if !strings.Contains(restricts, "allowedTools") {
		t.Errorf("restrictions: %q", restricts)
	}
	for _, tt := range foreignFiles {
		if tt.name != "agentgateway" {
			continue
		}
		f, restricts = read(tt.file, tt.text)
		for _, want := range []string{"mcpAuthorization {rules}", "cors {allowOrigins}", "localRateLimit"} {
			if !strings.Contains(restricts, want) {
				t.Errorf("%q is not named among the restrictions:\n%s", want, restricts)
			}
		}
		if notes := strings.Join(f.Servers[0].Notes, "; "); !strings.Contains(notes, "policies {backendAuth {key {file}}}") || !strings.Contains(notes, "mcp.tls {insecure}") {
			t.Errorf("notes of the target: %s", notes)
		}
	}
	f, _ = read("mcp.json", `{"mcpServers": {"a": {"command": "x", "includeTools": "find", "env": ["A=b"]}}}`)
	if notes := strings.Join(f.Servers[0].Notes, "; "); !strings.Contains(notes, "includeTools, which is not a list of strings") || !strings.Contains(notes, "env, which is not an object") {
		t.Errorf("notes: %s", notes)
	}
}

// A reference with a default is a variable with this value, in a URL too; a default that is a
// secret is in no message.
func TestDefaultsInReferences(t *testing.T) {
	f, r := convert(t, Auto, `{"mcpServers": {
"api": {"type": "http", "url": "${API_BASE:-https://api.shop.example}/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}},
"ftp": {"url": "${BASE:-ftp://h}/x"},
"db": {"command": "db-mcp", "env": {"DB": "${DB_URL:-postgres://127.0.0.1/dev}", "PW": "${DB_PASSWORD:-planted1}"}}}}`)
	if r.Carried != 2 || f.Upstreams[0].URL != "https://api.shop.example/mcp" || f.Upstreams[1].Env["DB"] != "postgres://127.0.0.1/dev" || f.Upstreams[1].Env["PW"] != "planted1" {
		t.Fatalf("%+v\n%s", f.Upstreams, r.Config)
	}
	read, err := Read("f", []byte(`{"mcpServers": {"any": {"url": "${ANY_BASE}/mcp"}}}`), Auto)
	if err != nil || read.Servers[0].Refused != "" { // the variable has the scheme and the host
		t.Errorf("%v, %+v", err, read.Servers)
	}
	for _, v := range r.Variables {
		if strings.Contains(v.For, "planted") {
			t.Errorf("a secret is in the text %q", v.For)
		}
		if v.Name == "API_API_BASE" && !strings.Contains(v.For, "(the default of the file is https://api.shop.example)") {
			t.Errorf("the default is not named: %q", v.For)
		}
	}
}

// A command with arguments in one word is imported as it is written, with a warning: no program
// has this name.
func TestACommandWithBlanksIsWarnedOf(t *testing.T) {
	for command, warned := range map[string]bool{"npx -y shop-mcp": true, "/usr/bin/node --inspect": true, "shop mcp": true, "shop-mcp": false, "/Applications/Shop Floor/mcp": false, `C:\\Program Files\\shop\\mcp.exe`: false} {
		read, err := Read("f", []byte(`{"mcpServers": {"a": {"command": "`+command+`"}}}`), Auto)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(read.Servers[0].Doubts) > 0; got != warned {
			t.Errorf("%s: %q", command, read.Servers[0].Doubts)
		}
	}
}

// Servers with the same variable get one variable each.
func TestVariablesOfOneName(t *testing.T) {
	f, r := convert(t, MCPJSON, `{"mcpServers": {
"a": {"command": "x", "env": {"API_KEY": "planted1"}}, "b": {"command": "x", "env": {"API_KEY": "planted2"}}, "c": {"command": "x", "env": {"API_KEY": "planted1"}},
"d": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}, "A": {"command": "x"}}}`)
	if len(r.Variables) != 4 || r.Variables[3].Name != "D_API_KEY" {
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
		if r.Carried != 1 || !strings.Contains(string(r.Config), "would call itself") || strings.Contains(string(r.Config), "svc-2") {
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

// A file of an attacker costs a bounded amount: TOML nested without end does not overflow the stack, also
// in keys with dots and in inline tables; a YAML map of very many keys, which its decoder compares with each
// other, is refused; so is an alias that contains itself; settings that nobody reads are named up to a bound.
func TestHostileFilesAreBounded(t *testing.T) {
	const many = 4 << 20
	for _, tt := range []struct{ name, text, want string }{
		{"arrays in TOML", "a = " + strings.Repeat("[", many), "nested too deeply"},
		{"inline tables in TOML", "a = " + strings.Repeat("{a=", many), "nested too deeply"},
		{"a key with dots in TOML", strings.Repeat("a.", many) + "a = 1", "nested too deeply"},
		{"a table with dots in TOML", "[" + strings.Repeat("a.", many) + "a]", "nested too deeply"},
		{"after strings in TOML", "a = \"\\\"[\" # [\nb = '['\nc = \"\"\"\n\\\"\"\" \"\"\"\nd = " + strings.Repeat("[", many), "nested too deeply"},
		{"a map of many keys in YAML", "mcp_servers:\n" + strings.Repeat("  s: 1\n", maxKeys+1), "more than 5000 keys"},
		{"an alias to itself in YAML", "mcp_servers: &a {x: *a}", "contains itself"},
		{"brackets in JSON", `{"mcpServers":` + strings.Repeat("[", many), "nested too deeply"},
	} {
		if _, err := Read("f", []byte(tt.text), Auto); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	brackets := strings.Repeat("[", 2*maxDepth)
	read, err := Read("f.toml", []byte("a = \""+brackets+"\" # "+brackets+"\nb = '''"+brackets+"'''\nc = ["+strings.Repeat("0.5, ", 2*maxDepth)+"]\n[mcp_servers.x]\ncommand = 'x'\n"), Auto)
	if err != nil || len(read.Servers) != 1 {
		t.Errorf("brackets in strings and comments: %v", err)
	}
	var b strings.Builder
	for i := range 10 * maxNamed {
		fmt.Fprintf(&b, `, "k%d": %d`, i, i)
	}
	for _, form := range []string{`{"mcpServers": {"x": {"command": "x"%s}}}`, `{"mcp_servers": {"x": {"command": "x"%s}}}`} {
		read, err := Read("f", fmt.Appendf(nil, form, b.String()), Auto)
		if err != nil || len(read.Servers[0].Notes) != maxNamed+1 || !slices.Contains(read.Servers[0].Notes, "540 more settings") {
			t.Errorf("%s: %v, %d notes", form, err, len(read.Servers[0].Notes))
		}
	}
}

// No secret is in the configuration or in a message: with the arguments in one text with the program, in
// a command for a shell, in headers as arguments, in URLs of databases and webhooks, after --user, as a
// default, and in an error about a file that holds nothing but a key.
func TestSecretsOfImportedServersAreHidden(t *testing.T) {
	const secret = "planted4secret"
	for _, entry := range []string{
		`"command": "npx stock --api-key planted4secret"`,
		`"command": "npx stock sk-planted4secret"`,
		`"command": "https://ina:planted4secret@stock.example"`,
		`"command": "sh", "args": ["-c", "curl -H 'Authorization: Bearer planted4secret' https://stock.example"]`,
		`"command": "sh", "args": ["-c", "STOCK_TOKEN=planted4secret stock ${HOME}"]`,
		`"command": "x", "args": ["--header", "Authorization:Bearer planted4secret"]`,
		`"command": "x", "args": ["--header", "X-Api-Key: planted4secret"]`,
		`"command": "x", "args": ["postgresql://ina:planted4secret@db.example/stock"]`,
		`"command": "x", "args": ["--user", "ina:planted4secret"]`,
		`"command": "x", "env": {"CACHE": "redis://:planted4secret@cache.example:6379"}`,
		`"command": "x", "env": {"HOOK": "https://hooks.example/services/T1/planted4secret0123456789ab"}`,
		`"command": "x", "env": {"HOOK": "https://hooks.example/?token=planted4secret"}`,
		`"command": "x", "env": {"PASS": "${PASS:-planted4secret}"}`,
		`"command": "x", "env": {"OPTIONS": "${HOME} --password planted4secret"}`,
		`"command": "npx", "args": ["mcp-remote", "https://stock.example/mcp", "--header=Authorization:Bearer planted4secret"]`,
		`"url": "https://ina:planted4secret@stock.example/mcp"`,
		`"url": "https://stock.example/mcp", "headers": {"Cookie": "sid=planted4secret"}`,
	} {
		read, err := Read("f", []byte(`{"mcpServers": {"one": {`+entry+`}, "two": {"command": "x"}}}`), Auto)
		if err != nil {
			t.Fatal(err)
		}
		NameAll(read.Servers)
		r := Convert(read.Servers, read.Unread, "/w")
		told := string(r.Config)
		for _, s := range read.Servers {
			told += strings.Join(append(append([]string{s.Refused}, s.Notes...), s.Doubts...), "\n")
		}
		for _, v := range r.Variables {
			told += v.Name + v.For
		}
		if strings.Contains(told, secret) {
			t.Errorf("%s: the secret is in\n%s", entry, told)
		}
		if read.Servers[0].Refused == "" && !strings.Contains(string(r.EnvFile()), secret) {
			t.Errorf("%s: the secret is lost: %s", entry, r.EnvFile())
		}
	}
	for _, text := range []string{secret, "-----BEGIN PRIVATE KEY-----\n" + secret, "- " + secret, `"` + secret + `"`} {
		if _, err := Read("f", []byte(text), Auto); err == nil || strings.Contains(err.Error(), "plant") || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("a file with a key alone: %v", err)
		}
	}
	// Two numbers are a user and a group, and a path has no secret.
	if f, _ := convert(t, Auto, `{"mcpServers": {"x": {"command": "docker", "args": ["run", "--user", "1000:1000", "-v", "/srv/stock:/data", "stock:1.2"], "env": {"AT": "https://stock.example/api/v1"}}}}`); f.Upstreams[0].Command[3] != "1000:1000" || f.Upstreams[0].Env["AT"] != "https://stock.example/api/v1" {
		t.Errorf("%q", f.Upstreams[0].Command)
	}
}

// Names that differ only in letters' case or in characters that no prefix has, and names that begin with
// another name and an underscore, get different prefixes, of which none begins with another.
func TestPrefixesOfImportedServersDoNotOverlap(t *testing.T) {
	for _, names := range [][]string{{"a", "a_b"}, {"a_b", "a"}, {"a_b_c", "a_b", "A_B", "a-b"}, {"../a", "a", "A", "a\u0000", "ä a"}, {"svc_x", "svc"}, {"x_y", "x_z"}} {
		var servers []*Found
		for _, name := range names {
			servers = append(servers, &Found{Name: name, Command: []string{"x"}})
		}
		NameAll(servers)
		for i, one := range servers {
			for j, other := range servers {
				if i != j && strings.HasPrefix(strings.ToLower(other.Name)+"_", strings.ToLower(one.Name)+"_") {
					t.Errorf("%q: the prefix of %q begins with that of %q", names, other.Name, one.Name)
				}
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"mcpServers":{"a":{"command":"x","args":["--key","v"],"env":{"A":"b"}}}}`, "mcp_servers:\n  a: {url: 'http://h'}\n", "mcp: {targets: [{name: a, stdio: {cmd: x}}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := Read("f", text, Auto)
		if err != nil {
			return
		}
		NameAll(read.Servers)
		r := Convert(read.Servers, read.Unread, "/w")
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

// The variables of an imported file are named SERVER_VARIABLE, also where the file refers to one: no
// name that a shell, the loader, a runtime or svc itself reads gets into the file of --env-file, and
// no variable of the gateway's own environment into the configuration.
func TestNamesOfImportedVariables(t *testing.T) {
	const value = "'s3cr3t-0123456789abcdefghij'"
	_, r := convert(t, MCPJSON, strings.ReplaceAll(`{"mcpServers": {
"shop": {"command": "x", "env": {"PATH": "${HOME}/planted:${PATH}", "GODEBUG": VALUE, "HTTPS_PROXY": "http://u:planted@evil.example:1", "SVC_API_KEY": VALUE, "LD_PRELOAD": VALUE, "Y": "${X}"}},
"svc": {"url": "https://h/mcp", "headers": {"Api-Key": "${API_KEY}", "X": "${SVC_API_KEY}"}},
"ld": {"command": "x", "env": {"PRELOAD": VALUE, "LIBRARY_PATH": "${HOME}"}},
"https": {"command": "x", "env": {"PROXY": VALUE}},
"git": {"command": "x", "env": {"SSH_COMMAND": VALUE}},
"a": {"url": "https://h/a", "headers": {"K": "${B_C}"}},
"a-b": {"url": "https://h/b", "headers": {"K": "${C}"}}}}`, "VALUE", strconv.Quote(strings.Trim(value, "'"))))
	names := map[string]bool{}
	for _, v := range r.Variables {
		names[v.Name] = true
	}
	for _, want := range []string{"SHOP_HOME", "SHOP_PATH", "SHOP_GODEBUG", "SHOP_HTTPS_PROXY", "SHOP_SVC_API_KEY", "SHOP_LD_PRELOAD", "SHOP_X",
		"IMPORTED_SVC_2_API_KEY", "IMPORTED_SVC_2_SVC_API_KEY", "IMPORTED_LD_PRELOAD", "IMPORTED_LD_HOME", "IMPORTED_HTTPS_PROXY", "IMPORTED_GIT_SSH_COMMAND", "A_B_C", "A_B_C_2"} {
		if !names[want] {
			t.Errorf("no variable %s", want)
		}
		delete(names, want)
	}
	if len(names) > 0 {
		t.Errorf("also %v", names)
	}
	// systemd ends a line at a carriage return too.
	r.Variables = append(r.Variables, Variable{Name: "SHOP_Y", For: "Y\rLD_PRELOAD=planted\nPATH=planted", Value: "x"})
	for _, line := range strings.FieldsFunc(string(r.EnvFile()), func(r rune) bool { return r == '\n' || r == '\r' }) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(name, "SHOP_") && !strings.HasPrefix(name, "IMPORTED_") && !strings.HasPrefix(name, "A_B_C") {
			t.Errorf("line %q", line)
		}
	}
}
