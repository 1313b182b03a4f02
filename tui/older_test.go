package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// pastPlane has n traces, one a second before noon, newest first; the status is all that it filters by beside the
// period and the id of the request.
type pastPlane struct {
	Plane
	n     int
	err   error
	asked []client.TraceQuery
}

func (p *pastPlane) trace(i int) api.TraceItem {
	t := api.TraceItem{ID: fmt.Sprintf("old%06d", i), AgentName: fmt.Sprintf("agent-%d", i%1000), RequestID: fmt.Sprintf("req_%d", i), Status: "success",
		DurationMs: 5, CreatedAt: noon.Add(-time.Duration(i) * time.Second)}
	if i%50 == 0 {
		t.Status = "error"
	}
	return t
}

func (p *pastPlane) ListTraces(_ context.Context, q client.TraceQuery) (out api.Page[api.TraceItem], err error) {
	p.asked = append(p.asked, q)
	from, _ := strconv.Atoi(q.After)
	for i := from; i < p.n && p.err == nil; i++ {
		t := p.trace(i)
		if !q.End.IsZero() && t.CreatedAt.After(q.End) || t.CreatedAt.Before(q.Start) || q.Status == "error" && t.Status != q.Status || q.RequestID != "" && q.RequestID != t.RequestID {
			continue
		}
		if len(out.Data) == q.Limit {
			out.Next = strconv.Itoa(i)
			break
		}
		out.Data = append(out.Data, t)
	}
	return out, p.err
}

func (p *pastPlane) GetTrace(_ context.Context, id string) (api.Trace, error) {
	for i := range p.n {
		if t := p.trace(i); t.ID == id {
			return api.Trace{TraceItem: t}, nil
		}
	}
	return api.Trace{}, &client.Error{Status: 404, Message: "trace not found"}
}

func pastScreen(p *pastPlane) *Screen {
	return NewScreen(Options{Output: io.Discard, Plane: p, Name: "test", Now: func() time.Time { return noon }}, 150, 30)
}

func sees(t *testing.T, s *Screen, want ...string) {
	t.Helper()
	for _, w := range want {
		if v := s.View(); !strings.Contains(v, w) {
			t.Errorf("no %q:\n%s", w, v)
		}
	}
}

// selectedID is the id of the selected row.
func selectedID(s *Screen) string {
	r, _ := s.m.traces.list.selected()
	return r.trace.ID
}

// On the first row older traces are read by cursor, none twice and none left out; live ones keep arriving below.
func TestOlderTraces(t *testing.T) {
	plane := &pastPlane{n: 320}
	s := pastScreen(plane)
	var listed []Event // the newest 50, as a stream begins with
	for i := 49; i >= 0; i-- {
		listed = append(listed, Event{Trace: api.Trace{TraceItem: plane.trace(i)}})
	}
	s.Feed(listed...)
	s.View()
	s.Key("home")
	if got := selectedID(s); got != "old000049" {
		t.Errorf("selected %s", got)
	}
	s.Key("up")
	s.Feed(events(0, 5)...)
	sees(t, s, "▌ 11:59:10.000  failed   agent-50 ", "5 newer traces below")
	for range 10 {
		s.Key("home")
	}
	sees(t, s, "▲ the oldest trace of the control plane", "▌ 11:54:41.000")
	page, seen := s.m.traces, map[string]bool{}
	for _, r := range page.matches {
		if seen[r.trace.ID] {
			t.Errorf("%s is there twice", r.trace.ID)
		}
		seen[r.trace.ID] = true
	}
	if len(seen) != plane.n+5 {
		t.Errorf("%d traces, want %d", len(seen), plane.n+5)
	}
	asked := len(plane.asked)
	if s.Key("up", "home"); len(plane.asked) != asked {
		t.Error("asked again after the end")
	}
	s.Key("down", "enter", "left")
	sees(t, s, "Trace old000319")
	s.Key("esc", "G")
	sees(t, s, "▶ following · 325 traces")
	s.m.applyBatch(batch{reset: true, state: feedState{phase: live}}) // another history
	sees(t, s, "No traces yet")
}

// The rows above the memory are bounded too. Those that leave the memory while somebody reads older ones stay, so
// that there is no gap.
func TestOlderTracesAreBounded(t *testing.T) {
	plane := &pastPlane{n: 3 * historySize}
	s := pastScreen(plane)
	s.View()
	s.Feed(events(0, 100)...)
	for range 2 * historySize / olderPage {
		s.Key("home")
	}
	page := s.m.traces
	sees(t, s, "the oldest trace that is kept here")
	if n := page.past(); n != historySize {
		t.Errorf("%d rows before the memory", n)
	}
	s.Feed(events(100, 3*historySize)...)
	if n, past := len(page.matches), page.past(); n != 2*historySize || past != historySize {
		t.Errorf("%d rows, %d of them before the memory", n, past)
	}
	for i := 1; i < len(page.matches); i++ {
		if page.matches[i].n != page.matches[i-1].n+1 {
			t.Fatalf("a gap after %s", page.matches[i-1].id)
		}
	}
	s.Key("/", "x", "esc")
	if n := len(page.matches); n != historySize {
		t.Errorf("%d rows after the filter was cleared", n)
	}
}

// With a filter only traces that pass are added; what the API filters by is asked for, and a reading has an end.
func TestOlderTracesOfAFilter(t *testing.T) {
	plane := &pastPlane{n: 9000}
	s := pastScreen(plane)
	s.Feed(events(0, 10)...)
	s.View()
	s.Key("/", "status:error", "enter", "up")
	if q := plane.asked[0]; q.Status != "error" || q.Limit != olderPage || len(plane.asked) != 1 {
		t.Errorf("asked %d times, first %+v", len(plane.asked), q)
	}
	sees(t, s, "100 of 110 traces match status:error")
	s.Key("/", " agent:nobody", "enter", "up")
	sees(t, s, "None of 179 older traces does either.")
	plane.asked = nil
	s.Key("esc", "/", "agent:agent-500", "enter", "up")
	if len(plane.asked) != maxLooked/olderPage {
		t.Errorf("%d requests at once", len(plane.asked))
	}
	sees(t, s, "2 of 2,010 traces match agent:agent-500")
	s.Key("home", "up")
	sees(t, s, "4 of 4,010 traces match")
	plane.err = &client.Error{Status: 503, Message: "no store"}
	s.Key("home", "up")
	sees(t, s, "▲ older traces: ", "↑ asks again")
}

// A period is one of the filter, however it was entered; its traces are read without a key.
func TestRange(t *testing.T) {
	plane := &pastPlane{n: 90_000}
	s := pastScreen(plane)
	s.Feed(events(0, 10)...)
	s.View()
	s.Key("w", "yesterday", "enter")
	sees(t, s, " PAST ", "since:2026-11-01 until:2026-11-01", "▌ Nov 01 23:59")
	if q := plane.asked[0]; !q.Start.Equal(noon.Add(-36*time.Hour)) || !q.End.Equal(noon.Add(-12*time.Hour-time.Second)) {
		t.Errorf("asked %+v", q)
	}
	s.Feed(events(10, 20)...)
	s.Key("w", "11:00..11:01", "enter", "home", "home")
	sees(t, s, "61 match since:2026-11-02T11:00 until:2026-11-02T11:01", "the oldest trace of this time")
	s.Key("w", "last 5m", "enter")
	sees(t, s, "▶ following", "since:2026-11-02T11:55")
	s.Key("w", "nonsense", "enter")
	sees(t, s, `"nonsense" is no time`, "Time nonsense_")
	s.Key("esc", "/", " status:ok", "enter", "w", "enter")
	sees(t, s, "▶ following · 20 of 20 traces match status:ok")
	s.m.traces.setFilter("since:2026-11-02T10:00 until:2026-11-02T10:00:20")
	s.m.Update(tick{})
	sees(t, s, "21 match")
}

func TestRangeTerms(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "last 2h": "since:2026-11-02T10:00", "90m": "since:2026-11-02T10:30", "last 2d": "since:2026-10-31T12:00",
		"yesterday":                    "since:2026-11-01 until:2026-11-01",
		"2026-10-30":                   "since:2026-10-30 until:2026-10-30",
		"11:00..11:30":                 "since:2026-11-02T11:00 until:2026-11-02T11:30",
		"..11:30:05":                   "until:2026-11-02T11:30:05",
		"11:00 ..":                     "since:2026-11-02T11:00",
		"3h..1h":                       "since:2026-11-02T09:00 until:2026-11-02T11:00",
		"yesterday..":                  "since:2026-11-01",
		"yesterday..9:00":              "since:2026-11-01 until:2026-11-01T09:00",
		"2026-10-30 14:00..15:00":      "since:2026-10-30T14:00 until:2026-10-30T15:00",
		"2026-10-30T14:00..2026-10-31": "since:2026-10-30T14:00 until:2026-10-31",
		"2026-10-30T14:00:00+02:00..2026-10-31 1:00": "since:2026-10-30T12:00 until:2026-10-31T01:00",
		"15:00..14:00": "", "14": "", "last": "", "-2h": "", "0d": "", "99999999999999999999d": "", "2026-02-30": "",
	} {
		got, err := rangeTerms(text, noon)
		if got != want || (err == nil) != (want != "" || text == "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if _, err := parseFilter(got, noon); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
	for _, bad := range []string{"-since:2h", "since:x", "until:", "since:1h until:2h"} {
		if _, err := parseFilter(bad, noon); err == nil {
			t.Errorf("%q is a filter", bad)
		}
	}
}

// An id opens what it belongs to, in memory or not.
func TestJump(t *testing.T) {
	s := pastScreen(&pastPlane{n: 500})
	s.Feed(events(0, 10)...)
	for _, step := range []struct {
		id   string
		want []string
	}{
		{"t000003", []string{"Trace t000003", "agent-0"}},
		{"old000444", []string{"Trace old000444", "agent-444"}},
		{"req_333", []string{"Trace old000333", "agent-333"}},
		{"nothing", []string{"Trace nothing", "There is no trace with this id"}},
	} {
		s.Key("1", "i", step.id)
		sees(t, s, "Id "+step.id+"_")
		s.Key("enter")
		sees(t, s, step.want...)
		s.Key("left", "a", "esc")
		sees(t, s, "10 traces")
		s.Key("esc")
	}
	s.Key("i", "x", "esc", "i", "enter")
	sees(t, s, "10 traces", "? help")
	alone := testScreen(100, 30)
	alone.Key("i", "apr_1", "enter")
	sees(t, alone, "no trace in memory has this id")
}

// Exact values are compared with their case, and the control plane looks for them.
func TestExactTerm(t *testing.T) {
	f, err := parseFilter("agent:=Support-Bot session:=ses_1 -tool:=x ms:>=500 cost:<1 status:ok", noon)
	if err != nil {
		t.Fatal(err)
	}
	q := f.query()
	if q.AgentName != "Support-Bot" || q.SessionID != "ses_1" || q.ToolName != "" || *q.MinDurationMs != 500 || *q.MaxCostUSD != 1 || q.MinCostUSD != nil || q.Status != "success" {
		t.Errorf("%+v", q)
	}
	for text, want := range map[string]bool{"agent:=Support-Bot": true, "agent:=support-bot": false, "agent:=Support": false, "-agent:=x": true, "tool:=\"refund order\"": true} {
		f, err := parseFilter(text, noon)
		if err != nil || f.match(filterRow()) != want {
			t.Errorf("%s: %v, %v", text, !want, err)
		}
	}
}

// A control plane that does not answer is known within a second, with the time of the request, also when nothing
// else is asked; its next answer ends that.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var frozen atomic.Pointer[chan struct{}] // closed while the control plane answers
		freeze := func() chan struct{} {
			c := make(chan struct{})
			frozen.Store(&c)
			return c
		}
		close(freeze())
		p := newPulse(ctx, func(ctx context.Context) error {
			select {
			case <-*frozen.Load():
				return errors.New("404, which is an answer")
			case <-ctx.Done():
				return ctx.Err()
			}
		}, 10*time.Second, time.Now)
		go p.run()
		<-time.After(10 * time.Second)
		thaw := freeze() // as after SIGSTOP
		stopped := time.Now()
		since, ok := p.next().(waitsSince)
		if took := time.Since(stopped); !ok || took > time.Second || time.Time(since).Before(stopped) {
			t.Errorf("known after %s, since %v", took, since)
		}
		<-time.After(time.Hour)
		close(thaw)
		if got := p.next(); !time.Time(got.(waitsSince)).IsZero() {
			t.Errorf("got %v", got)
		}
		if took := time.Since(stopped); took > time.Hour+2*time.Second {
			t.Errorf("over after %s", took)
		}
		cancel()
		synctest.Wait()
	})
}

// A request without an answer is shown on its screen, though its earlier answer is.
func TestSlowAnswer(t *testing.T) {
	s := &shared{now: func() time.Time { return noon }, styles: &styles{}}
	l := loader[int]{have: true, busy: true, asked: noon.Add(-slowAnswer)}
	if text, _ := l.state(s); text != "no answer yet, asked at 11:59:59 UTC" {
		t.Errorf("%q", text)
	}
}

// ListTraces knows no older traces.
func (p *groupsPlane) ListTraces(context.Context, client.TraceQuery) (out api.Page[api.TraceItem], err error) {
	return out, nil
}

// groupsPlane has a group of each kind.
type groupsPlane struct {
	Plane
	asked []client.StatsQuery
}

func (p *groupsPlane) TraceStats(_ context.Context, q client.StatsQuery) (api.TraceStats, error) {
	p.asked = append(p.asked, q)
	name := "the " + q.GroupBy
	g := api.StatsGroup{TraceCount: 7}
	switch q.GroupBy {
	case "tool":
		g.ToolName = &name
	case "rule":
		g.RuleID = &name
	default:
		g.AgentName = &name
	}
	return api.TraceStats{Period: q.Period, Groups: []api.StatsGroup{g}}, nil
}

// The statistics of tools and of rules are reached with b, and their groups open the traces.
func TestStatsOfToolsAndRules(t *testing.T) {
	plane := &groupsPlane{}
	s := NewScreen(Options{Output: io.Discard, Plane: plane, Now: func() time.Time { return noon }}, 150, 30)
	for _, by := range []string{"tool", "rule"} {
		for s.Key("s"); !strings.Contains(s.View(), "["+by+"]"); s.Key("b") {
			if len(plane.asked) > 20 {
				t.Fatalf("b does not come to %s:\n%s", by, s.View())
			}
		}
		sees(t, s, "the "+by)
		s.Key("enter")
		sees(t, s, "match "+by+":\"the "+by+"\"")
	}
}

// The statistics are those of the time that the traces are shown of, until another period is chosen.
func TestStatsOfARange(t *testing.T) {
	plane := &groupsPlane{}
	s := NewScreen(Options{Output: io.Discard, Plane: plane, Filter: "since:11:00 until:11:30", Now: func() time.Time { return noon }}, 150, 30)
	s.Key("s")
	sees(t, s, "2026-11-02 11:00Z to 2026-11-02 11:30Z, from the control plane")
	if q := plane.asked[0]; q.Period != "" || !q.Start.Equal(noon.Add(-time.Hour)) || !q.End.Equal(noon.Add(-30*time.Minute)) {
		t.Errorf("asked %+v", q)
	}
	s.Key("w")
	sees(t, s, "Last 24h, from the control plane")
	if q := plane.asked[1]; q.Period != "24h" || !q.Start.IsZero() || !q.End.IsZero() {
		t.Errorf("asked %+v", q)
	}
	s.Key("1", "w", "last 2h", "enter", "s")
	sees(t, s, "since 2026-11-02 10:00Z, from the control plane")
	s.Key("1", "w", "enter", "s")
	sees(t, s, "Last 24h, from the control plane")
}
