package policycmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
	"svc/cli/rest"
	"svc/gateway/policy/flow"
	"svc/store/api"
)

// svc why names the last earlier call of the caller that set each label, from audit files and from traces.
func TestWhyNamesWhatSetALabel(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	type call struct {
		id        string
		minute    int
		principal string
		session   string
		sets      []string
	}
	calls := []call{
		{"r1", 0, "alice", "s1", []string{"private", "untrusted"}},
		{"r2", 5, "alice", "s2", []string{"private"}},
		{"r3", 6, "bob", "s3", []string{"private"}},
		{"r4", 7, "alice", "s1", []string{"other"}},
		{"asked", 10, "alice", "s1", []string{"private"}},
		{"r6", 11, "alice", "s1", []string{"private"}},
	}
	var file strings.Builder
	var items []api.TraceItem
	for i, c := range calls {
		labels := ""
		item := api.TraceItem{ID: c.id, RequestID: c.id, Principal: c.principal, SessionID: c.session, Sets: c.sets, CreatedAt: at.Add(time.Duration(c.minute) * time.Minute), ToolName: "tool_" + c.id}
		if c.id == "asked" {
			labels, item.Labels = `"labels":["gone","private","untrusted"],`, []string{"gone", "private", "untrusted"}
		}
		sets, _ := json.Marshal(c.sets)
		fmt.Fprintf(&file, `{"seq":%d,"ts":%q,"kind":"request","request_id":%q,"action":"allow","rpc":"request","method":"tools/call","tool":"tool_%s","upstream":"up","principal":%q,"principal_kind":"key","session":%q,%s"sets":%s}`+"\n",
			i+1, item.CreatedAt.Format(time.RFC3339), c.id, c.id, c.principal, c.session, labels, sets)
		items = append([]api.TraceItem{item}, items...)
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []string
	home := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		page := api.Page[api.TraceItem]{Data: items[:3], Next: "more"}
		if r.URL.Query().Get("after") != "" {
			page = api.Page[api.TraceItem]{Data: items[3:]}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	for _, c := range []struct {
		name   string
		config *flow.Config
		want   string // the request for each label
	}{
		{"no configuration", nil, "gone: private:r2 untrusted:r1"},
		{"within the window", &flow.Config{Scope: flow.ScopePrincipal, Window: 7 * time.Minute}, "gone: private:r2 untrusted:"},
		{"of the session", &flow.Config{Scope: flow.ScopeSession, Window: time.Hour}, "gone: private:r1 untrusted:r1"},
	} {
		for _, from := range []string{"lines", "traces"} {
			t.Run(c.name+", "+from, func(t *testing.T) {
				env := process.Env{Stderr: io.Discard, LookupEnv: func(name string) (string, bool) {
					return map[string]string{"SVC_API_KEY": "svc_api_x", "HOME": home}[name], name == "SVC_API_KEY" || name == "HOME"
				}}
				o := whyOptions{rest: &rest.Connection{Env: env, URL: server.URL}}
				q := ofTrace(&api.Trace{TraceItem: items[1]})
				if from == "lines" {
					o.audit = []string{path}
					var err error
					if q, err = findLine(t.Context(), path, "asked"); err != nil {
						t.Fatal(err)
					}
				}
				if err := o.setBy(t.Context(), q, c.config); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, l := range q.SetBy {
					got = append(got, l.Label+":"+l.Request)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("got %v, want %s", got, c.want)
				}
				var b bytes.Buffer
				if err := writeWhy(&b, explain(q)); err != nil || !strings.Contains(b.String(), "labels:       gone, private, untrusted\nset by:       gone: no earlier call of the caller that set it was found\nset by:       private: tool_r") ||
					!strings.Contains(b.String(), "sets:         private\n") {
					t.Errorf("%v: %s", err, b.String())
				}
			})
		}
	}
	if len(asked) == 0 || !strings.Contains(asked[0], "principal=alice") || !strings.Contains(asked[len(asked)-1], "sessionId=s1") {
		t.Errorf("asked for %q", asked)
	}
}
