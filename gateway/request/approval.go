package request

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/gateway/catalog/federation"
	"svc/gateway/mcp"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/store/api"
)

// approval is the approval of one request by a person. Transports may use it until the response of the
// request has ended.
type approval struct {
	plane    *plane.Approvals
	upstream string
	digest   plane.ApprovalDigest
	claim    api.ApprovalClaim
	state    plane.ApprovalState
	// retried is the requestState with which the request continues an earlier one; empty for none.
	retried string

	mu      sync.Mutex
	sends   int // calls of beforeSend
	claimed bool
	failed  error // of the claim
}

// notApprovedError is the error of a call that was not sent because its approval could not be used.
type notApprovedError struct{ state plane.ApprovalState }

// Error implements error.
func (e *notApprovedError) Error() string { return "the approval of the call: " + e.state.Result }

// Approve refuses a message that a person must approve and that nobody has granted. The grant is not
// used yet: beforeSend does that, when the transport sends the message.
func (ex *Exchange) Approve() *refusal.Refusal {
	switch {
	case len(ex.asks) == 0:
		return nil
	case ex.Services.Audit.Ready() != nil:
		return &refusal.Audit
	}
	return ex.approve(ex.route.Upstream.Name)
}

// approve is Approve for a message to an upstream, or to the gateway itself.
func (ex *Exchange) approve(upstream string) *refusal.Refusal {
	params, err := mcp.CallForm(&ex.Message)
	if err != nil {
		return refusal.OfMessage(err) // cannot happen: the message was scanned
	}
	m, who := &ex.Message, &ex.caller.id.Principal
	a := &approval{plane: ex.Services.Approvals, upstream: upstream}
	if a.plane == nil { // the configuration is refused then
		return ex.notApproved(&plane.ApprovalState{Result: plane.ApprovalUnavailable, RetryAfter: time.Minute})
	}
	a.digest = a.plane.Digest(m.Method, called(m), ex.record.View, ex.record.Via, upstream, string(who.AppendKey(nil)),
		ex.agent(), ex.Live.Config.ControlPlane.Environment, string(params))
	continues := continuation(m)
	if state, ok := requestState(m.Body, m.Spans.Params); ok && continues {
		if a.state, ok = a.plane.Continue(a.digest, state, ex.reasons()); ok {
			a.retried, ex.approval = state, a
			ex.noteApproval(&a.state)
			return nil
		}
	}
	var refused *refusal.Refusal
	if a.state, refused = ex.ask(a); refused != nil {
		return refused
	}
	if continues { // no approver has read its requestState and inputResponses: the grant is for the call without them
		return ex.notApproved(&plane.ApprovalState{Result: plane.ApprovalRequired, ID: a.state.ID, RetryAfter: time.Second})
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // it never fails
	a.claim = api.ApprovalClaim{Nonce: hex.EncodeToString(nonce[:]), Digest: a.digest.String()}
	ex.approval = a
	ex.noteApproval(&a.state)
	return nil
}

// ask asks the control plane for the state of the approval, and refuses a message that was not granted.
func (ex *Exchange) ask(a *approval) (plane.ApprovalState, *refusal.Refusal) {
	request := ex.approvalRequest(a.upstream)
	if !a.plane.Show(&request, &ex.Message, ex.restoring, request.Show == api.ShowNone) {
		return plane.ApprovalState{}, ex.notApproved(&plane.ApprovalState{Result: plane.ApprovalTooLarge})
	}
	state := a.plane.Ask(ex.Context, a.digest, request)
	switch {
	case state.Result == plane.ApprovalGranted:
		return state, nil
	case state.Result == plane.ApprovalUnavailable && ex.Context.Err() != nil:
		return state, &refusal.CallerGone
	}
	return state, ex.notApproved(&state)
}

// refuseClaim returns the refusal of a call whose grant could not be used. A grant that was used, or has
// ended, is as if there were none: the control plane is asked again.
func (ex *Exchange) refuseClaim(s plane.ApprovalState) *refusal.Refusal {
	if s.Result == plane.ApprovalClaimed {
		if _, refused := ex.ask(ex.approval); refused != nil {
			return refused
		}
		s.Result = plane.ApprovalUnavailable
	}
	return ex.notApproved(&s)
}

// called returns what a message calls, by the name that its caller uses: a tool, a prompt or a URI.
func called(m *mcp.Message) string {
	if m.Method == mcp.MethodResourcesRead {
		return m.URI
	}
	return m.Name
}

// continuation reports whether a request says that it continues another one; null says nothing.
func continuation(m *mcp.Message) bool {
	_, state := given(m.Body, m.Spans.Params, "requestState")
	_, responses := given(m.Body, m.Spans.Params, "inputResponses")
	return state || responses
}

// requestState returns the requestState of parameters or a result; empty without one. It is false for
// one that is not a string.
func requestState(body []byte, in mcp.Span) (string, bool) {
	raw, ok := given(body, in, "requestState")
	if !ok {
		return "", true
	}
	return mcp.StringValue(raw)
}

// given returns a member of an object; false without one, and for null.
func given(body []byte, in mcp.Span, name string) ([]byte, bool) {
	raw := mcp.Find(body, in, name).Of(body)
	return raw, len(raw) > 0 && raw[0] != 'n'
}

// reasons returns the rules and policies that ask.
func (ex *Exchange) reasons() (list []api.ApprovalReason) {
	for _, a := range ex.asks {
		list = append(list, api.ApprovalReason{RuleID: a.RuleID, PolicyID: a.PolicyID, Note: a.Note})
	}
	return list
}

// approvalRequest returns what the control plane gets, without the arguments. Of several that ask, the
// strictest terms apply.
func (ex *Exchange) approvalRequest(upstream string) api.ApprovalRequest {
	m, id, cp := &ex.Message, &ex.caller.id, &ex.Live.Config.ControlPlane
	r := api.ApprovalRequest{
		Tool: plane.ShowText(called(m)), Method: m.Method, AgentName: ex.agent(), Environment: cp.Environment,
		Principal: cut(id.Kind.String()+":"+id.Value, api.MaxApprovalName), Client: cut(plane.ShowText(ex.Session.ClientInfo.Name), api.MaxClientName),
		Upstream: cmp.Or(upstream, federation.Name), View: ex.record.View, Gateway: ex.Services.Gateway, RequestID: ex.record.RequestID,
		NotSelf: api.SelfAllowed, Show: api.ShowAll, Reasons: ex.reasons(),
	}
	if id.Token != nil {
		r.Persons = slices.Clone(id.Token.Persons)
	}
	if id.Key != nil && id.Key.Owner != "" {
		r.Persons = append(r.Persons, id.Key.Owner)
	}
	strict := []string{api.SelfAllowed, api.SelfForbidden, api.SelfStrict}
	least := func(to *int, d time.Duration) {
		if s := max(1, int(d/time.Second)); *to == 0 || s < *to {
			*to = s
		}
	}
	for _, a := range ex.asks {
		least(&r.ValidFor, a.ValidFor)
		least(&r.Expires, a.Expires)
		r.NotSelf = strict[max(slices.Index(strict, r.NotSelf), slices.Index(strict, string(a.NotSelf)))]
		if a.Show == api.ShowNone {
			r.Show = api.ShowNone
		}
	}
	return r
}

// cut returns a text of at most n bytes.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// noteApproval records the state of the approval in the audit line.
func (ex *Exchange) noteApproval(s *plane.ApprovalState) {
	ex.record.Approval, ex.record.ApprovalID, ex.record.ApprovedBy = s.Result, s.ID, s.ApprovedBy
}

// notApproved returns the refusal of a call that was not granted.
func (ex *Exchange) notApproved(s *plane.ApprovalState) *refusal.Refusal {
	ex.noteApproval(s)
	refused := &refusal.ApprovalUnavailable
	switch s.Result {
	case plane.ApprovalRequired:
		refused = &refusal.ApprovalRequired
	case plane.ApprovalDenied:
		refused = &refusal.ApprovalDenied
	case plane.ApprovalTooLarge:
		refused = &refusal.ApprovalTooLarge
	case plane.ApprovalLimit:
		refused = &refusal.ApprovalLimit
	}
	told := &refusal.Approval{ID: s.ID, RetryAfter: s.RetryAfter, Similar: s.Similar}
	if s.Result == plane.ApprovalDenied {
		told.RetryAfter = 0
	}
	refused = refused.WithApproval(told, continuation(&ex.Message))
	ex.record.RuleID = "" // a rule that allows the message has not decided
	for _, a := range ex.asks {
		if a.RuleID != "" {
			refused.Rule = a.RuleID
		}
	}
	return refused
}

// beforeSend uses the grant for the message, once: it is upstream.Request.BeforeSend. A transport that
// sends the message again, because it was not executed, uses it for that too.
func (a *approval) beforeSend(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sends++
	if a.claimed || a.failed != nil || a.state.Result == plane.ApprovalContinued {
		return a.failed
	}
	switch result := a.plane.Claim(ctx, a.state.ID, a.claim); result {
	case plane.ApprovalGranted:
		a.claimed = true
	default:
		a.failed = &notApprovedError{plane.ApprovalState{Result: result, ID: a.state.ID, RetryAfter: time.Second}}
	}
	return a.failed
}

// notSent gives the grant back if the error of sending the message means that it was certainly not
// sent. It returns err, and may be called on nil.
func (a *approval) notSent(s *Services, err error) error {
	if a == nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var sending *upstream.Error
	var notApproved *notApprovedError
	nothing := a.sends == 0 || a.sends == 1 && errors.As(err, &sending) && !sending.Sent
	switch {
	case errors.As(err, &notApproved) && notApproved.state.Result == plane.ApprovalUnavailable: // the grant may have been used
	case nothing && a.state.Result == plane.ApprovalContinued:
		a.plane.MayContinue(a.digest, a.retried, a.state)
		return err
	case nothing && a.claimed:
	default:
		return err
	}
	id, claim, approvals := a.state.ID, a.claim, a.plane
	if !s.Background.Run(func(ctx context.Context) { approvals.Release(ctx, id, claim) }) {
		s.Log.Warn("a call was not sent, and its approval was not given back: too many background calls", "approval", id)
	}
	return err
}

// mayContinue remembers the approval for the continuation of a call that m answers with a question.
func (a *approval) mayContinue(m *mcp.Message) {
	if m.ResultType != mcp.ResultInputRequired {
		return
	}
	a.mu.Lock()
	passed := a.claimed || a.state.Result == plane.ApprovalContinued
	a.mu.Unlock()
	if state, ok := requestState(m.Body, m.Spans.Result); ok && passed {
		a.plane.MayContinue(a.digest, state, a.state)
	}
}
