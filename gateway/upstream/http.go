package upstream

import (
	"context"
	"net/http"

	"svc/gateway/mcp"
)

// HTTP is the Streamable HTTP transport.
type HTTP struct {
	client      *Client
	credentials Credentials
}

// NewHTTP returns the transport over a client, which it closes.
func NewHTTP(client *Client, credentials Credentials) *HTTP {
	return &HTTP{client: client, credentials: credentials}
}

var _ Transport = (*HTTP)(nil)

// Post implements Transport.
func (t *HTTP) Post(ctx context.Context, r *Request) (*Response, error) {
	return t.do(ctx, http.MethodPost, r, r.Body)
}

// Listen implements Transport.
func (t *HTTP) Listen(ctx context.Context, r *Request) (*Response, error) {
	if r.LastEventID != "" {
		r.Header.Add(mcp.HeaderLastEventID, r.LastEventID)
	}
	return t.do(ctx, http.MethodGet, r, nil)
}

// End implements Transport.
func (t *HTTP) End(ctx context.Context, r *Request) (*Response, error) {
	return t.do(ctx, http.MethodDelete, r, nil)
}

// Address implements Transport.
func (t *HTTP) Address() string { return t.client.LogURL() }

// Close implements Transport.
func (t *HTTP) Close() error { return t.client.Close() }

// Stats returns the state of the connection pool.
func (t *HTTP) Stats() Stats { return t.client.Stats() }

// do sends a request, and once more if the credentials were rejected and have been
// replaced: the upstream has not executed a request that it rejected with 401.
func (t *HTTP) do(ctx context.Context, method string, r *Request, body []byte) (*Response, error) {
	if r.Session.ID != "" {
		r.Header.Add(mcp.HeaderSession, r.Session.ID)
	}
	if r.Session.Version != "" {
		r.Header.Add(mcp.HeaderProtocolVersion, r.Session.Version)
	}
	out := HTTPRequest{Method: method, Body: body, Idempotent: r.Idempotent, Timeouts: r.Timeouts}
	for retried := false; ; retried = true {
		fields, err := t.credentials.Fields(ctx, r.Caller)
		if err != nil {
			return nil, err
		}
		if method == http.MethodPost {
			if err := r.Ready(ctx); err != nil {
				return nil, err
			}
		}
		out.Header = authenticated(r.Header, fields)
		resp, err := t.client.do(ctx, &out)
		if err != nil || resp.Status != http.StatusUnauthorized || retried || !t.credentials.Rejected(ctx, r.Caller, fields) {
			return resp, err
		}
		resp.Body.Close()
	}
}

// authenticated returns the header with the fields of credentials replacing its own
// fields of these names. The header itself is not modified.
func authenticated(h mcp.Header, fields []mcp.Field) mcp.Header {
	if len(fields) == 0 {
		return h
	}
	out := make(mcp.Header, 0, len(h)+len(fields))
	for _, f := range h {
		if !mcp.Header(fields).Has(f.Name) {
			out = append(out, f)
		}
	}
	return append(out, fields...)
}

// StaticHeaders are the credentials of an upstream with credentials in its configured
// headers: [Client] sends these with every request, for every caller, and
// they are not replaced after a rejection.
type StaticHeaders struct{}

// Fields implements Credentials.
func (StaticHeaders) Fields(context.Context, *Caller) ([]mcp.Field, error) { return nil, nil }

// Rejected implements Credentials.
func (StaticHeaders) Rejected(context.Context, *Caller, []mcp.Field) bool { return false }
