package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc/store"
)

// The bucket approvalIndex has one row for each approval: status \0 id → the times of its end,
// its creation and its decision or use, and its columns.
const (
	rowTimes   = 3 * 8
	columnSize = 34             // a letter, a colon and 32 hexadecimal digits
	keyColumn  = 3 * columnSize // the last column
)

// columns are what approvals are found by, of fixed sizes in front of the key that asked: digests
// of the principal, the tool and the name of the agent, with a letter for each, so that a text of
// one is not found in another.
func columns(a *store.Approval) string {
	return "p:" + digestOf(a.Principal) + "t:" + digestOf(a.Tool) + "a:" + digestOf(a.AgentName) + keyText(a.RequestedBy.KeyID)
}

func keyText(keyID string) string { return "k:" + keyID + ";" }

// digestOf is a part of a row for a text of any length: hexadecimal digits.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// approvalRow is a row of the index.
type approvalRow struct {
	status, id            string
	until, created, ended time.Time
	columns               string
}

// liveStatuses are those of approvals whose status ends by itself and that can be decided or used.
var liveStatuses = []string{store.ApprovalPending, store.ApprovalGranted}

func indexRow(a *store.Approval) (key, value []byte) {
	for _, at := range [...]time.Time{a.Until, a.CreatedAt, a.EndedAt} {
		nanos := int64(0)
		if !at.IsZero() {
			nanos = at.UnixNano()
		}
		value = binary.BigEndian.AppendUint64(value, uint64(nanos))
	}
	return joined(a.Status, a.ID), append(value, columns(a)...)
}

// scanApprovals calls f with the approvals of each status that were made at from or later, newest
// first, until it returns false: those whose columns have all of the texts. f must not use the
// transaction, nor keep the row.
func scanApprovals(tx Tx, statuses []string, from time.Time, f func(r *approvalRow) bool, having ...string) (err error) {
	more := true
	for _, status := range statuses {
		rows := prefixed(status)
		rows.Reverse = true
		if !from.IsZero() {
			rows.From = joined(status, store.FirstID(store.PrefixApproval, from))
		}
		for _, text := range having {
			rows.Having = append(rows.Having, []byte(text))
		}
		if err == nil && more {
			err = tx.Scan(approvalIndex, rows, func(key, value []byte) (bool, error) {
				if len(value) < rowTimes+keyColumn {
					return false, fmt.Errorf("%w %q", ErrDamaged, key)
				}
				at := func(i int) time.Time { return timeOf(int64(binary.BigEndian.Uint64(value[8*i:]))) }
				more = f(&approvalRow{status, string(key[len(status)+1:]), at(0), at(1), at(2), string(value[rowTimes:])})
				return more, nil
			})
		}
	}
	return err
}

// putApproval writes an approval with its row of the index; was is nil for a new one.
func putApproval(tx Tx, was, is *store.Approval) error {
	if was != nil && was.Status != is.Status {
		if err := tx.Delete(approvalIndex, joined(was.Status, was.ID)); err != nil {
			return err
		}
	}
	key, value := indexRow(is)
	if err := tx.Put(approvalIndex, key, value); err != nil {
		return err
	}
	return put(tx, approvalRecords, []byte(is.ID), is)
}

// setApproval makes a change of an approval, and queues its message. All changes but removals
// and those of the time are made here.
func (t *Tenant) setApproval(tx Tx, was, is *store.Approval) error {
	if err := putApproval(tx, was, is); err != nil {
		return err
	}
	typ := store.EventApprovalDecided
	switch {
	case was == nil:
		typ = store.EventApprovalRequested
	case is.Status == store.ApprovalExpired:
		typ = store.EventApprovalExpired
	case len(is.Decisions) == len(was.Decisions):
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

// ListApprovals returns approvals, newest first.
func (t *Tenant) ListApprovals(ctx context.Context, f store.ApprovalFilter, page store.Page) (list []store.Approval, total int, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		now := t.e.Now()
		if f == (store.ApprovalFilter{}) {
			list, total, err = pageOf[store.Approval](tx, approvalRecords, page, nil)
		} else {
			list, total, err = approvalsWith(tx, f, page, now)
		}
		for i := range list {
			list[i].Settle(now)
		}
		return err
	})
	return list, total, err
}

// approvalsWith lists the approvals that a filter accepts. With a status, those whose status ended
// before now are left out: soon they are listed as expired.
func approvalsWith(tx Tx, f store.ApprovalFilter, page store.Page, now time.Time) (list []store.Approval, total int, err error) {
	var agents map[string]bool
	if f.TeamID != "" {
		if agents, err = agentsOf(tx, f.TeamID); err != nil {
			return nil, 0, err
		}
	}
	statuses := store.ApprovalStatuses
	if f.Status != "" {
		statuses = []string{f.Status}
	}
	live, most, behind := slices.Contains(liveStatuses, f.Status), max(page.Offset, 0)+page.Limit, map[string]int{}
	var ids [][]byte
	err = scanApprovals(tx, statuses, time.Time{}, func(r *approvalRow) bool {
		if live && !now.Before(r.until) || agents != nil && !agents[r.columns[2*columnSize+2:keyColumn]] {
			return true
		}
		total++
		if page.After.ID == "" || r.id < page.After.ID {
			if behind[r.status]++; page.Limit <= 0 || behind[r.status] <= most {
				ids = append(ids, []byte(r.id))
			}
		}
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(ids, func(a, b []byte) int { return bytes.Compare(b, a) })
	ids = ids[min(max(page.Offset, 0), len(ids)):]
	if page.Limit > 0 {
		ids = ids[:min(page.Limit, len(ids))]
	}
	list, err = approvalsByID(tx, ids)
	return list, total, err
}

func approvalsByID(tx Tx, ids [][]byte) ([]store.Approval, error) {
	values, err := tx.Many(approvalRecords, ids)
	list := make([]store.Approval, len(values))
	for i := range values {
		if err := decode(ids[i], values[i], &list[i]); err != nil {
			return nil, err
		}
	}
	return list, err
}

// agentsOf returns the digests of the names of a team's agents, the former ones too.
func agentsOf(tx Tx, team string) (map[string]bool, error) {
	names, ids := map[string]bool{}, map[string]bool{}
	err := each(tx, AgentRows, Range{Having: [][]byte{field("TeamID", team)}}, func(a *store.Agent) (bool, error) {
		if a.TeamID == team {
			names[digestOf(a.Name)], ids[a.ID] = true, true
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return names, tx.Scan(agentAliases, Range{}, func(key, value []byte) (bool, error) {
		var a aliasRecord
		err := decode(key, value, &a)
		if ids[a.Agent] {
			names[digestOf(string(key))] = true
		}
		return true, err
	})
}

// EndApprovals ends approvals whose time is over.
func (t *Tenant) EndApprovals(ctx context.Context) (open int, more bool, err error) {
	err = t.mayWrite(ctx, func(tx Tx) error {
		now := t.e.Now()
		var due []string
		open = 0
		err := scanApprovals(tx, liveStatuses, time.Time{}, func(r *approvalRow) bool {
			switch {
			case !now.Before(r.until):
				due = append(due, r.id)
			case r.status == store.ApprovalPending:
				open++
			}
			return true
		})
		if err != nil {
			return err
		}
		more = len(due) > trimmedAtOnce
		for _, id := range due[:min(len(due), trimmedAtOnce)] {
			stored, a, err := approvalByID(tx, id, now)
			if err == nil {
				err = t.setApproval(tx, &stored, &a)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return open, more, err
}

// LapseApprovals ends the time of all pending and granted approvals.
func (t *Tenant) LapseApprovals(ctx context.Context) error {
	return t.e.Update(ctx, t.id, func(tx Tx) error { return LapseApprovals(tx, t.e.Now(), "") })
}

// LapseApprovals ends the time of the pending and granted approvals that a key asked for; of all
// for an empty key.
func LapseApprovals(tx Tx, now time.Time, keyID string) error {
	var ids []string
	err := scanApprovals(tx, liveStatuses, time.Time{}, func(r *approvalRow) bool {
		if r.until.After(now) && (keyID == "" || r.columns[keyColumn:] == keyText(keyID)) {
			ids = append(ids, r.id)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		stored, a, err := approvalByID(tx, id, time.Time{})
		if err == nil {
			a.Until = now
			err = putApproval(tx, &stored, &a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trimApprovals removes approvals that ended before a time, or only their arguments. The zero time
// removes nothing.
func trimApprovals(tx Tx, bucket string, before time.Time, limit int) (n int, err error) {
	if before.IsZero() {
		return 0, nil
	}
	ids, err := keysIn(tx, bucket, Range{To: []byte(store.FirstID(store.PrefixApproval, before.Add(time.Millisecond)))})
	for chunk := range slices.Chunk(ids, trimmedAtOnce) {
		list, other := approvalsByID(tx, chunk)
		if err = other; err != nil {
			break
		}
		for i := 0; i < len(list) && n < limit && err == nil; i++ {
			if a := &list[i]; !a.Live() && a.EndedAt.Before(before) {
				n++
				if err = tx.Delete(approvalArguments, chunk[i]); err == nil && bucket == approvalRecords {
					err = removeApproval(tx, a)
				}
			}
		}
	}
	return n, err
}

func removeApproval(tx Tx, a *store.Approval) error {
	call := joined(a.RequestedBy.KeyID, a.Digest)
	id, err := tx.Get(approvalCalls, call)
	if err == nil && string(id) == a.ID {
		err = tx.Delete(approvalCalls, call)
	}
	if err == nil {
		err = tx.Delete(approvalIndex, joined(a.Status, a.ID))
	}
	if err != nil {
		return err
	}
	return tx.Delete(approvalRecords, []byte(a.ID))
}

// mayWrite is Update for f that mostly writes nothing: it runs in a read transaction first, and in
// one that writes only after an attempt to write.
func (t *Tenant) mayWrite(ctx context.Context, f func(Tx) error) error {
	err := t.e.View(ctx, t.id, func(tx Tx) error { return f(reading{tx}) })
	if errors.Is(err, errWrites) {
		err = t.e.Update(ctx, t.id, f)
	}
	return err
}

// errWrites ends a read transaction that would have to write.
var errWrites = errors.New("a write in a read transaction")

// reading is a transaction that fails with errWrites where it would write.
type reading struct{ Tx }

// Put fails.
func (reading) Put(string, []byte, []byte) error { return errWrites }

// Delete fails, unless there is nothing to remove.
func (reading) Delete(_ string, keys ...[]byte) error {
	if len(keys) == 0 {
		return nil
	}
	return errWrites
}
