package translate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// Limits of one call.
const (
	maxRounds    = 32 // of questions
	maxPages     = 20 // pages of tools/list, read for a schema
	minPause     = 200 * time.Millisecond
	maxPause     = 5 * time.Second
	patienceWait = time.Minute // for an upstream that requests to be asked again
)

// callToModern is one request of a client, and its retries. It is a [upstream.Source].
type callToModern struct {
	t       *ToModern
	request upstream.Request
	message mcp.Message // as sent by the client
	hello   hello
	level   []byte // log level; nil for none

	ctx    context.Context // canceled at the end of the call
	cancel context.CancelCauseFunc
	mu     sync.Mutex // guards answer and asked against Close
	answer *Messages  // response to the last request
	asked  *round     // the last questions; nil for none

	Refusing
	before  func()   // of the running Next
	queue   [][]byte // messages for the client that precede all others
	round   *round   // the questions that wait for answers
	state   []byte   // requestState of the upstream as written; nil for none
	rounds  int
	waited  time.Duration // time waited for an upstream that returned a state without a question
	sentID  []byte        // id of the last request
	ended   bool
	forget  func() // removes the entry for the cancellation
	refresh bool   // the schema of the tool was read again
}

// call sends a request, and responds with its response, or with a stream of the questions
// that precede it.
func (t *ToModern) call(ctx context.Context, r *upstream.Request, m *mcp.Message, h hello) (*upstream.Response, error) {
	c := &callToModern{t: t, request: *r, message: *m, hello: h}
	c.level = t.level(ctx, c.request.Caller)
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	var other bool
	if c.forget, other = t.remember(c.request.Caller, m.ID, c.cancel); other {
		c.cancel(nil)
		return t.refuse(r, m, &refusal.RequestID, "another request of the session has this id and is not answered yet"), nil
	}
	resp, err := c.send(nil)
	if err != nil {
		defer c.close()
		if c.cancelled() {
			return upstream.Message(http.StatusOK, c.fail(errCancelled)), nil
		}
		return nil, err
	}
	return c.take(resp)
}

// errCancelled is the cause of a call that its client has canceled.
var errCancelled = errors.New("the client has cancelled it")

// cancelled reports whether the client has canceled the call.
func (c *callToModern) cancelled() bool { return errors.Is(context.Cause(c.ctx), errCancelled) }

// take translates a response. A response whose status means that the upstream did not
// execute the message is unchanged.
func (c *callToModern) take(resp *upstream.Response) (*upstream.Response, error) {
	switch {
	case resp.Status == http.StatusOK && resp.MediaType() == EventStream:
		if err := c.keep(); err != nil {
			resp.Body.Close()
			return nil, err
		}
		c.answer = NewMessages(resp, c.wait)
		return upstream.Events(c), nil
	case translatable(resp):
		return c.whole(resp)
	}
	resp.Body = &closing{resp.Body, c.close}
	return resp, nil
}

// keep copies the data that is valid only during the client's request: a call with a
// stream outlives it.
func (c *callToModern) keep() error {
	if err := keepRequest(&c.request, &c.message); err != nil {
		c.close()
		return err
	}
	c.sentID, c.level = slices.Clone(c.sentID), slices.Clone(c.level)
	return nil
}

// level returns the log level of a session as written; nil for none.
func (t *ToModern) level(ctx context.Context, who *upstream.Caller) []byte {
	if t.opts.Level == nil || who == nil || !who.HasSession {
		return nil
	}
	params := t.opts.Level(ctx, who.Session)
	return mcp.Find(params, mcp.Span{End: len(params)}, "level").Of(params)
}

// remember registers a call for cancellation by its client. The returned function removes
// it. If another call has the same id, other is set and nothing is registered: a
// cancellation, or an answer, would be ambiguous.
func (t *ToModern) remember(who *upstream.Caller, id []byte, cancel context.CancelCauseFunc) (forget func(), other bool) {
	if who == nil || !who.HasSession {
		return func() {}, false
	}
	key := callKey{who.Session, string(id)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[key] != nil {
		return nil, true
	}
	t.running[key] = cancel
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, key)
	}), false
}

// whole translates a response of one message.
func (c *callToModern) whole(resp *upstream.Response) (*upstream.Response, error) {
	var m mcp.Message
	if instead, err := readAnswer(resp, c.sentID, &m); instead != nil || err != nil {
		defer c.close()
		if err != nil && c.cancelled() {
			return upstream.Message(http.StatusOK, c.fail(errCancelled)), nil
		}
		return instead, err
	}
	if m.IsError && m.ErrorCode == mcp.CodeHeaderMismatch && c.readSchema() {
		next, err := c.send(nil)
		if err != nil {
			c.close()
			return nil, err
		}
		return c.take(next)
	}
	text := c.translate(&m)
	if text == nil { // the result has questions
		if err := c.keep(); err != nil {
			return nil, err
		}
		return upstream.Events(c), nil
	}
	c.close()
	out := reply(resp, http.StatusOK, text)
	out.Refused = c.Refused()
	return out, nil
}

// send posts the request, with answers if it is a retry.
func (c *callToModern) send(given map[string]json.RawMessage) (*upstream.Response, error) {
	m := &c.message
	// For three nested objects; data that does not fit is allocated.
	room := make([]byte, 0, 3*(len(m.Body)+len(c.hello.Info)+len(c.hello.Capabilities)+256))
	meta := mcp.AppendObject(room, m.Body, m.Spans.Meta, nil, c.hello.meta(c.t.opts.Version, c.level)...)
	room = unusedRoom(room, meta)
	var few [3]mcp.Member
	members := append(few[:0], mcp.Member{Name: "_meta", Value: meta})
	c.sentID = m.ID
	if c.rounds > 0 {
		c.sentID = fmt.Appendf(nil, `"svc-retry-%d"`, c.rounds)
		if given != nil {
			answers, err := json.Marshal(given)
			if err != nil {
				return nil, &upstream.Error{Upstream: c.t.opts.Upstream.Name, Op: "translate", Kind: upstream.ErrInvalidRequest, Err: err}
			}
			members = append(members, mcp.Member{Name: "inputResponses", Value: answers})
		}
		members = append(members, mcp.Member{Name: "requestState", Value: c.state})
	}
	params := mcp.AppendObject(room, m.Body, m.Spans.Params, nil, members...)
	body := mcp.AppendObject(unusedRoom(room, params), m.Body, mcp.Span{End: len(m.Body)}, nil, mcp.Member{Name: "params", Value: params})
	if c.rounds > 0 {
		body = mcp.AppendObject(nil, body, mcp.Span{End: len(body)}, nil, mcp.Member{Name: "id", Value: c.sentID})
	}
	out := c.request
	out.Session, out.Body, out.Header = mcp.Session{Version: mcp.Revision20260728}, body, c.header()
	return c.t.opts.Direct.Post(c.ctx, &out)
}

// header returns the header of the request for an upstream that reads the mirrored
// headers.
func (c *callToModern) header() mcp.Header {
	h := withoutMirrors(c.request.Header)
	h.Add(mcp.HeaderMethod, c.message.Method)
	if name, ok := c.message.MirroredName(); ok {
		h.Add(mcp.HeaderName, mcp.EncodeHeader(name))
	}
	c.t.headers.append(&h, &c.message)
	return h
}

// readSchema reads the tools again, because the upstream reported a missing or wrong
// header. It reports whether the call should be sent again; it does so once.
func (c *callToModern) readSchema() bool {
	if c.refresh || c.message.Method != mcp.MethodToolsCall {
		return false
	}
	c.refresh = true
	client := client.Client{Transport: c.t.opts.Direct, Name: "svc-schemas", Hops: c.request.Header.Get(mcp.HeaderHops), Caller: c.request.Caller}
	var cursor []byte
	for range maxPages {
		params := objectOf(
			mcp.Member{Name: "_meta", Value: objectOf(c.hello.meta(c.t.opts.Version, nil)...)},
			mcp.Member{Name: "cursor", Value: cursor})
		page, err := client.Call(c.ctx, mcp.Session{Version: mcp.Revision20260728}, mcp.MethodToolsList, params, MaxAnswer)
		if err != nil {
			return false
		}
		c.t.headers.learn(page.Spans.Result.Of(page.Body))
		if cursor = mcp.Find(page.Body, page.Spans.Result, "nextCursor").Of(page.Body); len(cursor) == 0 || cursor[0] != '"' {
			return true
		}
	}
	return true
}

// wait is called before a read of the upstream blocks.
func (c *callToModern) wait() {
	if c.before != nil {
		c.before()
	}
}

// Next implements [upstream.Source].
func (c *callToModern) Next(before func()) ([]byte, error) {
	c.before = before
	for {
		switch {
		case len(c.queue) > 0:
			out := c.queue[0]
			c.queue = c.queue[1:]
			return out, nil
		case c.ended:
			return nil, io.EOF
		case c.round != nil || c.state != nil:
			before()
			if out := c.goOn(); out != nil {
				return c.end(out), nil
			}
			continue
		}
		m, err := c.answer.Message(c.t.opts.Upstream.Name)
		if err != nil {
			return c.broken(err)
		}
		switch m.Kind {
		case mcp.Notification:
			if m.Method != mcp.NotificationAcknowledged {
				return m.Body, nil
			}
		case mcp.Response:
			if len(m.ID) > 0 && !mcp.SameID(m.ID, c.sentID) {
				continue
			}
			if m.IsError && m.ErrorCode == mcp.CodeHeaderMismatch && c.rounds == 0 && c.readSchema() {
				if err := c.replace(nil); err != nil {
					return nil, err
				}
				continue
			}
			if out := c.translate(m); out != nil {
				return c.end(out), nil
			}
		}
	}
}

// broken returns the replacement of a message that cannot be read. After a question the
// client gets the information that the call may have had effects; before, it is an
// ordinary failure of the upstream.
func (c *callToModern) broken(err error) ([]byte, error) {
	if c.rounds == 0 && !c.cancelled() || c.ctx.Err() != nil && !c.cancelled() {
		return nil, err
	}
	if !c.cancelled() {
		c.t.opts.Logger.Warn("an upstream failed after a question was answered", "upstream", c.t.opts.Upstream.Name, "request_id", c.request.RequestID, "error", err)
	}
	return c.end(c.fail(err)), nil
}

// end creates the last message.
func (c *callToModern) end(out []byte) []byte {
	c.ended = true
	c.forget()
	return out
}

// goOn waits for the answers to the questions, or for the time that the upstream needs,
// and sends the request again. If that is not possible, it returns the response to send
// instead.
func (c *callToModern) goOn() []byte {
	var given map[string]json.RawMessage
	if c.round != nil {
		var err error
		given, err = c.t.questions.wait(c.ctx, c.round)
		if c.round = nil; err != nil {
			return c.fail(err)
		}
	} else if err := c.pause(); err != nil {
		return c.fail(err)
	}
	if c.rounds++; c.rounds > maxRounds {
		return c.fail(fmt.Errorf("the upstream asked %d times without an answer", maxRounds))
	}
	if err := c.replace(given); err != nil {
		return c.fail(err)
	}
	return nil
}

// replace sends the request again, and replaces the response that is read.
func (c *callToModern) replace(given map[string]json.RawMessage) error {
	resp, err := c.send(given)
	c.state = nil
	if err != nil {
		return err
	}
	if resp.Status != http.StatusOK && resp.MediaType() != JSON {
		resp.Body.Close()
		return fmt.Errorf("the upstream answered with status %d", resp.Status)
	}
	next := NewMessages(resp, c.wait)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		c.answer.Close()
	}
	c.answer = next
	if c.ctx.Err() != nil { // it was closed meanwhile
		next.Close()
	}
	return nil
}

// pause waits before the next request to an upstream that returned a state without a
// question.
func (c *callToModern) pause() error {
	if c.waited >= patienceWait {
		return errors.New("the upstream asked to be asked again for a minute")
	}
	pause := min(max(c.waited, minPause), maxPause)
	c.waited += pause
	retry.Wait(c.ctx, pause)
	return c.ctx.Err()
}

// fail returns the response of a call that cannot continue. The upstream has received the
// request, perhaps several times.
func (c *callToModern) fail(err error) []byte {
	after, text := " after a question of the upstream", cmp.Or(inWords(err), err.Error())
	if c.cancelled() {
		after, text = "", errCancelled.Error()
	} else {
		c.Refuse(&refusal.InputFailed, text)
	}
	text = "The call could not be completed" + after + ": " + text + ". What it did before that may have had effects (request " + c.request.RequestID + ")."
	if c.message.Method == mcp.MethodToolsCall {
		return mcp.AppendToolError(nil, c.message.ID, text, false)
	}
	return mcp.AppendError(nil, c.message.ID, mcp.CodeInternal, text, "input_failed", c.request.RequestID)
}

// open sets the last questions of the call. Nothing is asked if the client has
// disconnected.
func (c *callToModern) open(r *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = r
	if c.ctx.Err() != nil {
		c.t.questions.remove(r)
	}
}

// close releases everything that the call holds. Nothing waits for questions that the
// client did not read completely, so that they must be removed here.
func (c *callToModern) close() {
	c.cancel(nil)
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.t.questions.remove(c.asked)
	}
}

// Close implements [upstream.Source].
func (c *callToModern) Close() error {
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == nil {
		return nil
	}
	return c.answer.Close()
}
