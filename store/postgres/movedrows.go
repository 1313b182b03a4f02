package postgres

import (
	"encoding/json"
	"strings"

	"svc/store"
	"svc/store/move"
	"svc/store/record"
	"svc/store/rollup"
)

// carrier reads and writes the rows of one kind for a migration.
type carrier struct {
	tables []string // tables that store the rows
	count  string   // SQL that counts them
	// export calls emit with at most limit rows after a key, sorted by key.
	export func(d *data, after []byte, limit int, out emit) error
	put    func(d *data, row record.Row) error
}

// emit receives a row.
type emit func(key []byte, v any) error

// carried defines the rows that a migration to another engine copies. Tables that
// belong to none of them are in notCarried, with the reason.
var carried = map[move.Kind]carrier{
	move.Watermarks: {[]string{"marks"}, `SELECT count(*) FROM marks`,
		func(d *data, after []byte, limit int, out emit) error {
			return d.exportIntegers(move.InWatermarks, out, `SELECT name, at FROM marks WHERE name > $1 ORDER BY name LIMIT $2`, after, limit)
		},
		func(d *data, row record.Row) error {
			at, err := move.IntegerOf(row.Value)
			d.exec(`INSERT INTO marks (name, at) VALUES ($1, $2)`, row.Key, at)
			return err
		}},
	move.Tenants: {[]string{"tenants", "rollup_state"}, `SELECT count(*) FROM tenants WHERE number = $1`, exportTenant, putOf(putTenant)},
	move.Records: {[]string{"records"}, `SELECT count(*) FROM records WHERE tenant = $1`, exportRecords,
		func(d *data, row record.Row) error {
			t := record.Of(engine{d.s}, d.id)
			return t.PutRow(d, row)
		}},
	move.TraceState: {[]string{"trace_state"}, `SELECT count(*) FROM trace_state WHERE tenant = $1`,
		func(d *data, after []byte, _ int, out emit) error {
			if len(after) > 0 {
				return nil
			}
			var s move.State
			return d.each([]any{&s.Seq, &s.Horizon, &s.MinutesFrom}, func() error { return out([]byte{1}, s) },
				`SELECT seq, horizon, minutes_from FROM trace_state WHERE tenant = $1`, d.n)
		},
		putOf(func(d *data, s *move.State) error {
			// Traces that retention hides have no rows in trace_ids.
			d.exec(`UPDATE trace_state SET seq = $2, horizon = $3, purged = $3, minutes_from = $4 WHERE tenant = $1`, d.n, s.Seq, s.Horizon, s.MinutesFrom)
			return nil
		})},
	move.Traces: {[]string{"traces", "trace_ids", "trace_batches"},
		`SELECT count(*) FROM traces WHERE tenant = $1 AND created >= (SELECT horizon FROM trace_state WHERE tenant = $1)`, nil, nil},
	move.Statistics: {[]string{"rollups", "rollup_deltas"}, `SELECT count(*) FROM rollups WHERE tenant = $1`, exportStatistics, putOf(putStatistic)},
	move.Tools: {[]string{"tools"}, `SELECT count(*) FROM tools WHERE tenant = $1`, exportTools,
		putOf(func(d *data, t *move.Tool) error {
			d.exec(`INSERT INTO tools (tenant, agent, tool, first, last, calls) VALUES ($1, $2, $3, $4, $5, $6)`, d.n, t.Agent, t.Tool, t.First, t.Last, t.Calls)
			return nil
		})},
	move.PolicyFires: {[]string{"policy_fires"}, `SELECT count(*) FROM policy_fires WHERE tenant = $1`,
		func(d *data, after []byte, limit int, out emit) error {
			return d.exportIntegers(move.InPolicyFires, out, `SELECT policy, n FROM policy_fires WHERE tenant = $1 AND policy > $2 ORDER BY policy LIMIT $3`, d.n, after, limit)
		},
		func(d *data, row record.Row) error {
			n, err := move.IntegerOf(row.Value)
			d.exec(`INSERT INTO policy_fires (tenant, policy, n) VALUES ($1, $2, $3)`, d.n, row.Key, n)
			return err
		}},
}

// notCarried are the tables that are not copied.
var notCarried = map[string]string{
	"leases":       "work that a process does now",
	"requests":     "requests that a process answers now",
	"pulse":        "a write that shows that the engine takes writes",
	"migration":    "how far a migration into this database is",
	"handles":      "processes that have this database open",
	"traces_other": "a partition of traces",
}

// putOf returns a function that decodes a row and writes it.
func putOf[T any](put func(d *data, v *T) error) func(*data, record.Row) error {
	return func(d *data, row record.Row) error {
		var v T
		if err := move.Decode(row.Value, &v); err != nil {
			return err
		}
		return put(d, &v)
	}
}

// exportIntegers exports the rows of a query: a key and an integer.
func (d *data) exportIntegers(bucket string, out emit, sql string, args ...any) error {
	var key []byte
	var n int64
	return d.each([]any{&key, &n}, func() error { return out(key, record.Row{Bucket: bucket, Key: key, Value: move.Integer(n)}) }, sql, args...)
}

func exportTenant(d *data, after []byte, _ int, out emit) error {
	if len(after) > 0 {
		return nil
	}
	var id, name, org, redaction []byte
	var created int64
	return d.each([]any{&id, &name, &org, &created, &redaction}, func() error {
		return out([]byte{1}, move.Tenant{
			TenantInfo:   store.TenantInfo{ID: string(id), Name: string(name), OrgID: string(org), CreatedAt: timeOf(created)},
			RedactionKey: redaction})
	}, `SELECT `+tenantColumns+`, redaction_key FROM tenants WHERE number = $1`, d.n)
}

func putTenant(d *data, t *move.Tenant) error { return d.addTenant(t.TenantInfo, t.RedactionKey) }

// twoKeys returns the cursor of rows that are sorted by two columns.
func twoKeys(a, b []byte) []byte { return append(append(append([]byte{}, a...), 0), b...) }

func splitKeys(key []byte) (a, b []byte) {
	first, second, _ := strings.Cut(string(key), "\x00")
	return []byte(first), []byte(second)
}

func exportRecords(d *data, after []byte, limit int, out emit) error {
	n := 0
	return record.Rows(d, after, func(at []byte, row record.Row) (bool, error) {
		n++
		return n < limit, out(at, row)
	})
}

// statisticKey is the position of a row of statistics: the columns of the primary key.
type statisticKey struct {
	Table             int16
	Bucket            int64
	Agent, Model, Env []byte
}

func exportStatistics(d *data, after []byte, limit int, out emit) error {
	from := statisticKey{Table: -1}
	if len(after) > 0 {
		if err := parse(after, &from); err != nil {
			return err
		}
	}
	var k statisticKey
	var raw []byte
	return d.each([]any{&k.Table, &k.Bucket, &k.Agent, &k.Model, &k.Env, &raw}, func() error {
		at, err := json.Marshal(k)
		if err != nil {
			return err
		}
		return out(at, move.Statistic{Table: rollup.Table(k.Table).String(), Bucket: uint32(k.Bucket), Agent: k.Agent, Model: k.Model, Env: k.Env, Data: raw})
	}, `SELECT tbl, bucket, agent, model, env, data FROM rollups WHERE tenant = $1 AND (tbl, bucket, agent, model, env) > ($2, $3, coalesce($4, ''::bytea), coalesce($5, ''::bytea), coalesce($6, ''::bytea))
		ORDER BY tbl, bucket, agent, model, env LIMIT $7`, d.n, from.Table, from.Bucket, from.Agent, from.Model, from.Env, limit)
}

func putStatistic(d *data, s *move.Statistic) error {
	t, err := rollup.TableNamed(s.Table)
	if err != nil {
		return err
	}
	var sum rollup.Sum
	if err := sum.Add(s.Data, false); err != nil {
		return err
	}
	d.exec(`INSERT INTO rollups (tenant, tbl, bucket, agent, model, env, traces, errors, cost, data) VALUES ($1, $2, $3, coalesce($4, ''::bytea), coalesce($5, ''::bytea), coalesce($6, ''::bytea), $7, $8, $9, $10)`,
		d.n, int16(t), int64(s.Bucket), s.Agent, s.Model, s.Env, sum.Traces, sum.Errors, sum.Cost, s.Data)
	return nil
}

func exportTools(d *data, after []byte, limit int, out emit) error {
	var t move.Tool
	a, b := splitKeys(after)
	return d.each([]any{&t.Agent, &t.Tool, &t.First, &t.Last, &t.Calls}, func() error { return out(twoKeys(t.Agent, t.Tool), t) },
		`SELECT agent, tool, first, last, calls FROM tools WHERE tenant = $1 AND (agent, tool) > ($2, $3) ORDER BY agent, tool LIMIT $4`, d.n, a, b, limit)
}
