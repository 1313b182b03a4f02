package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"svc/store"
)

// The statuses of an approval:
//
//	         request        grant          claim
//	(none) ─────────▶ pending ─────▶ granted ◀────▶ used
//	                   │  │           │   │  release
//	              deny │  │ time      │   │ time, or other reasons
//	                   ▼  │    revoke ▼   ▼
//	                denied└──────▶ (denied) expired
//
// A denied, used or expired approval is kept, and another request for the call makes a new one;
// for a denied one after its time.

// similarScanned bounds the granted approvals among which similar calls are sought.
const similarScanned = 1000

// errWrites ends a read transaction that would have to write.
var errWrites = errors.New("the call must be written")

// RequestApproval returns the approval of a call, or makes one.
func (t *Tenant) RequestApproval(ctx context.Context, keyID string, call store.ApprovalCall) (out store.ApprovalOutcome, err error) {
	if call.Show == store.ShowNone {
		call.Arguments = withoutValues(call.Arguments)
	}
	// First in a read transaction: gateways ask again and again until somebody has decided.
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		out, err = t.request(tx, keyID, &call, false)
		return err
	})
	if errors.Is(err, errWrites) {
		err = t.e.Update(ctx, t.id, func(tx Tx) error {
			out, err = t.request(tx, keyID, &call, true)
			return err
		})
	}
	if err != nil {
		return store.ApprovalOutcome{}, err
	}
	return out, nil
}

// request is RequestApproval in a transaction; it returns errWrites where it may not write.
func (t *Tenant) request(tx Tx, keyID string, call *store.ApprovalCall, write bool) (out store.ApprovalOutcome, err error) {
	now := t.e.Now()
	if out.NewKeyTag, err = noteKeyTag(tx, keyID, call.KeyTag, now, write); err != nil {
		return out, err
	}
	id, err := tx.Get(approvalCalls, joined(keyID, call.Digest))
	if err != nil {
		return out, err
	}
	var stored, a store.Approval
	if id != nil {
		if stored, a, err = approvalByID(tx, string(id), now); err != nil {
			return out, err
		}
	}
	known := !a.Until.IsZero()
	switch {
	case known && a.Status == store.ApprovalDenied, known && a.Status == store.ApprovalGranted && covers(a.Reasons, call.Reasons):
		out.Approval = a
		return out, nil
	case known && a.Status == store.ApprovalPending:
		changed, fits := merge(&a.ApprovalCall, call)
		a.Until = a.CreatedAt.Add(a.Expires)
		if a.Settle(now); !fits || !a.Live() {
			break
		}
		if changed {
			if !write {
				return out, errWrites
			}
			if err := t.setApproval(tx, &stored, &a); err != nil {
				return out, err
			}
			if a.Show == store.ShowNone {
				err = putArguments(tx, a.ID, withoutValues(call.Arguments))
			}
		}
		out.Approval = a
		if err == nil {
			out.Similar, err = similar(tx, &a, call.Arguments, now)
		}
		return out, err
	}
	if !write {
		return out, errWrites
	}
	if a.ID != "" && stored.Live() { // its time is over, or it is not for these reasons
		a = stored
		a.Status, a.Until, a.EndedAt = store.ApprovalExpired, time.Time{}, now
		if err := t.setApproval(tx, &stored, &a); err != nil {
			return out, err
		}
	}
	return t.newApproval(tx, keyID, call, out, now)
}

// newApproval makes an approval, within the bounds.
func (t *Tenant) newApproval(tx Tx, keyID string, call *store.ApprovalCall, out store.ApprovalOutcome, now time.Time) (store.ApprovalOutcome, error) {
	key, err := keyByID(tx, keyID)
	if err != nil {
		return out, err
	}
	if err := roomForApproval(tx, keyID, digestOf(call.Principal), digestOf(call.Tool), now); err != nil {
		return out, err
	}
	a := store.Approval{ID: t.e.NewID(store.PrefixApproval, now), ApprovalCall: *call, Status: store.ApprovalPending, CreatedAt: now, Until: now.Add(call.Expires),
		RequestedBy: store.ApprovalRequester{KeyID: keyID, Name: key.Name, Prefix: key.Prefix}}
	if err := t.setApproval(tx, nil, &a); err != nil {
		return out, err
	}
	if err := tx.Put(approvalCalls, joined(keyID, call.Digest), []byte(a.ID)); err != nil {
		return out, err
	}
	if err := putArguments(tx, a.ID, call.Arguments); err != nil {
		return out, err
	}
	out.Approval, out.Created = a, true
	out.Similar, err = similar(tx, &a, call.Arguments, now)
	return out, err
}

// noteKeyTag records the tag of a gateway's session key, and reports whether another one was
// seen with the same API key. A tag that is seen again is written once in an hour.
func noteKeyTag(tx Tx, keyID, tag string, now time.Time, write bool) (isNew bool, err error) {
	row, err := tx.Get(approvalTags, []byte(keyID))
	if err != nil {
		return false, err
	}
	tags, err := keyTags([]byte(keyID), row, now)
	if err != nil {
		return false, err
	}
	for i := range tags {
		if tags[i].Tag == tag {
			if now.Sub(tags[i].Seen) < time.Hour {
				return false, nil
			}
			tags = slices.Delete(tags, i, i+1)
			return false, putKeyTags(tx, keyID, append(tags, seenTag{tag, now}), write)
		}
	}
	tags = append(tags[max(0, len(tags)-maxKeyTags+1):], seenTag{tag, now})
	return len(tags) > 1, putKeyTags(tx, keyID, tags, write)
}

// tagRow has the tags of an API key, the newest last.
type tagRow struct{ Tags []seenTag }

// seenTag is the tag of a session key, and when it was seen last.
type seenTag struct {
	Tag  string
	Seen time.Time
}

// maxKeyTags bounds the tags that are kept of an API key.
const maxKeyTags = 4

// keyTags returns the tags in the row of an API key that were seen within KeyTagsWithin.
func keyTags(keyID, row []byte, now time.Time) (tags []seenTag, err error) {
	var seen tagRow
	if row != nil {
		err = decode(keyID, row, &seen)
	}
	return slices.DeleteFunc(seen.Tags, func(s seenTag) bool { return now.Sub(s.Seen) >= store.KeyTagsWithin }), err
}

func putKeyTags(tx Tx, keyID string, tags []seenTag, write bool) error {
	if !write {
		return errWrites
	}
	return put(tx, approvalTags, []byte(keyID), tagRow{tags})
}

// covers reports whether all reasons are among others; their notes do not matter.
func covers(all, reasons []store.ApprovalReason) bool {
	return !slices.ContainsFunc(reasons, func(r store.ApprovalReason) bool { return !hasReason(all, r) })
}

func hasReason(all []store.ApprovalReason, r store.ApprovalReason) bool {
	return slices.ContainsFunc(all, func(o store.ApprovalReason) bool { return o.RuleID == r.RuleID && o.PolicyID == r.PolicyID })
}

// merge adds to a call what another request for it has: further reasons and persons, and
// stricter terms. It reports whether that changes the call, and whether the result is within
// the bounds.
func merge(a, in *store.ApprovalCall) (changed, fits bool) {
	for _, r := range in.Reasons {
		if !hasReason(a.Reasons, r) {
			a.Reasons, changed = append(a.Reasons, r), true
		}
	}
	for _, p := range in.Persons {
		if !slices.ContainsFunc(a.Persons, func(o string) bool { return samePerson(o, p) }) {
			a.Persons, changed = append(a.Persons, p), true
		}
	}
	if in.ValidFor < a.ValidFor {
		a.ValidFor, changed = in.ValidFor, true
	}
	if in.Expires < a.Expires {
		a.Expires, changed = in.Expires, true
	}
	if strictness := []string{store.SelfAllowed, store.SelfForbidden, store.SelfStrict}; slices.Index(strictness, in.NotSelf) > slices.Index(strictness, a.NotSelf) {
		a.NotSelf, changed = in.NotSelf, true
	}
	if in.Show == store.ShowNone && a.Show != store.ShowNone {
		a.Show, changed = store.ShowNone, true
	}
	return changed, len(a.Reasons) <= store.MaxApprovalReasons && len(a.Persons) <= store.MaxApprovalPersons
}

// withoutValues returns arguments that can be compared and not be read.
func withoutValues(list []store.ApprovalArgument) []store.ApprovalArgument {
	out := make([]store.ApprovalArgument, len(list))
	for i, arg := range list {
		out[i] = store.ApprovalArgument{Pointer: arg.Pointer, Tag: arg.Tag}
	}
	return out
}

// roomForApproval enforces the bounds on new approvals. The open ones of a tenant are few: they
// are counted, and all other rows are read in ranges that the bounds limit.
func roomForApproval(tx Tx, keyID, principal, tool string, now time.Time) error {
	for _, bound := range []struct {
		of     string
		most   int
		having []string
	}{
		{"the principal", store.MaxOpenApprovalsPrincipal, []string{principal}},
		{"the gateway's key", store.MaxOpenApprovalsKey, []string{keyID}},
		{"the tenant", store.MaxOpenApprovals, nil},
	} {
		n, err := tx.Count(approvalIndex, byStatus(store.ApprovalPending, bound.having...))
		if err != nil {
			return err
		}
		if n >= bound.most {
			return &store.ApprovalLimitError{Limit: fmt.Sprintf("%s has %d that nobody has decided", bound.of, n), RetryAfter: time.Minute}
		}
	}
	r := prefixed(string(joined(byPrincipal, principal)))
	r.From = joined(byPrincipal, principal, store.FirstID(store.PrefixApproval, now.Add(-time.Hour)))
	var made []time.Time
	err := tx.Scan(approvalIndex, r, func(_, value []byte) (bool, error) {
		if at := timeAt(value); now.Sub(at) < time.Hour {
			made = append(made, at)
		}
		return true, nil
	})
	if err == nil && len(made) >= store.MaxNewApprovals {
		err = &store.ApprovalLimitError{Limit: fmt.Sprintf("the principal has made %d in an hour", len(made)), RetryAfter: made[len(made)-store.MaxNewApprovals].Add(time.Hour).Sub(now)}
	}
	if err != nil {
		return err
	}
	return afterRefusals(tx, principal, tool, now)
}

// afterRefusals enforces the pause after many refusals of a principal and tool.
func afterRefusals(tx Tx, principal, tool string, now time.Time) error {
	prefix := string(joined(byRefusal, principal, tool)) + "\x00"
	var at []time.Time
	err := tx.Scan(approvalIndex, Range{From: []byte(prefix + timeText(now.Add(-2*store.RefusalPause))), To: []byte(prefix + "\xff"), Keys: true}, func(key, _ []byte) (bool, error) {
		at = append(at, timeAt(key[len(prefix):]))
		return true, nil
	})
	for i := store.MaxRefusals - 1; i < len(at) && err == nil; i++ {
		ends := at[i].Add(store.RefusalPause)
		if at[i].Sub(at[i-store.MaxRefusals+1]) <= store.RefusalPause && now.Before(ends) {
			err = &store.ApprovalLimitError{Limit: fmt.Sprintf("%d calls of the tool by the principal were refused", store.MaxRefusals), RetryAfter: ends.Sub(now)}
		}
	}
	return err
}

// similar returns other pending or granted calls of the tool by the principal, newest first.
func similar(tx Tx, a *store.Approval, arguments []store.ApprovalArgument, now time.Time) ([]store.ApprovalSimilar, error) {
	of := joined(a.RequestedBy.KeyID, digestOf(a.Principal), digestOf(a.Tool))
	var ids [][]byte
	for _, status := range [...]string{store.ApprovalPending, store.ApprovalGranted} {
		r, left := prefixed(status), similarScanned
		r.Reverse = true
		err := tx.Scan(approvalIndex, r, func(key, value []byte) (bool, error) {
			id := key[len(status)+1:]
			if now.Before(timeAt(value)) && bytes.Equal(value[8:], of) && string(id) != a.ID {
				ids = append(ids, slices.Clone(id))
			}
			left--
			return left > 0 && len(ids) < maxSimilar, nil
		})
		if err != nil {
			return nil, err
		}
	}
	values, err := tx.Many(approvalArguments, ids)
	if err != nil {
		return nil, err
	}
	list := make([]store.ApprovalSimilar, len(ids))
	for i, id := range ids {
		list[i] = store.ApprovalSimilar{ID: string(id), Differs: []string{}}
		if values[i] == nil || len(arguments) == 0 {
			continue // it is not known where they differ
		}
		var other []store.ApprovalArgument
		if err := decode(id, values[i], &other); err != nil {
			return nil, err
		}
		list[i].Differs = differs(arguments, other)
	}
	return list, nil
}

// Bounds on what similar calls are described with.
const (
	maxSimilar = 3
	maxDiffers = 8
)

// differs returns the pointers of arguments that two calls do not have alike.
func differs(a, b []store.ApprovalArgument) []string {
	tags := map[string]string{}
	for _, arg := range b {
		tags[arg.Pointer] = arg.Tag
	}
	out := []string{}
	for _, arg := range a {
		if tag, known := tags[arg.Pointer]; !known || tag != arg.Tag {
			out = append(out, arg.Pointer)
		}
		delete(tags, arg.Pointer)
	}
	for _, arg := range b {
		if _, left := tags[arg.Pointer]; left {
			out = append(out, arg.Pointer)
		}
	}
	return out[:min(len(out), maxDiffers)]
}
