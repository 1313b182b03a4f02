package memory

import (
	"testing"

	"svc/store"
	"svc/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c, f := storetest.NewClock(), &storetest.Faults{}
		s := Open(Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, Fault: f.Ask})
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: storetest.MaxAutoAgents, Fail: f.Set,
			Another: func(testing.TB) (store.Records, store.Traces) { h := s.Another(); return h, h }}
	})
}

// TestTwoEngines: records and traces in two stores fulfil the same contract as one
// engine.
func TestTwoEngines(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c, f := storetest.NewClock(), &storetest.Faults{}
		records := Open(Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, Fault: f.Ask})
		traces := Open(Options{Now: c.Now, Fault: f.Ask, Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
		return storetest.Opened{Records: records, Traces: traces, Clock: c, MaxAutoAgents: storetest.MaxAutoAgents, Fail: f.Set,
			Another: func(testing.TB) (store.Records, store.Traces) { return records.Another(), traces.Another() }}
	})
}

func TestRows(t *testing.T) {
	s := Open(Options{Now: storetest.NewClock().Now})
	storetest.Rows(t, records{s}, newTenant(t, s, "one"), newTenant(t, s, "two"))
}

func newTenant(t *testing.T, s *Store, name string) string {
	t.Helper()
	info, _, err := s.CreateTenant(t.Context(), store.TenantCreate{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}
