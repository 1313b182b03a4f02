package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"svc/store"
	"svc/store/api"
)

// approvalsPerMinute bounds the requests of one key of a gateway for approvals, their claims
// and releases.
const approvalsPerMinute = 600

// keyTagsEvery is the time between two log lines about gateways with different session keys.
const keyTagsEvery = time.Minute

// requestApproval serves POST /api/approvals: a gateway asks for the approval of a call.
func (s *Server) requestApproval(c *call) error {
	var in api.ApprovalRequest
	if err := c.decode(&in); err != nil {
		return err
	}
	out, err := c.tenant.RequestApproval(c.Context(), c.key.ID, storeCall(&in))
	if err != nil {
		return c.approvalFailure(err)
	}
	if out.NewKeyTag {
		if n, due := s.keyTags.Due(time.Now(), keyTagsEvery); due {
			s.log.Warn("gateways with different session keys use one API key: they ask for the same approval again and again; give them the same session.key",
				"tenant", c.tenant.ID(), "key_id", c.key.ID, "gateway", in.Gateway, "times", n)
		}
	}
	answer := wireApprovalAnswer(&out.Approval)
	answer.Similar = each(out.Similar, func(o store.ApprovalSimilar) api.ApprovalSimilar { return api.ApprovalSimilar(o) })
	if out.Created {
		return c.data(http.StatusCreated, answer)
	}
	return c.data(http.StatusOK, answer)
}

// approvalFailure maps the errors that only approvals have: a conflict is a 409, because it
// is about the state of the approval and not about the request.
func (c *call) approvalFailure(err error) error {
	var limit *store.ApprovalLimitError
	if errors.As(err, &limit) {
		seconds := max(int64((limit.RetryAfter+time.Second-1)/time.Second), 1)
		c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		return &failure{http.StatusTooManyRequests, "no further approval can be requested: " + limit.Limit, map[string]string{"reason": "approval_limit"}}
	}
	if f := outcome(err, c.id); store.KindOf(err) == store.Conflict {
		return &failure{http.StatusConflict, f.message, f.details}
	}
	return err
}

// claimApproval serves POST /api/approvals/{id}/claim, and releaseApproval /release.
func (s *Server) claimApproval(c *call) error { return c.claimed(c.tenant.ClaimApproval) }

func (s *Server) releaseApproval(c *call) error { return c.claimed(c.tenant.ReleaseApproval) }

func (c *call) claimed(change func(context.Context, string, store.ApprovalClaim) (store.Approval, error)) error {
	id, err := c.pathID("approval")
	if err != nil {
		return err
	}
	var in api.ApprovalClaim
	if err := c.decode(&in); err != nil {
		return err
	}
	a, err := change(c.Context(), id, store.ApprovalClaim{KeyID: c.key.ID, Nonce: in.Nonce, Digest: in.Digest})
	if err != nil {
		return c.approvalFailure(err)
	}
	return c.data(http.StatusOK, wireApprovalAnswer(&a))
}

// decideApproval serves POST /api/approvals/{id}/decision.
func (s *Server) decideApproval(c *call) error {
	id, err := c.pathID("approval")
	if err != nil {
		return err
	}
	var in api.ApprovalDecision
	if err := c.decode(&in); err != nil {
		return err
	}
	a, err := c.tenant.DecideApproval(c.Context(), id, store.ApprovalDecision{KeyID: c.key.ID, Decision: in.Decision, Version: in.Version, Note: in.Note})
	if err != nil {
		return c.approvalFailure(err)
	}
	s.metrics.decisions.WithLabelValues(in.Decision).Inc()
	return c.data(http.StatusOK, wireApproval(a))
}

// getApproval serves GET /api/approvals/{id}, with the arguments of the call if the key could
// decide.
func (s *Server) getApproval(c *call) error {
	id, err := c.pathID("approval")
	if err != nil {
		return err
	}
	decides := c.key.ID
	if c.missingScope([]string{"policies:write"}) != "" {
		decides = ""
	}
	a, err := c.tenant.GetApproval(c.Context(), id, decides, c.key.TeamID)
	if err != nil {
		return err
	}
	return c.data(http.StatusOK, wireApproval(a))
}

// listApprovals serves GET /api/approvals, newest first.
func (s *Server) listApprovals(c *call) error {
	q := c.query()
	page := q.cursorPage(approvalsList, api.DefaultLimit)
	f := store.ApprovalFilter{Status: q.enum("status", "", api.ApprovalStatuses), TeamID: c.key.TeamID}
	if err := q.err(); err != nil {
		return err
	}
	list, total, err := c.tenant.ListApprovals(c.Context(), f, page.withOneMore())
	if err != nil {
		return err
	}
	list, next := cutPage(page, list, func(a *store.Approval) store.Place { return store.Place{ID: a.ID} })
	return nextPage(c, each(list, wireApproval), total, page, next)
}

func storeCall(in *api.ApprovalRequest) store.ApprovalCall {
	return store.ApprovalCall{
		Digest: in.Digest, KeyTag: in.KeyTag, Tool: in.Tool, Method: in.Method, AgentName: in.AgentName, Environment: in.Environment,
		Principal: in.Principal, Client: in.Client, Upstream: in.Upstream, View: in.View, Gateway: in.Gateway, RequestID: in.RequestID,
		Persons:  slices.DeleteFunc(in.Persons, func(p string) bool { return p == "" }),
		ValidFor: time.Duration(in.ValidFor) * time.Second, Expires: time.Duration(in.Expires) * time.Second, NotSelf: in.NotSelf, Show: in.Show,
		Reasons:        each(in.Reasons, func(r api.ApprovalReason) store.ApprovalReason { return store.ApprovalReason(r) }),
		Arguments:      each(in.Arguments, func(a api.ApprovalArgument) store.ApprovalArgument { return store.ApprovalArgument(a) }),
		ArgumentsBytes: in.ArgumentsBytes, Truncated: in.Truncated,
	}
}

func wireReason(r store.ApprovalReason) api.ApprovalReason { return api.ApprovalReason(r) }

func wireApprovalAnswer(a *store.Approval) api.ApprovalAnswer {
	until := a.Until
	if until.IsZero() { // final
		until = a.EndedAt
	}
	return api.ApprovalAnswer{ID: a.ID, Status: a.Status, Until: until.UTC(), Reasons: each(a.Reasons, wireReason), ApprovedBy: a.GrantedBy()}
}

func wireApproval(a store.Approval) api.ApprovalRecord {
	out := api.ApprovalRecord{
		ID: a.ID, Version: a.Version, Status: a.Status, CreatedAt: a.CreatedAt.UTC(), Tool: a.Tool, Method: a.Method, AgentName: a.AgentName, Environment: a.Environment,
		Principal: a.Principal, Client: a.Client, Upstream: a.Upstream, View: a.View, Gateway: a.Gateway,
		RequestedBy: api.ApprovalRequester(a.RequestedBy), Reasons: each(a.Reasons, wireReason), SelfCheck: a.SelfCheck(),
		Arguments: each(a.Arguments, func(arg store.ApprovalArgument) api.ApprovalArgument {
			arg.Tag = "" // only calls are compared by it
			return api.ApprovalArgument(arg)
		}),
		ArgumentsBytes: a.ArgumentsBytes, Truncated: a.Truncated, RequestID: a.RequestID,
		Decisions: each(a.Decisions, func(d store.ApprovalDecided) api.ApprovalDecided {
			d.At = d.At.UTC()
			return api.ApprovalDecided(d)
		}),
	}
	if !a.Until.IsZero() {
		until := a.Until.UTC()
		out.ExpiresAt = &until
	}
	return out
}
