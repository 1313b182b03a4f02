package translate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// server supports one generation at a time, and names it in its errors. It records the
// messages that it executed.
type server struct {
	upstream.Transport
	modern, legacy bool
	lies           bool // server/discover names both generations
	hides          bool // server/discover names only the revision without sessions
	// initialized responds to initialize if the server is not legacy; nil for its own
	// error.
	initialized func(m *mcp.Message) *upstream.Response
	performed   []string
}

func (s *server) Post(_ context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	asksModern := mcp.Modern(r.Session.Version)
	result := func(text string) (*upstream.Response, error) {
		return upstream.Message(200, appendResult(nil, m.ID, []byte(text))), nil
	}
	switch {
	case m.Method == mcp.MethodDiscover && s.lies:
		return result(`{"supportedVersions":["2026-07-28","2025-11-25"]}`)
	case m.Method == mcp.MethodInitialize && s.initialized != nil:
		return s.initialized(&m), nil
	case asksModern && !s.modern, !asksModern && !s.legacy:
		supported := `"2026-07-28"`
		if s.legacy {
			supported = `"2025-11-25"`
		}
		return upstream.Message(400, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"m","data":{"supported":[%s]}}}`, idOf(&m), supported)), nil
	case m.Method == mcp.MethodDiscover:
		versions := `"2026-07-28"`
		if s.legacy && !s.hides {
			versions += `,"2025-11-25"`
		}
		return result(`{"supportedVersions":[` + versions + `],"capabilities":{}}`)
	case m.Kind != mcp.Request:
		return upstream.Empty(202), nil
	case m.Method == mcp.MethodInitialize:
		resp, err := result(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
		resp.Header.Add(mcp.HeaderSession, "own")
		return resp, err
	}
	generation := "legacy"
	if asksModern {
		generation = "modern"
	}
	s.performed = append(s.performed, generation+" "+string(r.Body))
	return result(`{"content":[]}`)
}

func (s *server) End(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(204), nil
}
func (s *server) Address() string { return "s" }
func (s *server) Close() error    { return nil }

func idOf(m *mcp.Message) string {
	if len(m.ID) == 0 {
		return "null"
	}
	return string(m.ID)
}

func newTransport(t *testing.T, s upstream.Transport) *Transport {
	log := slog.New(slog.DiscardHandler)
	calls := background.New(log)
	t.Cleanup(calls.Stop)
	replicas, err := NewHandover(func() (Store, bool) { return nil, false }, make([]byte, 32), log)
	if err != nil {
		t.Fatal(err)
	}
	c := upstream.Config{Name: "u", URL: "http://127.0.0.1/mcp"}
	c.SetDefaults()
	out, err := New(Options{
		Upstream: &c, Direct: s, Key: make([]byte, 32), Replicas: replicas, Version: "1", Background: calls, Limits: NewLimits(), Logger: log, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return out
}

// modernAlone is the finding for a server of 2026-07-28 only.
var modernAlone = client.Finding{Modern: true}

// send posts a message and returns the status, the text and the session id of the response.
func send(t *testing.T, tr *Transport, at mcp.Session, body string) (int, string, string) {
	t.Helper()
	resp, err := tr.Post(t.Context(), &upstream.Request{
		Session: at, Body: []byte(body), Caller: &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: "k"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := readAll(resp)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status, string(text), resp.Header.Get(mcp.HeaderSession)
}

const (
	legacyCall     = `{"jsonrpc":"2.0","id":1, "method":"tools/call","params":{"name":"t"}}`
	modernCall     = `{"jsonrpc":"2.0","id":1, "method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	translateHello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
)

// An unknown revision is refused by the upstream, which names the revisions that it
// supports.
func TestAnUnknownRevisionIsForTheUpstreamToRefuse(t *testing.T) {
	s := &server{modern: true}
	tr := newTransport(t, s)
	status, text, _ := send(t, tr, mcp.Session{Version: "1999-01-01"}, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}}`)
	if status != 400 || !strings.Contains(text, `"supported":["2026-07-28"]`) {
		t.Errorf("%d %s", status, text)
	}
}

// If the upstream has only sessions, the gateway refuses the revision, because it
// implements 2026-07-28 for the upstream. A message that declares no revision itself is
// sent to the upstream.
func TestAnUnknownRevisionAtAnUpstreamWithSessions(t *testing.T) {
	for version, ours := range map[string]bool{"v999.0.0": true, "2027-01-01": true, "2026-07-28": false} {
		s := &server{legacy: true}
		tr := newTransport(t, s)
		status, text, _ := send(t, tr, mcp.Session{Version: version}, strings.Replace(modernCall, "2026-07-28", version, 1))
		refused := status == 400 && strings.Contains(text, `"code":-32022`) && strings.Contains(text, `"supported":["2026-07-28"],"requested":"`+version+`"`)
		if refused != ours || len(s.performed) == 0 != ours {
			t.Errorf("%s: %d %s, %d performed", version, status, text, len(s.performed))
		}
	}
	tr := newTransport(t, &server{legacy: true})
	if _, text, _ := send(t, tr, mcp.Session{Version: "1999-01-01", ID: "own"}, legacyCall); !strings.Contains(text, "content") {
		t.Errorf("a session of an unknown revision: %s", text)
	}
}

// Between a client and an upstream of the same generation nothing is translated.
func TestTheSameGenerationPassesAsItIs(t *testing.T) {
	s := &server{modern: true, legacy: true}
	tr := newTransport(t, s)
	send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall)
	send(t, tr, mcp.Session{ID: "own", Version: "2025-11-25"}, legacyCall)
	send(t, tr, mcp.Session{}, legacyCall)
	want := []string{"modern " + modernCall, "legacy " + legacyCall, "legacy " + legacyCall}
	if strings.Join(s.performed, "\n") != strings.Join(want, "\n") {
		t.Errorf("performed %q", s.performed)
	}
}

// After an upstream has changed its generation the new one is used, also within a session,
// and no call is executed twice.
func TestAnUpstreamThatChangesItsGeneration(t *testing.T) {
	for _, lies := range []bool{false, true} {
		s := &server{modern: true, lies: lies}
		tr := newTransport(t, s)
		status, _, id := send(t, tr, mcp.Session{}, translateHello)
		if status != 200 || id == "" || id == "own" {
			t.Fatalf("initialize: %d, session %q", status, id)
		}
		if status, text, _ := send(t, tr, mcp.Session{ID: id, Version: "2025-11-25"}, legacyCall); status != 200 || len(s.performed) != 1 {
			t.Fatalf("%d %s, performed %q", status, text, s.performed)
		}
		if status, _, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != 200 || len(s.performed) != 2 {
			t.Fatalf("%d, performed %q", status, s.performed)
		}
		s.modern, s.legacy = false, true
		if status, text, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != 200 || len(s.performed) != 3 || !strings.HasPrefix(s.performed[2], "legacy") {
			t.Fatalf("a modern client: %d %s, performed %q", status, text, s.performed)
		}
		if status, _, _ := send(t, tr, mcp.Session{ID: id, Version: "2025-11-25"}, legacyCall); status != 404 {
			t.Errorf("the session of another time: %d, want 404, which opens another", status)
		}
		if status, _, id := send(t, tr, mcp.Session{}, translateHello); status != 200 || id != "own" {
			t.Errorf("initialize at the legacy server: %d, session %q", status, id)
		}
		s.modern, s.legacy = true, false
		if status, _, _ := send(t, tr, mcp.Session{ID: "own", Version: "2025-11-25"}, legacyCall); status != 404 {
			t.Errorf("a legacy session at a modern server: %d, want 404", status)
		}
		if len(s.performed) != 3 {
			t.Errorf("performed %q", s.performed)
		}
	}
}

// With an upstream that supports both generations, but names only the one without sessions,
// the client's own generation is used.
func TestAnUpstreamThatDoesNotSayThatItSpeaksBoth(t *testing.T) {
	s := &server{modern: true, legacy: true, hides: true}
	tr := newTransport(t, s)
	tr.finder.Ask(t.Context(), nil)
	if got := tr.Speaks(t.Context()); got.Legacy {
		t.Fatalf("the upstream says that it speaks %s", got)
	}
	status, _, id := send(t, tr, mcp.Session{}, translateHello)
	if status != 200 || id != "own" {
		t.Fatalf("initialize: %d, session %q", status, id)
	}
	tr.finder.Ask(t.Context(), nil) // asking the upstream does not change that
	if status, _, _ := send(t, tr, mcp.Session{ID: id, Version: "2025-11-25"}, legacyCall); status != 200 || len(s.performed) != 1 || !strings.HasPrefix(s.performed[0], "legacy") {
		t.Errorf("%d, performed %q", status, s.performed)
	}
}

// An upstream that rejects initialize gets the message unchanged.
func TestAnUpstreamThatIsOfNoGeneration(t *testing.T) {
	s := &server{modern: true}
	tr := newTransport(t, s)
	s.modern = false // so that the finding is a legacy server
	tr.finder.Ask(t.Context(), nil)
	if status, text, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != 400 || !strings.Contains(text, "-32022") {
		t.Errorf("%d %s", status, text)
	}
}

// An upstream that unexpectedly rejects initialize is asked for its revisions again, so
// that later messages do not try to open a session.
func TestAnUpstreamThatRejectsInitializeIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{legacy: true}
		tr := newTransport(t, s)
		tr.finder.Ask(t.Context(), nil)
		s.modern, s.legacy = true, false
		<-time.After(time.Minute)
		if status, text, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != 200 {
			t.Errorf("%d %s", status, text)
		}
		synctest.Wait()
		if got := tr.Speaks(t.Context()); !got.Modern || got.Legacy {
			t.Errorf("the upstream is held to speak %s", got)
		}
	})
}

// itself is an upstream that is the gateway itself, directly or through others: what it gets comes
// back to the transport until the limit of hops.
type itself struct {
	upstream.Transport
	gateway *Transport
}

func (s *itself) Close() error { return nil }

func (s *itself) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	next, ok := mcp.NextHop([]string{r.Header.Get(mcp.HeaderHops)})
	if !ok {
		return refused(http.StatusLoopDetected, nil, &refusal.Loop, "loop"), nil
	}
	again := *r
	again.Header = mcp.Header{{Name: mcp.HeaderHops, Value: next}}
	again.Caller = &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: "k"}}
	return s.gateway.Post(ctx, &again)
}

func (s *itself) Address() string { return "http://127.0.0.1/mcp" }

// A gateway that is its own upstream answers at once with the loop: the probe of its generation comes
// back as a request, which must not wait for the probe.
func TestAGatewayThatIsItsOwnUpstreamAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(itself)
		s.gateway = newTransport(t, s)
		began := time.Now()
		resp, err := s.gateway.Post(t.Context(), &upstream.Request{Session: mcp.Session{Version: "2026-07-28"}, Caller: &upstream.Caller{Principal: &auth.Principal{Kind: auth.KindKey, Value: "k"}},
			Header: mcp.Header{{Name: mcp.HeaderHops, Value: mcp.FirstHop}}, Body: []byte(modernCall)})
		if err != nil || resp.Status != http.StatusLoopDetected || time.Since(began) > 0 {
			t.Errorf("%+v, %v after %v", resp, err, time.Since(began))
		}
	})
}
