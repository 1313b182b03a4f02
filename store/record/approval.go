package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// RequestApproval returns the approval of a call, or makes one.
func (t *Tenant) RequestApproval(ctx context.Context, keyID string, call store.ApprovalCall) (out store.ApprovalOutcome, err error) {
	if call.Show == store.ShowNone {
		call.Arguments = withoutValues(call.Arguments)
	}
	// Gateways ask again and again until somebody has decided.
	err = t.mayWrite(ctx, func(tx Tx) error {
		out, err = t.request(tx, keyID, &call)
		return err
	})
	if err != nil {
		return store.ApprovalOutcome{}, err
	}
	return out, nil
}

// request is RequestApproval in a transaction.
func (t *Tenant) request(tx Tx, keyID string, call *store.ApprovalCall) (out store.ApprovalOutcome, err error) {
	now := t.e.Now()
	if out.NewKeyTag, err = noteKeyTag(tx, keyID, call.KeyTag, now); err != nil {
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
	switch {
	case a.Until.IsZero(): // there is none, or its time is over
	case a.Status == store.ApprovalDenied, a.Status == store.ApprovalGranted && covers(a.Reasons, call.Reasons):
		out.Approval = a
		return out, nil
	case a.Status == store.ApprovalPending:
		changed, fits := merge(&a.ApprovalCall, call)
		a.Until = a.CreatedAt.Add(a.Expires)
		if a.Settle(now); !fits || !a.Live() {
			break
		}
		if changed {
			a.Version++
			if err = t.setApproval(tx, &stored, &a); err == nil && a.Show == store.ShowNone {
				err = putArguments(tx, a.ID, withoutValues(call.Arguments))
			}
		}
		out.Approval = a
		if err == nil {
			out.Similar, err = similar(tx, &a, call.Arguments, now)
		}
		return out, err
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
	a := store.Approval{ID: t.e.NewID(store.PrefixApproval, now), Version: 1, ApprovalCall: *call, Status: store.ApprovalPending, CreatedAt: now, Until: now.Add(call.Expires)}
	// Before anything else is read: it ends an attempt that only reads.
	if err := tx.Put(approvalCalls, joined(keyID, call.Digest), []byte(a.ID)); err != nil {
		return out, err
	}
	key, err := keyByID(tx, keyID)
	if err != nil {
		return out, err
	}
	a.RequestedBy = store.ApprovalRequester{KeyID: keyID, Name: key.Name, Prefix: key.Prefix}
	if err := roomForApproval(tx, &a); err != nil {
		return out, err
	}
	if err := t.setApproval(tx, nil, &a); err != nil {
		return out, err
	}
	if err := putArguments(tx, a.ID, call.Arguments); err != nil {
		return out, err
	}
	out.Approval, out.Created = a, true
	out.Similar, err = similar(tx, &a, call.Arguments, now)
	return out, err
}

// maxKeyTags bounds the tags that are kept of an API key.
const maxKeyTags = 4

// noteKeyTag records the tag of a gateway's session key, and reports whether another one was
// seen with the same API key. A tag that is seen again is written once in an hour.
func noteKeyTag(tx Tx, keyID, tag string, now time.Time) (isNew bool, err error) {
	row, err := tx.Get(approvalTags, []byte(keyID))
	if err != nil {
		return false, err
	}
	tags, err := keyTags([]byte(keyID), row, now)
	seen, known := tags[tag]
	if err != nil || known && now.Sub(seen) < time.Hour {
		return false, err
	}
	for len(tags) >= maxKeyTags && !known {
		delete(tags, slices.MinFunc(slices.Collect(maps.Keys(tags)), func(a, b string) int { return tags[a].Compare(tags[b]) }))
	}
	tags[tag] = now
	return !known && len(tags) > 1, put(tx, approvalTags, []byte(keyID), tags)
}

// keyTags returns the tags in the row of an API key that were seen within KeyTagsWithin, and when
// they were seen last.
func keyTags(keyID, row []byte, now time.Time) (tags map[string]time.Time, err error) {
	tags = map[string]time.Time{}
	if row != nil {
		err = decode(keyID, row, &tags)
	}
	maps.DeleteFunc(tags, func(_ string, seen time.Time) bool { return now.Sub(seen) >= store.KeyTagsWithin })
	return tags, err
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

// roomForApproval enforces the bounds on new approvals.
func roomForApproval(tx Tx, a *store.Approval) error {
	now, who := a.CreatedAt, columns(a)
	var open [3]int // of the principal, of the key, of all
	err := scanApprovals(tx, liveStatuses[:1], time.Time{}, func(r *approvalRow) bool {
		open[2]++
		if strings.HasPrefix(r.columns, who[:columnSize]) {
			open[0]++
		}
		if r.columns[keyColumn:] == who[keyColumn:] {
			open[1]++
		}
		return true
	})
	for i, most := range [...]int{store.MaxOpenApprovalsPrincipal, store.MaxOpenApprovalsKey, store.MaxOpenApprovals} {
		if err == nil && open[i] >= most {
			of := [...]string{"the principal", "the gateway's key", "the tenant"}[i]
			err = &store.ApprovalLimitError{Limit: fmt.Sprintf("%s has %d that nobody has decided", of, open[i]), RetryAfter: time.Minute}
		}
	}
	var made, refused []time.Time
	if err == nil {
		err = scanApprovals(tx, store.ApprovalStatuses, now.Add(-time.Hour), func(r *approvalRow) bool {
			if now.Sub(r.created) < time.Hour {
				made = append(made, r.created)
			}
			return true
		}, who[:columnSize])
	}
	if err == nil {
		err = scanApprovals(tx, []string{store.ApprovalDenied}, now.Add(-store.MaxApprovalLife), func(r *approvalRow) bool {
			refused = append(refused, r.ended)
			return true
		}, who[:2*columnSize])
	}
	if err != nil {
		return err
	}
	slices.SortFunc(made, time.Time.Compare)
	if len(made) >= store.MaxNewApprovals {
		return &store.ApprovalLimitError{Limit: fmt.Sprintf("the principal has made %d in an hour", len(made)), RetryAfter: made[len(made)-store.MaxNewApprovals].Add(time.Hour).Sub(now)}
	}
	slices.SortFunc(refused, time.Time.Compare)
	for i := store.MaxRefusals - 1; i < len(refused); i++ {
		ends := refused[i].Add(store.RefusalPause)
		if refused[i].Sub(refused[i-store.MaxRefusals+1]) <= store.RefusalPause && now.Before(ends) {
			return &store.ApprovalLimitError{Limit: fmt.Sprintf("%d calls of the tool by the principal were refused", store.MaxRefusals), RetryAfter: ends.Sub(now)}
		}
	}
	return nil
}

// similar returns other pending or granted calls of the tool by the principal, newest first.
func similar(tx Tx, a *store.Approval, arguments []store.ApprovalArgument, now time.Time) ([]store.ApprovalSimilar, error) {
	var ids [][]byte
	who := columns(a)
	err := scanApprovals(tx, liveStatuses, time.Time{}, func(r *approvalRow) bool {
		if now.Before(r.until) && r.id != a.ID && r.columns[keyColumn:] == who[keyColumn:] {
			ids = append(ids, []byte(r.id))
		}
		return len(ids) < maxSimilar
	}, who[:2*columnSize])
	if err != nil {
		return nil, err
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
