package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// answers returns its prepared responses in order, and records the requests.
type answers struct {
	upstream.Transport
	next []mcpclientAnswer
	sent []sent
}

type sent struct {
	Method string
	upstream.Request
}

type mcpclientAnswer struct {
	status int
	media  string
	body   string
	err    error
}

func (a *answers) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	return a.do("POST", r)
}

func (a *answers) End(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	return a.do("DELETE", r)
}

func (a *answers) do(method string, r *upstream.Request) (*upstream.Response, error) {
	a.sent = append(a.sent, sent{method, *r})
	if len(a.next) == 0 {
		return nil, errors.New("one request too many")
	}
	got := a.next[0]
	a.next = a.next[1:]
	if got.err != nil {
		return nil, got.err
	}
	if got.status == 0 {
		got.status = 200
	}
	return &upstream.Response{HTTPResponse: upstream.HTTPResponse{
		Status: got.status, ContentLength: -1, Body: io.NopCloser(strings.NewReader(got.body)),
		Header: mcp.Header{{Name: "Content-Type", Value: got.media}, {Name: mcp.HeaderSession, Value: "s1"}},
	}}, nil
}

const (
	jsonType   = "application/json; charset=utf-8"
	streamType = "Text/Event-Stream"
	good       = `{"jsonrpc":"2.0","id":"me","result":{"protocolVersion":"2025-06-18"}}`
	notice     = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n"
)

// Only a response with the id of the request and within the limits is accepted.
func TestCall(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		mcpclientAnswer
		want error
	}{
		{"JSON", mcpclientAnswer{media: jsonType, body: good}, nil},
		{"an event stream", mcpclientAnswer{media: streamType, body: ": hello\n\nid: 1\ndata: \n\n" + notice + "data: " + good + "\n\n"}, nil},
		{"somebody else's id", mcpclientAnswer{media: jsonType, body: strings.Replace(good, "me", "somebody-elses", 1)}, ErrAnswer},
		{"somebody else's id in a stream", mcpclientAnswer{media: streamType, body: "data: " + strings.Replace(good, "me", "x", 1) + "\n\ndata: " + good + "\n\n"}, ErrAnswer},
		{"no id", mcpclientAnswer{media: jsonType, body: `{"jsonrpc":"2.0","id":null,"result":{}}`}, ErrAnswer},
		{"a request", mcpclientAnswer{media: jsonType, body: `{"jsonrpc":"2.0","id":"me","method":"ping"}`}, ErrAnswer},
		{"an error", mcpclientAnswer{media: jsonType, body: `{"jsonrpc":"2.0","id":"me","error":{"code":-32602,"message":"no"}}`}, ErrRejected},
		{"a status", mcpclientAnswer{status: 403, media: jsonType, body: good}, ErrRejected},
		{"a page", mcpclientAnswer{media: "text/html", body: "<html>"}, ErrAnswer},
		{"no JSON", mcpclientAnswer{media: jsonType, body: "{"}, ErrAnswer},
		{"no JSON in a frame", mcpclientAnswer{media: streamType, body: "data: {\n\n"}, ErrAnswer},
		{"a ping before it", mcpclientAnswer{media: streamType, body: "event: heartbeat\ndata: alive\n\n" + "data: " + good + "\n\n"}, nil},
		{"a notification that is no message before it", mcpclientAnswer{media: streamType, body: "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":7}\n\ndata: " + good + "\n\n"}, nil},
		{"a stream that ends", mcpclientAnswer{media: streamType, body: notice}, io.EOF},
		{"a large answer", mcpclientAnswer{media: jsonType, body: good + strings.Repeat(" ", 64<<10)}, ErrTooLarge},
		{"a large frame before it", mcpclientAnswer{media: streamType, body: ": " + strings.Repeat("x", 64<<10) + "\n\ndata: " + good + "\n\n"}, ErrTooLarge},
		{"many frames before it", mcpclientAnswer{media: streamType, body: strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n", maxFrames) + "data: " + good + "\n\n"}, ErrTooLarge},
		{"no connection", mcpclientAnswer{err: broken}, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := &answers{next: []mcpclientAnswer{tt.mcpclientAnswer}}
			c := Client{Transport: up, Name: "me", Hops: "3"}
			m, err := c.Call(t.Context(), mcp.Session{ID: "s", Version: mcp.Revision20250618}, "tools/list", []byte("{}"), 64<<10)
			if !errors.Is(err, tt.want) || (err == nil) != (m != nil) {
				t.Fatalf("got %v, %v; want %v", m, err, tt.want)
			}
			if err != nil && tt.want != broken && !strings.Contains(err.Error(), "tools/list") {
				t.Errorf("the error does not name the request: %v", err)
			}
			req := up.sent[0]
			if string(req.Body) != `{"jsonrpc":"2.0","id":"me","method":"tools/list","params":{}}` || !req.Idempotent {
				t.Errorf("sent %s, idempotent %v", req.Body, req.Idempotent)
			}
			if h := req.Header; req.Session != (mcp.Session{ID: "s", Version: mcp.Revision20250618}) || h.Get(mcp.HeaderHops) != "3" {
				t.Errorf("sent %v in session %v", h, req.Session)
			}
		})
	}
}

// A session is open when its upstream has accepted notifications/initialized;
// otherwise it is ended.
func TestInitialize(t *testing.T) {
	for _, tt := range []struct {
		name string
		next []mcpclientAnswer
		want error
		sent string // methods
	}{
		{"in order", []mcpclientAnswer{{media: jsonType, body: good}, {status: 202}}, nil, "POST POST"},
		{"no revision", []mcpclientAnswer{{media: jsonType, body: `{"jsonrpc":"2.0","id":"me","result":{}}`}}, ErrAnswer, "POST"},
		{"broken behind it", []mcpclientAnswer{{media: jsonType, body: good}, {err: io.ErrUnexpectedEOF}, {status: 204}}, io.ErrUnexpectedEOF, "POST POST DELETE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := &answers{next: tt.next}
			c := Client{Transport: up, Name: "me"}
			s, m, err := c.Initialize(t.Context(), []byte(`{"x":1}`), 1<<10)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err == nil && (s != mcp.Session{ID: "s1", Version: "2025-06-18"} || m == nil) || err != nil && s != (mcp.Session{}) {
				t.Errorf("session %+v", s)
			}
			var methods []string
			for _, req := range up.sent {
				methods = append(methods, req.Method)
				if req.Header.Get(mcp.HeaderHops) != mcp.FirstHop {
					t.Errorf("hops %v", req.Header)
				}
			}
			if got := strings.Join(methods, " "); got != tt.sent {
				t.Errorf("sent %s, want %s", got, tt.sent)
			}
			if up.sent[0].Idempotent {
				t.Error("initialize may be sent twice")
			}
			if len(up.sent) > 1 && (string(up.sent[1].Body) != `{"jsonrpc":"2.0","method":"notifications/initialized"}` || up.sent[1].Session.ID != "s1") {
				t.Errorf("sent %s in session %v", up.sent[1].Body, up.sent[1].Session)
			}
		})
	}
}

// Messages whose responses are ignored are sent whole and in the right session, and
// their responses are closed.
func TestMessagesWithoutAnInterestingResponse(t *testing.T) {
	s := mcp.Session{ID: "s", Version: mcp.Revision20250618}
	refused := errors.New("refused")
	for _, tt := range []struct {
		name     string
		send     func(c *Client) error
		want     string
		rejected bool // a status other than 2xx is an error
	}{
		{"a level", func(c *Client) error { return c.SetLevel(t.Context(), s, []byte(`{"level":"debug"}`)) },
			`{"jsonrpc":"2.0","id":"me","method":"logging/setLevel","params":{"level":"debug"}}`, false},
		{"a copy", func(c *Client) error { return c.Send(t.Context(), s, []byte(`{"x":1}`)) }, `{"x":1}`, false},
		{"a response", func(c *Client) error { return c.Respond(t.Context(), s, []byte(`{"y":1}`)) }, `{"y":1}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := &answers{next: []mcpclientAnswer{{status: 404, media: "text/plain", body: "what?"}, {err: refused}}}
			c := Client{Transport: up, Name: "me"}
			err := tt.send(&c)
			var rejected *RejectedError
			if errors.As(err, &rejected) != tt.rejected || tt.rejected && (rejected.Status != 404 || !errors.Is(err, ErrRejected)) || !tt.rejected && err != nil {
				t.Errorf("the status 404: %v", err)
			}
			if err := tt.send(&c); !errors.Is(err, refused) {
				t.Errorf("got %v, want %v", err, refused)
			}
			if got := up.sent[0]; got.Method != "POST" || string(got.Body) != tt.want || got.Session != s || got.Idempotent {
				t.Errorf("sent %s %s in %v", got.Method, got.Body, got.Session)
			}
		})
	}
}
