package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svc/cli/planecmd"
	"svc/cli/process/processtest"
	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/config"
	"svc/test/port"
)

// block is a fenced block of a document.
type block struct {
	file, info, text string
	line             int
	// notRun is the reason that a comment before the block gives why it is not run:
	// <!-- not run: reason -->
	notRun string
}

var (
	fence  = regexp.MustCompile("^```(.*)$")
	notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)
)

func blocksOf(t *testing.T, file string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	var open *block
	reason := ""
	for i, line := range strings.Split(string(text), "\n") {
		switch m := fence.FindStringSubmatch(line); {
		case open == nil && m != nil:
			open = &block{file: file, info: m[1], line: i + 1, notRun: reason}
		case open != nil && m != nil:
			out = append(out, *open)
			open, reason = nil, ""
		case open != nil:
			open.text += line + "\n"
		case strings.TrimSpace(line) != "":
			reason = ""
			if m := notRun.FindStringSubmatch(line); m != nil {
				reason = m[1]
			}
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block does not end", file, open.line)
	}
	return out
}

// pages returns the documents of the project, as paths relative to its root.
func pages(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "bench/*.md", "deploy/*.md", "completions/*.md", "gateway/policy/detect/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		files[i] = filepath.ToSlash(strings.TrimPrefix(f, ".."+string(filepath.Separator)))
	}
	return files
}

// run by other tests: those that run the blocks of a document
var runBy = map[string]string{
	"README.md":                   "TestReadme",
	"docs/quickstart.md":          "TestQuickstart",
	"docs/operations.md":          "TestOperationsDocument",
	"docs/operations-gateway.md":  "TestGatewayOperations",
	"docs/clients-and-servers.md": "TestClientsAndServers",
	"docs/data-flow.md":           "TestDataFlow",
	"docs/policy-cookbook.md":     "the tests of gateway/check and gateway/check",
	"docs/lint/":                  "gateway/check: each page's examples are linted",
}

// TestEveryBlockIsRun: every code block in a document is run by a test, or a comment
// gives the reason why not. Blocks that are not code have the language text.
func TestEveryBlockIsRun(t *testing.T) {
	for _, file := range pages(t) {
		for _, b := range blocksOf(t, file) {
			if b.info == "text" || b.info == "yaml" || b.info == "json" || b.notRun != "" {
				continue // text is not code; TestYAMLInDocuments and TestJSONInDocuments check the others
			}
			known := false
			for prefix := range runBy {
				known = known || strings.HasPrefix(file, prefix)
			}
			if !known || !slices.Contains([]string{"sh", "console"}, b.info) {
				t.Errorf("%s:%d: a block of %q that no test runs: give it one, mark it as text, or say why with <!-- not run: reason -->", file, b.line, b.info)
			}
		}
	}
}

// TestJSONInDocuments: blocks of the language json are valid JSON.
func TestJSONInDocuments(t *testing.T) {
	for _, file := range pages(t) {
		for _, b := range blocksOf(t, file) {
			if b.info == "json" && !json.Valid([]byte(b.text)) {
				t.Errorf("%s:%d: not JSON", b.file, b.line)
			}
		}
	}
}

// The rest of a configuration, for documents that show only a part.
var restOfConfig = map[string]string{
	"listen":           "listen: 127.0.0.1:8090\n",
	"license":          "license: {path: /etc/svc/license.jwt}\n",
	"default_upstream": "default_upstream: tools\n",
	"upstreams":        "upstreams: [{name: tools, url: 'http://127.0.0.1:9000/mcp'}]\n",
	"routes":           "routes: [{match: {tool_name: '*'}, upstream: tools}]\n",
	"policy":           "policy: {default_action: deny}\n",
	"audit":            "audit: {path: audit.jsonl}\n",
}

// TestYAMLInDocuments: blocks of the language yaml are a valid configuration of the
// gateway, or a valid part of one.
func TestYAMLInDocuments(t *testing.T) {
	hash, err := auth.Hash("svc_gw_first-client_x", auth.Params{MemoryKiB: 64, Time: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) {
		switch {
		case strings.HasSuffix(name, "_HASH"):
			return hash, true
		case strings.HasSuffix(name, "_URL"):
			return "http://127.0.0.1:9000/mcp", true
		case name == "SVC_INGEST_KEY":
			return "svc_ingest_" + strings.Repeat("A", 43), true
		}
		return "/set", true
	}
	top := regexp.MustCompile(`(?m)^([a-z_]+):`)
	for _, file := range pages(t) {
		if strings.HasPrefix(file, "docs/lint/") || file == "docs/policy-cookbook.md" {
			continue // checked by their own tests
		}
		for _, b := range blocksOf(t, file) {
			if b.info != "yaml" || b.notRun != "" {
				continue
			}
			if strings.HasPrefix(b.text, "kind: ") { // documents of svc apply
				if _, err := planecmd.Read(b.file, []byte(b.text)); err != nil {
					t.Errorf("%s:%d: %v", b.file, b.line, err)
				}
				continue
			}
			text := b.text
			for key, rest := range restOfConfig {
				if strings.Contains(b.text, "federation:") && (key == "default_upstream" || key == "routes") {
					continue // optional parts of a configuration
				}
				if !slices.ContainsFunc(top.FindAllStringSubmatch(b.text, -1), func(m []string) bool { return m[1] == key }) {
					text += rest
				}
			}
			path := filepath.Join(t.TempDir(), "svc.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if found := config.ReadDocument(path, config.Options{Getenv: lookup}).Findings(); diag.Err(found) != nil {
				t.Errorf("%s:%d: %v", b.file, b.line, diag.Err(found))
			}
		}
	}
}

// TestCommandsInDocuments: every svc command in a document exists and has the flags
// that it is given, also in blocks that are not run.
func TestCommandsInDocuments(t *testing.T) {
	env, _, _ := processtest.New(t)
	line := regexp.MustCompile(`(?:^|[$(;|&] *|= *)(?:\./)?svc ([a-z][^|;&)\n]*)`)
	for _, file := range pages(t) {
		for _, b := range blocksOf(t, file) {
			if b.info != "sh" && b.info != "console" {
				continue
			}
			text := strings.ReplaceAll(b.text, "\\\n", " ")
			for one := range strings.Lines(text) {
				if b.info == "console" && !strings.HasPrefix(one, "$ ") {
					continue
				}
				one, _, _ = strings.Cut(one, " #")
				for _, m := range line.FindAllStringSubmatch(strings.TrimSpace(one), -1) {
					words := strings.Fields(m[1])
					cmd, rest, err := newRoot(env).Find(words)
					if err == nil && cmd.HasSubCommands() {
						err = fmt.Errorf("is a group")
					}
					if err == nil && words[0] != "help" {
						for i, w := range rest { // the arguments of svc end at a redirection
							if strings.HasPrefix(w, ">") || strings.HasPrefix(w, "<") {
								rest = rest[:i]
								break
							}
						}
						err = cmd.ParseFlags(rest)
					}
					if err != nil {
						t.Errorf("%s:%d: svc %s: %v", b.file, b.line, m[1], err)
					}
				}
			}
		}
	}
}

// runDocument runs a script in an empty directory, with svc in PATH.
func runDocument(t *testing.T, dir, script string) string {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	cmd := exec.CommandContext(t.Context(), sh, "-c", "set -eux\ntrap 'kill $server 2>/dev/null || :' EXIT\n"+script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=10"} // TestMain has put svc there
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestQuickstart runs the sh blocks of docs/quickstart.md in order, in one shell.
func TestQuickstart(t *testing.T) {
	script := ""
	for _, b := range blocksOf(t, "docs/quickstart.md") {
		script += b.text
	}
	if !strings.Contains(script, "svc dev --data-dir demo") {
		t.Fatal("the quickstart does not start svc dev")
	}
	script = strings.NewReplacer("svc dev --data-dir demo", "svc dev --data-dir demo --listen 127.0.0.1:0 --gateway-listen 127.0.0.1:0",
		"sleep 1;", "sleep 0.05;").Replace(script)
	out := runDocument(t, t.TempDir(), script)
	for _, want := range []string{
		"policy_denied", "never-delete", "allow by read-the-shop -> deny by default_deny", "mask-cards", "no-ssn", "the cases notice",
		"result       unverified", `"body":"it is **** **** **** ****"`, "demo/gateway.yaml: no findings", "demo/gateway.yaml is valid",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}

// runWithDev runs the sh blocks of a document that starts svc dev in order, in one shell, at ports that
// are free, and returns what they print.
func runWithDev(t *testing.T, document string) string {
	t.Helper()
	script := ""
	for _, b := range blocksOf(t, document) {
		if b.info == "sh" {
			script += b.text
		}
	}
	if !strings.Contains(script, "svc dev --data-dir demo") {
		t.Fatal("the document does not start svc dev")
	}
	script = strings.NewReplacer("svc dev --data-dir demo", "svc dev --data-dir demo --listen 127.0.0.1:0 --gateway-listen 127.0.0.1:0",
		"sleep 1;", "sleep 0.05;").Replace(script)
	return runDocument(t, t.TempDir(), script)
}

// TestClientsAndServers runs the sh blocks of docs/clients-and-servers.md in order, in
// one shell.
func TestClientsAndServers(t *testing.T) {
	out := runWithDev(t, "docs/clients-and-servers.md")
	for _, want := range []string{`"name":"shop_search_orders"`, `"id":2,"result"`, `"message":"unauthorized"`, "error=unauthorized"} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}

// TestDataFlow runs the sh blocks of docs/data-flow.md in order, in one shell.
func TestDataFlow(t *testing.T) {
	out := runWithDev(t, "docs/data-flow.md")
	for _, want := range []string{
		"deny               403", "rule=no-mail-after-secrets", "key:dev    secrets", "shop      shop_read_deploy_config  secrets  -", "openWorldHint",
		"# - {name: private, tool_name: shop_get_customer}", "key:dev: cleared secrets", "error=labels_cleared",
		"labels:   secrets, after shop_read_deploy_config", "2 cases, 0 failed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, `"queued":true`); n != 2 {
		t.Errorf("%d mails were queued, want 2: before the secrets were read, and after the labels were cleared", n)
	}
}

// TestGatewayOperations runs the sh blocks of docs/operations-gateway.md in order,
// in one shell.
func TestGatewayOperations(t *testing.T) {
	script := ""
	for _, b := range blocksOf(t, "docs/operations-gateway.md") {
		if b.info == "sh" {
			script += b.text
		}
	}
	if !strings.Contains(script, "drain_signal_window: 5s") {
		t.Fatal("the document has another window")
	}
	script = strings.NewReplacer("127.0.0.1:8090", freeAddress(t), "sleep 1;", "sleep 0.05;", "drain_signal_window: 5s", "drain_signal_window: 0s").Replace(script)
	out := runDocument(t, t.TempDir(), script)
	for _, want := range []string{"svc.yaml is valid", "configuration reloaded", "with a good signature", "requests "} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}

// TestReadme runs the README's commands for one's own gateway and control plane, with
// free ports and the servers in the background. The gateway's tool server is the shop of
// svc dev; the call in the README must get its response through the gateway.
func TestReadme(t *testing.T) {
	dir := t.TempDir()
	script := ""
	for _, b := range blocksOf(t, "README.md") {
		switch {
		case b.info == "yaml" && strings.Contains(b.text, "listen:"):
			if err := os.WriteFile(filepath.Join(dir, "appended.yaml"), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case b.info == "console" && b.notRun == "":
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
				command, ok := strings.CutPrefix(line, "$ ")
				if !ok {
					t.Errorf("%s:%d: a line without a prompt: %s", b.file, b.line, line)
				}
				script += command
			}
		}
	}
	for _, command := range []string{"license init --subject acme >svc.yaml\n", "go build -o svc ./cmd/svc\n", "./svc gateway --config svc.yaml\n", "./svc serve --listen"} {
		if !strings.Contains(script, command) {
			t.Fatalf("the README has no command %q", command)
		}
	}
	gateway, plane := freeAddress(t), freeAddress(t)
	started := func(address string) string {
		return " &\nserver=\"$server $!\"\nuntil curl -sf http://" + address + "/readyz; do sleep 0.05; done\n"
	}
	script = strings.NewReplacer(
		"go build -o svc ./cmd/svc\n", "ln -s \"$(command -v svc)\" svc\n"+
			"./svc dev --listen 127.0.0.1:0 --gateway-listen 127.0.0.1:0 >dev.txt &\nserver=$!\nuntil grep -qs 'Ctrl-C stops' dev.txt; do sleep 0.05; done\n",
		"--subject acme >svc.yaml\n", "--subject acme >svc.yaml\ncat appended.yaml >>svc.yaml\n",
		"./svc gateway --config svc.yaml\n", "./svc gateway --config svc.yaml"+started(gateway),
		"./svc serve --listen 127.0.0.1:8081 --data-dir ./data\n", "./svc serve --listen "+plane+" --data-dir ./data"+started(plane),
		"127.0.0.1:8081", plane, "127.0.0.1:8091", gateway,
	).Replace(script)
	config := filepath.Join(dir, "appended.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "127.0.0.1:8091", gateway, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := runDocument(t, dir, script)
	for _, want := range []string{"svc.yaml is valid", "HTTP/1.1 200 OK", `"AWS_ACCESS_KEY_ID":"AKIA****"`, "pii-protection", "svc_ingest_", "backup.db"} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
