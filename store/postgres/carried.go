package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"svc/store"
	"svc/store/rollup"
	"svc/store/transfer"
)

// carrier reads and writes the rows of one kind for a migration.
type carrier struct {
	tables []string // tables that store the rows
	count  string   // SQL that counts them
	// export calls emit with at most limit rows after a key, sorted by key.
	export func(d *data, after []byte, limit int, out emit) error
	put    func(d *data, doc []byte) error
}

// emit receives a row.
type emit func(key []byte, v any) error

// carried defines the rows that a migration to another engine transfers. Tables that
// belong to none of them are in notCarried, with the reason.
var carried = map[transfer.Kind]carrier{
	transfer.Watermarks: {[]string{"marks"}, `SELECT count(*) FROM marks`,
		func(d *data, after []byte, limit int, out emit) error {
			var name []byte
			var at int64
			return d.each([]any{&name, &at}, func() error { return out(name, transfer.Watermark{Name: string(name), At: at}) },
				`SELECT name, at FROM marks WHERE name > $1 ORDER BY name LIMIT $2`, after, limit)
		},
		putOf(func(d *data, m *transfer.Watermark) error {
			d.exec(`INSERT INTO marks (name, at) VALUES ($1, $2)`, []byte(m.Name), m.At)
			return nil
		})},
	transfer.Tenants: {[]string{"tenants", "rollup_state"}, `SELECT count(*) FROM tenants WHERE number = $1`, exportTenant, putOf(putTenant)},
	transfer.Users: {[]string{"users"}, `SELECT count(*) FROM users WHERE tenant = $1`, documentsOf("users", "id", func(*transfer.User) {}),
		putOf(func(d *data, u *transfer.User) error {
			return d.putUser(userRecord{User: u.User, Profile: eventMark(u.Profile), State: eventMark(u.State), Announced: u.Announced})
		})},
	transfer.UserEvents: {[]string{"user_events"}, `SELECT count(*) FROM user_events WHERE tenant = $1`, documentsOf("user_events", "id", func(*store.RecordedEvent) {}),
		putOf(func(d *data, e *store.RecordedEvent) error {
			return d.putDocument(e, `INSERT INTO user_events (tenant, id, received, doc) VALUES ($1, $2, $3, $4)`, d.n, []byte(e.ID), nanos(e.ReceivedAt))
		})},
	transfer.Teams: {[]string{"teams"}, `SELECT count(*) FROM teams WHERE tenant = $1`, documentsOf("teams", "id", func(t *store.Team) { t.MemberCount = 0 }), putAs(teams)},
	transfer.Members: {[]string{"members"}, `SELECT count(*) FROM members WHERE tenant = $1`, exportMembers,
		putOf(func(d *data, m *transfer.Member) error {
			d.exec(`INSERT INTO members (tenant, team, usr, role, joined) VALUES ($1, $2, $3, $4, $5)`, d.n, []byte(m.Team), []byte(m.User), []byte(m.Role), m.JoinedAt)
			return nil
		})},
	transfer.Agents: {[]string{"agents"}, `SELECT count(*) FROM agents WHERE tenant = $1`, exportAgents, putAs(agents)},
	transfer.AgentAliases: {[]string{"agent_aliases"}, `SELECT count(*) FROM agent_aliases WHERE tenant = $1`,
		func(d *data, after []byte, limit int, out emit) error {
			var alias, agent []byte
			var at int64
			return d.each([]any{&alias, &agent, &at}, func() error { return out(alias, transfer.AgentAlias{Alias: alias, Agent: string(agent), At: at}) },
				`SELECT alias, agent, at FROM agent_aliases WHERE tenant = $1 AND alias > $2 ORDER BY alias LIMIT $3`, d.n, after, limit)
		},
		putOf(func(d *data, a *transfer.AgentAlias) error {
			d.exec(`INSERT INTO agent_aliases (tenant, alias, agent, at) VALUES ($1, $2, $3, $4)`, d.n, a.Alias, []byte(a.Agent), a.At)
			return nil
		})},
	transfer.FormerAgents: {[]string{"agents_gone"}, `SELECT count(*) FROM agents_gone WHERE tenant = $1`,
		func(d *data, after []byte, limit int, out emit) error {
			var id, name []byte
			return d.each([]any{&id, &name}, func() error { return out(id, transfer.FormerAgent{ID: string(id), Name: name}) },
				`SELECT id, name FROM agents_gone WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`, d.n, after, limit)
		},
		putOf(func(d *data, a *transfer.FormerAgent) error {
			d.exec(`INSERT INTO agents_gone (tenant, id, name) VALUES ($1, $2, $3)`, d.n, []byte(a.ID), a.Name)
			return nil
		})},
	transfer.Deployments: {[]string{"deployments"}, `SELECT count(*) FROM deployments WHERE tenant = $1`, exportDeployments,
		putOf(func(d *data, p *store.Deployment) error {
			return d.putDocument(p, `INSERT INTO deployments (tenant, agent, id, doc) VALUES ($1, $2, $3, $4)`, d.n, []byte(p.AgentID), []byte(p.ID))
		})},
	transfer.Budgets: {[]string{"budgets"}, `SELECT count(*) FROM budgets WHERE tenant = $1`, documentsOf("budgets", "id", func(b *store.Budget) { b.AgentName = "" }), putAs(budgets)},
	transfer.SLAs:    {[]string{"slas"}, `SELECT count(*) FROM slas WHERE tenant = $1`, documentsOf("slas", "id", func(s *store.SLATarget) { s.AgentName = "" }), putAs(slas)},
	transfer.Violations: {[]string{"violations"}, `SELECT count(*) FROM violations WHERE tenant = $1`,
		documentsOf("violations", "id", func(v *store.SLAViolation) {
			v.PeriodStart, v.PeriodEnd, v.CreatedAt = v.PeriodStart.UTC(), v.PeriodEnd.UTC(), v.CreatedAt.UTC()
		}),
		putOf(func(d *data, v *store.SLAViolation) error {
			return d.putDocument(v, `INSERT INTO violations (tenant, id, sla, type, period_start, period_end, doc) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				d.n, []byte(v.ID), []byte(v.SLAID), []byte(v.Type), v.PeriodStart.Unix(), nanos(v.PeriodEnd))
		})},
	transfer.Policies:  {[]string{"policies"}, `SELECT count(*) FROM policies WHERE tenant = $1`, documentsOf("policies", "id", func(*store.Policy) {}), putAs(policies)},
	transfer.Keys:      {[]string{"api_keys"}, `SELECT count(*) FROM api_keys WHERE tenant = $1`, exportKeys, putOf(putKey)},
	transfer.Responses: {[]string{"requests"}, `SELECT count(*) FROM requests WHERE tenant = $1 AND handle = ''`, exportResponses, putOf(putResponse)},
	transfer.AuditHeads: {[]string{"audit_heads"}, `SELECT count(*) FROM audit_heads WHERE tenant = $1`, exportHeads,
		putOf(func(d *data, h *transfer.AuditHead) error {
			return d.putDocument(h.AuditHead, `INSERT INTO audit_heads (tenant, gateway, trail, signed, doc) VALUES ($1, $2, $3, $4, $5)`,
				d.n, []byte(h.Gateway), []byte(h.Trail), h.Signed)
		})},
	transfer.AuditKeys: {[]string{"audit_keys"}, `SELECT count(*) FROM audit_keys WHERE tenant = $1`, documentsOf("audit_keys", "gateway", func(*store.AuditKey) {}),
		putOf(func(d *data, k *store.AuditKey) error { return d.putAuditKey(*k) })},
	transfer.AuditEvents: {[]string{"audit_events"}, `SELECT count(*) FROM audit_events WHERE tenant = $1`, exportEvents, putOf(putEvent)},
	transfer.TraceState: {[]string{"trace_state"}, `SELECT count(*) FROM trace_state WHERE tenant = $1`,
		func(d *data, after []byte, _ int, out emit) error {
			if len(after) > 0 {
				return nil
			}
			var s transfer.State
			return d.each([]any{&s.Seq, &s.Horizon, &s.MinutesFrom}, func() error { return out([]byte{1}, s) },
				`SELECT seq, horizon, minutes_from FROM trace_state WHERE tenant = $1`, d.n)
		},
		putOf(func(d *data, s *transfer.State) error {
			// Traces that retention hides have no rows in trace_ids.
			d.exec(`UPDATE trace_state SET seq = $2, horizon = $3, purged = $3, minutes_from = $4 WHERE tenant = $1`, d.n, s.Seq, s.Horizon, s.MinutesFrom)
			return nil
		})},
	transfer.Traces: {[]string{"traces", "trace_ids", "trace_batches"},
		`SELECT count(*) FROM traces WHERE tenant = $1 AND created >= (SELECT horizon FROM trace_state WHERE tenant = $1)`, nil, nil},
	transfer.Statistics: {[]string{"rollups", "rollup_words", "rollup_deltas"}, `SELECT count(*) FROM rollups WHERE tenant = $1`, exportStatistics, putOf(putStatistic)},
	transfer.Tools: {[]string{"tools"}, `SELECT count(*) FROM tools WHERE tenant = $1`, exportTools,
		putOf(func(d *data, t *transfer.Tool) error {
			d.exec(`INSERT INTO tools (tenant, agent, tool, first, last, calls) VALUES ($1, $2, $3, $4, $5, $6)`, d.n, t.Agent, t.Tool, t.First, t.Last, t.Calls)
			return nil
		})},
	transfer.PolicyFires: {[]string{"policy_fires"}, `SELECT count(*) FROM policy_fires WHERE tenant = $1`,
		func(d *data, after []byte, limit int, out emit) error {
			var f transfer.Fires
			return d.each([]any{&f.Policy, &f.N}, func() error { return out(f.Policy, f) },
				`SELECT policy, n FROM policy_fires WHERE tenant = $1 AND policy > $2 ORDER BY policy LIMIT $3`, d.n, after, limit)
		},
		putOf(func(d *data, f *transfer.Fires) error {
			d.exec(`INSERT INTO policy_fires (tenant, policy, n) VALUES ($1, $2, $3)`, d.n, f.Policy, f.N)
			return nil
		})},
}

// notCarried are the tables that are not transferred.
var notCarried = map[string]string{
	"leases":       "work that a process does now",
	"pulse":        "a write that shows that the engine takes writes",
	"migration":    "how far a migration into this database is",
	"handles":      "processes that have this database open",
	"traces_other": "a partition of traces",
}

// putOf returns a function that decodes a row and writes it.
func putOf[T any](put func(d *data, v *T) error) func(*data, []byte) error {
	return func(d *data, doc []byte) error {
		var v T
		if err := json.Unmarshal(doc, &v); err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
		return put(d, &v)
	}
}

// putAs writes a resource.
func putAs[T any](k *kind[T]) func(*data, []byte) error { return putOf(k.put) }

// putDocument queues an INSERT whose last argument is a document.
func (d *data) putDocument(v any, sql string, args ...any) error {
	doc, err := document(v)
	d.exec(sql, append(args, doc)...)
	return err
}

// documentsOf exports documents, without the fields that other rows contain.
func documentsOf[T any](table, key string, reduce func(*T)) func(*data, []byte, int, emit) error {
	sql := fmt.Sprintf(`SELECT %[2]s, doc FROM %[1]s WHERE tenant = $1 AND %[2]s > $2 ORDER BY %[2]s LIMIT $3`, table, key)
	return func(d *data, after []byte, limit int, out emit) error {
		var k, doc []byte
		return d.each([]any{&k, &doc}, func() error {
			var v T
			if err := parse(doc, &v); err != nil {
				return err
			}
			reduce(&v)
			return out(k, &v)
		}, sql, d.n, after, limit)
	}
}

func exportTenant(d *data, after []byte, _ int, out emit) error {
	if len(after) > 0 {
		return nil
	}
	var id, name, org, redaction, revision, last, trimmed []byte
	var created int64
	return d.each([]any{&id, &name, &org, &created, &redaction, &revision, &last, &trimmed}, func() error {
		return out([]byte{1}, transfer.Tenant{
			TenantInfo:   store.TenantInfo{ID: string(id), Name: string(name), OrgID: string(org), CreatedAt: timeOf(created)},
			RedactionKey: redaction, Revision: string(revision), ChainLast: string(last), ChainTrimmed: string(trimmed)})
	}, `SELECT `+tenantColumns+`, redaction_key, revision, chain, trimmed FROM tenants WHERE number = $1`, d.n)
}

func putTenant(d *data, t *transfer.Tenant) error {
	var org []byte
	if t.OrgID != "" {
		org = []byte(t.OrgID)
	}
	_, err := d.one([]any{&d.n}, `INSERT INTO tenants (id, name, org, created, redaction_key, revision, chain, trimmed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING number`,
		[]byte(t.ID), []byte(t.Name), org, nanos(t.CreatedAt), t.RedactionKey, []byte(t.Revision), []byte(t.ChainLast), []byte(t.ChainTrimmed))
	d.exec(`INSERT INTO trace_state (tenant) VALUES ($1)`, d.n)
	d.exec(`INSERT INTO rollup_state (tenant) VALUES ($1)`, d.n)
	return err
}

// twoKeys returns the cursor of rows that are sorted by two columns.
func twoKeys(a, b []byte) []byte { return append(append(append([]byte{}, a...), 0), b...) }

func splitKeys(key []byte) (a, b []byte) {
	first, second, _ := strings.Cut(string(key), "\x00")
	return []byte(first), []byte(second)
}

func exportMembers(d *data, after []byte, limit int, out emit) error {
	var team, user, role []byte
	var joined int64
	a, b := splitKeys(after)
	return d.each([]any{&team, &user, &role, &joined}, func() error {
		return out(twoKeys(team, user), transfer.Member{Team: string(team), User: string(user), Role: string(role), JoinedAt: joined})
	}, `SELECT team, usr, role, joined FROM members WHERE tenant = $1 AND (team, usr) > ($2, $3) ORDER BY team, usr LIMIT $4`, d.n, a, b, limit)
}

func exportAgents(d *data, after []byte, limit int, out emit) error {
	var id, doc, config []byte
	return d.each([]any{&id, &doc, &config}, func() error {
		var a store.Agent
		if err := parse(doc, &a); err != nil {
			return err
		}
		a.ConfigYAML = string(config)
		return out(id, &a)
	}, `SELECT id, doc, config FROM agents WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`, d.n, after, limit)
}

func exportDeployments(d *data, after []byte, limit int, out emit) error {
	var agent, id, doc []byte
	a, b := splitKeys(after)
	return d.each([]any{&agent, &id, &doc}, func() error {
		var p store.Deployment
		if err := parse(doc, &p); err != nil {
			return err
		}
		return out(twoKeys(agent, id), &p)
	}, `SELECT agent, id, doc FROM deployments WHERE tenant = $1 AND (agent, id) > ($2, $3) ORDER BY agent, id LIMIT $4`, d.n, a, b, limit)
}

func exportKeys(d *data, after []byte, limit int, out emit) error {
	var r keyRow
	var digest []byte
	return d.each(append(r.into(), &digest), func() error {
		k := r.key(d.s, d.n)
		k.CreatedByEmail, k.LastUsedAt = "", timeOf(0)
		return out(r.id, transfer.Key{Key: k, Digest: digest, Used: r.used})
	}, `SELECT `+keyColumns+`, k.digest`+keysWithUsers+`WHERE k.tenant = $1 AND k.id > $2 ORDER BY k.id LIMIT $3`, d.n, after, limit)
}

func putKey(d *data, k *transfer.Key) error {
	d.exec(`INSERT INTO api_keys (tenant, id, digest, name, scope, prefix, team, created_by, created, used) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.n, []byte(k.ID), k.Digest, []byte(k.Name), []byte(k.Scope), []byte(k.Prefix), []byte(k.TeamID), []byte(k.CreatedBy), nanos(k.CreatedAt), k.Used)
	return nil
}

func exportResponses(d *data, after []byte, limit int, out emit) error {
	var digest, body, raw []byte
	var until int64
	return d.each([]any{&digest, &body, &until, &raw}, func() error {
		r := transfer.Response{Digest: digest, Body: body, Until: until}
		if err := parse(raw, &r.Response); err != nil {
			return err
		}
		return out(digest, r)
	}, `SELECT digest, body, until, response FROM requests WHERE tenant = $1 AND handle = '' AND digest > $2 ORDER BY digest LIMIT $3`, d.n, after, limit)
}

func putResponse(d *data, r *transfer.Response) error {
	return d.putDocument(r.Response, `INSERT INTO requests (tenant, digest, body, handle, until, response) VALUES ($1, $2, $3, '', $4, $5)`, d.n, r.Digest, r.Body, r.Until)
}

func exportHeads(d *data, after []byte, limit int, out emit) error {
	var gateway, trail, doc []byte
	var signed bool
	behind := []byte{0}
	if len(after) > 0 {
		behind = after
	}
	a, b := splitKeys(behind[1:])
	return d.each([]any{&signed, &gateway, &trail, &doc}, func() error {
		h := transfer.AuditHead{Signed: signed}
		if err := parse(doc, &h.AuditHead); err != nil {
			return err
		}
		h.Offered = nil
		first := byte(0)
		if signed {
			first = 1
		}
		return out(append([]byte{first}, twoKeys(gateway, trail)...), h)
	}, `SELECT signed, gateway, trail, doc FROM audit_heads WHERE tenant = $1 AND (signed, gateway, trail) > ($2, $3, $4) ORDER BY signed, gateway, trail LIMIT $5`,
		d.n, behind[0] == 1, a, b, limit)
}

func numberKey(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func exportEvents(d *data, after []byte, limit int, out emit) error {
	from := int64(0)
	if len(after) == 8 {
		from = int64(binary.BigEndian.Uint64(after))
	}
	var n int64
	var doc []byte
	return d.each([]any{&n, &doc}, func() error {
		var e store.AuditEvent
		if err := parse(doc, &e); err != nil {
			return err
		}
		return out(numberKey(n), &e)
	}, `SELECT n, doc FROM audit_events WHERE tenant = $1 AND n > $2 ORDER BY n LIMIT $3`, d.n, from, limit)
}

// putEvent appends an event to its chain.
func putEvent(d *data, e *store.AuditEvent) error {
	if d.auditN == 0 {
		if _, err := d.one([]any{&d.auditN}, `SELECT audit_n FROM tenants WHERE number = $1`, d.n); err != nil {
			return err
		}
	}
	d.auditN++
	d.exec(`UPDATE tenants SET audit_n = $2 WHERE number = $1`, d.n, d.auditN)
	return d.putDocument(e, `INSERT INTO audit_events (tenant, n, id, created, kind, object, key_id, user_id, hash, doc) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.n, d.auditN, []byte(e.ID), e.CreatedAt.UnixMicro(), []byte(e.Kind), []byte(e.ObjectID), []byte(e.By.KeyID), []byte(e.By.UserID), []byte(e.Hash))
}

// statisticKey is the position of a row of statistics: the columns of the primary key.
func statisticKey(list ...int64) (key []byte) {
	for _, n := range list {
		key = binary.BigEndian.AppendUint64(key, uint64(n))
	}
	return key
}

func exportStatistics(d *data, after []byte, limit int, out emit) error {
	from := [5]int64{-1}
	if len(after) == 40 {
		for i := range from {
			from[i] = int64(binary.BigEndian.Uint64(after[8*i:]))
		}
	}
	var tbl int16
	var bucket, agent, model, env int64
	var a, m, e, raw []byte
	return d.each([]any{&tbl, &bucket, &agent, &model, &env, &a, &m, &e, &raw}, func() error {
		return out(statisticKey(int64(tbl), bucket, agent, model, env), transfer.Statistic{Table: rollup.Table(tbl).String(), Bucket: uint32(bucket),
			Agent: append([]byte{}, a...), Model: append([]byte{}, m...), Env: append([]byte{}, e...), Data: raw})
	}, `SELECT r.tbl, r.bucket, r.agent, r.model, r.env, a.word, m.word, e.word, r.data FROM
		(SELECT * FROM rollups WHERE tenant = $1 AND (tbl, bucket, agent, model, env) > ($2, $3, $4, $5, $6) ORDER BY tbl, bucket, agent, model, env LIMIT $7) r
		LEFT JOIN rollup_words a ON a.tenant = $1 AND a.n = r.agent LEFT JOIN rollup_words m ON m.tenant = $1 AND m.n = r.model LEFT JOIN rollup_words e ON e.tenant = $1 AND e.n = r.env
		ORDER BY r.tbl, r.bucket, r.agent, r.model, r.env`, d.n, from[0], from[1], from[2], from[3], from[4], limit)
}

func putStatistic(d *data, s *transfer.Statistic) error {
	t, ok := rollup.TableNamed(s.Table)
	if !ok {
		return fmt.Errorf("unknown table of statistics %q", s.Table)
	}
	var sum rollup.Sum
	if err := sum.Add(s.Data, false); err != nil {
		return err
	}
	var numbers [3]int64
	for i, word := range [...][]byte{s.Agent, s.Model, s.Env} {
		var err error
		if numbers[i], err = d.wordNumber(word); err != nil {
			return err
		}
	}
	d.exec(`INSERT INTO rollups (tenant, tbl, bucket, agent, model, env, traces, errors, cost, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.n, int16(t), int64(s.Bucket), numbers[0], numbers[1], numbers[2], sum.Traces, sum.Errors, sum.Cost, s.Data)
	return nil
}

// wordNumber finds the number of a value of a dimension or assigns one. Numbers of the
// transaction are cached.
func (d *data) wordNumber(word []byte) (n int64, err error) {
	if len(word) == 0 {
		return 0, nil
	}
	if n, ok := d.wordNumbers[string(word)]; ok {
		return n, nil
	}
	known, err := d.one([]any{&n}, `SELECT n FROM rollup_words WHERE tenant = $1 AND word = $2`, d.n, word)
	if err == nil && !known {
		if _, err = d.one([]any{&n}, `UPDATE rollup_state SET words = words + 1 WHERE tenant = $1 RETURNING words`, d.n); err == nil {
			d.exec(`INSERT INTO rollup_words (tenant, word, n) VALUES ($1, $2, $3)`, d.n, word, n)
		}
	}
	if d.wordNumbers == nil {
		d.wordNumbers = map[string]int64{}
	}
	d.wordNumbers[string(word)] = n
	return n, err
}

func exportTools(d *data, after []byte, limit int, out emit) error {
	var t transfer.Tool
	a, b := splitKeys(after)
	return d.each([]any{&t.Agent, &t.Tool, &t.First, &t.Last, &t.Calls}, func() error { return out(twoKeys(t.Agent, t.Tool), t) },
		`SELECT agent, tool, first, last, calls FROM tools WHERE tenant = $1 AND (agent, tool) > ($2, $3) ORDER BY agent, tool LIMIT $4`, d.n, a, b, limit)
}
