package record

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
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
	// Writer identifies the process of the control plane that wrote SeenAt: another one may have heard
	// of the gateway later.
	Writer string
}

// lasts reports whether two reports differ in their counters alone.
func lasts(a, b *store.GatewayReport) bool {
	return a.Stopped == b.Stopped && a.Governed == b.Governed && a.Revision == b.Revision &&
		a.PublicKey == b.PublicKey && a.KeyID == b.KeyID && bytes.Equal(a.Report, b.Report)
}

// heard is the newest report of a process, if only its counters have changed since the one in the store.
type heard struct {
	seq      int64
	at       time.Time
	counters store.GatewayCounters
	written  bool // SeenAt in the store is at
}

// Fleet buffers the times and counters of gateways' reports. The zero value is ready for use; it is
// safe for concurrent use.
type Fleet struct {
	mu      sync.Mutex
	writer  string
	tenants map[string]*tenantFleet
}

type tenantFleet struct {
	flushed time.Time
	heard   map[string]heard // by key of the row; only of rows that exist
}

// id identifies this process of the control plane.
func (f *Fleet) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writer == "" {
		f.writer = rand.Text()
	}
	return f.writer
}

// add notes a report, and reports whether the buffer should be written.
func (f *Fleet) add(tenant string, key []byte, h heard) (due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenants[tenant]
	if t == nil {
		t = &tenantFleet{flushed: h.at, heard: map[string]heard{}}
		if f.tenants == nil {
			f.tenants = map[string]*tenantFleet{}
		}
		f.tenants[tenant] = t
	}
	if before, known := t.heard[string(key)]; !known || before.seq <= h.seq {
		t.heard[string(key)] = h
	}
	if h.at.Sub(t.flushed).Abs() < store.GatewayWritten {
		return false
	}
	t.flushed = h.at
	return true
}

// of returns what was heard of a process.
func (f *Fleet) of(tenant string, key []byte) heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tenants[tenant]; t != nil {
		return t.heard[string(key)]
	}
	return heard{}
}

// unwritten returns what is not written of a tenant.
func (f *Fleet) unwritten(tenant string) map[string]heard {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := map[string]heard{}
	if t := f.tenants[tenant]; t != nil {
		for key, h := range t.heard {
			if !h.written {
				list[key] = h
			}
		}
	}
	return list
}

// wrote notes that something is written; exists is false for a row that somebody has removed.
func (f *Fleet) wrote(tenant, key string, h heard, exists bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenants[tenant]
	if t == nil || t.heard[key] != h {
		return
	}
	if !exists {
		delete(t.heard, key)
		return
	}
	h.written = true
	t.heard[key] = h
}

// forget removes what was heard of processes.
func (f *Fleet) forget(tenant string, keys [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if t := f.tenants[tenant]; t != nil {
			delete(t.heard, string(key))
		}
	}
}

// ReportGateway stores the report of a process.
func (t *Tenant) ReportGateway(ctx context.Context, r store.GatewayReport) error {
	for _, f := range [...]struct{ field, value string }{{"gateway", r.Gateway}, {"instance", r.Instance}} {
		if bad(f.value) {
			return store.FieldError(store.Invalid, "bad report of a gateway", f.field, oneTo)
		}
	}
	key, fleet, now := joined(r.Gateway, r.Instance), t.e.Fleet(), t.e.Now()
	var row gatewayRow
	var known bool
	err := t.e.View(ctx, t.id, func(tx Tx) (err error) {
		row, known, err = get[gatewayRow](tx, gatewayRows, key)
		return err
	})
	if err != nil {
		return err
	}
	if known {
		if last := max(row.Seq, fleet.of(t.id, key).seq); r.Seq < last {
			return store.FieldError(store.Conflict, fmt.Sprintf("a later report of the instance is known: %d", last), "seq", "must ascend")
		}
	}
	h := heard{seq: r.Seq, at: now, counters: r.GatewayCounters}
	if known && lasts(&row.GatewayReport, &r) {
		if !fleet.add(t.id, key, h) {
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
		switch {
		case known && r.Seq < row.Seq:
			return store.FieldError(store.Conflict, fmt.Sprintf("a later report of the instance is known: %d", row.Seq), "seq", "must ascend")
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
		return put(tx, gatewayRows, key, gatewayRow{GatewayReport: r, ReportedAt: now, SeenAt: now, Writer: fleet.id()})
	})
	if err = cmp.Or(err, refused); err != nil {
		return err
	}
	h.written = true
	fleet.add(t.id, key, h)
	return nil
}

// flushGateways writes the times and counters that are buffered, in one transaction.
func (t *Tenant) flushGateways(ctx context.Context) error {
	fleet := t.e.Fleet()
	list := fleet.unwritten(t.id)
	exist := map[string]bool{}
	err := t.e.Update(ctx, t.id, func(tx Tx) error {
		clear(exist)
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
			if rows[i].Instance == "" {
				continue
			}
			exist[string(key)] = true
			if rows[i].Seq > h.seq {
				continue // another process has heard of it later
			}
			rows[i].Seq, rows[i].GatewayCounters, rows[i].SeenAt, rows[i].Writer = h.seq, h.counters, h.at, fleet.id()
			if err := put(tx, gatewayRows, key, rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, h := range list {
		fleet.wrote(t.id, key, h, exist[key])
	}
	return nil
}

// roomForGateway makes room for a new process: of those that have stopped or are silent, the one that was
// not heard of for the longest time gives way, an unsigned one to a signed one first, and never a signed one
// to an unsigned one.
func (t *Tenant) roomForGateway(tx Tx, signed bool, now time.Time) error {
	n, err := tx.Count(gatewayRows, Range{})
	if err != nil || n < store.MaxGatewayInstances {
		return err
	}
	list, err := t.gateways(tx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(g store.GatewayInstance) bool {
		ended := g.Stopped || now.After(g.SilentAt)
		return g.PublicKey != "" && (!signed || !ended) || g.PublicKey == "" && !ended && !signed
	})
	if len(list) == 0 {
		return store.FieldError(store.Invalid, "too many gateways", "gateway",
			fmt.Sprintf("the tenant has %d instances already; svc gateways forget removes those that are gone", n))
	}
	oldest := slices.MinFunc(list, func(a, b store.GatewayInstance) int {
		return cmp.Or(cmp.Compare(min(len(a.PublicKey), 1), min(len(b.PublicKey), 1)), a.SeenAt.Compare(b.SeenAt))
	})
	return tx.Delete(gatewayRows, joined(oldest.Gateway, oldest.Instance))
}

// gateways returns all processes, with what is buffered.
func (t *Tenant) gateways(tx Tx) ([]store.GatewayInstance, error) {
	list, fleet := []store.GatewayInstance{}, t.e.Fleet()
	me := fleet.id()
	err := each(tx, gatewayRows, Range{}, func(row *gatewayRow) (bool, error) {
		g := store.GatewayInstance{GatewayReport: row.GatewayReport, ReportedAt: row.ReportedAt, SeenAt: row.SeenAt, SilentAt: row.SeenAt.Add(store.GatewaySilent)}
		if row.Writer != me {
			g.SilentAt = g.SilentAt.Add(store.GatewayWritten)
		}
		if h := fleet.of(t.id, joined(row.Gateway, row.Instance)); h.seq >= row.Seq && h.at.After(row.SeenAt) {
			g.Seq, g.GatewayCounters, g.SeenAt, g.SilentAt = h.seq, h.counters, h.at.UTC(), h.at.UTC().Add(store.GatewaySilent)
		}
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
		return t.Changed(ctx, tx, store.GatewayObject(gateway, instances), nil, false)
	})
	if err == nil {
		t.e.Fleet().forget(t.id, keys)
	}
	return err
}

// trimGateways removes the processes that have not reported since a time.
func trimGateways(tx Tx, before time.Time, limit int) (int, error) {
	if before.IsZero() {
		return 0, nil
	}
	var old [][]byte
	err := each(tx, gatewayRows, Range{}, func(row *gatewayRow) (bool, error) {
		if row.SeenAt.Before(before) {
			old = append(old, joined(row.Gateway, row.Instance))
		}
		return len(old) < limit, nil
	})
	if err != nil {
		return 0, err
	}
	return len(old), tx.Delete(gatewayRows, old...)
}
