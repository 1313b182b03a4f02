package audit

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func closed(r *Record) bool {
	return Listens(r) && !r.IsError && (r.ErrorKind == "" || r.ErrorKind == "client_closed" || r.ErrorKind == "shutdown")
}

func TestRequestsAreCountedByWhatBecameOfThem(t *testing.T) {
	s := NewSummary(closed, ByTool, ByStatus)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, r := range []Record{
		{Action: "allow", Tool: "read", Status: 200, BytesIn: 10, BytesOut: 20, Duration: time.Millisecond},
		{Action: "allow", Tool: "read", Status: 200, IsError: true},
		{Action: "deny", Tool: "delete", Status: 403},
		{Action: "rate_limit_blocked", Tool: "read", Status: 429},
		{Action: "allow", Tool: "read", Status: 502, ErrorKind: "upstream_unreachable"},
		{Action: "allow", RPC: RPCRequest, Status: 200, Frames: 7},
	} {
		r.Kind, r.Time = KindRequest, at.Add(time.Duration(i)*time.Second)
		s.Add(&r)
	}
	s.Add(&Record{Kind: KindOpen})
	s.Add(&Record{Kind: KindCheckpoint, Checkpoint: &Checkpoint{Event: eventStart, Lost: 3}})
	if s.All.Requests != 6 || s.All.Denied != 2 || s.All.Failed != 2 || s.All.BytesIn != 10 || s.All.BytesOut != 20 {
		t.Errorf("all: %+v", s.All)
	}
	if s.Lines != 8 || s.Streams != 1 || s.Frames != 7 || s.Starts != 1 || s.Checkpoints != 1 || s.Lost != 3 {
		t.Errorf("lines %d streams %d frames %d starts %d lost %d", s.Lines, s.Streams, s.Frames, s.Starts, s.Lost)
	}
	if !s.First.Equal(at) || !s.Last.Equal(at.Add(5*time.Second)) {
		t.Errorf("from %v to %v", s.First, s.Last)
	}
	top, rest := s.Top(ByTool, 1)
	if len(top) != 1 || top[0].Value != "read" || top[0].Requests != 4 || top[0].Denied != 1 || top[0].Failed != 2 || rest != 1 {
		t.Errorf("by tool: %+v, rest %d", top, rest)
	}
	if top, _ := s.Top(ByStatus, 10); len(top) != 4 || top[0].Value != "200" {
		t.Errorf("by status: %+v", top)
	}
	if top, _ := s.Top(ByRule, 10); top != nil {
		t.Errorf("a field that is not grouped by: %+v", top)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	s := NewSummary(closed, ByTool)
	for i := range maxGroups + 500 {
		s.Add(&Record{Kind: KindRequest, Tool: fmt.Sprint("tool", i)})
	}
	top, rest := s.Top(ByTool, 2*maxGroups)
	if len(top) != maxGroups || rest != 500 {
		t.Errorf("%d groups and %d besides", len(top), rest)
	}
}

func TestQuantilesAreWithinASixteenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "duration"))
		var h Durations
		h.Add(d)
		got := h.Quantile(0.5)
		if diff := math.Abs(float64(got - d)); diff > float64(d)/16+float64(time.Microsecond) {
			t.Fatalf("%v was counted as %v", d, got)
		}
	})
}

func TestQuantilesOfMany(t *testing.T) {
	var h Durations
	if h.Quantile(0.5) != 0 {
		t.Error("none has a median")
	}
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Millisecond)
	}
	for _, row := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Millisecond}, {0.5, 500 * time.Millisecond}, {0.95, 950 * time.Millisecond}, {1, time.Second}} {
		got := h.Quantile(row.q)
		if diff := (got - row.want).Abs(); diff > row.want/16+time.Millisecond {
			t.Errorf("quantile %v is %v, want %v", row.q, got, row.want)
		}
	}
	if h.Max() != time.Second {
		t.Errorf("longest %v", h.Max())
	}
}

// Requests without a line of their own are counted by the known fields.
func TestCountedRequestsAreRequests(t *testing.T) {
	s := NewSummary(closed, ByAction, ByError, ByPrincipal, ByTool)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.Add(&Record{Kind: KindRequest, Time: at, Action: "deny", ErrorKind: "unauthorized", Principal: "192.0.2.1", Duration: time.Millisecond})
	s.Add(&Record{Kind: KindSummary, Time: at, Duration: time.Second, Refused: &Refused{
		Counts:    []KindCount{{ErrorKind: "unauthorized", Requests: 90}, {ErrorKind: "input_rate_limited", Requests: 10}},
		Addresses: []AddressCount{{Address: "192.0.2.1", Requests: 60}, {Address: "2001:db8::/64", Requests: 30}},
	}})
	if s.All.Requests != 101 || s.All.Denied != 101 || s.Counted != 100 || !s.Last.Equal(at.Add(time.Second)) || s.All.Duration.Quantile(0.5) == 0 {
		t.Errorf("all: %d, %d denied, %d counted, to %v", s.All.Requests, s.All.Denied, s.Counted, s.Last)
	}
	for field, want := range map[Field]string{
		ByAction:    "deny=91 rate_limit_blocked=10 rest=0",
		ByError:     "unauthorized=91 input_rate_limited=10 rest=0",
		ByPrincipal: "192.0.2.1=61 2001:db8::/64=30 rest=10",
		ByTool:      "rest=0",
	} {
		got := ""
		top, rest := s.Top(field, 10)
		for _, g := range top {
			got += fmt.Sprintf("%s=%d ", g.Value, g.Requests)
		}
		if got += fmt.Sprintf("rest=%d", rest); got != want {
			t.Errorf("by %s: %s, want %s", field, got, want)
		}
	}
}

// Counted preflights are allowed requests: no denials, and no errors.
func TestCountedPreflightsAreNotDenied(t *testing.T) {
	s := NewSummary(closed, ByAction, ByError, ByPrincipal)
	s.Add(&Record{Kind: KindSummary, Refused: &Refused{
		Counts:    []KindCount{{ErrorKind: CountPreflight, Requests: 7}},
		Addresses: []AddressCount{{Address: "192.0.2.1", Requests: 5}},
	}})
	if s.All.Requests != 7 || s.All.Denied != 0 || s.Counted != 7 {
		t.Errorf("%+v", s.All)
	}
	if n := len(s.groups[ByError]); n != 0 {
		t.Errorf("%d errors", n)
	}
	for field, name := range map[Field]string{ByAction: ActionAllow, ByPrincipal: "192.0.2.1"} {
		if g := s.groups[field][name]; g == nil || g.Requests == 0 || g.Denied != 0 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// Event streams that clients open to listen are counted apart: a window that was open for an hour and
// then closed is no latency of an hour and no failure. A call whose answer came as an event stream is a
// request, and so is a DELETE, whose line has no message either.
func TestStreamsThatListenAreCountedApart(t *testing.T) {
	listened := func(d time.Duration) []Span {
		return []Span{{Stage: "provider", Duration: time.Millisecond}, {Stage: StageListening, Duration: d}}
	}
	s := NewSummary(closed, ByError, ByPrincipal)
	call := Record{Principal: "ann", RPC: RPCRequest, Method: "tools/call", Status: 200, Duration: time.Millisecond}
	for _, r := range []Record{
		{RequestID: "get", Kind: KindOpen, Spans: listened(0)}, {RequestID: "get", Kind: KindRequest, Spans: listened(time.Hour), Principal: "ann", Status: 200, Duration: time.Hour, ErrorKind: "client_closed"},
		{RequestID: "cut", Kind: KindRequest, Spans: listened(time.Hour), Frames: 2, Status: 200, Duration: time.Hour, ErrorKind: "shutdown"}, // opened in a file that was rotated away
		{RequestID: "listen", Kind: KindOpen, Spans: listened(0), RPC: RPCRequest, Method: "subscriptions/listen"},
		{RequestID: "listen", Kind: KindRequest, Spans: listened(time.Hour), RPC: RPCRequest, Method: "subscriptions/listen", Status: 200, Duration: time.Hour, ErrorKind: "key_revoked"},
		{RequestID: "refused", Kind: KindRequest, RPC: RPCRequest, Method: "subscriptions/listen", Status: 403, Action: ActionDeny, Principal: "ann"},
		{RequestID: "delete", Kind: KindRequest, Status: 200, Principal: "ann"},
		{RequestID: "sse", Kind: KindOpen, RPC: RPCRequest, Method: "tools/call"},
	} {
		s.Add(&r)
	}
	call.Kind, call.RequestID, call.Frames = KindRequest, "sse", 3
	s.Add(&call)
	if s.All.Requests != 3 || s.All.Denied != 1 || s.All.Failed != 0 || s.All.Duration.Max() > time.Second {
		t.Errorf("requests: %d, %d denied, %d failed, longest %v", s.All.Requests, s.All.Denied, s.All.Failed, s.All.Duration.Max())
	}
	if l := &s.Listening; l.Requests != 3 || l.Failed != 1 || l.Duration.Max() != time.Hour || s.Streams != 3 || s.Frames != 5 {
		t.Errorf("listening: %d, %d failed, longest %v; %d streams, %d frames", l.Requests, l.Failed, l.Duration.Max(), s.Streams, s.Frames)
	}
	if top, _ := s.Top(ByError, 9); len(top) != 0 {
		t.Errorf("errors of requests: %+v", top[0])
	}
	if top, _ := s.Top(ByPrincipal, 9); len(top) != 1 || top[0].Requests != 3 {
		t.Errorf("by principal: %+v", top)
	}
}
