package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

const (
	// maxFrames bounds the frames of an event stream before the response.
	maxFrames = 1000
	// pingTimeout and maxPing bound a ping: its time, and its response in bytes.
	pingTimeout = 30 * time.Second
	maxPing     = 1 << 20
	// endTimeout bounds the request that ends a session.
	endTimeout = 5 * time.Second
	// maxIgnored bounds the bytes read from a response that is discarded.
	maxIgnored = 64 << 10
)

// Reasons why a request has no response, besides the errors of the upstream's transport.
var (
	// ErrAnswer: the returned message is not the response to the request.
	ErrAnswer = errors.New("the response does not belong to the request or has no usable result")
	// ErrTooLarge: the response, or the frames before it, exceed the limit.
	ErrTooLarge = errors.New("the response is too large")
	// ErrRejected: the upstream responded with an error or with a status other than 200.
	ErrRejected = errors.New("refused")
)

// RejectedError is an ErrRejected with the upstream's response.
type RejectedError struct {
	Status int // HTTP status
	Code   int // code of the JSON-RPC error; 0 without one

	location string // of a redirect
}

// Error implements error.
func (e *RejectedError) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("status %d: %v with code %d", e.Status, ErrRejected, e.Code)
	}
	return fmt.Sprintf("%v with status %d%s", ErrRejected, e.Status, hostname.Redirects(e.Status, e.location))
}

// Is makes errors.Is match ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

// Client sends messages one at a time.
type Client struct {
	Transport upstream.Transport
	// Name is the id of its requests: printable ASCII without quotes.
	Name string
	// Hops is the value of [mcp.HeaderHops]; [mcp.FirstHop] when empty.
	Hops string
	// Caller is the client on whose behalf the messages are sent; nil for the gateway
	// itself.
	Caller *upstream.Caller
}

// Call sends a request and returns its response, which contains a result. The response,
// including the frames before it, has at most limit bytes. params is a JSON object.
func (c *Client) Call(ctx context.Context, s mcp.Session, method string, params []byte, limit int) (*mcp.Message, error) {
	m, _, err := c.call(ctx, s, method, params, limit)
	return m, err
}

// Initialize opens a session: it sends initialize and, after the response,
// notifications/initialized. If the second step fails, it ends the session.
func (c *Client) Initialize(ctx context.Context, params []byte, limit int) (mcp.Session, *mcp.Message, error) {
	m, id, err := c.call(ctx, mcp.Session{}, mcp.MethodInitialize, params, limit)
	if err != nil {
		return mcp.Session{}, nil, err
	}
	s := mcp.Session{ID: id, Version: strings.Clone(m.InitializeVersion)}
	if s.Version == "" {
		return mcp.Session{}, nil, fmt.Errorf("initialize: %w: it names no protocol revision", ErrAnswer)
	}
	if err := c.notify(ctx, s, "notifications/initialized"); err != nil {
		c.EndAfter(ctx, s)
		return mcp.Session{}, nil, err
	}
	return s, m, nil
}

// EndAfter ends a session after ctx may have expired: it uses a timeout of its own. Errors
// are ignored.
func (c *Client) EndAfter(ctx context.Context, s mcp.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	c.End(ctx, s)
}

// End ends a session. Errors are ignored.
func (c *Client) End(ctx context.Context, s mcp.Session) {
	if s.ID == "" {
		return
	}
	resp, err := c.Transport.End(ctx, &upstream.Request{
		Session: s, Caller: c.Caller, Header: mcp.Header{{Name: mcp.HeaderHops, Value: c.hops()}},
	})
	if err == nil {
		resp.Body.Close()
	}
}

// Alive reports whether the upstream may know a session. It sends a ping: in an unknown session that is
// rejected with status 400 or 404, though not because the upstream has no ping. It waits for at most 30 s.
func (c *Client) Alive(ctx context.Context, s mcp.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := c.Call(ctx, s, mcp.MethodPing, []byte("{}"), maxPing)
	var rejected *RejectedError
	return !errors.As(err, &rejected) || rejected.Code == mcp.CodeMethodNotFound ||
		rejected.Status != http.StatusBadRequest && rejected.Status != http.StatusNotFound
}

// SetLevel sets the log level of a session, and waits for the upstream's response, so that
// the level applies to the next message. An upstream without log messages rejects the
// request, which is not an error. params are the params of logging/setLevel.
func (c *Client) SetLevel(ctx context.Context, s mcp.Session, params []byte) error {
	return c.Send(ctx, s, c.request(mcp.MethodSetLevel, params))
}

// Send posts a message and waits for the end of its response, which is discarded.
func (c *Client) Send(ctx context.Context, s mcp.Session, body []byte) error {
	resp, err := c.Transport.Post(ctx, &upstream.Request{Session: s, Caller: c.Caller, Header: c.header(s, ""), Body: body})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxIgnored))
	return resp.Body.Close()
}

// Respond posts a response to a request of the upstream. If the upstream responds with a
// status other than 2xx, the error is a *RejectedError; the rest of its response is not
// read.
func (c *Client) Respond(ctx context.Context, s mcp.Session, body []byte) error {
	status, err := c.post(ctx, s, "", body)
	if err == nil && (status < 200 || status >= 300) {
		err = &RejectedError{Status: status}
	}
	return err
}

// notify sends a notification without parameters.
func (c *Client) notify(ctx context.Context, s mcp.Session, method string) error {
	_, err := c.post(ctx, s, method, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method))
	return err
}

// post posts a message and returns the status of the response.
func (c *Client) post(ctx context.Context, s mcp.Session, method string, body []byte) (status int, err error) {
	resp, err := c.Transport.Post(ctx, &upstream.Request{Session: s, Caller: c.Caller, Header: c.header(s, method), Body: body})
	if err != nil {
		return 0, err
	}
	return resp.Status, resp.Body.Close()
}

// request returns the JSON text of a request.
func (c *Client) request(method string, params []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, mcp.AppendString(nil, c.Name), method, params)
}

// call sends a request and returns the response and the session id of its header.
func (c *Client) call(ctx context.Context, s mcp.Session, method string, params []byte, limit int) (*mcp.Message, string, error) {
	id := mcp.AppendString(nil, c.Name)
	h, body := c.header(s, method), c.request(method, params)
	if method == mcp.MethodResourcesRead && mcp.Modern(s.Version) {
		asked := new(mcp.Message)
		if err := mcp.Scan(body, asked); err != nil {
			return nil, "", err
		}
		h.Add(mcp.HeaderName, mcp.EncodeHeader(asked.URI))
	}
	resp, err := c.Transport.Post(ctx, &upstream.Request{
		Session: s, Caller: c.Caller, Header: h,
		Body:       body,
		Idempotent: method != mcp.MethodInitialize,
	})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	m := new(mcp.Message)
	switch resp.MediaType() {
	case "text/event-stream":
		err = readStream(resp, limit, m)
	case "application/json":
		err = readJSON(resp, limit, m)
	default:
		err = fmt.Errorf("%w: its content type is neither JSON nor an event stream", ErrAnswer)
	}
	switch {
	case err == nil && m.IsError:
		err = &RejectedError{Status: resp.Status, Code: m.ErrorCode}
	case resp.Status != http.StatusOK:
		err = &RejectedError{Status: resp.Status, location: strings.Clone(resp.Header.Get("Location"))}
	case err != nil:
	case m.Kind != mcp.Response || !m.Spans.Result.Present():
		err = fmt.Errorf("%w: it is not a response", ErrAnswer)
	case !mcp.SameID(m.ID, id):
		err = fmt.Errorf("%w: it has the id of another request", ErrAnswer)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", method, err)
	}
	return m, strings.Clone(resp.Header.Get(mcp.HeaderSession)), nil
}

// header returns the HTTP header of a message; method is empty for a message without one.
func (c *Client) header(s mcp.Session, method string) mcp.Header {
	h := mcp.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Accept", Value: "application/json, text/event-stream"},
		{Name: mcp.HeaderHops, Value: c.hops()},
	}
	if mcp.Modern(s.Version) && method != "" {
		h.Add(mcp.HeaderMethod, method)
	}
	return h
}

func (c *Client) hops() string {
	if c.Hops == "" {
		return mcp.FirstHop
	}
	return c.Hops
}

// bounded reads at most left bytes from a body.
type bounded struct {
	resp *upstream.Response
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.resp.Body.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func readJSON(resp *upstream.Response, limit int, m *mcp.Message) error {
	var body bytes.Buffer
	if _, err := body.ReadFrom(&bounded{resp, limit}); err != nil {
		return err
	}
	return scan(body.Bytes(), m)
}

// readStream reads the frames up to the first response. Requests and
// notifications before it are discarded.
func readStream(resp *upstream.Response, limit int, m *mcp.Message) error {
	events := mcp.NewEventReader(&bounded{resp, limit}, limit)
	for range maxFrames {
		ev, err := events.Next()
		if err != nil {
			return err
		}
		if ev.IsComment || len(ev.Data) == 0 {
			continue
		}
		err = scan(bytes.Clone(ev.Data), m)
		switch {
		case err != nil && ev.Droppable():
			resp.Dropped(err)
		case err != nil || m.Kind == mcp.Response:
			return err
		}
	}
	return fmt.Errorf("%w: more than %d frames before it", ErrTooLarge, maxFrames)
}

func scan(body []byte, m *mcp.Message) error {
	if _, err := mcp.ScanAnswer(body, m); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}
