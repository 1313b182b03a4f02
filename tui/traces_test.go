package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"svc/server/client"
	"svc/store/api"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func testScreen(w, h int) *Screen {
	return NewScreen(Options{Output: io.Discard, Name: "test", Now: func() time.Time { return noon }}, w, h)
}

func events(from, to int) []Event {
	var all []Event
	for i := from; i < to; i++ {
		all = append(all, Event{Trace: api.Trace{TraceItem: api.TraceItem{
			ID: fmt.Sprintf("t%06d", i), AgentName: fmt.Sprintf("agent-%d", i%3), ToolName: "search", Status: "success",
			DurationMs: float64(i%100) + 1, CostUSD: 0.001, CreatedAt: noon.Add(-time.Duration(to-i) * time.Millisecond),
		}}})
	}
	return all
}

// The memory is bounded: the oldest rows are removed, a selected row keeps its
// position on the screen until it is removed, and the matches of the filter are
// updated.
func TestHistoryIsBounded(t *testing.T) {
	s := testScreen(100, 30)
	s.Feed(events(0, historySize)...)
	s.Key("home", "down", "down", "down", "down", "down")
	page := s.m.traces
	if id := page.row(page.list.sel).id; id != "t000005" {
		t.Fatalf("selected %s", id)
	}
	s.Feed(events(historySize, historySize+3)...)
	if id := page.row(page.list.sel).id; id != "t000005" || page.list.sel != 2 {
		t.Errorf("after three have gone: selected %s at %d", id, page.list.sel)
	}
	s.Feed(events(historySize+3, 3*historySize)...)
	if n := page.history.len(); n != historySize || len(page.matches) != historySize {
		t.Errorf("%d rows, %d matches", n, len(page.matches))
	}
	if id := page.row(0).id; id != fmt.Sprintf("t%06d", 2*historySize) {
		t.Errorf("the oldest is %s", id)
	}
	if !strings.Contains(s.View(), "newer traces below") {
		t.Error(s.View())
	}
	s.Key("G")
	if !strings.Contains(s.View(), "▶ following") {
		t.Error(s.View())
	}
}

// While paused nothing moves and new traces are counted; resuming shows the
// newest. The filter may be changed meanwhile.
func TestPause(t *testing.T) {
	s := testScreen(100, 30)
	s.Feed(events(0, 50)...)
	s.Key("p")
	before := strings.Join(strings.Split(s.View(), "\n")[2:], "\n")
	s.Feed(events(50, 80)...)
	if after := strings.Join(strings.Split(s.View(), "\n")[2:], "\n"); after != before {
		t.Errorf("moved while paused:\n%s\n%s", before, after)
	}
	if !strings.Contains(s.View(), "30 new traces wait") {
		t.Error(s.View())
	}
	s.Key("/", "agent:agent-1", "enter")
	if v := s.View(); !strings.Contains(v, "10 new traces wait") || strings.Contains(v, "t000050") {
		t.Error(v)
	}
	s.Key("p", "esc")
	if v := s.View(); !strings.Contains(v, "▶ following · 80 traces") {
		t.Error(v)
	}
}

// An invalid filter changes nothing.
func TestWrongFilterKeepsTheLast(t *testing.T) {
	s := testScreen(100, 30)
	s.Feed(events(0, 30)...)
	s.Key("/", "agent:agent-1")
	s.Key(" statis:x")
	if v := s.View(); !strings.Contains(v, "0 of 30 traces match agent:agent-1 statis") || !strings.Contains(v, `no field "statis"`) {
		t.Error(v)
	}
	s.Key("esc")
	if v := s.View(); !strings.Contains(v, "30 traces") || strings.Contains(v, "no field") {
		t.Error(v)
	}
}

// Hostile strings neither move the cursor nor shift a column.
func TestHostileStrings(t *testing.T) {
	evil := []string{"\x1b[2J\x1b[H", "line\nbreak", "\u202Ertl", "注文検索システム全体", "zero\u200Bwidth", "🇩🇪👩‍💻👍🏽", strings.Repeat("\u0301", 40), "\x1b]52;c;ZXZpbA==\x07", "שלום", strings.Repeat("W", 5000), "\xff\xfe\x00"}
	for _, size := range [][2]int{{80, 24}, {250, 60}} {
		s := testScreen(size[0], size[1])
		var evs []Event
		for i, e := range evil {
			evs = append(evs, Event{Trace: api.Trace{TraceItem: api.TraceItem{
				ID: e, AgentName: e, ToolName: e, Status: "success", Environment: e, SessionID: e, ModelName: e, CreatedAt: noon,
				PIIDetected: []string{e}, PoliciesFired: []api.PolicyFired{{ID: e, Name: e, Action: e}}, DurationMs: 777 + float64(i),
			}, Spans: []api.Span{{Stage: e, DurationMs: 5}}}, Notes: []Note{{e, e}}})
		}
		s.Feed(evs...)
		check := func() {
			t.Helper()
			view := s.View()
			for i, line := range strings.Split(view, "\n") {
				if strings.ContainsAny(line, "\x1b\r\x00\x07\u202E\u200B") {
					t.Errorf("line %d: %q", i, line)
				}
				if n := width(line); n > size[0] {
					t.Errorf("line %d takes %d cells: %q", i, n, line)
				}
			}
		}
		check()
		column := -1
		for i, line := range strings.Split(s.View(), "\n")[3 : 3+len(evil)] {
			at := width(line[:strings.Index(line, " ms")])
			if column < 0 {
				column = at
			}
			if at != column {
				t.Errorf("row %d: the latency ends at %d, not at %d: %q", i, at, column, line)
			}
		}
		for range evil {
			s.Key("enter")
			check()
			s.Key("y", "left")
			check()
			s.Key("esc")
		}
		s.Key("s")
		check()
	}
}

// The clock decides what a countdown says.
func TestBannerCountsDown(t *testing.T) {
	now := noon
	s := NewScreen(Options{Output: io.Discard, Now: func() time.Time { return now }}, 120, 30)
	s.Lose(&client.Error{Status: 401, Message: "x"}, 3, 8*time.Second)
	for _, want := range []string{"attempt 4 in 8 s", "attempt 4 in 6 s"} {
		now = now.Add(100 * time.Millisecond)
		if v := s.View(); !strings.Contains(v, want) || !strings.Contains(v, "check SVC_API_KEY") {
			t.Errorf("no %q:\n%s", want, v)
		}
		now = now.Add(1900 * time.Millisecond)
	}
}

func TestBackoff(t *testing.T) {
	for i, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		if got := backoff(i+1, errors.New("x"), 0); got != want {
			t.Errorf("attempt %d: %s, want %s", i+1, got, want)
		}
		if got := backoff(i+1, errors.New("x"), 0.999); got < want || got > want*6/5 {
			t.Errorf("attempt %d with jitter: %s", i+1, got)
		}
	}
	if got := backoff(9, &client.Error{Status: 429, RetryAfter: 7 * time.Second}, 0); got != 7*time.Second {
		t.Errorf("told to wait 7 s: %s", got)
	}
	if got := backoff(1<<40, errors.New("x"), 0); got != 15*time.Second {
		t.Errorf("very many attempts: %s", got)
	}
}

// When the screen is too slow, the oldest waiting rows are dropped and counted.
func TestFeedIsBounded(t *testing.T) {
	f := newFeed(context.Background(), nil, time.Second, time.Now)
	for _, ev := range events(0, historySize+25) {
		f.push(newRow(ev))
	}
	b := f.take()
	if len(b.rows) != historySize || b.dropped != 25 || b.rows[0].id != "t000025" {
		t.Errorf("%d rows from %s, %d dropped", len(b.rows), b.rows[0].id, b.dropped)
	}
}

// Data of a panel is removed when the key has lost the permission to read it.
func TestForbiddenDataGoes(t *testing.T) {
	var l loader[int]
	l.apply(noon, 7, nil)
	l.apply(noon, 0, errors.New("x"))
	if !l.have || l.data != 7 {
		t.Error("an outage made what was known go")
	}
	l.apply(noon, 0, &client.Error{Status: 403})
	if l.have {
		t.Error("shown although forbidden")
	}
	l.apply(noon, 0, &client.Error{Status: 429, RetryAfter: 20 * time.Second})
	if !l.due.Equal(noon.Add(20 * time.Second)) {
		t.Errorf("asked again at %s", l.due)
	}
}

// When two responses arrive in reverse order, that of the later request is shown.
func TestStaleAnswerDoesNotReplaceNewer(t *testing.T) {
	asked := 0
	l := loader[int]{}
	s := &shared{ctx: t.Context(), now: func() time.Time { return noon }, timeout: time.Minute}
	ask := func() tea.Cmd {
		asked++
		n := asked
		l.fetch = func(context.Context) (int, error) { return n, nil }
		return l.load(s)
	}
	first, second := ask(), ask()
	second().(result)()
	first().(result)()
	if !l.have || l.data != 2 {
		t.Errorf("shown: %d, want the second answer", l.data)
	}
}

func TestSeries(t *testing.T) {
	s := newSeries(noon)
	add := func(ago time.Duration, ms float64, o outcome) {
		s.add(&row{outcome: o, trace: api.Trace{TraceItem: api.TraceItem{CreatedAt: noon.Add(-ago), DurationMs: ms, CostUSD: 0.5}}}, noon)
	}
	for i := range 10 {
		add(7*time.Second, float64(10*i), succeeded)
	}
	add(7*time.Second, 5000, failed)
	add(31*time.Second, 1, succeeded)
	add(time.Hour, 1, succeeded)    // too old
	add(-time.Minute, 1, succeeded) // the sender's clock is ahead
	rate, errs, latency, cost := s.charts(noon, 12)
	if len(rate.bars) != 12 || rate.bars[10] != 11/5.0 || errs.bars[10] != 1/5.0 || rate.lastMinute != 12/60.0 || cost.lastMinute != 6 {
		t.Errorf("%+v %+v %+v", rate, errs, cost)
	}
	if p := latency.bars[10]; p < 5000 || p > 6000 {
		t.Errorf("p95 %v", p)
	}
	if before := rate.bars[:12-7]; !math.IsNaN(before[4]) || rate.bars[5] != 1/5.0 || rate.bars[6] != 0 {
		t.Errorf("what was before anybody looked is not left out: %v", rate.bars)
	}
	if lines := rate.draw(3); len(lines) != 3 || !strings.Contains(lines[0], "█") {
		t.Errorf("%q", lines)
	}
}

// sumUp over traces is equal to values computed by hand.
func TestSumUp(t *testing.T) {
	s := testScreen(80, 24)
	evs := events(0, 100)
	evs[3].Trace.Status = "error"
	s.Feed(evs...)
	got := sumUp(s.m.traces.history)
	sum := got.Summary
	if sum.TotalTraces != 100 || sum.ErrorCount != 1 || sum.ErrorRatePercent != 1 || sum.P50DurationMs != 50 || sum.P95DurationMs != 95 || sum.P99DurationMs != 99 || sum.AvgDurationMs != 50.5 {
		t.Errorf("%+v", sum)
	}
	if len(got.Groups) != 3 || *got.Groups[0].AgentName != "agent-0" || got.Groups[0].TraceCount != 34 {
		t.Errorf("%+v", got.Groups)
	}
	if empty := sumUp(newHistory(4)); empty.Summary.P99DurationMs != 0 || empty.Summary.ErrorRatePercent != 0 {
		t.Errorf("%+v", empty)
	}
}

// BenchmarkFrame is one frame at 1,000 traces a second: a batch of a thirtieth of
// a second is added, and the screen is drawn, with a full memory. The second
// metric is the share of the frame's time, in percent.
func BenchmarkFrame(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {250, 60}} {
		for _, filter := range []string{"", "agent:agent-1 status:ok -tool:x ms:>10 search"} {
			b.Run(fmt.Sprintf("%dx%d/%d words", size[0], size[1], len(strings.Fields(filter))), func(b *testing.B) {
				s := NewScreen(Options{Output: io.Discard, Colour: true, Theme: Dark, Now: func() time.Time { return noon }}, size[0], size[1])
				s.Feed(events(0, historySize)...)
				s.m.traces.setFilter(filter)
				evs := events(0, 33)
				b.ReportAllocs()
				for b.Loop() {
					rows := make([]*row, len(evs))
					for i, ev := range evs {
						rows[i] = newRow(ev)
					}
					var m tea.Model = s.m
					m, _ = m.Update(batch{rows: rows, state: feedState{phase: live}})
					_ = m.View()
				}
				frame := time.Second.Seconds() / 30
				b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/frame, "%frame")
			})
		}
	}
}
