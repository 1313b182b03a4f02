package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected parts of the conversations")

// TestConversations runs the files under testdata/conversations. Each is a txtar archive in
// reading order: the rules, then for every exchange the client's request (request), the
// upstream's scripted response (upstream), the expected upstream request (forwarded), the
// expected response to the client (answer), and the expected audit lines. Ids and times that
// change from run to run are masked.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { converse(t, file) })
	}
}

func converse(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var script atomic.Value // of a string; the tool search sends requests of its own at any time
	script.Store("")
	for _, f := range slices.Backward(archive.Files) {
		if f.Name == "upstream" || strings.HasPrefix(f.Name, "upstream ") {
			script.Store(string(f.Data)) // the first script also answers requests that arrive before its place in the file
		}
	}
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) { play(t, w, script.Load().(string)) })
	r := newRig(t, conversationConfig(archive, up.URL))
	var got answer
	sent, lines := 0, 0
	for i := range archive.Files {
		f := &archive.Files[i]
		kind, _, _ := strings.Cut(f.Name, " ")
		switch kind {
		case "config":
		case "upstream":
			script.Store(string(f.Data))
		case "request":
			got = r.say(string(f.Data))
		case "forwarded":
			seen := up.seen()
			text := "nothing\n"
			if len(seen) > sent {
				text = forwarded(seen[sent])
			}
			sent = len(seen)
			compare(t, f, text)
		case "answer":
			compare(t, f, got.text())
		case "audit":
			all := r.lines(lines + max(1, strings.Count(string(f.Data), "\n")))
			compare(t, f, auditText(t, all[lines:]))
			lines = len(all)
		default:
			t.Fatalf("%s: unknown part %q", file, f.Name)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func conversationConfig(a *txtar.Archive, url string) string {
	for _, f := range a.Files {
		if f.Name == "config" {
			return "\ndefault_upstream: main\nupstreams:\n  - name: main\n    url: " + url +
				"\nroutes:\n  - match: {tool_name: \"*\"}\n    upstream: main\n" + string(f.Data)
		}
	}
	return basic(url)
}

// play answers with a script: a status line, header lines, an empty line, the body.
func play(t *testing.T, w http.ResponseWriter, script string) {
	head, body, _ := strings.Cut(script, "\n\n")
	lines := strings.Split(head, "\n")
	status, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		t.Errorf("upstream script begins with %q, want a status", lines[0])
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	if w.Header().Get("Content-Type") != "text/event-stream" {
		body = strings.TrimSuffix(body, "\n")
	}
	fmt.Fprint(w, body)
}

// say sends a request: header lines, an empty line, the body. A first line without a colon is the
// HTTP method.
func (r *rig) say(text string) answer {
	head, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		head, body = "", text
	}
	method := http.MethodPost
	var headers []string
	for line := range strings.SplitSeq(head, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			headers = append(headers, name, value)
		} else if line != "" {
			method = line
		}
	}
	return r.do(method, r.url, strings.TrimSuffix(body, "\n"), headers...)
}

func forwarded(s seen) string {
	var b strings.Builder
	for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		if v := s.header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&b, "%s\n", s.body)
	return b.String()
}

func (a answer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	for _, name := range []string{"Content-Type", "Retry-After", "WWW-Authenticate", "Allow"} {
		if v := a.header.Get(name); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&b, "\n%s", requestIDs.ReplaceAllString(a.body, "REQUEST_ID"))
	if !strings.HasSuffix(a.body, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

var requestIDs = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// auditText shows the members of each line that the conversations test.
func auditText(t *testing.T, lines []map[string]any) string {
	t.Helper()
	var b strings.Builder
	for _, line := range lines {
		for _, name := range []string{"seq", "ts", "request_id", "duration_ms", "bytes_in", "bytes_out", "spans", "hash", "client_ip", "principal_kind", "key_id"} {
			delete(line, name)
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	return b.String()
}

func compare(t *testing.T, f *txtar.File, got string) {
	t.Helper()
	if *update {
		f.Data = []byte(got)
		return
	}
	if want := string(f.Data); got != want {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", f.Name, got, want)
	}
}
