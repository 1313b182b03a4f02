package storetest

import (
	"fmt"
	"testing"

	"svc/store"
)

// testAgentAliases: a former name resolves to its agent until another agent gets
// that name by any method.
func testAgentAliases(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	means := func(name string) string {
		t.Helper()
		id := fmt.Sprint(name, o.Clock.Now().UnixNano())
		ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: id, AgentName: name, Status: store.TraceSuccess, Cost: 1})
		return must(tn.GetTrace(ctx, id))(t).AgentID
	}
	rename := func(a store.Agent, to string) error {
		_, err := tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{Name: &to})
		return err
	}
	aliases := func(want ...store.AgentAlias) {
		t.Helper()
		if got := must(tn.ListAgentAliases(ctx))(t); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("aliases %+v, want %+v", got, want)
		}
	}
	a := newAgent(t, tn, "a")
	if means("a") != a.ID { // the alias stays
		t.Error("a is another agent")
	}
	if err := rename(a, "a2"); err != nil {
		t.Fatal(err)
	}
	aliases(store.AgentAlias{Alias: "a", AgentID: a.ID, AgentName: "a2"})
	if means("a") != a.ID || means("a2") != a.ID {
		t.Error("the old or the new name does not resolve to the renamed agent")
	}
	if _, total, err := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}); err != nil || total != 1 {
		t.Errorf("%d agents, %v", total, err)
	}
	if err := rename(a, "a2"); err != nil { // to its current name
		t.Fatal(err)
	}
	aliases(store.AgentAlias{Alias: "a", AgentID: a.ID, AgentName: "a2"})
	if err := rename(a, "a"); err != nil { // and back to the former one
		t.Fatal(err)
	}
	aliases(store.AgentAlias{Alias: "a2", AgentID: a.ID, AgentName: "a"})

	b := newAgent(t, tn, "a2") // a new agent takes over the alias
	aliases()
	if means("a2") != b.ID {
		t.Error("the name of a new agent resolves to the old one")
	}
	if err := rename(b, "b"); err != nil {
		t.Fatal(err)
	}
	if err := rename(a, "a2"); err != nil { // an agent is renamed to another's alias
		t.Fatal(err)
	}
	aliases(store.AgentAlias{Alias: "a", AgentID: a.ID, AgentName: "a2"})
	if means("a2") != a.ID || means("a") != a.ID {
		t.Error("after a change of name to another agent's alias")
	}
	wantKind(t, rename(b, "a2"), store.Conflict, "name")

	if err := tn.DeleteAgent(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	aliases()
	if id := means("a"); id == "" || id == a.ID {
		t.Errorf("the alias of a deleted agent resolves to %q", id)
	}

	const kept = 16
	for i := range kept + 3 {
		if err := rename(b, fmt.Sprintf("b%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	list := must(tn.ListAgentAliases(ctx))(t)
	if len(list) != kept || list[0].Alias != "b02" {
		t.Errorf("%d aliases from %+v, want the newest %d", len(list), list[0], kept)
	}
}
