package request

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/redis"
	"svc/gateway/refusal"
)

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func admissionClient(address string) *Client {
	return &Client{Addr: netip.MustParseAddr(address), Address: address}
}

// admissionRequest is one for /mcp from loopback, with header fields.
func admissionRequest(method string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// rules allow one origin, and admit one request a second of each address.
func rules() *Admission {
	return &Admission{
		Origins: NewOriginRules("127.0.0.1:8080", "", []string{"https://app.example"}, nil, "Authorization"),
		Limit:   Limit{Store: redis.NewMemory(0, epoch), RequestsPerSecond: 1, Burst: 1},
	}
}

// broken is a store that is unavailable.
type broken struct{}

func (broken) Allow(context.Context, redis.Key, float64, int, time.Time) (bool, time.Duration, error) {
	return false, 0, errors.New("connection refused")
}

func TestWhatIsLetOnToAuthentication(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fields []string
		host   string
		change func(*Admission)
		hops   string
		want   *refusal.Refusal
	}{
		{"a program", nil, "", nil, mcp.FirstHop, nil},
		{"a listed page", []string{"Origin", "https://app.example"}, "", nil, mcp.FirstHop, nil},
		{"another page", []string{"Origin", "https://other.example"}, "", nil, "", &refusal.Origin},
		{"a rebound name", nil, "evil.example", nil, "", &refusal.Origin},
		{"behind two gateways", []string{mcp.HeaderHops, "2"}, "", nil, "3", nil},
		{"in a circle", []string{mcp.HeaderHops, "9"}, "", nil, "", &refusal.Loop},
		{"no limit", nil, "", func(r *Admission) { r.Limit = Limit{} }, mcp.FirstHop, nil},
		{"an unavailable store", nil, "", func(r *Admission) { r.Limit.Store = broken{} }, "", &refusal.InputRateStore},
		{"an unavailable store, fail_open", nil, "", func(r *Admission) { r.Limit.Store, r.Limit.FailOpen = broken{}, true }, mcp.FirstHop, nil},
	} {
		r, req := rules(), admissionRequest("POST", tt.fields...)
		if tt.change != nil {
			tt.change(r)
		}
		if tt.host != "" {
			req.Host = tt.host
		}
		hops, refused := r.Admit(t.Context(), req, admissionClient("192.0.2.1"), epoch)
		if hops != tt.hops || (refused == nil) != (tt.want == nil) || refused != nil && refused.Kind != tt.want.Kind {
			t.Errorf("%s: hops %q, refused %+v", tt.name, hops, refused)
		}
	}
}

// An address has a bucket of its own, and the addresses of one IPv6 network share a bucket. The
// limit is checked first: a request over it uses up nothing else.
func TestTheInputLimitIsOfTheAddress(t *testing.T) {
	r := rules()
	for i, tt := range []struct {
		address string
		at      time.Duration
		kind    string
	}{
		{"192.0.2.1", 0, ""}, {"192.0.2.1", 0, "input_rate_limited"}, {"192.0.2.2", 0, ""},
		{"2001:db8::1", 0, ""}, {"2001:db8::2", 0, "input_rate_limited"}, {"2001:db8:0:1::1", 0, ""},
		{"192.0.2.1", time.Second, ""},
	} {
		_, refused := r.Admit(t.Context(), admissionRequest("POST"), admissionClient(tt.address), epoch.Add(tt.at))
		if (refused == nil) != (tt.kind == "") || refused != nil && (refused.Kind != tt.kind || refused.RetryAfter <= 0) {
			t.Errorf("request %d, of %s: %+v, want %q", i, tt.address, refused, tt.kind)
		}
	}
	if _, refused := r.Admit(t.Context(), admissionRequest("POST", "Origin", "https://other.example"), admissionClient("192.0.2.2"), epoch); refused == nil || refused.Kind != "input_rate_limited" {
		t.Errorf("another page beyond the limit: %+v", refused)
	}
}

func TestWhatAnyoneMayReadIsBoundedAndReadByListedPages(t *testing.T) {
	document := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("document")) })
	r := rules()
	for i, tt := range []struct {
		name    string
		req     *http.Request
		address string
		status  int
		body    string
		allowed string // Access-Control-Allow-Origin
	}{
		{"a program", admissionRequest("GET"), "192.0.2.1", 200, "document", ""},
		{"once more", admissionRequest("GET"), "192.0.2.1", 429, "", ""},
		{"a listed page", admissionRequest("GET", "Origin", "https://app.example"), "192.0.2.2", 200, "document", "https://app.example"},
		{"another page", admissionRequest("GET", "Origin", "https://other.example"), "192.0.2.3", 200, "document", ""},
		{"a preflight", admissionRequest("OPTIONS", "Origin", "https://app.example", "Access-Control-Request-Method", "GET"), "192.0.2.4", 204, "", "https://app.example"},
		{"a preflight of another page", admissionRequest("OPTIONS", "Origin", "https://other.example", "Access-Control-Request-Method", "GET"), "192.0.2.5", 200, "document", ""},
	} {
		w := httptest.NewRecorder()
		r.ServePublic(w, tt.req, admissionClient(tt.address), epoch, document)
		if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%d %s: %d %q %v", i, tt.name, w.Code, w.Body, w.Header())
		}
		if (w.Code == 429) != (w.Header().Get("Retry-After") == "1") || (w.Code == 204) != (w.Header().Get("Access-Control-Allow-Methods") != "") {
			t.Errorf("%d %s: %v", i, tt.name, w.Header())
		}
	}
}
