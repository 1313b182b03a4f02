package request

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

func failed(kind error) error { return &upstream.Error{Upstream: "up", Kind: kind} }

// Each error has its refusal; errors caused by the upstream have a cause for the log.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		left bool
		want *refusal.Refusal
		code string
	}{
		{failed(upstream.ErrUnreachable), true, &refusal.CallerGone, ""},
		{bodies.ErrOverloaded, false, &refusal.Overloaded, ""},
		{failed(upstream.ErrInvalidRequest), false, &refusal.Header, ""},
		{failed(context.Canceled), false, &refusal.Canceled, ""},
		{failed(upstream.ErrTimeout), false, &refusal.Timeout, "timeout"},
		{failed(upstream.ErrTooLarge), false, &refusal.UpstreamTooLarge, "response_too_large"},
		{failed(upstream.ErrInvalidResponse), false, &refusal.UpstreamInvalid, "invalid_http"},
		{fmt.Errorf("initialize: %w", client.ErrRejected), false, &refusal.UpstreamInvalid, "own_request"},
		{fmt.Errorf("initialize: %w", client.ErrAnswer), false, &refusal.UpstreamInvalid, "own_request"},
		{fmt.Errorf("initialize: %w", client.ErrTooLarge), false, &refusal.UpstreamInvalid, "own_request"},
		{failed(upstream.ErrUnreachable), false, &refusal.Unreachable, "other"},
		{errors.New("anything else"), false, &refusal.Unreachable, "other"},
	} {
		o := ofError(tt.err, tt.left)
		if o.Kind != Refuse || o.Refused != tt.want || o.Cause.Code != tt.code {
			t.Errorf("%v: %+v, want %s with cause %q", tt.err, o, tt.want.Kind, tt.code)
		}
	}
}

func response(status int, media, body string, fields ...string) *upstream.Response {
	r := &upstream.Response{HTTPResponse: upstream.HTTPResponse{Status: status, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}}
	if media != "" {
		r.Header.Add("Content-Type", media)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// An upstream's own 404 does not end the session that the gateway issued, whatever its error: a
// request gets 200, a notification or a client's response 400. Other statuses stay.
func TestStatusOfAnAnswerInASession(t *testing.T) {
	for _, tt := range []struct {
		status int
		sent   mcp.Kind
		own    bool
		want   int
	}{
		{404, mcp.Request, true, 200},
		{404, mcp.Notification, true, 400},
		{404, mcp.Response, true, 400},
		{404, mcp.Invalid, true, 400},
		{404, mcp.Request, false, 404},
		{404, mcp.Notification, false, 404},
		{403, mcp.Request, true, 403},
	} {
		if got := status(upstream.Empty(tt.status), tt.sent, tt.own); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// A response is forwarded according to its status and media type, or refused with a
// cause.
func TestResponses(t *testing.T) {
	awaited, notice, session := Relayed{Awaited: true}, Relayed{}, Relayed{Awaited: true, InSession: true}
	for _, tt := range []struct {
		name string
		resp *upstream.Response
		Relayed
		kind  Kind
		want  string // kind and status of the refusal
		cause string
	}{
		{"JSON", response(200, "application/json; charset=utf-8", "{}"), awaited, Message, "", ""},
		{"an error in JSON", response(500, "application/json", "{}"), awaited, Message, "", ""},
		{"a stream", response(200, "Text/Event-Stream", ""), awaited, RelayedStream, "", ""},
		{"a stream that is none", response(404, "text/event-stream", ""), awaited, Refuse, "upstream_invalid 502", "answered status 404, text/event-stream"},
		{"credentials", response(401, "application/json", "{}", "Www-Authenticate", "Basic"), awaited, Refuse, "upstream_unauthorized 502", "asks for credentials: see headers and credentials of this upstream"},
		{"a redirect", response(307, "text/html", "", "Location", "https://me:hidden@x.example/a?b=c"), awaited, Refuse, "upstream_invalid 502", "redirects to https://x.example/a?…"},
		{"a page", response(200, "text/html", "<html>"), awaited, Refuse, "upstream_invalid 502", "answered status 200, text/html"},
		{"nothing", response(202, "", ""), awaited, Refuse, "upstream_invalid 502", "answered status 202 without a message"},
		{"nothing, for a notification", response(202, "", ""), notice, Acknowledge, "", ""},
		{"a lost session", response(404, "text/plain", "?"), session, Refuse, "session_not_found 404", ""},
		{"text with a 4xx", response(403, "text/plain", "no", "Retry-After", "7"), session, Refuse, "upstream_refused 403", "answered status 403, text/plain"},
		{"text with a 5xx", response(503, "text/plain", "no"), notice, Refuse, "upstream_invalid 502", "answered status 503, text/plain"},
	} {
		o := ofResponse(tt.resp, tt.Relayed)
		got := ""
		if o.Refused != nil {
			got = fmt.Sprint(o.Refused.Kind, " ", o.Refused.Status)
		}
		if o.Kind != tt.kind || got != tt.want || o.Cause.Text != tt.cause {
			t.Errorf("%s: kind %d, %q, cause %q; want %d, %q, %q", tt.name, o.Kind, got, o.Cause.Text, tt.kind, tt.want, tt.cause)
		}
		if strings.HasPrefix(tt.want, "upstream_refused") && o.Refused.RetryAfter.Seconds() != 7 {
			t.Errorf("%s: retry after %v", tt.name, o.Refused.RetryAfter)
		}
		if o.Secret != (tt.name == "a redirect") {
			t.Errorf("%s: secret %v", tt.name, o.Secret)
		}
	}
}

// A body that was announced as a message is one, and belongs to the request.
func TestMessages(t *testing.T) {
	const reply = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		answers bool
		kind    Kind
		cause   string
	}{
		{"a response", 200, reply, true, Message, ""},
		{"an error with a foreign id", 404, `{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"x"}}`, false, Message, ""},
		{"a foreign id", 200, reply, false, Refuse, "foreign_id"},
		{"a request", 200, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, Refuse, "invalid_message"},
		{"broken", 200, "{", true, Refuse, "invalid_message"},
		{"broken, with a 4xx", 400, "{", true, Refuse, "status_400"},
		{"blank", 200, " \n", true, Refuse, "content_type"},
	} {
		var m mcp.Message
		_, err := mcp.ScanReplacing([]byte(tt.body), &m)
		o := ofMessage(response(tt.status, "application/json", tt.body), Relayed{Awaited: true}, []byte(tt.body), &m, err, tt.answers)
		if o.Kind != tt.kind || o.Cause.Code != tt.cause {
			t.Errorf("%s: kind %d, cause %+v; want %d, %q", tt.name, o.Kind, o.Cause, tt.kind, tt.cause)
		}
	}
}

// The log contains the beginning of a refused response, printable, and the wait for it
// is bounded.
func TestExcerpts(t *testing.T) {
	o := Outcome{}
	if got := o.Excerpt(response(500, "", "a\x1b[2J"+strings.Repeat("x", 2*maxBody)), nil); !strings.HasPrefix(got, `a\x1b[2Jxxx`) || len(got) > 2*maxBody {
		t.Errorf("%q", got)
	}
	if got := o.Excerpt(response(500, "", "body"), []byte("read")); got != "read" {
		t.Errorf("%q", got)
	}
	secret := Outcome{Secret: true}
	if got := secret.Excerpt(response(302, "", "token"), nil); got != "" {
		t.Errorf("%q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		go io.WriteString(out, "some")
		if got := o.Excerpt(&upstream.Response{HTTPResponse: upstream.HTTPResponse{Body: in}}, nil); got != "some" {
			t.Errorf("%q", got)
		}
	})
}

// An error without the request's id gets the id.
func TestOwnID(t *testing.T) {
	const e = `"error":{"code":1,"message":"x"}`
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":null,` + e + `}`: `{"jsonrpc":"2.0","id":7,` + e + `}`,
		`{"jsonrpc":"2.0",` + e + `}`:           `{"id":7,"jsonrpc":"2.0",` + e + `}`,
		`{"jsonrpc":"2.0","id":"x",` + e + `}`:  `{"jsonrpc":"2.0","id":7,` + e + `}`,
		`{"jsonrpc":"2.0","id":7,` + e + `}`:    `{"jsonrpc":"2.0","id":7,` + e + `}`,
		`{"jsonrpc":"2.0","id":8,"result":{}}`:  `{"jsonrpc":"2.0","id":8,"result":{}}`,
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if got := string(ownID([]byte("7"), &m, m.Body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		if got := string(ownID(nil, &m, m.Body)); got != body {
			t.Errorf("%s without an id: %s", body, got)
		}
	}
}
