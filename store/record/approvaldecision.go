package record

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc/store"
)

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
			err = inTeam(tx, &a, key.TeamID)
		}
		if err == nil {
			err = barred(tx, &a, &key, in.Decision == store.DecisionGrant)
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
		case in.Decision == store.DecisionGrant && max(in.Version, 1) != a.Version:
			return store.FieldError(store.Conflict, fmt.Sprintf("the approval has changed: its version is %d; read it again", a.Version), "version", "is not that of the approval")
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

// inTeam returns NotFound for an approval that is not of an agent of a team; an empty team has all.
func inTeam(tx Tx, a *store.Approval, team string) error {
	if team == "" {
		return nil
	}
	agent, _, err := AgentByName(tx, a.AgentName)
	if err == nil && agent.TeamID != team {
		err = store.Missing("approval")
	}
	return err
}

// barred returns why a key may not decide about an approval, or not grant it, whatever its status
// is; nil when it may.
func barred(tx Tx, a *store.Approval, key *keyRecord, grant bool) error {
	if key.CreatedAt.After(a.CreatedAt) {
		return store.Errorf(store.Forbidden, "a key that was made after the approval was requested cannot decide it")
	}
	if a.NotSelf == store.SelfAllowed {
		return nil
	}
	if grant && a.NotSelf == store.SelfStrict && len(a.Persons) == 0 {
		return store.Errorf(store.Forbidden, "it is not known who the caller is, and nobody can grant for themselves")
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

// GetApproval returns an approval.
func (t *Tenant) GetApproval(ctx context.Context, id, keyID, teamID string) (a store.Approval, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		if _, a, err = approvalByID(tx, id, t.e.Now()); err == nil {
			err = inTeam(tx, &a, teamID)
		}
		if err != nil || a.Show == store.ShowNone {
			return err
		}
		key, known, err := get[keyRecord](tx, KeyRows, []byte(keyID))
		if err == nil && known {
			err = barred(tx, &a, &key, false)
		}
		if store.KindOf(err) == store.Forbidden {
			return nil
		}
		if err == nil && known {
			a.Arguments, _, err = get[[]store.ApprovalArgument](tx, approvalArguments, []byte(id))
		}
		return err
	})
	if err != nil {
		return store.Approval{}, err
	}
	return a, nil
}
