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
	"strings"
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

// similarScanned bounds the granted approvals among which similar calls are sought.
const similarScanned = 1000

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
	notice := store.ApprovalNotice{ID: is.ID, Status: is.Status, Tool: is.Tool, Method: is.Method, AgentID: agent.ID, AgentName: is.AgentName,
		Environment: is.Environment, Principal: is.Principal, Client: is.Client, Upstream: is.Upstream, Gateway: is.Gateway,
		ExpiresAt: is.Until, Requests: is.RequestID}
	for _, r := range is.Reasons {
		if r.RuleID != "" {
			notice.RuleIDs = append(notice.RuleIDs, r.RuleID)
		} else {
			notice.PolicyIDs = append(notice.PolicyIDs, r.PolicyID)
		}
	}
	if n > 0 {
		notice.Decision, notice.DecidedBy = is.Decisions[n-1].Decision, is.Decisions[n-1].UserID
	}
	return t.notify(tx, store.ApprovalEvent(typ, &notice))
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

// ClaimApproval uses a grant.
func (t *Tenant) ClaimApproval(ctx context.Context, id string, in store.ApprovalClaim) (store.Approval, error) {
	return t.claimed(ctx, id, in, func(_ Tx, a *store.Approval, now time.Time) error {
		switch {
		case a.Status == store.ApprovalUsed && a.Nonce == in.Nonce:
			return nil
		case a.Status != store.ApprovalGranted:
			return store.Errorf(store.Conflict, "the approval is %s", a.Status)
		case a.Nonce == in.Nonce:
			return store.FieldError(store.Conflict, "the claim was released", "nonce", "was used before")
		}
		a.Status, a.Nonce, a.GrantedUntil, a.Until, a.EndedAt = store.ApprovalUsed, in.Nonce, a.Until, time.Time{}, now
		return nil
	})
}

// ReleaseApproval gives a claimed grant back.
func (t *Tenant) ReleaseApproval(ctx context.Context, id string, in store.ApprovalClaim) (store.Approval, error) {
	return t.claimed(ctx, id, in, func(tx Tx, a *store.Approval, now time.Time) error {
		switch {
		case a.Nonce != in.Nonce:
			return store.FieldError(store.Conflict, "the approval was not claimed with this nonce", "nonce", "is not that of the claim")
		case a.Status == store.ApprovalGranted:
			return nil // released before
		case a.Status != store.ApprovalUsed:
			return store.Errorf(store.Conflict, "the approval is %s", a.Status)
		case now.Sub(a.EndedAt) > store.ReleaseWithin:
			return store.Errorf(store.Conflict, "the claim is older than %s", store.ReleaseWithin)
		}
		current, err := tx.Get(approvalCalls, joined(in.KeyID, a.Digest))
		if err == nil && string(current) != a.ID {
			err = store.Errorf(store.Conflict, "approval of the call was requested again after the claim")
		}
		a.Status, a.Until, a.EndedAt = store.ApprovalGranted, a.GrantedUntil, time.Time{}
		return err
	})
}

// claimed makes a change of an approval for the gateway's key that has requested it.
func (t *Tenant) claimed(ctx context.Context, id string, in store.ApprovalClaim, change func(Tx, *store.Approval, time.Time) error) (a store.Approval, err error) {
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		now := t.e.Now()
		var stored store.Approval
		if stored, a, err = approvalByID(tx, id, now); err != nil {
			return err
		}
		if a.RequestedBy.KeyID != in.KeyID {
			return store.Missing("approval")
		}
		if a.Digest != in.Digest {
			return store.FieldError(store.Conflict, "the approval is for another call", "digest", "is not that of the approval")
		}
		was := a.Status
		if err := change(tx, &a, now); err != nil || a.Status == was {
			return err
		}
		return t.setApproval(tx, &stored, &a)
	})
	return a, err
}

// DecideApproval decides about an approval.
func (t *Tenant) DecideApproval(ctx context.Context, id string, in store.ApprovalDecision) (a store.Approval, err error) {
	from, to := store.ApprovalPending, store.ApprovalDenied
	switch in.Decision {
	case store.DecisionGrant:
		to = store.ApprovalGranted
	case store.DecisionRevoke:
		from = store.ApprovalGranted
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		now := t.e.Now()
		var stored store.Approval
		if stored, a, err = approvalByID(tx, id, now); err != nil {
			return err
		}
		key, err := keyByID(tx, in.KeyID)
		if err == nil {
			err = barred(tx, &a, &key)
		}
		if err != nil {
			return err
		}
		n := len(a.Decisions)
		switch {
		case (a.Status == to || a.Status == store.ApprovalUsed) && n > 0 && a.Decisions[n-1].KeyID == in.KeyID && a.Decisions[n-1].Decision == in.Decision:
			return nil
		case a.Status != from:
			return store.FieldError(store.Conflict, "the approval is "+a.Status, "decision", "needs an approval that is "+from)
		}
		before := a.Object()
		a.Decisions = append(a.Decisions, store.ApprovalDecided{UserID: key.CreatedBy, KeyID: key.ID, Decision: in.Decision, Note: in.Note, At: now})
		a.Status, a.Until = to, now.Add(a.ValidFor)
		if to == store.ApprovalDenied {
			a.EndedAt = now
		}
		if err := t.setApproval(tx, &stored, &a); err != nil {
			return err
		}
		return t.Changed(ctx, tx, before, a.Object(), false)
	})
	return a, err
}

// barred returns why a key may not decide about an approval, whatever its status is; nil when it
// may.
func barred(tx Tx, a *store.Approval, key *keyRecord) error {
	if key.CreatedAt.After(a.CreatedAt) {
		return store.Errorf(store.Forbidden, "a key that was made after the approval was requested cannot decide it")
	}
	if key.TeamID != "" {
		team, err := teamOfAgent(tx, a.AgentName)
		if err == nil && team != key.TeamID {
			err = store.Errorf(store.Forbidden, "a key that is limited to a team decides only for agents of that team")
		}
		if err != nil {
			return err
		}
	}
	if a.NotSelf == store.SelfAllowed {
		return nil
	}
	if a.NotSelf == store.SelfStrict && len(a.Persons) == 0 {
		return store.Errorf(store.Forbidden, "it is not known who the caller is, and nobody can decide for themselves")
	}
	emails, err := emailsOf(tx, []string{key.CreatedBy})
	if err != nil {
		return err
	}
	_, name, _ := strings.Cut(a.Principal, ":")
	for _, decides := range [...]string{key.CreatedBy, emails[key.CreatedBy]} {
		for _, person := range append([]string{a.Principal, name}, a.Persons...) {
			if decides != "" && samePerson(decides, person) {
				return store.Errorf(store.Forbidden, "the caller cannot decide about the own call")
			}
		}
	}
	return nil
}

// samePerson compares two names of persons.
func samePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// teamOfAgent returns the team that an agent belongs to; empty when it belongs to none.
func teamOfAgent(tx Tx, name string) (teamID string, err error) {
	found, known, err := AgentByName(tx, name)
	if err != nil || !known {
		return "", err
	}
	a, _, err := get[store.Agent](tx, AgentRows, []byte(found.ID))
	return a.TeamID, err
}

// GetApproval returns an approval.
func (t *Tenant) GetApproval(ctx context.Context, id, keyID string) (a store.Approval, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		if _, a, err = approvalByID(tx, id, t.e.Now()); err != nil || a.Show == store.ShowNone {
			return err
		}
		key, known, err := get[keyRecord](tx, KeyRows, []byte(keyID))
		if err != nil || !known {
			return err
		}
		if err := barred(tx, &a, &key); err != nil {
			if store.KindOf(err) == store.Forbidden {
				return nil
			}
			return err
		}
		a.Arguments, _, err = get[[]store.ApprovalArgument](tx, approvalArguments, []byte(id))
		return err
	})
	return a, err
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

// LapseApprovals is [store.Approvals.LapseApprovals] in a transaction.
func LapseApprovals(tx Tx, now time.Time) error { return lapseApprovals(tx, now) }

// lapseApprovals ends the time of the pending and granted approvals whose rows of the index have
// all of the texts.
func lapseApprovals(tx Tx, now time.Time, having ...string) error {
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
