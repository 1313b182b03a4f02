package bolt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/transfer"
)

// carrier reads and writes the rows of one kind for a migration.
type carrier struct {
	buckets []string // buckets that store the rows
	indexes []string // buckets that are derived from the rows
	// export calls each with every row after a key until each returns false.
	export func(tx *bbolt.Tx, d data, tenant string, after []byte, each each) error
	put    func(w *filler, doc []byte) error
}

// each receives a row, and returns false to stop.
type each func(key []byte, v any) (bool, error)

// carried defines the rows that a migration to another engine transfers. Buckets that
// belong to none of them are in notCarried, with the reason.
var carried = map[transfer.Kind]carrier{
	transfer.Watermarks: {buckets: []string{string(bucketMarks)},
		export: func(tx *bbolt.Tx, _ data, _ string, after []byte, out each) error {
			return eachRow(tx.Bucket(bucketMarks), after, out, func(k, v []byte) (any, error) {
				return transfer.Watermark{Name: string(k), At: int64(number(v))}, nil
			})
		},
		put: putOf(func(w *filler, m *transfer.Watermark) error {
			return w.tx.Bucket(bucketMarks).Put([]byte(m.Name), bytes8(uint64(m.At)))
		})},
	transfer.Tenants: {buckets: []string{string(bucketTenants), inState, inAuditChain}, indexes: []string{string(bucketTenantNames), string(bucketTenantOrgs), string(bucketData)},
		export: exportTenant, put: putOf(putTenant)},
	transfer.Users: {buckets: []string{inUsers}, indexes: []string{inUserEmails},
		export: records(inUsers, func(u *transfer.User) {}), put: putOf(putTransferred)},
	transfer.UserEvents: {buckets: []string{inUserEvents},
		export: records(inUserEvents, func(*store.RecordedEvent) {}),
		put:    putOf(func(w *filler, e *store.RecordedEvent) error { return putJSON(w.in(inUserEvents), e.ID, e) })},
	transfer.Teams: {buckets: []string{inTeams}, indexes: []string{inTeamNames},
		export: records(inTeams, func(t *store.Team) { t.MemberCount = 0 }),
		put:    putOf(func(w *filler, t *store.Team) error { return putNamed(w, inTeams, inTeamNames, t.ID, t.Name, t) })},
	transfer.Members: {buckets: []string{inMembers}, indexes: []string{inUserTeams}, export: exportMembers, put: putOf(putTransferredMember)},
	transfer.Agents:  {buckets: []string{inAgents, inAgentConfigs}, indexes: []string{inAgentNames}, export: exportAgents, put: putOf(putAgent)},
	transfer.AgentAliases: {buckets: []string{inAgentAliases},
		export: func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
			return eachRow(d.in(inAgentAliases), after, out, func(k, v []byte) (any, error) {
				id, at := splitAlias(v)
				return transfer.AgentAlias{Alias: k, Agent: id, At: int64(at)}, nil
			})
		},
		put: putOf(func(w *filler, a *transfer.AgentAlias) error {
			return w.in(inAgentAliases).Put(a.Alias, append([]byte(a.Agent), bytes8(uint64(a.At))...))
		})},
	transfer.FormerAgents: {buckets: []string{inAgentsFormer},
		export: func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
			return eachRow(d.in(inAgentsFormer), after, out, func(k, v []byte) (any, error) {
				return transfer.FormerAgent{ID: string(k), Name: v}, nil
			})
		},
		put: putOf(func(w *filler, a *transfer.FormerAgent) error { return w.in(inAgentsFormer).Put([]byte(a.ID), a.Name) })},
	transfer.Deployments: {buckets: []string{inDeployments},
		export: records(inDeployments, func(*store.Deployment) {}),
		put: putOf(func(w *filler, d *store.Deployment) error {
			return putJSON(w.in(inDeployments), string(joined(d.AgentID, d.ID)), d)
		})},
	transfer.Budgets: {buckets: []string{inBudgets}, indexes: []string{inBudgetNames},
		export: records(inBudgets, func(b *store.Budget) { b.AgentName = "" }),
		put:    putOf(func(w *filler, b *store.Budget) error { return putNamed(w, inBudgets, inBudgetNames, b.ID, b.Name, b) })},
	transfer.SLAs: {buckets: []string{inSLAs},
		export: records(inSLAs, func(s *store.SLATarget) { s.AgentName = "" }),
		put:    putOf(func(w *filler, s *store.SLATarget) error { return putJSON(w.in(inSLAs), s.ID, s) })},
	transfer.Violations: {buckets: []string{inViolations}, indexes: []string{inViolationKey},
		export: records(inViolations, func(v *store.SLAViolation) {
			v.PeriodStart, v.PeriodEnd, v.CreatedAt = v.PeriodStart.UTC(), v.PeriodEnd.UTC(), v.CreatedAt.UTC()
		}),
		put: putOf(func(w *filler, v *store.SLAViolation) error {
			if err := w.in(inViolationKey).Put(violationKey(v), []byte(v.ID)); err != nil {
				return err
			}
			return putJSON(w.in(inViolations), v.ID, v)
		})},
	transfer.Policies: {buckets: []string{inPolicies}, indexes: []string{inPolicyNames},
		export: records(inPolicies, func(*store.Policy) {}),
		put:    putOf(func(w *filler, p *store.Policy) error { return putNamed(w, inPolicies, inPolicyNames, p.ID, p.Name, p) })},
	transfer.Keys:       {buckets: []string{inKeys, inKeyUsed}, indexes: []string{string(bucketDigests)}, export: exportKeys, put: putOf(putKey)},
	transfer.Responses:  {buckets: []string{inAnswers}, indexes: []string{inAnswerExpiry}, export: exportResponses, put: putOf(putTransferredResponse)},
	transfer.AuditHeads: {buckets: []string{inAuditHeads, inAuditUnsigned}, export: exportHeads, put: putOf(putHead)},
	transfer.AuditKeys: {buckets: []string{inAuditKeys},
		export: records(inAuditKeys, func(*store.AuditKey) {}),
		put:    putOf(func(w *filler, k *store.AuditKey) error { return putJSON(w.in(inAuditKeys), k.Gateway, k) })},
	transfer.AuditEvents: {buckets: []string{inAuditEvents}, indexes: []string{inAuditIndex},
		export: records(inAuditEvents, func(*store.AuditEvent) {}), put: putOf(putEvent)},
	transfer.TraceState: {buckets: []string{inState},
		export: func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
			if len(after) > 0 {
				return nil
			}
			_, err := out([]byte{1}, transfer.State{Seq: int64(d.counter(stateSeq)), Horizon: int64(d.counter(stateHorizon)), MinutesFrom: int64(d.counter(stateMinutesFrom))})
			return err
		},
		put: putOf(func(w *filler, s *transfer.State) error {
			for name, v := range map[string]int64{stateSeq: s.Seq, stateHorizon: s.Horizon, stateMinutesFrom: s.MinutesFrom} {
				if v == 0 {
					continue
				}
				if err := w.setCounter(name, uint64(v)); err != nil {
					return err
				}
			}
			return nil
		})},
	transfer.Traces:      {buckets: []string{inTraces}, indexes: []string{inTraceIDs, inTraceBlocks, inTraceFacets, inDict, inDictValues}},
	transfer.Statistics:  {buckets: rollupNames(), indexes: []string{inDict, inDictValues}, export: exportStatistics, put: putOf(putStatistic)},
	transfer.Tools:       {buckets: []string{inTools}, indexes: []string{inDict, inDictValues}, export: exportTools, put: putOf(putTool)},
	transfer.PolicyFires: {buckets: []string{inPolicyFires}, export: exportFires, put: putOf(putFires)},
}

// notCarried are the buckets that are not transferred.
var notCarried = map[string]string{
	string(bucketMeta):   "what the file is",
	string(bucketLeases): "work that a process does now",
}

// putOf returns a function that decodes a row and writes it.
func putOf[T any](put func(w *filler, v *T) error) func(*filler, []byte) error {
	return func(w *filler, doc []byte) error {
		var v T
		if err := json.Unmarshal(doc, &v); err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
		return put(w, &v)
	}
}

// eachRow calls out with the rows of a bucket after a key.
func eachRow(b *bbolt.Bucket, after []byte, out each, row func(k, v []byte) (any, error)) error {
	c := b.Cursor()
	for k, v := seekAfter(c, after); k != nil; k, v = c.Next() {
		r, err := row(k, v)
		if err != nil {
			return err
		}
		if more, err := out(k, r); err != nil || !more {
			return err
		}
	}
	return nil
}

// records exports JSON records, without the fields that other rows contain.
func records[T any](name string, reduce func(*T)) func(*bbolt.Tx, data, string, []byte, each) error {
	return func(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
		return eachRow(d.in(name), after, out, func(k, v []byte) (any, error) {
			var r T
			if err := json.Unmarshal(v, &r); err != nil {
				return nil, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
			}
			reduce(&r)
			return &r, nil
		})
	}
}

func putNamed(w *filler, rows, names, id, name string, v any) error {
	if err := w.in(names).Put([]byte(name), []byte(id)); err != nil {
		return err
	}
	return putJSON(w.in(rows), id, v)
}

func exportTenant(tx *bbolt.Tx, d data, tenant string, after []byte, out each) error {
	if len(after) > 0 {
		return nil
	}
	rec, err := tenantByID(tx, tenant)
	if err != nil {
		return err
	}
	chain := d.in(inAuditChain)
	_, err = out([]byte{1}, transfer.Tenant{TenantInfo: rec.TenantInfo, RedactionKey: rec.RedactionKey, Revision: d.revision(),
		ChainLast: string(chain.Get(chainLast)), ChainTrimmed: string(chain.Get(chainTrimmed))})
	return err
}

func putTenant(w *filler, t *transfer.Tenant) error {
	if err := w.tx.Bucket(bucketTenantNames).Put([]byte(t.Name), []byte(t.ID)); err != nil {
		return err
	}
	if t.OrgID != "" {
		if err := w.tx.Bucket(bucketTenantOrgs).Put([]byte(t.OrgID), []byte(t.ID)); err != nil {
			return err
		}
	}
	if err := putJSON(w.tx.Bucket(bucketTenants), t.ID, tenantRecord{t.TenantInfo, t.RedactionKey}); err != nil {
		return err
	}
	root, err := w.tx.Bucket(bucketData).CreateBucket([]byte(t.ID))
	if err != nil {
		return err
	}
	for _, b := range tenantBuckets {
		if _, err := root.CreateBucket([]byte(b.name)); err != nil {
			return err
		}
	}
	w.data = data{root}
	for key, hash := range map[string]string{string(chainLast): t.ChainLast, string(chainTrimmed): t.ChainTrimmed} {
		if hash == "" {
			continue
		}
		if err := w.in(inAuditChain).Put([]byte(key), []byte(hash)); err != nil {
			return err
		}
	}
	return w.setRevision(t.Revision)
}

// putTransferred writes a user. An address belongs to the user who is invited with it,
// or else to the user that was changed last.
func putTransferred(w *filler, u *transfer.User) error {
	rec := userRecord{User: u.User, Profile: eventMark(u.Profile), State: eventMark(u.State), Announced: u.Announced}
	if u.Email != "" {
		emails := w.in(inUserEmails)
		owner, known, err := getJSON[userRecord](w.in(inUsers), string(emails.Get([]byte(u.Email))))
		if err != nil {
			return err
		}
		if !known || owner.Status != store.UserInvited && (u.Status == store.UserInvited || u.UpdatedAt.After(owner.UpdatedAt)) {
			if err := emails.Put([]byte(u.Email), []byte(u.ID)); err != nil {
				return err
			}
		}
	}
	return putJSON(w.in(inUsers), u.ID, rec)
}

func exportMembers(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return eachRow(d.in(inMembers), after, out, func(k, v []byte) (any, error) {
		var m memberRecord
		if err := json.Unmarshal(v, &m); err != nil {
			return nil, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
		}
		team, _, _ := strings.Cut(string(k), "\x00")
		return transfer.Member{Team: team, User: m.UserID, Role: m.Role, JoinedAt: m.JoinedAt}, nil
	})
}

func putTransferredMember(w *filler, m *transfer.Member) error {
	if err := putMember(w.data, m.Team, memberRecord{UserID: m.User, Role: m.Role, JoinedAt: m.JoinedAt}); err != nil {
		return err
	}
	return countMembers(w.data, m.Team, 1)
}

func exportAgents(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return eachRow(d.in(inAgents), after, out, func(k, v []byte) (any, error) {
		var a store.Agent
		if err := json.Unmarshal(v, &a); err != nil {
			return nil, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
		}
		a.ConfigYAML = string(d.in(inAgentConfigs).Get(k))
		return &a, nil
	})
}

func putAgent(w *filler, a *store.Agent) error {
	if a.ConfigYAML != "" {
		if err := w.in(inAgentConfigs).Put([]byte(a.ID), []byte(a.ConfigYAML)); err != nil {
			return err
		}
		a.ConfigYAML = ""
	}
	if a.AutoRegistered {
		if err := w.setCounter(stateAutoAgents, w.counter(stateAutoAgents)+1); err != nil {
			return err
		}
	}
	return putNamed(w, inAgents, inAgentNames, a.ID, a.Name, a)
}

func exportKeys(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return eachRow(d.in(inKeys), after, out, func(k, v []byte) (any, error) {
		var rec keyRecord
		if err := json.Unmarshal(v, &rec); err != nil {
			return nil, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
		}
		rec.CreatedByEmail, rec.LastUsedAt = "", timeOf(0)
		return transfer.Key{Key: rec.Key, Digest: rec.Digest, Used: int64(number(d.in(inKeyUsed).Get(k)))}, nil
	})
}

func putKey(w *filler, k *transfer.Key) error {
	if err := w.tx.Bucket(bucketDigests).Put(k.Digest, joined(w.tenant, k.ID)); err != nil {
		return err
	}
	if k.Used != 0 {
		if err := w.in(inKeyUsed).Put([]byte(k.ID), bytes8(uint64(k.Used))); err != nil {
			return err
		}
	}
	return putJSON(w.in(inKeys), k.ID, keyRecord{Key: k.Key, Digest: k.Digest})
}

func exportResponses(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	return eachRow(d.in(inAnswers), after, out, func(k, v []byte) (any, error) {
		var rec responseRecord
		if err := json.Unmarshal(v, &rec); err != nil {
			return nil, fmt.Errorf("%w %x: %w", errUnreadable, k, err)
		}
		return transfer.Response{Digest: k, Body: rec.Body, Until: rec.Expires.UnixNano(), Response: rec.Answer}, nil
	})
}

func putTransferredResponse(w *filler, r *transfer.Response) error {
	if err := w.in(inAnswerExpiry).Put(append(bytes8(uint64(r.Until)), r.Digest...), []byte{}); err != nil {
		return err
	}
	return putJSON(w.in(inAnswers), string(r.Digest), responseRecord{Body: r.Body, Expires: timeOf(uint64(r.Until)), Answer: r.Response})
}

// exportHeads exports signed heads and then unsigned ones: the first byte of a cursor
// tells which of the two.
func exportHeads(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	enough := false
	for first, name := range []string{inAuditHeads, inAuditUnsigned} {
		if len(after) > 0 && int(after[0]) > first {
			continue
		}
		var behind []byte
		if len(after) > 0 && int(after[0]) == first {
			behind = after[1:]
		}
		err := eachRow(d.in(name), behind, func(k []byte, v any) (more bool, err error) {
			more, err = out(append([]byte{byte(first)}, k...), v)
			enough = enough || !more
			return more, err
		}, func(k, v []byte) (any, error) {
			var h store.AuditHead
			if err := json.Unmarshal(v, &h); err != nil {
				return nil, fmt.Errorf("%w %q: %w", errUnreadable, k, err)
			}
			h.Offered = nil
			return transfer.AuditHead{AuditHead: h, Signed: first == 0}, nil
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}

func putHead(w *filler, h *transfer.AuditHead) error {
	name := inAuditUnsigned
	if h.Signed {
		name = inAuditHeads
	}
	return putJSON(w.in(name), string(joined(h.Gateway, h.Trail)), h.AuditHead)
}

// putEvent appends an event to its chain.
func putEvent(w *filler, e *store.AuditEvent) error {
	b, key := w.in(inAuditEvents), e.ID
	if last, _ := b.Cursor().Last(); bytes.Compare(last, []byte(key)) >= 0 {
		key = string(last) + aheadOfID + e.ID
	}
	if err := indexEvent(w.data, []byte(key), e); err != nil {
		return err
	}
	return putJSON(b, key, e)
}
