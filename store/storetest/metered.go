package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"svc/store"
	"svc/store/record"
)

// metered is an engine that counts what transactions read, how often they remove, and those that write.
type metered struct {
	record.Engine
	rows, bytes, removals, updates int
}

func (m *metered) View(ctx context.Context, tenant string, f func(record.Tx) error) error {
	return m.Engine.View(ctx, tenant, func(tx record.Tx) error { return f(meteredTx{tx, m}) })
}

func (m *metered) Update(ctx context.Context, tenant string, f func(record.Tx) error) error {
	m.updates++
	return m.Engine.Update(ctx, tenant, func(tx record.Tx) error { return f(meteredTx{tx, m}) })
}

func (m *metered) AgentsChanged(tx record.Tx) error { return m.Engine.AgentsChanged(tx.(meteredTx).Tx) }

func (m *metered) ForgetAgent(tx record.Tx, id string) error {
	return m.Engine.ForgetAgent(tx.(meteredTx).Tx, id)
}

// meteredTx is a transaction of metered.
type meteredTx struct {
	record.Tx
	m *metered
}

// Scan counts the rows that the engine was told to read: at least those that f gets.
func (t meteredTx) Scan(bucket string, r record.Range, f func(key, value []byte) (bool, error)) error {
	n := 0
	err := t.Tx.Scan(bucket, r, func(key, value []byte) (bool, error) {
		n++
		t.m.bytes += len(value)
		return f(key, value)
	})
	t.m.rows += max(n, r.Most)
	return err
}

func (t meteredTx) Delete(bucket string, keys ...[]byte) error {
	t.m.removals++
	return t.Tx.Delete(bucket, keys...)
}

// testWhatIsRead: a page of a list, and the removal of what has many rows, read and write
// no more than they need: rows are far from the program in some engines.
func testWhatIsRead(t *testing.T, e record.Engine, tenant string) {
	plain := record.Of(e, tenant)
	const versions, size = 60, 5000
	config := func(i int) string { return fmt.Sprint(i, strings.Repeat(" x", size/2)) }
	agent := must(plain.CreateAgent(ctx, store.AgentCreate{Name: "read", ConfigYAML: config(0)}))(t)
	for i := 1; i < versions; i++ {
		text := config(i)
		must(plain.UpdateAgent(ctx, agent.ID, store.AgentUpdate{ConfigYAML: &text}))(t)
	}
	for _, c := range []struct{ offset, limit, want int }{{0, 4, 4}, {7, 4, 4}, {58, 4, 2}, {60, 4, 0}, {3, 0, 57}, {-1, 2, 2}} {
		m := &metered{Engine: e}
		tn := record.Of(m, tenant)
		list, total, err := tn.ListDeployments(ctx, agent.ID, store.Page{Offset: c.offset, Limit: c.limit})
		if err != nil || total != versions || len(list) != c.want || m.bytes > 2*size*c.want {
			t.Errorf("%+v: %d deployments of %d, %d bytes were read, %v", c, len(list), total, m.bytes, err)
		}
		for i := range list {
			if list[i].ConfigYAML != config(versions-1-max(c.offset, 0)-i) {
				t.Errorf("%+v: deployment %d is another one", c, i)
			}
		}
	}
	m := &metered{Engine: e}
	tn := record.Of(m, tenant)
	if err := tn.EndSession(ctx, "key_unknown", store.DigestKey("invented")); err != nil || m.updates > 0 {
		t.Errorf("the end of a session that is not known made %d writes, %v", m.updates, err)
	}
	if err := tn.DeleteAgent(ctx, agent.ID); err != nil || m.bytes > size || m.removals > 10 {
		t.Errorf("to delete an agent, %d bytes were read, and %d removals made, %v", m.bytes, m.removals, err)
	}
	for i := range 60 {
		text, environment := `"Environment":"read"`, "other"
		if i%2 == 0 {
			environment = `read`
		}
		must(plain.CreateAgent(ctx, store.AgentCreate{Name: fmt.Sprint("read", i, text), Description: "\\" + text, ModelName: "Environment", Environment: environment}))(t)
	}
	*m = metered{Engine: e}
	for _, c := range []struct{ offset, want int }{{0, 5}, {10, 5}, {28, 2}} {
		m.rows = 0
		list, total, err := tn.ListAgents(ctx, store.AgentFilter{Environment: "read"}, store.Page{Offset: c.offset, Limit: 5})
		if err != nil || total != 30 || len(list) != c.want || m.rows > c.offset+5 {
			t.Errorf("%+v: %d agents of %d, %d rows were read, %v", c, len(list), total, m.rows, err)
		}
		for i := range list {
			if list[i].Environment != "read" {
				t.Errorf("the list has %+v", list[i])
			}
		}
	}

	m.rows = 0
	old := e.Now().AddDate(-10, 0, 0)
	if _, err := tn.ApplyRetention(ctx, store.RetentionBounds{Violations: old, Events: old, AuditEvents: old}); err != nil || m.rows > 8 { // each of four kinds twice
		t.Errorf("to find nothing old, %d rows were read, %v", m.rows, err)
	}

	team := must(plain.CreateTeam(ctx, store.TeamCreate{Name: "many"}))(t)
	other := must(plain.CreateTeam(ctx, store.TeamCreate{Name: "other"}))(t)
	for i := range 30 {
		for _, id := range []string{team.ID, other.ID} {
			must(plain.AddMember(ctx, id, store.MemberAdd{UserID: fmt.Sprint("member", i)}))(t)
		}
	}
	*m = metered{Engine: e}
	if err := tn.DeleteTeam(ctx, team.ID); err != nil || m.bytes > 0 || m.removals > 6 {
		t.Errorf("to delete a team, %d bytes were read, and %d removals made, %v", m.bytes, m.removals, err)
	}
	if list := must(plain.ListMembers(ctx, other.ID))(t); len(list) != 30 {
		t.Errorf("another team has %d members left", len(list))
	}
	out := must(plain.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserRemoved, CreatedAt: e.Now(), UserID: "member1"}))(t)
	if out.MembershipsDeleted != 1 {
		t.Errorf("the user had %d memberships, want that in the other team", out.MembershipsDeleted)
	}
}
