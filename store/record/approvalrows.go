package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"time"

	"svc/store"
)

// Prefixes of the keys of the bucket approvalIndex besides the statuses.
const (
	byPrincipal   = "by"        // ‖ principal ‖ id → time of the creation
	byRefusal     = "refused"   // ‖ principal ‖ tool ‖ time ‖ id
	byUntil       = "until"     // ‖ time ‖ id of a pending or granted one
	byEnd         = "ended"     // ‖ time ‖ id
	byEndArgument = "arguments" // ‖ time ‖ id, while there are arguments
)

// digestOf is a part of a key for a text of any length: hexadecimal digits.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// timeText is a time as a part of a key.
func timeText(at time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())))
}

// timeAt returns the time at the begin of a value or a part of a key.
func timeAt(b []byte) time.Time {
	if len(b) < 8 {
		return time.Time{}
	}
	return timeOf(int64(binary.BigEndian.Uint64(b)))
}

// approvalRows returns the rows of the index for an approval. The value of the row by status
// has the end of the status, the key that asked, the principal and the tool.
func approvalRows(a *store.Approval) map[string][]byte {
	principal, tool := digestOf(a.Principal), digestOf(a.Tool)
	rows := map[string][]byte{
		string(joined(a.Status, a.ID)):               []byte(timeText(a.Until) + string(joined(a.RequestedBy.KeyID, principal, tool))),
		string(joined(byPrincipal, principal, a.ID)): []byte(timeText(a.CreatedAt)),
	}
	if a.Live() {
		rows[string(joined(byUntil, timeText(a.Until)+a.ID))] = present
	} else {
		rows[string(joined(byEnd, timeText(a.EndedAt)+a.ID))] = present
		rows[string(joined(byEndArgument, timeText(a.EndedAt)+a.ID))] = present
	}
	for _, d := range a.Decisions {
		if d.Decision == store.DecisionDeny {
			rows[string(joined(byRefusal, principal, tool, timeText(d.At)+a.ID))] = present
		}
	}
	return rows
}

// putApproval writes an approval with its rows of the index, or removes it: was is nil for a
// new one, is for one to remove.
func putApproval(tx Tx, was, is *store.Approval) error {
	var old, rows map[string][]byte
	if was != nil {
		old = approvalRows(was)
	}
	if is != nil {
		rows = approvalRows(is)
	}
	for key := range old {
		if rows[key] == nil {
			if err := tx.Delete(approvalIndex, []byte(key)); err != nil {
				return err
			}
		}
	}
	for key, value := range rows {
		if !bytes.Equal(old[key], value) {
			if err := tx.Put(approvalIndex, []byte(key), value); err != nil {
				return err
			}
		}
	}
	if is != nil {
		return put(tx, approvalRecords, []byte(is.ID), is)
	}
	call := joined(was.RequestedBy.KeyID, was.Digest)
	id, err := tx.Get(approvalCalls, call)
	if err == nil && string(id) == was.ID {
		err = tx.Delete(approvalCalls, call)
	}
	if err != nil {
		return err
	}
	if err := tx.Delete(approvalArguments, []byte(was.ID)); err != nil {
		return err
	}
	return tx.Delete(approvalRecords, []byte(was.ID))
}

// setApproval makes a change of an approval, and queues its message. All changes but removals
// and those of the time are made here.
func (t *Tenant) setApproval(tx Tx, was, is *store.Approval) error {
	if err := putApproval(tx, was, is); err != nil {
		return err
	}
	n, typ := len(is.Decisions), store.EventApprovalDecided
	switch {
	case was == nil:
		typ = store.EventApprovalRequested
	case is.Status == store.ApprovalExpired:
		typ = store.EventApprovalExpired
	case n == len(was.Decisions):
		return nil // other terms, a claim or a release
	}
	agent, _, err := AgentByName(tx, is.AgentName)
	if err != nil {
		return err
	}
	return t.notify(tx, store.ApprovalEvent(typ, agent.ID, is))
}

// approvalByID returns an approval as it is stored, and as it is at a time.
func approvalByID(tx Tx, id string, now time.Time) (stored, a store.Approval, err error) {
	stored, known, err := get[store.Approval](tx, approvalRecords, []byte(id))
	if err == nil && !known {
		err = store.Missing("approval")
	}
	a = stored
	a.Reasons, a.Persons, a.Decisions = slices.Clone(a.Reasons), slices.Clone(a.Persons), slices.Clone(a.Decisions)
	a.Settle(now)
	return stored, a, err
}

// putArguments writes the arguments of a call.
func putArguments(tx Tx, id string, list []store.ApprovalArgument) error {
	if len(list) == 0 {
		return tx.Delete(approvalArguments, []byte(id))
	}
	return put(tx, approvalArguments, []byte(id), list)
}

// byStatus is the range of the rows of the index for a status.
func byStatus(status string, having ...string) Range {
	r := prefixed(status)
	for _, text := range having {
		r.Having = append(r.Having, []byte(text))
	}
	return r
}

// ListApprovals returns approvals, newest first.
func (t *Tenant) ListApprovals(ctx context.Context, f store.ApprovalFilter, page store.Page) (list []store.Approval, total int, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		now := t.e.Now()
		if f.Status == "" {
			list, total, err = pageOf[store.Approval](tx, approvalRecords, page, nil)
		} else {
			list, total, err = approvalsWith(tx, f.Status, page, now)
		}
		for i := range list {
			list[i].Settle(now)
		}
		return err
	})
	return list, total, err
}

// approvalsWith lists the approvals with a status. Those whose status ended before now are left
// out: soon they are listed as expired.
func approvalsWith(tx Tx, status string, page store.Page, now time.Time) (list []store.Approval, total int, err error) {
	live := (&store.Approval{Status: status}).Live()
	r, prefix := prefixed(status), len(status)+1
	if !live {
		if total, err = tx.Count(approvalIndex, r); err != nil {
			return nil, 0, err
		}
		if page.After.ID != "" {
			r.To = joined(status, page.After.ID)
		}
	}
	r.Reverse = true
	var ids [][]byte
	behind := 0 // rows of the list after page.After
	err = tx.Scan(approvalIndex, r, func(key, value []byte) (bool, error) {
		if live && !now.Before(timeAt(value)) {
			return true, nil
		}
		if live {
			total++
		}
		if id := key[prefix:]; page.After.ID == "" || string(id) < page.After.ID {
			if behind >= page.Offset && (page.Limit <= 0 || len(ids) < page.Limit) {
				ids = append(ids, slices.Clone(id))
			}
			behind++
		}
		return live || page.Limit <= 0 || len(ids) < page.Limit, nil
	})
	if err != nil {
		return nil, 0, err
	}
	values, err := tx.Many(approvalRecords, ids)
	list = make([]store.Approval, len(ids))
	for i := range values {
		if err := decode(ids[i], values[i], &list[i]); err != nil {
			return nil, 0, err
		}
	}
	return list, total, err
}

// EndApprovals ends approvals whose time is over.
func (t *Tenant) EndApprovals(ctx context.Context) (open int, more bool, err error) {
	now := t.e.Now()
	due := Range{From: joined(byUntil, ""), To: joined(byUntil, timeText(now.Add(1))), Most: 1}
	var rows [][]byte
	read := func(tx Tx) (err error) {
		if rows, err = firstKeys(tx, due, trimmedAtOnce); err == nil {
			open, err = tx.Count(approvalIndex, prefixed(store.ApprovalPending))
		}
		return err
	}
	// First in a read transaction: mostly nothing is due.
	if err := t.e.View(ctx, t.id, read); err != nil || len(rows) == 0 {
		return open, false, err
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		if rows, err = firstKeys(tx, due, trimmedAtOnce); err != nil {
			return err
		}
		for _, row := range rows {
			stored, a, err := approvalByID(tx, idBehindTime(row, byUntil), now)
			if err == nil {
				err = t.setApproval(tx, &stored, &a)
			}
			if err != nil {
				return err
			}
		}
		open, err = tx.Count(approvalIndex, prefixed(store.ApprovalPending))
		return err
	})
	return open, len(rows) == trimmedAtOnce, err
}

// firstKeys returns the first keys of a range of the index.
func firstKeys(tx Tx, r Range, limit int) (keys [][]byte, err error) {
	r.Keys = true
	err = tx.Scan(approvalIndex, r, func(key, _ []byte) (bool, error) {
		keys = append(keys, slices.Clone(key))
		return len(keys) < limit, nil
	})
	return keys, err
}

// idBehindTime returns the id in a key of the index by time.
func idBehindTime(key []byte, prefix string) string {
	return string(key[min(len(prefix)+1+8, len(key)):])
}

// LapseApprovals ends the time of all pending and granted approvals.
func (t *Tenant) LapseApprovals(ctx context.Context) error {
	return t.e.Update(ctx, t.id, func(tx Tx) error { return LapseApprovals(tx, t.e.Now()) })
}

// LapseApprovals ends the time of the pending and granted approvals whose rows of the index have
// all of the texts.
func LapseApprovals(tx Tx, now time.Time, having ...string) error {
	for _, status := range [...]string{store.ApprovalPending, store.ApprovalGranted} {
		var ids [][]byte
		r := byStatus(status, having...)
		err := tx.Scan(approvalIndex, r, func(key, _ []byte) (bool, error) {
			ids = append(ids, slices.Clone(key[len(status)+1:]))
			return true, nil
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			stored, a, err := approvalByID(tx, string(id), time.Time{})
			if err != nil {
				return err
			}
			if a.Until.After(now) {
				a.Until = now
				if err := putApproval(tx, &stored, &a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ended is the range of the rows of approvals that ended before a time.
// The zero time is before all of them.
func ended(prefix string, before time.Time) Range {
	r := Range{From: joined(prefix, ""), To: joined(prefix, ""), Keys: true, Most: 1}
	if !before.IsZero() {
		r.To = joined(prefix, timeText(before))
	}
	return r
}

// trimApprovals removes the arguments of approvals that ended before a time, and approvals that
// ended before another one. A zero time removes nothing.
func trimApprovals(tx Tx, arguments, approvals time.Time, limit int) (n int, err error) {
	if arguments.IsZero() && approvals.IsZero() {
		return 0, nil
	}
	rows, err := firstKeys(tx, ended(byEndArgument, arguments), limit)
	if err != nil {
		return 0, err
	}
	n = len(rows)
	ids := make([][]byte, n)
	for i, row := range rows {
		ids[i] = []byte(idBehindTime(row, byEndArgument))
	}
	if err := tx.Delete(approvalArguments, ids...); err != nil {
		return n, err
	}
	if err := tx.Delete(approvalIndex, rows...); err != nil {
		return n, err
	}
	rows, err = firstKeys(tx, ended(byEnd, approvals), limit)
	for i := 0; err == nil && i < len(rows); i++ {
		var stored store.Approval
		if stored, _, err = approvalByID(tx, idBehindTime(rows[i], byEnd), time.Time{}); err == nil {
			err = putApproval(tx, &stored, nil)
		}
	}
	return max(n, len(rows)), err
}
