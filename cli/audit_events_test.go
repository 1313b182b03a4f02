package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/cli/command"
	"svc/cli/process/processtest"
	"svc/store/api"
)

// chain returns events with a valid hash chain, newest first.
func chain(n int) []api.AuditEvent {
	events := make([]api.AuditEvent, n)
	previous := ""
	for i := n - 1; i >= 0; i-- {
		e := api.AuditEvent{
			ID: fmt.Sprintf("evt_%02d", n-i), CreatedAt: time.Date(2026, 11, 23, 10, n-i, 0, 0, time.UTC),
			Actor: api.AuditActor{KeyID: "key_1"}, Method: "PUT", Route: "/api/agents/{id}",
			Object: api.AuditObject{Kind: "agent", ID: "agt_1", Name: "bot"}, Changed: []string{"name"}, Before: "a", After: "b",
		}
		e.Hash = e.Link(previous)
		previous, events[i] = e.Hash, e
	}
	return events
}

// svc audit events --verify accepts an intact chain of several pages, and names
// the first event at which a modified chain is broken.
func TestAuditEventsVerify(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func([]api.AuditEvent) []api.AuditEvent
		head   func([]api.AuditEvent) string
		want   string // part of the error; empty for an intact chain
	}{
		{name: "whole"},
		{name: "with its head", head: func(e []api.AuditEvent) string { return e[2].Hash }},
		{name: "without the newest", change: func(e []api.AuditEvent) []api.AuditEvent { return e[1:] }},
		{name: "without the newest, with its head", change: func(e []api.AuditEvent) []api.AuditEvent { return e[1:] },
			head: func(e []api.AuditEvent) string { return e[0].Hash }, want: "does not have the hash of --head"},
		{name: "another actor", change: func(e []api.AuditEvent) []api.AuditEvent { e[2].Actor.KeyID = "key_2"; return e }, want: "event evt_05 "},
		{name: "another object", change: func(e []api.AuditEvent) []api.AuditEvent { e[3].Object.ID = "agt_2"; return e }, want: "event evt_04 "},
		{name: "another time of the oldest", change: func(e []api.AuditEvent) []api.AuditEvent {
			e[6].CreatedAt = e[6].CreatedAt.Add(time.Hour)
			return e
		}, want: "event evt_01 "},
		{name: "fields of the newest", change: func(e []api.AuditEvent) []api.AuditEvent { e[0].Changed = nil; return e }, want: "event evt_07 "},
		{name: "one removed", change: func(e []api.AuditEvent) []api.AuditEvent { return slices.Delete(e, 3, 4) }, want: "event evt_05 "},
		{name: "the oldest removed", change: func(e []api.AuditEvent) []api.AuditEvent { return e[:6] }, want: "event evt_02 "},
		{name: "two changed places", change: func(e []api.AuditEvent) []api.AuditEvent { e[1], e[2] = e[2], e[1]; return e }, want: "does not continue the chain"},
		{name: "one with a hash of its own", change: func(e []api.AuditEvent) []api.AuditEvent {
			e[3].Object.Name = "x"
			e[3].Hash = e[3].Link(e[4].Hash)
			return e
		}, want: "event evt_05 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events := chain(7)
			args := []string{"audit", "events", "--verify"}
			if tt.head != nil {
				args = append(args, "--head", tt.head(events))
			}
			if tt.change != nil {
				events = tt.change(events)
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				at := 0
				if _, err := fmt.Sscan(r.URL.Query().Get("after"), &at); err != nil {
					at = 0
				}
				page := api.AuditEvents{Data: events[at:min(at+3, len(events))]}
				if at+3 < len(events) {
					page.Next, page.PreviousHash = fmt.Sprint(at+3), events[at+3].Hash
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(page); err != nil {
					t.Error(err)
				}
			}))
			defer srv.Close()
			env, out, errs := processtest.New(t)
			env.LookupEnv = func(name string) (string, bool) {
				v, ok := map[string]string{"SVC_URL": srv.URL, "SVC_API_KEY": "svc_api_x"}[name]
				return v, ok
			}
			code := Main(env, args)
			if tt.want == "" && (code != command.ExitOK || !strings.Contains(out.String(), "events verified")) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			if tt.want != "" && (code == command.ExitOK || !strings.Contains(errs.String(), tt.want)) {
				t.Errorf("exit code %d, want %q\n%s%s", code, tt.want, out, errs)
			}
		})
	}
}
