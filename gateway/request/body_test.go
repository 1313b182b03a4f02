package request

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session/bodies"
)

const intakeCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}`

// source is a request with a body, whose bytes are counted against limit.
func source(t *testing.T, body io.Reader, length, limit int64) (Source, *httptest.ResponseRecorder) {
	t.Helper()
	counter := bodies.New()
	counter.SetLimit(limit)
	share := new(bodies.Share)
	share.Begin(counter, bodies.Caller{Who: &auth.Principal{Kind: auth.KindKey, Value: "ci"}, Known: true})
	t.Cleanup(func() {
		if share.End(); counter.Held() != 0 {
			t.Errorf("%d bytes are still counted", counter.Held())
		}
	})
	r := httptest.NewRequest(http.MethodPost, "/mcp", body)
	r.ContentLength = length
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	return Source{Writer: w, Request: r, Share: share}, w
}

func TestAMessageIsTakenInOrRefused(t *testing.T) {
	const plenty = 1 << 30
	large := `{"jsonrpc":"2.0","id":8,"method":"` + strings.Repeat("x", mcp.MaxBody)
	for _, tt := range []struct {
		name   string
		body   io.Reader
		length int64
		limit  int64
		want   *refusal.Refusal
		id     string
		closes bool // close the connection after the response
	}{
		{"a call", strings.NewReader(intakeCall), int64(len(intakeCall)), plenty, nil, "7", false},
		{"a call of unknown length", strings.NewReader(intakeCall), -1, plenty, nil, "7", false},
		{"a call byte by byte", iotest.OneByteReader(strings.NewReader(intakeCall)), -1, plenty, nil, "7", false},
		{"an announced length that is too large", strings.NewReader(intakeCall), mcp.MaxBody + 1, plenty, &refusal.TooLarge, "", true},
		{"a body that turns out too large", strings.NewReader(large), -1, plenty, &refusal.TooLarge, "8", true},
		{"more than the memory bound", strings.NewReader(intakeCall), -1, 10, &refusal.Overloaded, "7", true},
		{"a body that does not arrive", iotest.ErrReader(os.ErrDeadlineExceeded), -1, plenty, &refusal.SlowBody, "", true},
		{"a body that breaks off", io.MultiReader(strings.NewReader(intakeCall[:20]), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, plenty, &refusal.Unreadable, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, w := source(t, tt.body, tt.length, tt.limit)
			var b Body
			var m mcp.Message
			_, refused := b.Message(s, &m)
			if tt.want == nil && (refused != nil || m.Method != mcp.MethodToolsCall) || tt.want != nil && refused != tt.want {
				t.Fatalf("refused %+v, method %q, want %+v", refused, m.Method, tt.want)
			}
			if string(m.ID) != tt.id || (w.Header().Get("Connection") == "close") != tt.closes {
				t.Errorf("id %q, header %v", m.ID, w.Header())
			}
		})
	}
	t.Run("no message", func(t *testing.T) {
		s, _ := source(t, strings.NewReader(`{"jsonrpc":"2.0","id":1}`), -1, plenty)
		var b Body
		if _, refused := b.Message(s, new(mcp.Message)); refused == nil || refused.Status != http.StatusBadRequest {
			t.Errorf("%+v", refused)
		}
	})
	t.Run("a lone surrogate", func(t *testing.T) {
		s, _ := source(t, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":"\ud800"}}}`), -1, plenty)
		var b Body
		if n, refused := b.Message(s, new(mcp.Message)); refused != nil || n != 1 {
			t.Errorf("%d replaced, %+v", n, refused)
		}
	})
}

func TestABodyMustBeAnnouncedAsJSON(t *testing.T) {
	for _, tt := range []struct {
		media    []string
		encoding string
		ok       bool
	}{
		{[]string{"application/json"}, "", true},
		{[]string{"application/json; charset=utf-8"}, "", true},
		{[]string{"Application/JSON;charset=UTF-8"}, "", true},
		{[]string{"application/json; charset=latin1"}, "", false},
		{[]string{"text/plain"}, "", false},
		{[]string{"application/json; ="}, "", false},
		{nil, "", false},
		{[]string{"application/json", "application/json"}, "", false},
		{[]string{"application/json"}, "gzip", false},
	} {
		s, _ := source(t, strings.NewReader(intakeCall), -1, 1<<30)
		s.Request.Header["Content-Type"] = tt.media
		if tt.encoding != "" {
			s.Request.Header.Set("Content-Encoding", tt.encoding)
		}
		var b Body
		_, refused := b.Message(s, new(mcp.Message))
		if (refused == nil) != tt.ok || refused != nil && refused != &refusal.MediaType {
			t.Errorf("%q %s: %+v", tt.media, tt.encoding, refused)
		}
		if !tt.ok && b.began {
			t.Errorf("%q: the body was read", tt.media)
		}
	}
}

// For a refused request the body is read, once, as far as its id, and not at all if the client
// sent Expect: 100-continue.
func TestOfARefusedRequestTheIDIsRead(t *testing.T) {
	var b Body
	var m mcp.Message
	s, _ := source(t, strings.NewReader(intakeCall), -1, 1<<30)
	if err := b.Prefix(s, &m); err != nil || string(m.ID) != "7" || m.Kind != mcp.Request {
		t.Errorf("%v: %q %v", err, m.ID, m.Kind)
	}
	s.Request.Body = io.NopCloser(iotest.ErrReader(errors.New("read again")))
	if err := b.Prefix(s, &m); err != nil || string(b.Bytes) != intakeCall {
		t.Errorf("the second time: %v, %q", err, b.Bytes)
	}
	if b.Reset(); len(b.Bytes) != 0 || b.began || b.ended {
		t.Errorf("after a reset: %+v", b)
	}

	long := `{"id":"a","jsonrpc":"2.0","method":"x","params":{"a":"` + strings.Repeat("y", bodies.MaxPrefix) + `"}}`
	s, _ = source(t, strings.NewReader(long), -1, 1<<30)
	m = mcp.Message{}
	if err := b.Prefix(s, &m); err != nil || string(m.ID) != `"a"` || len(b.Bytes) != bodies.MaxPrefix || b.ended {
		t.Errorf("a long body: %v, id %q, %d bytes", err, m.ID, len(b.Bytes))
	}

	s, _ = source(t, strings.NewReader(intakeCall), -1, 10)
	if err := b.Prefix(s, new(mcp.Message)); err != nil {
		t.Errorf("nothing is read twice: %v", err)
	}
	b.Reset()
	if err := b.Prefix(s, new(mcp.Message)); !errors.Is(err, bodies.ErrOverloaded) {
		t.Errorf("no memory: %v", err)
	}

	b.Reset()
	s, _ = source(t, strings.NewReader(intakeCall), -1, 1<<30)
	s.Request.Header.Set("Expect", "100-continue")
	m = mcp.Message{}
	if err := b.Prefix(s, &m); err != nil || len(b.Bytes) != 0 || m.ID != nil {
		t.Errorf("a client that asks first: %v, %q", err, b.Bytes)
	}
}

func TestABodyThatNobodyNeedsIsReadWithinBounds(t *testing.T) {
	var b Body
	s, _ := source(t, iotest.ErrReader(errors.New("read")), 0, 1<<30)
	if refused := b.Discard(s, new(mcp.Message)); refused != nil {
		t.Errorf("without a body: %+v", refused)
	}
	s, _ = source(t, strings.NewReader("anything"), -1, 1<<30)
	if refused := b.Discard(s, new(mcp.Message)); refused != nil || !b.ended {
		t.Errorf("%+v", refused)
	}
	s, w := source(t, strings.NewReader(strings.Repeat("x", bodies.MaxPrefix+1)), -1, 1<<30)
	if refused := b.Discard(s, new(mcp.Message)); refused != &refusal.TooLarge || w.Header().Get("Connection") != "close" {
		t.Errorf("%+v", refused)
	}
}

func TestTheRevisionOfAMessage(t *testing.T) {
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for _, tt := range []struct {
		name    string
		body    string
		header  http.Header
		allowed mcp.Allowed
		version string
		modern  bool
		kind    string
		absent  bool
	}{
		{"undeclared", intakeCall, nil, nil, "", false, "", false},
		{"of the header", intakeCall, http.Header{HeaderVersion: {"2025-06-18"}}, nil, "2025-06-18", false, "", false},
		{"twice in the header", intakeCall, http.Header{HeaderVersion: {"2025-06-18", "2025-06-18"}}, nil, "", false, "invalid_header", false},
		{"not allowed", intakeCall, http.Header{HeaderVersion: {"2025-03-26"}}, mcp.Allowed{"2025-06-18"}, "2025-03-26", false, "unsupported_protocol_version", false},
		{"of the body, mirrored", modern, http.Header{HeaderVersion: {"2026-07-28"}, "Mcp-Method": {"tools/list"}}, nil, "2026-07-28", true, "", false},
		{"of the body alone", modern, nil, nil, "2026-07-28", true, "", true},
		{"of the header alone", intakeCall, http.Header{HeaderVersion: {"2026-07-28"}}, nil, "2026-07-28", true, "", true},
	} {
		var m mcp.Message
		if err := mcp.Scan([]byte(tt.body), &m); err != nil {
			t.Fatal(err)
		}
		d, refused, absent := dialect(tt.header, &m, tt.allowed)
		if (absent != nil) != tt.absent {
			t.Errorf("%s: absent %v", tt.name, absent)
		}
		if d.Version != tt.version || d.Modern != tt.modern || (refused == nil) != (tt.kind == "") || refused != nil && refused.Kind != tt.kind {
			t.Errorf("%s: %+v, %+v", tt.name, d, refused)
		}
		if refused != nil && tt.allowed != nil && (len(refused.Versions) != 1 || refused.Requested != d.Version) {
			t.Errorf("%s: the response lacks the allowed revisions: %+v", tt.name, refused)
		}
	}
	var m mcp.Message
	if err := mcp.Scan([]byte(modern), &m); err != nil {
		t.Fatal(err)
	}
	if _, refused, _ := dialect(http.Header{HeaderVersion: {"2026-07-28"}, "Mcp-Method": {"tools/call"}}, &m, nil); refused == nil {
		t.Error("a header that names another method")
	}
}

func TestAnInitializeAsksForAnAllowedRevision(t *testing.T) {
	for _, tt := range []struct {
		asked string
		want  string
	}{{"2025-11-25", "2025-06-18"}, {"2025-06-18", "2025-06-18"}} {
		ex := Exchange{Services: &Services{Versions: mcp.Allowed{"2025-03-26", "2025-06-18"}}}
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + tt.asked + `"}}`
		if err := mcp.Scan([]byte(body), &ex.Message); err != nil {
			t.Fatal(err)
		}
		if refused := ex.Negotiate(); refused != nil || ex.Message.InitializeVersion != tt.want {
			t.Errorf("asked for %s: %q, %+v", tt.asked, ex.Message.InitializeVersion, refused)
		}
	}
}
