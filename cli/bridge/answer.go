package bridge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

const (
	// cancelGrace is how long a canceled request may still be answered.
	cancelGrace = 5 * time.Second
	// maxResumes bounds how often the stream of one response is resumed without progress.
	maxResumes = 5
)

// refusal is a response whose status is not 2xx.
type refusal struct {
	status int
	body   []byte
	code   int // code of a JSON-RPC error
	error  bool
	// redirect describes where a redirect leads; empty for other responses.
	redirect string
}

// refusalOf reads a response whose status is not 2xx; it returns nil for others.
func refusalOf(resp *http.Response) *refusal {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	body, _ := readBounded(resp.Body, maxRefusal)
	resp.Body.Close()
	r := &refusal{status: resp.StatusCode, body: body, redirect: hostname.Redirects(resp.StatusCode, resp.Header.Get("Location"))}
	var m struct {
		Error *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &m) == nil && m.Error != nil {
		r.error, r.code = true, m.Error.Code
	}
	return r
}

// lostSession reports whether the endpoint does not know the session. A 404 with the code
// for unknown methods means instead that no upstream has the method.
func (r *refusal) lostSession(s mcp.Session) bool {
	return r.status == http.StatusNotFound && s.ID != "" && r.code != mcp.CodeMethodNotFound
}

// response returns the response with a body that can be read again.
func (r *refusal) response(resp *http.Response) *http.Response {
	resp.Body = io.NopCloser(bytes.NewReader(r.body))
	return resp
}

// text describes the refusal for a person.
func (r *refusal) text() string {
	switch r.status {
	case http.StatusUnauthorized:
		return "the gateway does not accept the key (status 401): see the key file or variable"
	case http.StatusNotFound:
		if !r.error {
			return "there is no MCP endpoint at the URL (status 404)"
		}
	}
	if r.status/100 == 3 {
		return fmt.Sprintf("the response has status %d%s", r.status, cmp.Or(r.redirect, ": use the URL of the gateway itself"))
	}
	return fmt.Sprintf("status %d %s", r.status, http.StatusText(r.status))
}

// deliver writes the endpoint's response to a request.
func (b *bridge) deliver(ctx context.Context, c *call, resp *http.Response) error {
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 != 2:
		r := refusalOf(resp)
		if line, ok := withID(r.body, c.m.ID); r.error && ok {
			b.out.write(line)
			return nil
		}
		b.out.write(mcp.AppendError(nil, c.m.ID, mcp.CodeInternal, r.text(), "http_status", ""))
		return nil
	case isMedia(resp, mediaEvents):
		return b.follow(ctx, c, resp)
	}
	body, err := readBounded(resp.Body, b.o.MaxLine)
	if err != nil {
		return err
	}
	if !json.Valid(body) {
		return fmt.Errorf("the response with status %d is not JSON", resp.StatusCode)
	}
	b.observe(c, body)
	b.out.write(body)
	return nil
}

// withID returns a JSON-RPC error with the id of the request that it answers. An endpoint
// that rejected the request before reading it does not know the id.
func withID(body, id []byte) ([]byte, bool) {
	m := new(mcp.Message)
	if mcp.Scan(body, m) != nil || m.Kind != mcp.Response {
		return nil, false
	}
	if m.ID != nil && string(m.ID) != mcp.EmptyID {
		return body, true
	}
	if at := m.Spans.ID; at.Present() {
		return mcp.Splice(nil, body, mcp.Edit{At: at, With: id}), true
	}
	return nil, false
}

// follow writes the messages of an event stream up to the response to the request. A
// stream that ends before is resumed if its events have ids.
func (b *bridge) follow(ctx context.Context, c *call, resp *http.Response) error {
	var p position
	for resumes := 0; ; {
		answered, err := b.copyEvents(resp.Body, &p, c)
		resp.Body.Close()
		if answered {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, mcp.ErrEventTooLarge) {
			return fmt.Errorf("a message of the response has more than %d bytes", b.o.MaxLine)
		}
		if p.id == "" || c.modern {
			return errors.New("the event stream ended before the response")
		}
		if p.moved {
			resumes = 0
		}
		if resumes++; resumes > maxResumes {
			return errors.New("the event stream cannot be resumed")
		}
		if !retry.Wait(ctx, p.wait(resumes)) {
			return context.Cause(ctx)
		}
		resp, err = b.do(ctx, &outgoing{method: http.MethodGet, session: b.session.current(),
			header: http.Header{mcp.HeaderLastEventID: {p.id}}})
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || !isMedia(resp, mediaEvents) {
			discard(resp)
			return errors.New("the event stream ended before the response, and the server does not resume it")
		}
	}
}

// position is the point up to which a stream was read.
type position struct {
	id    string
	retry time.Duration
	moved bool // whether an event came since the stream was opened
}

// wait pauses before a stream is opened again.
func (p *position) wait(attempt int) time.Duration {
	if p.retry > 0 {
		return min(p.retry, maxPause)
	}
	return min(minWait<<min(attempt, 10), maxPause)
}

// maxPause bounds the pause before a stream is opened again.
const maxPause = 30 * time.Second

// copyEvents writes the messages of a stream. It reports whether the response to c was
// among them; c is nil for the stream of a session.
func (b *bridge) copyEvents(body io.Reader, p *position, c *call) (answered bool, err error) {
	p.moved = false
	notified := false
	events := mcp.NewEventReader(body, b.o.MaxLine)
	for {
		e, err := events.Next()
		if err != nil {
			return answered, err
		}
		if e.HasID {
			p.id, p.moved = strings.Clone(string(e.ID)), true
		}
		if e.HasRetry {
			p.retry = time.Duration(e.Retry) * time.Millisecond
		}
		if !e.IsMessage() {
			continue
		}
		m := new(mcp.Message)
		if scanErr := mcp.Scan(e.Data, m); scanErr != nil && !json.Valid(e.Data) {
			b.logf("a message of the gateway is not JSON and was dropped: %v", scanErr)
			continue
		}
		if c != nil && m.Kind == mcp.Response && mcp.SameID(m.ID, c.m.ID) {
			b.observe(c, e.Data)
			answered = true
			if notified {
				b.out.awaitRead(b.ctx)
			}
		}
		notified = m.Kind == mcp.Notification
		b.out.write(e.Data)
		if answered {
			return true, nil
		}
	}
}
