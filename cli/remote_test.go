package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/cli/command"
	"svc/cli/process"
	"svc/cli/process/processtest"
	"svc/store/api"
)

// answering is a control plane that sends the same response to every request.
func answering(t *testing.T, status int, header map[string]string, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRemoteErrors(t *testing.T) {
	tests := []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   string
	}{
		{"validation", 400, nil, `{"error":"invalid input","details":{"name":"is required","b":"too long"}}`,
			"svc: invalid input\n  b: too long\n  name: is required\n"},
		{"bad key", 401, nil, `{"error":"missing or invalid API key"}`,
			"svc: missing or invalid API key\nhint: check the API key: SVC_API_KEY, --api-key-file or --api-key\n"},
		{"not allowed", 403, nil, `{"error":"insufficient permission"}`,
			"svc: insufficient permission\nhint: use a key that may do this; 'api' keys without a team may do everything\n"},
		{"rate limit", 429, map[string]string{"Retry-After": "7"}, `{"error":"rate limit exceeded"}`,
			"svc: rate limit exceeded\nhint: try again in 7s\n"},
		{"internal", 500, map[string]string{"X-Request-Id": "req_1"}, `{"error":"internal error"}`,
			"svc: internal error (request req_1)\n"},
		{"a proxy's page", 502, nil, `<html>Bad Gateway</html>`, "svc: bad gateway\n"},
		{"escape sequences", 400, nil, `{"error":"bad \u001b]0;owned\u0007 name"}`, "svc: bad \ufffd]0;owned\ufffd name\n"},
		{"no JSON", 200, nil, `<html>hello</html>`, "svc: GET /api/agents: the response is not one of this API"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, out, errs := processtest.New(t)
			url := answering(t, tt.status, tt.header, tt.body)
			if code := Main(env, []string{"agents", "list", "--url", url, "--api-key", "k"}); code != command.ExitFailed {
				t.Errorf("exit code %d, want %d", code, command.ExitFailed)
			}
			if got := errs.String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("stderr %q, want %q", got, tt.want)
			}
			if out.Len() > 0 {
				t.Errorf("stdout %q, want nothing", out)
			}
		})
	}
}

// The precedence of the sources of the key: flag, file flag, variable, file
// variable.
func TestRemoteKey(t *testing.T) {
	seen := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		io.WriteString(w, `{"data":[],"total":0,"limit":50,"offset":0}`)
	}))
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := (process.Env{}).CreateFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		args  []string
		vars  map[string]string
		stdin string
		want  string
	}{
		{"flag", []string{"--api-key", "from-flag", "--api-key-file", file}, map[string]string{"SVC_API_KEY": "from-env"}, "", "Bearer from-flag"},
		{"file flag before variable", []string{"--api-key-file", file}, map[string]string{"SVC_API_KEY": "from-env"}, "", "Bearer from-file"},
		{"standard input", []string{"--api-key-file", "-"}, nil, "from-stdin\n", "Bearer from-stdin"},
		{"variable", nil, map[string]string{"SVC_API_KEY": "from-env", "SVC_API_KEY_FILE": file}, "", "Bearer from-env"},
		{"file variable", nil, map[string]string{"SVC_API_KEY_FILE": file}, "", "Bearer from-file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, _, errs := processtest.New(t)
			env.Stdin = strings.NewReader(tt.stdin)
			env.LookupEnv = func(k string) (string, bool) {
				if k == "SVC_URL" {
					return srv.URL, true
				}
				v, ok := tt.vars[k]
				return v, ok
			}
			if code := Main(env, append([]string{"agents", "list"}, tt.args...)); code != command.ExitOK {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			if got := <-seen; got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

// --all requests pages until it has as many items as the first response
// announced, and also ends when the list shrinks meanwhile.
func TestListAll(t *testing.T) {
	tests := []struct {
		name        string
		total, keep int // the announced total, and the items after the first page
		want        int
	}{
		{"three pages", 1203, 1203, 1203},
		{"exactly two", 1000, 1000, 1000},
		{"none", 0, 0, 0},
		{"shrinks", 1203, 600, 600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var limit, offset int
				fmt.Sscan(r.URL.Query().Get("limit"), &limit)
				fmt.Sscan(r.URL.Query().Get("offset"), &offset)
				there := tt.total
				if offset > 0 {
					there = tt.keep
				}
				page := api.Page[api.Team]{Data: []api.Team{}, Total: tt.total, Limit: limit, Offset: offset}
				for i := offset; i < min(offset+limit, there); i++ {
					page.Data = append(page.Data, api.Team{ID: fmt.Sprint("team_", i)})
				}
				json.NewEncoder(w).Encode(page)
			}))
			defer srv.Close()
			env, out, errs := processtest.New(t)
			if code := Main(env, []string{"teams", "list", "--all", "-o", "json", "--url", srv.URL, "--api-key", "k"}); code != command.ExitOK {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			var got api.Page[api.Team]
			if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Data) != tt.want {
				t.Errorf("%d teams, want %d", len(got.Data), tt.want)
			}
		})
	}
}

// A backup that the server aborts is an error, and leaves no file that looks
// complete.
func TestBackupBrokenOff(t *testing.T) {
	for _, trailer := range []string{"-1", "99", ""} {
		t.Run("trailer "+trailer, func(t *testing.T) {
			dir := t.TempDir()
			ln, err := net.Listen("unix", filepath.Join(dir, "svc.sock"))
			if err != nil {
				t.Skip(err) // the path of the test is too long for a socket
			}
			if err := os.WriteFile(filepath.Join(dir, "svc.sock.secret"), []byte("any\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/store" {
					json.NewEncoder(w).Encode(map[string]string{"path": filepath.Join(dir, "svc.db")})
					return
				}
				w.Header().Set("Trailer", "Svc-Backup-Bytes")
				io.WriteString(w, "half")
				w.Header().Set("Svc-Backup-Bytes", trailer)
			})}
			go srv.Serve(ln)
			t.Cleanup(func() { srv.Shutdown(context.Background()) })

			env, _, errs := processtest.New(t)
			to := filepath.Join(dir, "backup.db")
			if code := Main(env, []string{"store", "backup", to, "--data-dir", dir}); code != command.ExitFailed {
				t.Errorf("exit code %d, want %d", code, command.ExitFailed)
			}
			if !strings.Contains(errs.String(), "broke off the backup") {
				t.Errorf("stderr %q", errs)
			}
			left, err := filepath.Glob(filepath.Join(dir, "*backup*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}
