package summary

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"svc/gateway/audit"
)

func TestRequestsAreCountedByWhatBecameOfThem(t *testing.T) {
	s := New(ByTool, ByStatus)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i, r := range []audit.Record{
		{Action: "allow", Tool: "read", Status: 200, BytesIn: 10, BytesOut: 20, Duration: time.Millisecond},
		{Action: "allow", Tool: "read", Status: 200, IsError: true},
		{Action: "deny", Tool: "delete", Status: 403},
		{Action: "rate_limit_blocked", Tool: "read", Status: 429},
		{Action: "allow", Tool: "read", Status: 502, ErrorKind: "upstream_unreachable"},
		{Action: "allow", Status: 200, Frames: 7},
	} {
		r.Kind, r.Time = audit.KindRequest, at.Add(time.Duration(i)*time.Second)
		s.Add(&r)
	}
	s.Add(&audit.Record{Kind: audit.KindOpen})
	s.Add(&audit.Record{Kind: audit.KindCheckpoint, Checkpoint: &audit.Checkpoint{Event: audit.EventStart, Lost: 3}})
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
	s := New(ByTool)
	for i := range maxGroups + 500 {
		s.Add(&audit.Record{Kind: audit.KindRequest, Tool: fmt.Sprint("tool", i)})
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
	s := New(ByAction, ByError, ByPrincipal, ByTool)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.Add(&audit.Record{Kind: audit.KindRequest, Time: at, Action: "deny", ErrorKind: "unauthorized", Principal: "192.0.2.1", Duration: time.Millisecond})
	s.Add(&audit.Record{Kind: audit.KindSummary, Time: at, Duration: time.Second, Refused: &audit.Refused{
		Counts:    []audit.KindCount{{ErrorKind: "unauthorized", Requests: 90}, {ErrorKind: "input_rate_limited", Requests: 10}},
		Addresses: []audit.AddressCount{{Address: "192.0.2.1", Requests: 60}, {Address: "2001:db8::/64", Requests: 30}},
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
	s := New(ByAction, ByError, ByPrincipal)
	s.Add(&audit.Record{Kind: audit.KindSummary, Refused: &audit.Refused{
		Counts:    []audit.KindCount{{ErrorKind: audit.CountPreflight, Requests: 7}},
		Addresses: []audit.AddressCount{{Address: "192.0.2.1", Requests: 5}},
	}})
	if s.All.Requests != 7 || s.All.Denied != 0 || s.Counted != 7 {
		t.Errorf("%+v", s.All)
	}
	if n := len(s.groups[ByError]); n != 0 {
		t.Errorf("%d errors", n)
	}
	for field, name := range map[Field]string{ByAction: audit.ActionAllow, ByPrincipal: "192.0.2.1"} {
		if g := s.groups[field][name]; g == nil || g.Requests == 0 || g.Denied != 0 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}
