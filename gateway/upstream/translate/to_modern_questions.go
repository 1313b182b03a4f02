package translate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

var (
	errTooMany   = errors.New("too many questions are open")
	errNoAnswer  = errors.New("the client did not answer within 5 minutes")
	errNoSession = errors.New("the client has no session in which it could be asked")
	errVisit     = errors.New("the upstream asks the user to visit an address (elicitation in mode url), which the client has not declared")
)

// questions are the unanswered questions of one upstream.
type questions struct {
	instance string // the id of this replica in question ids
	bounds   *Quota[session.ID]

	mu   sync.Mutex
	open map[questionKey]*round
}

type questionKey struct {
	session session.ID
	id      string // as written in JSON
}

// round is the questions of one result.
type round struct {
	session  session.ID
	requests [][]byte            // for the client
	asked    map[string]question // by id
	left     int
	// given are the answers by the upstream's keys, and failed is the first error
	// response of the client.
	given  map[string]json.RawMessage
	failed error
	done   chan struct{} // closed by end, when all are answered, or one has failed
	end    func()
}

// question is one question of a result.
type question struct{ key, method string }

// ask registers the questions of an input_required result.
func (q *questions) ask(who *upstream.Caller, h *hello, m *mcp.Message) (*round, error) {
	if who == nil || !who.HasSession {
		return nil, errNoSession
	}
	done := make(chan struct{})
	r := &round{session: who.Session, asked: map[string]question{}, given: map[string]json.RawMessage{}, done: done, end: sync.OnceFunc(func() { close(done) })}
	for it := mcp.Members(m.Body, mcp.Find(m.Body, m.Spans.Result, "inputRequests")); it.Next(); {
		if len(r.requests) == maxInOneResult {
			return nil, fmt.Errorf("%w: one result has more than %d", errTooMany, maxInOneResult)
		}
		at := it.Value()
		method, _ := mcp.StringValue(mcp.Find(m.Body, at, "method").Of(m.Body))
		if need := capabilityOf(method); need == "" || !h.declares(need) {
			return nil, fmt.Errorf("the upstream asks for %.64q, which the client has not declared", method)
		}
		params := mcp.Find(m.Body, at, "params")
		text := params.Of(m.Body)
		if method == mcp.MethodElicit && asksToVisit(m.Body, params) {
			if !h.declaresVisits() {
				return nil, errVisit
			}
			text = identified(m.Body, params)
		}
		id := `"` + questionPrefix + q.instance + "-" + rand.Text() + `"`
		r.asked[id] = question{key: string(it.Name()), method: method}
		request := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
		request = append(request, `,"method":`...)
		request = mcp.AppendString(request, method)
		if len(text) > 0 {
			request = append(append(request, `,"params":`...), text...)
		}
		r.requests = append(r.requests, append(request, '}'))
	}
	r.left = len(r.requests)
	return r, q.add(r)
}

// capabilityOf is the capability that a client needs for a request of a server; empty
// for other methods.
func capabilityOf(method string) string {
	switch method {
	case mcp.MethodElicit:
		return "elicitation"
	case mcp.MethodSample:
		return "sampling"
	case mcp.MethodRootsList:
		return "roots"
	}
	return ""
}

func (q *questions) add(r *round) error {
	if !q.bounds.Take(r.session, r.left) {
		return errTooMany
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[questionKey]*round{}
	}
	for id := range r.asked {
		q.open[questionKey{r.session, id}] = r
	}
	return nil
}

// together returns the requests of the round that an unanswered question belongs to; nil for
// other ids. The round does not keep them, because a client may take minutes to answer.
func (q *questions) together(s session.ID, id []byte) (requests [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.open[questionKey{s, string(id)}]; r != nil {
		requests, r.requests = r.requests, nil
	}
	return requests
}

// remove removes the open questions of a round.
func (q *questions) remove(r *round) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range r.asked {
		q.drop(questionKey{r.session, id})
	}
}

// drop removes a question. The caller holds q.mu.
func (q *questions) drop(key questionKey) {
	if _, ok := q.open[key]; !ok {
		return
	}
	delete(q.open, key)
	q.bounds.Give(key.session, 1)
}

// questionPrefix is the prefix of question ids; the id of the replica follows.
const questionPrefix = "svc-question-"

// askedBy returns the replica in the id of a question; empty for other ids.
func askedBy(id []byte) string {
	text, _ := mcp.StringValue(id)
	rest, ok := strings.CutPrefix(text, questionPrefix)
	name, _, cut := strings.Cut(rest, "-")
	if !ok || !cut {
		return ""
	}
	return name
}

// answer processes an answer of a client. It is false if the question is unknown in this
// session, or was answered.
func (q *questions) answer(id session.ID, m *mcp.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := questionKey{id, string(m.ID)}
	r := q.open[key]
	if r == nil {
		return false
	}
	q.drop(key)
	asked := r.asked[key.id]
	switch {
	case !m.IsError:
		r.given[asked.key] = slices.Clone(m.Spans.Result.Of(m.Body))
	case asked.method == mcp.MethodElicit:
		r.given[asked.key] = json.RawMessage(`{"action":"cancel"}`)
	case r.failed == nil:
		message, _ := mcp.StringValue(mcp.Find(m.Body, m.Spans.Error, "message").Of(m.Body))
		r.failed = fmt.Errorf("the client answered %s with error %d: %.200q", asked.method, m.ErrorCode, message)
	}
	if r.left--; r.left == 0 || r.failed != nil {
		r.end()
	}
	return true
}

// end fails the open questions of a session that has ended.
func (q *questions) end(id session.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bounds.Held(id) == 0 {
		return
	}
	for key, r := range q.open {
		if key.session != id {
			continue
		}
		q.drop(key)
		if r.failed == nil {
			r.failed = errors.New("the client ended its session")
			r.end()
		}
	}
}

// wait waits for the answers of a round, and removes it.
func (q *questions) wait(ctx context.Context, r *round) (map[string]json.RawMessage, error) {
	defer q.remove(r)
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.given, r.failed
	case <-timer.C:
		return nil, errNoAnswer
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// asksToVisit reports whether the parameters of an elicitation ask the user to visit an
// address.
func asksToVisit(body []byte, params mcp.Span) bool {
	mode, _ := mcp.StringValue(mcp.Find(body, params, "mode").Of(body))
	return mode == "url"
}

// declaresVisits reports whether the client supports elicitations in mode url. The
// capability has a member for it: an empty one supports forms only.
func (h *hello) declaresVisits() bool {
	whole := mcp.Span{End: len(h.Capabilities)}
	return mcp.Find(h.Capabilities, mcp.Find(h.Capabilities, whole, "elicitation"), "url").Present()
}

// identified returns the parameters of an elicitation in mode url with an elicitationId,
// which 2025-11-25 requires and 2026-07-28 does not have. Nothing refers to the id, because
// notifications/elicitation/complete does not exist in 2026-07-28.
func identified(body []byte, params mcp.Span) []byte {
	if mcp.Find(body, params, "elicitationId").Present() {
		return params.Of(body)
	}
	return mcp.AppendObject(nil, body, params, nil, mcp.Member{Name: "elicitationId", Value: mcp.AppendString(nil, rand.Text())})
}
