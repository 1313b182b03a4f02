package translate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// maxResumptions bounds how often a stream that ends before its response is resumed.
const maxResumptions = 10

// resumePause is the pause before a stream is resumed.
const resumePause = 500 * time.Millisecond

// callToLegacy is one request at the upstream, from the first byte to the response. If the
// upstream asks a question, the call is held until the client's retry.
type callToLegacy struct {
	t *ToLegacy
	sender
	conn    *conn
	request upstream.Request // valid for the whole call
	message mcp.Message      // of that request
	sentID  []byte           // id of the request at the upstream
	kept    bool             // keep was called

	ctx    context.Context // canceled at the end of the call; a client that gets a question and disconnects does not cancel it
	cancel context.CancelFunc

	mu       sync.Mutex
	state    callState
	turns    int         // requests of the client for this call so far
	detach   func() bool // detaches ctx from the context of the client's request
	answer   *Messages
	rejected rejection
	sent     <-chan posted // result of a request without response yet, if another message came first; otherwise nil

	// beside are the messages of the session's standalone stream; nil if that is not read.
	// reading is the next message of answer, which another goroutine is reading; nil when
	// none is.
	beside  <-chan *mcp.Message
	reading <-chan read

	before      func() // of the running Next
	refused     Refusing
	id          []byte // id of the client's request that is being answered
	requestID   string // of the same request
	question    mcp.Message
	resumptions int
}

type callState uint8

const (
	running callState = iota
	waiting           // for the client's answer to a question
	ended             // the session was released
)

// call sends a request of a client in a session of the pool.
func (t *ToLegacy) call(ctx context.Context, r *upstream.Request, m *mcp.Message, s *sender) (*upstream.Response, error) {
	resp, early, c, err := t.start(ctx, r, m, s)
	if err == nil && early == nil && SessionLost(resp, c.conn.session) && !(MayAnswer(resp) && t.client(r).Alive(ctx, c.conn.session)) {
		resp.Body.Close()
		t.pool.forget(c.key)
		c.finish(bad)
		resp, early, c, err = t.start(ctx, r, m, s)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case early != nil:
		return upstream.Events(c.turn(early)), nil
	case resp.Status == http.StatusOK && resp.MediaType() == EventStream:
		if err := c.keep(); err != nil {
			resp.Body.Close()
			c.finish(bad)
			return nil, err
		}
		c.answer = NewMessages(resp, c.waiter())
		if c.unlikely() {
			return c.peek()
		}
		return upstream.Events(c.turn(nil)), nil
	case resp.Status == http.StatusBadRequest && resp.MediaType() != JSON && mcp.MethodOf(c.message.Method).Name == "":
		// Some servers report an unknown method in plain text.
		resp.Body.Close()
		c.finish(good)
		return upstream.Message(http.StatusNotFound, mcp.AppendError(nil, c.id, mcp.CodeMethodNotFound, "the upstream does not know the method", "method_not_found", c.requestID)), nil
	case translatable(resp):
		return c.whole(resp)
	}
	resp.Body = &closing{resp.Body, func() { c.finish(bad) }}
	return resp, nil
}

// unlikely reports whether the upstream probably lacks the method: it has not declared the
// capability.
func (c *callToLegacy) unlikely() bool {
	family, _, _ := strings.Cut(c.message.Method, "/")
	switch family {
	case "tools", "prompts", "resources":
	case "completion":
		family = "completions"
	default:
		return true
	}
	return !c.conn.offers(family)
}

// peek waits for the first message of a stream before the response begins: an unknown
// method must have the status 404, which is not possible once a stream has begun.
func (c *callToLegacy) peek() (*upstream.Response, error) {
	source := c.turn(nil)
	first, err := source.Next(func() {})
	if err != nil {
		source.Close()
		return nil, err
	}
	var m mcp.Message
	if mcp.Scan(first, &m) == nil && m.IsError && m.ErrorCode == mcp.CodeMethodNotFound {
		return upstream.Message(http.StatusNotFound, first), nil
	}
	source.first = first
	return upstream.Events(source), nil
}

// start acquires a session and sends the request in it. If a message for the client
// precedes the response, it is returned as early, without a response.
func (t *ToLegacy) start(ctx context.Context, r *upstream.Request, m *mcp.Message, s *sender) (resp *upstream.Response, early []byte, c *callToLegacy, err error) {
	c = &callToLegacy{t: t, sender: *s, request: *r, message: *m, id: m.ID, requestID: r.RequestID}
	if c.conn, err = t.acquire(ctx, r, s, true); err != nil {
		return nil, nil, nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.detach = context.AfterFunc(ctx, c.cancel)
	beside := c.wantsStandalone()
	if beside {
		if err := c.keep(); err != nil {
			c.finish(bad)
			return nil, nil, nil, err
		}
		beside = c.listenBeside()
	}
	c.setLevel()
	c.conn.ids++
	c.sentID = strconv.AppendInt(nil, int64(c.conn.ids), 10)
	out := c.request
	out.Session, out.Body, out.Header = c.conn.session, c.body(), withoutMirrors(c.request.Header)
	if beside {
		resp, early, err = c.postBeside(&out)
	} else {
		resp, err = t.opts.Direct.Post(c.ctx, &out)
	}
	if err != nil {
		if out := c.unanswered(); out != nil {
			return nil, out, c, nil
		}
		how := bad
		if ctx.Err() != nil || errors.Is(err, upstream.ErrTimeout) { // the upstream may still be executing it
			how = cancelled
		}
		c.finish(how)
		return nil, nil, nil, err
	}
	return resp, early, c, nil
}

// keep copies the data that is valid only during the client's request: a call with a
// stream outlives it.
func (c *callToLegacy) keep() error {
	if c.kept {
		return nil
	}
	c.kept = true
	if err := keepRequest(&c.request, &c.message); err != nil {
		return err
	}
	c.id = c.message.ID
	c.declared, c.info, c.level = slices.Clone(c.declared), slices.Clone(c.info), slices.Clone(c.level)
	return nil
}

// setLevel sends the log level of the request to the session.
func (c *callToLegacy) setLevel() {
	level := string(c.level)
	if level == "" || level == c.conn.level || !c.conn.offers("logging") {
		return
	}
	params := objectOf(mcp.Member{Name: "level", Value: c.level})
	if c.t.client(&c.request).SetLevel(c.ctx, c.conn.session, params) == nil {
		c.conn.level = level
	}
}

// offers reports whether the upstream declared a capability.
func (c *conn) offers(capability string) bool {
	return mcp.Find(c.opened.Body, mcp.Find(c.opened.Body, c.opened.Spans.Result, "capabilities"), capability).Present()
}

// body returns the request without the members of the revision without sessions, and with
// an id of the session's own.
func (c *callToLegacy) body() []byte {
	m := &c.message
	whole := mcp.Span{End: len(m.Body)}
	room := make([]byte, 0, 3*len(m.Body)+128) // for three nested objects
	meta := mcp.AppendObject(room, m.Body, m.Spans.Meta, func(name []byte) bool {
		switch string(name) {
		case mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel:
			return true
		}
		return false
	})
	used := meta
	if string(meta) == "{}" {
		meta = nil
	}
	params := mcp.AppendObject(unusedRoom(room, used), m.Body, m.Spans.Params, func(name []byte) bool {
		switch string(name) {
		case "inputResponses", "requestState":
			return true
		}
		return false
	}, mcp.Member{Name: "_meta", Value: meta})
	return mcp.AppendObject(unusedRoom(unusedRoom(room, used), params), m.Body, whole, nil,
		mcp.Member{Name: "id", Value: c.sentID}, mcp.Member{Name: "params", Value: params})
}

// whole translates a response of one message.
func (c *callToLegacy) whole(resp *upstream.Response) (*upstream.Response, error) {
	var m mcp.Message
	if instead, err := readAnswer(resp, c.sentID, &m); instead != nil || err != nil {
		c.finish(bad)
		return instead, err
	}
	how := good
	if resp.Status >= http.StatusBadRequest { // the session may be the cause
		how = bad
	}
	c.finish(how)
	status, text := c.translate(&m)
	return reply(resp, status, text), nil
}

// asked decides about a request of the upstream in a call. It returns the result for the
// client; nil continues the call.
func (c *callToLegacy) asked(m *mcp.Message, beside bool) []byte {
	question := m.Method == mcp.MethodElicit || m.Method == mcp.MethodSample
	switch {
	case m.Method == mcp.MethodPing:
		_ = c.t.client(&c.request).Respond(c.ctx, c.conn.session, appendResult(nil, m.ID, []byte("{}")))
		return nil
	case !question || !mayAsk(c.message.Method) || !c.declares(m.Method):
		c.respond(mcp.AppendError(nil, m.ID, mcp.CodeMethodNotFound, "the client cannot be asked this", refusal.Generation.Reason, c.requestID))
		return nil
	}
	c.question = *m
	c.question.Detach()
	return c.hold(beside)
}

// mayAsk reports whether the result of a method may be input_required.
func mayAsk(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

// declares reports whether the client supports a method.
func (c *callToLegacy) declares(method string) bool {
	capability := "elicitation"
	if method == mcp.MethodSample {
		capability = "sampling"
	}
	return mcp.Find(c.declared, mcp.Span{End: len(c.declared)}, capability).Present()
}

// ending is the state of a session at the end of its use.
type ending uint8

const (
	good      ending = iota // the session can be used again
	bad                     // it is ended
	cancelled               // it is ended, after the upstream was notified of the cancellation
)

// finish releases the session, once.
func (c *callToLegacy) finish(how ending) {
	if farewell := c.leave(how); farewell != nil && !c.t.opts.Background.Run(farewell) {
		c.t.opts.Logger.Warn("an upstream was not notified that a call is cancelled: too many background calls", "upstream", c.t.opts.Upstream.Name)
	}
}

// leave is finish without the cancellation at the upstream: the returned function sends
// it, nil for none.
func (c *callToLegacy) leave(how ending) (farewell func(context.Context)) {
	c.mu.Lock()
	before, answer, detach, sent := c.state, c.answer, c.detach, c.sent
	c.state, c.sent = ended, nil
	c.mu.Unlock()
	if before == ended {
		return nil
	}
	if answer != nil {
		answer.Close()
	}
	detach()
	c.cancel()
	if sent != nil {
		go func() {
			if p := <-sent; p.err == nil {
				p.resp.Body.Close()
			}
		}()
	}
	if c.conn.beside != nil {
		c.conn.beside.deliverTo(nil, nil)
	}
	if how == good && c.shared {
		c.t.pool.put(c.conn)
		return nil
	}
	c.t.pool.drop(c.principal, before == running)
	if how != cancelled {
		c.t.discard(c.conn)
		return nil
	}
	c.conn.stopListening()
	notice := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":"the client has left"}}`, mcp.NotificationCancelled, c.sentID)
	client := c.t.client(&c.request)
	client.Caller = client.Caller.Clone()
	return func(ctx context.Context) {
		_ = client.Send(ctx, c.conn.session, notice)
		client.End(ctx, c.conn.session)
	}
}
