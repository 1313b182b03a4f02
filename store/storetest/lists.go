package storetest

import (
	"fmt"
	"slices"
	"testing"

	"svc/store"
)

// testLists checks order, totals and pages of the paged lists.
func testLists(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "history")
	const n = 7
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		must(tn.CreateTeam(ctx, store.TeamCreate{Name: name}))(t)
		newAgent(t, tn, name)
		must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: name}))(t)
		must(tn.CreateKey(ctx, store.KeyCreate{Name: name, Scope: store.ScopeIngest, Digest: store.DigestKey(name), CreatedBy: store.DefaultAdminID}))(t)
		must(tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{ConfigYAML: &name}))(t)
		ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: name, AgentID: agent.ID, Status: store.TraceSuccess, ToolName: name})
	}
	for _, list := range []struct {
		name string
		get  func(store.Page) ([]string, int, error)
	}{
		{"teams", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListTeams(ctx, p)
			return ids(l, func(x store.Team) string { return x.Name }), n, err
		}},
		{"policies", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListPolicies(ctx, store.PolicyFilter{}, p)
			return ids(l, func(x store.Policy) string { return x.Name }), n, err
		}},
		{"keys", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListKeys(ctx, store.KeyFilter{Scope: store.ScopeIngest}, p)
			return ids(l, func(x store.Key) string { return x.Name }), n, err
		}},
		{"deployments", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListDeployments(ctx, agent.ID, p)
			return ids(l, func(x store.Deployment) string { return x.ConfigYAML }), n, err
		}},
		{"tools", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListTools(ctx, agent.ID, p)
			return ids(l, func(x store.AgentTool) string { return x.ToolName }), n, err
		}},
		{"traces", func(p store.Page) ([]string, int, error) {
			l, n, err := tn.ListTraces(ctx, store.TraceFilter{}, p)
			return ids(l, func(x store.Trace) string { return x.ID }), n, err
		}},
	} {
		for page, want := range map[store.Page][]string{
			{}:                          {"n6", "n5", "n4", "n3", "n2", "n1", "n0"},
			{Limit: 2}:                  {"n6", "n5"},
			{Limit: 3, Offset: 5}:       {"n1", "n0"},
			{Limit: 3, Offset: 7}:       {},
			{Limit: 3, Offset: 1 << 60}: {},
		} {
			got, total, err := list.get(page)
			if err != nil || total != n || !slices.Equal(got, want) || got == nil {
				t.Errorf("%s %+v: %v of %d, %v; want %v of %d", list.name, page, got, total, err, want, n)
			}
		}
	}
}

func testClosed(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	st := must(tn.StreamTraces(ctx, store.StreamOptions{}))(t)
	ended := make(chan error, 1)
	go func() { _, err := st.Next(ctx); ended <- err }()
	if err := o.Records.Ready(ctx); err != nil {
		t.Errorf("not ready: %v", err)
	}
	for _, of := range []store.Opened{o.Records, o.Traces} {
		if info := must(of.Info(ctx))(t); info.Backend == "" || info.Location == "" || info.SchemaVersion < 1 {
			t.Errorf("info %+v", info)
		}
	}
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != store.ErrClosed {
		t.Errorf("stream ended with %v", err)
	}
	for call, err := range map[string]error{
		"read":          second(tn.GetTeam(ctx, "x")),
		"write":         second(tn.CreateTeam(ctx, store.TeamCreate{Name: "x"})),
		"ingest":        second(tn.Ingest(ctx, store.Batch{Traces: []store.Trace{{AgentName: "a", Status: store.TraceSuccess}}})),
		"ready":         o.Records.Ready(ctx),
		"ready, traces": o.Traces.Ready(ctx),
	} {
		if err != store.ErrClosed {
			t.Errorf("%s on a closed store: %v, want ErrClosed", call, err)
		}
	}
	if err := o.close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
