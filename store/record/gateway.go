package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"svc/store"
)

// gatewayRow is a process of a gateway as it is stored.
type gatewayRow struct {
	store.GatewayReport
	ReportedAt time.Time
	SeenAt     time.Time
}

// lasts reports whether two reports differ in their counters alone.
func lasts(a, b *store.GatewayReport) bool {
	return a.Stopped == b.Stopped && a.Governed == b.Governed && a.Revision == b.Revision &&
		a.PublicKey == b.PublicKey && a.KeyID == b.KeyID && bytes.Equal(a.Report, b.Report)
}

// follows reports whether a report is new after the last one of its process, of which the number is at least
// last. The last one again is not new, whoever sends it: it does not show that the process runs.
func (row *gatewayRow) follows(last int64, r *store.GatewayReport) (bool, error) {
	last = max(last, row.Seq)
	if r.Seq > last || r.Seq == last && lasts(&row.GatewayReport, r) {
		return r.Seq > last, nil
	}
	return false, store.FieldError(store.Conflict, fmt.Sprintf("a later report of the instance is known: %d", last), "seq", "must ascend")
}

// heard is the newest report of a process, if only its counters have changed since the one in the store.
type heard struct {
	seq      int64
	at       time.Time
	counters store.GatewayCounters
}

// Fleet buffers the times and counters of gateways' reports until they are written. The zero value is ready
// for use; it is safe for concurrent use.
type Fleet struct {
	// Shared is set before the first use when other processes of the control plane get reports too. What they
	// have not written is not known here.
	Shared bool

	mu      sync.Mutex
	tenants map[string]*tenantFleet
}

type tenantFleet struct {
	flushed time.Time
	heard   map[string]heard // by key of the row
	full    [2]time.Time     // when there was last no room for an unsigned process, and for one that signs
}

// Making room reads all rows, so a flood of reports of new processes must not do it each time.
const (
	// roomAtOnce is the number of processes that give way together.
	roomAtOnce = 50
	// fullFor is how long new processes are refused after nothing could give way.
	fullFor = time.Second
)

// isFull reports whether there was no room a moment ago; set notes it.
func (f *Fleet) isFull(tenant string, signed, set bool, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := &f.of(tenant).full[map[bool]int{true: 1}[signed]]
	if set {
		*full = now
	}
	return now.Sub(*full).Abs() < fullFor
}

// of returns the buffer of a tenant; mu is held.
func (f *Fleet) of(tenant string) *tenantFleet {
	t := f.tenants[tenant]
	if t == nil {
		t = &tenantFleet{heard: map[string]heard{}}
		if f.tenants == nil {
			f.tenants = map[string]*tenantFleet{}
		}
		f.tenants[tenant] = t
	}
	return t
}

// add notes a report, and reports whether the buffer should be written.
func (f *Fleet) add(tenant string, key []byte, h heard) (due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(tenant)
	if t.heard[string(key)].seq < h.seq {
		t.heard[string(key)] = h
	}
	if t.flushed.IsZero() {
		t.flushed = h.at
	}
	if h.at.Sub(t.flushed).Abs() < store.GatewayWritten {
		return false
	}
	t.flushed = h.at
	return true
}

// last returns what was heard of a process and is not written.
func (f *Fleet) last(tenant string, key []byte) heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of(tenant).heard[string(key)]
}

// unwritten returns what is not written of a tenant.
func (f *Fleet) unwritten(tenant string) map[string]heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.of(tenant).heard)
}

// wrote removes what is written, or belongs to rows that are gone.
func (f *Fleet) wrote(tenant string, written map[string]heard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(tenant)
	for key, h := range written {
		if t.heard[key] == h {
			delete(t.heard, key)
		}
	}
}

// forget removes what was heard of processes.
func (f *Fleet) forget(tenant string, keys ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.of(tenant)
	for _, key := range keys {
		delete(t.heard, string(key))
		t.full = [2]time.Time{}
	}
}

// ReportGateway stores the report of a process.
func (t *Tenant) ReportGateway(ctx context.Context, r store.GatewayReport) error {
	for _, f := range [...]struct{ field, value string }{{"gateway", r.Gateway}, {"instance", r.Instance}} {
		if bad(f.value) {
			return store.FieldError(store.Invalid, "bad report of a gateway", f.field, oneTo)
		}
	}
	// As it is stored, with <, > and & escaped: else it would differ from the stored one each time.
	text, err := json.Marshal(r.Report)
	if err != nil {
		return store.FieldError(store.Invalid, "bad report of a gateway", "report", "must be JSON")
	}
	r.Report = text
	key, fleet, now := joined(r.Gateway, r.Instance), t.e.Fleet(), t.e.Now()
	var row gatewayRow
	var known bool
	err = t.e.View(ctx, t.id, func(tx Tx) (err error) {
		row, known, err = get[gatewayRow](tx, gatewayRows, key)
		return err
	})
	if err != nil {
		return err
	}
	if known {
		if fresh, err := row.follows(fleet.last(t.id, key).seq, &r); err != nil || !fresh {
			return err
		}
	}
	if known && lasts(&row.GatewayReport, &r) {
		if !fleet.add(t.id, key, heard{seq: r.Seq, at: now, counters: r.GatewayCounters}) {
			return nil
		}
		return t.flushGateways(ctx)
	}
	var refused error // after the transaction, which also stores the rejected key
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		row, known, err := get[gatewayRow](tx, gatewayRows, key)
		if err != nil {
			return err
		}
		refused = nil
		if known {
			if fresh, err := row.follows(0, &r); err != nil || !fresh {
				return err
			}
		}
		switch {
		case known && row.PublicKey != "" && r.PublicKey == "":
			return store.FieldError(store.Conflict, "earlier reports of the instance were signed", "signature", "is required")
		case r.PublicKey != "":
			if refused, err = t.bindAuditKey(ctx, tx, r.Gateway, r.PublicKey); err != nil || refused != nil {
				return err
			}
		}
		if !known {
			if err := t.roomForGateway(tx, r.PublicKey != "", now); err != nil {
				return err
			}
		}
		return put(tx, gatewayRows, key, gatewayRow{GatewayReport: r, ReportedAt: now, SeenAt: now})
	})
	if err = cmp.Or(err, refused); err == nil {
		fleet.forget(t.id, key) // what is older
	}
	return err
}

// flushGateways writes the times and counters that are buffered, in one transaction.
func (t *Tenant) flushGateways(ctx context.Context) error {
	fleet := t.e.Fleet()
	list := fleet.unwritten(t.id)
	err := t.e.Update(ctx, t.id, func(tx Tx) error {
		keys := make([][]byte, 0, len(list))
		for key := range list {
			keys = append(keys, []byte(key))
		}
		values, err := tx.Many(gatewayRows, keys)
		if err != nil {
			return err
		}
		rows := make([]gatewayRow, len(keys))
		for i, value := range values {
			if value != nil {
				if err := decode(keys[i], value, &rows[i]); err != nil {
					return err
				}
			}
		}
		for i, key := range keys {
			h := list[string(key)]
			if rows[i].Instance == "" || rows[i].Seq > h.seq {
				continue // it was removed, or another process has heard of it later
			}
			rows[i].Seq, rows[i].GatewayCounters, rows[i].SeenAt = h.seq, h.counters, h.at
			if err := put(tx, gatewayRows, key, rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		fleet.wrote(t.id, list)
	}
	return err
}

// roomForGateway makes room for new processes: of those that have stopped or are silent, those give way that
// were not heard of for the longest time, unsigned ones to a signed one first, and never a signed one to an
// unsigned one.
func (t *Tenant) roomForGateway(tx Tx, signed bool, now time.Time) error {
	n, err := tx.Count(gatewayRows, Range{})
	if err != nil || n < store.MaxGatewayInstances {
		return err
	}
	tooMany := store.FieldError(store.Invalid, "too many gateways", "gateway",
		fmt.Sprintf("the tenant has %d instances already; svc gateways forget removes those that are gone", n))
	if t.e.Fleet().isFull(t.id, signed, false, now) {
		return tooMany
	}
	list, err := t.gateways(tx)
	if err != nil {
		return err
	}
	ended := func(g *store.GatewayInstance) bool { return g.Stopped || now.After(g.SilentAt) }
	list = slices.DeleteFunc(list, func(g store.GatewayInstance) bool {
		return g.PublicKey != "" && (!signed || !ended(&g)) || g.PublicKey == "" && !ended(&g) && !signed
	})
	if len(list) == 0 {
		t.e.Fleet().isFull(t.id, signed, true, now)
		return tooMany
	}
	slices.SortFunc(list, func(a, b store.GatewayInstance) int {
		return cmp.Or(cmp.Compare(min(len(a.PublicKey), 1), min(len(b.PublicKey), 1)), a.SeenAt.Compare(b.SeenAt))
	})
	keys := [][]byte{}
	for i := 0; i < min(len(list), roomAtOnce) && (i == 0 || ended(&list[i]) && (list[i].PublicKey == "") == (list[0].PublicKey == "")); i++ {
		keys = append(keys, joined(list[i].Gateway, list[i].Instance))
		if err := heardOf(tx, list[i].Gateway, list[i].SeenAt); err != nil {
			return err
		}
	}
	return tx.Delete(gatewayRows, keys...)
}

// heardOf notes when a process last reported that is removed, if the name of its gateway is bound to a key: the name
// stays bound for GatewayKept from then on, whoever made the process give way.
func heardOf(tx Tx, gateway string, at time.Time) error {
	bound, known, err := get[store.AuditKey](tx, auditKeys, []byte(gateway))
	if err != nil || !known || !at.After(bound.HeardAt) {
		return err
	}
	bound.HeardAt = at
	return put(tx, auditKeys, []byte(gateway), bound)
}

// gateways returns all processes, with what is buffered.
func (t *Tenant) gateways(tx Tx) ([]store.GatewayInstance, error) {
	list, fleet, silent := []store.GatewayInstance{}, t.e.Fleet(), store.GatewaySilent
	if fleet.Shared {
		silent += store.GatewayWritten // a process may report elsewhere than it did before
	}
	err := each(tx, gatewayRows, Range{}, func(row *gatewayRow) (bool, error) {
		g := store.GatewayInstance{GatewayReport: row.GatewayReport, ReportedAt: row.ReportedAt, SeenAt: row.SeenAt}
		if h := fleet.last(t.id, joined(row.Gateway, row.Instance)); h.seq > row.Seq {
			g.Seq, g.GatewayCounters, g.SeenAt = h.seq, h.counters, h.at.UTC()
		}
		g.SilentAt = g.SeenAt.Add(silent)
		list = append(list, g)
		return true, nil
	})
	return list, err
}

// ListGateways returns the processes of all gateways that have reported within GatewayKept.
func (t *Tenant) ListGateways(ctx context.Context) (list []store.GatewayInstance, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, err = t.gateways(tx)
		return err
	})
	since := t.e.Now().Add(-store.GatewayKept)
	return slices.DeleteFunc(list, func(g store.GatewayInstance) bool { return g.SeenAt.Before(since) }), err
}

// GatewayKey returns the key that the name of a gateway is bound to.
func (t *Tenant) GatewayKey(ctx context.Context, gateway string) (string, error) {
	var bound store.AuditKey
	err := t.e.View(ctx, t.id, func(tx Tx) (err error) {
		bound, _, err = get[store.AuditKey](tx, auditKeys, []byte(gateway))
		return err
	})
	return bound.PublicKey, err
}

// ForgetGateway removes all processes of a gateway.
func (t *Tenant) ForgetGateway(ctx context.Context, gateway string) error {
	var keys [][]byte
	err := t.e.Update(ctx, t.id, func(tx Tx) error {
		keys = nil
		instances := []string{}
		err := each(tx, gatewayRows, prefixed(gateway), func(row *gatewayRow) (bool, error) {
			keys, instances = append(keys, joined(row.Gateway, row.Instance)), append(instances, row.Instance)
			return true, nil
		})
		if err == nil && len(keys) == 0 {
			err = store.Missing("gateway")
		}
		if err != nil {
			return err
		}
		if err := tx.Delete(gatewayRows, keys...); err != nil {
			return err
		}
		if err := heardOf(tx, gateway, t.e.Now()); err != nil {
			return err
		}
		return t.Changed(ctx, tx, store.GatewayObject(gateway, instances), nil, false)
	})
	if err == nil {
		t.e.Fleet().forget(t.id, keys...)
	}
	return err
}

// trimGateways removes the processes that have not reported since a time.
func (t *Tenant) trimGateways(tx Tx, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	var old [][]byte
	err := each(tx, gatewayRows, Range{}, func(row *gatewayRow) (bool, error) {
		key := joined(row.Gateway, row.Instance)
		if row.SeenAt.Before(before) && t.e.Fleet().last(t.id, key).at.Before(before) {
			old = append(old, key)
		}
		return len(old) < limit, nil
	})
	if err != nil {
		return 0, err
	}
	return len(old), tx.Delete(gatewayRows, old...)
}

// unbindGateways unbinds the names of gateways of which nothing is known since a time, so that names of hosts that come
// and go do not use up the names. A name that has audit heads stays bound, because only its key may continue them; and
// so does one that another key was offered for, because somebody wants it.
func unbindGateways(tx Tx, before time.Time, limit int) error {
	if n, err := tx.Count(auditKeys, Range{}); err != nil || n == 0 || before.IsZero() {
		return err
	}
	known := map[string]bool{}
	for _, bucket := range [...]string{gatewayRows, auditHeads, auditUnsigned} {
		err := tx.Scan(bucket, Range{Keys: true}, func(key, _ []byte) (bool, error) {
			name, _, _ := bytes.Cut(key, []byte{0})
			known[string(name)] = true
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	var old [][]byte
	err := each(tx, auditKeys, Range{}, func(k *store.AuditKey) (bool, error) {
		if !known[k.Gateway] && len(k.Offered) == 0 && k.BoundAt.Before(before) && k.HeardAt.Before(before) {
			old = append(old, []byte(k.Gateway))
		}
		return len(old) < limit, nil
	})
	if err != nil {
		return err
	}
	return tx.Delete(auditKeys, old...)
}
