package bolt

import "testing"

// An ingest that read the agents before a rename and ends after it must not cache
// the old name again: what a newer transaction cached stays.
func TestAgentsOfAnOlderTransactionAreNotRemembered(t *testing.T) {
	st := &tenantState{agents: map[dictEntry]agentKnown{}, dict: map[dictEntry]uint32{}}
	w := agentWord("", "planner")
	remember := func(gen uint64, id string) {
		(&resolver{st: st, gen: gen, known: map[dictEntry]agentKnown{w: {id: id, name: "planner"}}}).remember()
	}
	remember(2, "agt_new")
	remember(1, "agt_old")
	if a, ok, err := (&resolver{st: st}).agent("", "planner"); !ok || a.id != "agt_new" || err != nil {
		t.Errorf("planner is %+v, %v, %v", a, ok, err)
	}
	remember(3, "agt_newest")
	if a, _, _ := (&resolver{st: st}).agent("", "planner"); a.id != "agt_newest" {
		t.Errorf("planner is %+v", a)
	}
}
