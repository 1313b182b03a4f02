//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// verdict is the result of the checks of a period: the number of acknowledged items that
// are missing, and of items that exist more often than they were sent.
type verdict struct {
	lost, doubled int
	notes         []string
}

func (v *verdict) miss(format string, args ...any) {
	v.lost++
	v.note(format, args...)
}

func (v *verdict) twice(format string, args ...any) {
	v.doubled++
	v.note(format, args...)
}

func (v *verdict) note(format string, args ...any) {
	if len(v.notes) < 20 {
		v.notes = append(v.notes, fmt.Sprintf(format, args...))
	}
}

// whole waits until everything serves again with full redundancy, and a change of a policy
// takes effect at both gateways. After the limit it returns what is missing.
func (r *run) whole(limit time.Duration) error {
	blocked := !r.blocked
	for _, step := range []func() error{
		r.c.db.whole, r.c.redisWhole, r.c.shardsWhole, r.c.planesReady, r.c.gatewaysReady, r.writable, r.reachable,
	} {
		begin := time.Now()
		if err := until(limit, step); err != nil {
			return err
		}
		limit -= time.Since(begin)
	}
	if err := until(limit, func() error { return r.block(blocked) }); err != nil {
		return err
	}
	r.blocked = blocked
	return until(limit, func() error { return r.isBlocked(blocked) })
}

// writable reports why one of the control planes does not accept a write.
func (r *run) writable() error {
	for _, t := range r.tenants {
		for i := range t.ingest.urls {
			id := fmt.Sprintf("probe-%d", tokens.Add(1))
			body := fmt.Sprintf(`{"id":%q,"agentName":"probe","status":"success","durationMs":1}`, id)
			a := t.ingest.once(context.Background(), i, "POST", "/api/traces", t.ingest.header(), []byte(body))
			if a.err != nil || a.status != 201 {
				return fmt.Errorf("tenant %s at %s: %d %v %.200s", t.name, a.url, a.status, a.err, a.body)
			}
		}
	}
	return nil
}

// reachable reports why a tool server cannot be reached through one of the gateways.
func (r *run) reachable() error {
	for g := range r.probe.urls {
		for t := range tools {
			tool := fmt.Sprintf("tool%d_call0", t+1)
			if o := r.try(g, tool); !o.ok {
				return fmt.Errorf("%s at %s: %d %s %v", tool, o.url, o.status, o.reason, o.err)
			}
		}
	}
	return nil
}

// try calls a tool with the session of the checks, and begins a new one if that has ended.
func (r *run) try(gateway int, tool string) outcome {
	if r.probe.session == "" {
		if err := r.probe.open(context.Background()); err != nil {
			return outcome{message: err.Error()}
		}
	}
	o := r.probe.call(context.Background(), gateway, tool)
	if o.reason == "session_not_found" {
		r.probe.session = ""
	}
	return o
}

// block turns the policy on tool1_probe on or off.
func (r *run) block(on bool) error {
	body := fmt.Sprintf(`{"enabled":%v}`, on)
	a := r.admin.send(context.Background(), "PUT", "/api/policies/"+r.policyID, r.admin.header(), []byte(body))
	if a.err != nil || a.status != 200 {
		return fmt.Errorf("policy: %d %v %.200s", a.status, a.err, a.body)
	}
	return nil
}

// isBlocked reports which gateway does not enforce the policy's current state.
func (r *run) isBlocked(on bool) error {
	for g := range r.probe.urls {
		o := r.try(g, "tool1_probe")
		if on && o.reason != "policy_denied" || !on && !o.ok {
			return fmt.Errorf("%s does not have the policy: %d %s %v", o.url, o.status, o.reason, o.err)
		}
	}
	return nil
}

// stored is the part of an exported trace that is checked.
type stored struct {
	ID, AgentName, ToolName, Status string
}

// export returns the traces of a tenant since a time, and the number of occurrences of
// each id.
func (r *run) export(t *tenant, since time.Time) (list map[string]stored, count map[string]int, err error) {
	query := "?format=ndjson"
	if !since.IsZero() {
		query += "&startDate=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
	}
	list, count = map[string]stored{}, map[string]int{}
	err = until(time.Minute, func() error {
		clear(list)
		clear(count)
		a := t.export.send(context.Background(), "GET", "/api/traces/export"+query, t.admin.header(), nil)
		if a.err != nil || a.status != http.StatusOK {
			return fmt.Errorf("export: %d %v %.200s", a.status, a.err, a.body)
		}
		for line := range bytes.Lines(a.body) {
			var s stored
			if err := json.Unmarshal(line, &s); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			list[s.ID] = s
			count[s.ID]++
		}
		return nil
	})
	return list, count, err
}

// audited reads the audit lines that gateways have written since the last call, and adds
// the requests that must become traces.
func (r *run) audited() error {
	for _, p := range r.c.role("gateway") {
		f, err := os.Open(filepath.Join(p.dir, "audit.jsonl"))
		if err != nil {
			return err
		}
		if _, err := f.Seek(r.read[p.name], 0); err != nil {
			f.Close()
			return err
		}
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break // the rest of the line is read next time
			}
			r.read[p.name] += int64(len(line))
			var l struct {
				Kind, RPC, Method, Tool string
				RequestID               string `json:"request_id"`
				ErrorKind               string `json:"error_kind"`
				Status                  int
				TS                      time.Time
			}
			if err := json.Unmarshal(line, &l); err != nil {
				f.Close()
				return fmt.Errorf("audit file of %s: %w: %.200q", p.name, err, line)
			}
			if l.Kind != "request" || l.RPC != "request" || l.Method == "" || l.Method == "ping" {
				continue
			}
			r.lines[l.RequestID] = l.TS
			if l.Status == 200 && l.ErrorKind == "" {
				r.lineOf[l.Tool]++
			}
		}
		f.Close()
	}
	return nil
}

// check compares the clients' acknowledgments since a time with the stored data.
func (r *run) check(since time.Time) (v verdict) {
	if err := r.audited(); err != nil {
		v.miss("%v", err)
		return v
	}
	for i, t := range r.tenants {
		lines := r.lines
		if i > 0 {
			lines = nil // gateways report to the first
		}
		r.checkTraces(&v, t, lines, since)
	}
	r.checkRecords(&v)
	for _, t := range r.tenants {
		r.checkBudget(&v, t)
	}
	return v
}

// checkTraces waits until the gateways have reported all lines, and compares the traces of
// a tenant with the sent ones.
func (r *run) checkTraces(v *verdict, t *tenant, lines map[string]time.Time, since time.Time) {
	r.ledger.mu.Lock()
	sent := map[string]bool{}
	for id, at := range r.ledger.of(t).acknowledged {
		if at.After(since) {
			sent[id] = true
		}
	}
	r.ledger.mu.Unlock()
	missing := map[string]bool{}
	var count map[string]int
	err := until(time.Minute, func() (err error) {
		if _, count, err = r.export(t, since.Add(-2*time.Second)); err != nil {
			return err
		}
		clear(missing)
		for id := range sent {
			if count[id] == 0 {
				missing[id] = true
			}
		}
		for id, at := range lines {
			if at.After(since) && count[id] == 0 {
				missing[id] = true
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d traces are missing", len(missing))
		}
		return nil
	})
	if err != nil && len(missing) == 0 {
		v.miss("%v", err)
	}
	for id := range missing {
		v.miss("trace %s of tenant %s is not there", id, t.name)
	}
	for id, n := range count {
		if n > 1 {
			v.twice("trace %s of tenant %s is there %d times", id, t.name, n)
		}
	}
}

// checkRecords checks that every acknowledged record exists exactly once, and removes it:
// a removed key must not be accepted anywhere.
func (r *run) checkRecords(v *verdict) {
	r.ledger.mu.Lock()
	expected := map[string]record{}
	for name, rec := range r.ledger.records {
		expected[name] = rec
	}
	r.ledger.mu.Unlock()
	kinds := map[string]string{"policy": "/api/policies", "key": "/api/keys", "budget": "/api/costs/budgets"}
	for kind, path := range kinds {
		var list []struct{ ID, Name string }
		if err := r.admin.must("GET", path+"?limit=500", nil, &list); err != nil {
			v.miss("%v", err)
			continue
		}
		ids, names := map[string]int{}, map[string]int{}
		for _, item := range list {
			ids[item.ID]++
			names[item.Name]++
		}
		for name, rec := range expected {
			if rec.kind != kind {
				continue
			}
			if ids[rec.id] == 0 {
				v.miss("%s %s is not there", kind, name)
			}
			if names[name] > 1 {
				v.twice("%s %s is there %d times", kind, name, names[name])
			}
		}
	}
	for name, rec := range expected {
		if rec.secret != "" {
			r.useKey(v, name, rec.secret, 200)
		}
		err := until(30*time.Second, func() error {
			a := r.admin.send(context.Background(), "DELETE", kinds[rec.kind]+"/"+rec.id, r.admin.header(), nil)
			if a.err != nil || a.status != 200 && a.status != 404 {
				return fmt.Errorf("delete %s: %d %v", name, a.status, a.err)
			}
			return nil
		})
		if err != nil {
			v.miss("%v", err)
		}
		if rec.secret != "" {
			r.useKey(v, name, rec.secret, 401)
		}
		r.ledger.mu.Lock()
		delete(r.ledger.records, name)
		r.ledger.mu.Unlock()
	}
}

// useKey uses a key at every control plane, and expects a status.
func (r *run) useKey(v *verdict, name, secret string, want int) {
	h := http.Header{"Authorization": {"Bearer " + secret}}
	for i := range r.admin.urls {
		err := until(10*time.Second, func() error {
			a := r.admin.once(context.Background(), i, "GET", "/api/policies/templates", h, nil)
			if a.err != nil || a.status != want {
				return fmt.Errorf("key %s at %s: %d %v, want %d", name, a.url, a.status, a.err, want)
			}
			return nil
		})
		if err != nil {
			v.miss("%v", err)
		}
	}
}

// checkBudget compares the use of a tenant's budget with its traces, which are counted
// before and after.
func (r *run) checkBudget(v *verdict, t *tenant) {
	r.ledger.mu.Lock()
	least := float64(len(r.ledger.of(t).acknowledged)) * traceCost
	r.ledger.mu.Unlock()
	used, err := t.used()
	if err != nil {
		v.miss("%v", err)
		return
	}
	r.ledger.mu.Lock()
	most := float64(r.ledger.of(t).attempts) * traceCost
	r.ledger.mu.Unlock()
	const rounding = traceCost / 2
	if used < least-rounding {
		v.miss("the budget of tenant %s has %f USD of %f that were acknowledged", t.name, used, least)
	}
	if used > most+rounding {
		v.twice("the budget of tenant %s has %f USD of %f that were sent", t.name, used, most)
	}
}
