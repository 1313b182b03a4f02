package tui_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/exp/teatest"
	"go.uber.org/goleak"

	"svc/server/client"
	"svc/store/api"
	"svc/tui"
	"svc/tui/recording"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/charmbracelet/x/exp/teatest.NewTestModel.func2"))
}

// fakeSource is a source that a test controls. Each Open returns the next of its
// errors; streams end when the test ends them.
type fakeSource struct {
	events chan tui.Event
	breaks chan error
	refuse chan error
	opened chan string // the position of the last Open
}

func newFakeSource() *fakeSource {
	return &fakeSource{events: make(chan tui.Event), breaks: make(chan error), refuse: make(chan error, 16), opened: make(chan string, 64)}
}

func (f *fakeSource) Open(ctx context.Context, after string) (tui.Stream, error) {
	f.opened <- after
	select {
	case err := <-f.refuse:
		return nil, err
	default:
	}
	return &fakeStream{ctx: ctx, f: f, cursor: after}, nil
}

type fakeStream struct {
	ctx    context.Context
	f      *fakeSource
	cursor string
}

func (s *fakeStream) Next() (tui.Event, error) {
	select {
	case ev := <-s.f.events:
		s.cursor = ev.ID
		return ev, nil
	case err := <-s.f.breaks:
		return tui.Event{}, err
	case <-s.ctx.Done():
		return tui.Event{}, s.ctx.Err()
	}
}

func (s *fakeStream) Cursor() string { return s.cursor }
func (s *fakeStream) Close() error   { return nil }

// program runs the tui on a terminal that the test reads and writes.
type program struct {
	*teatest.TestModel
	cancel context.CancelFunc
}

func start(t *testing.T, o tui.Options) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o.Now = time.Now
	p := &program{teatest.NewTestModel(t, tui.New(ctx, o), teatest.WithInitialTermSize(100, 30)), cancel}
	t.Cleanup(func() {
		_ = p.Quit()
		p.WaitFinished(t, teatest.WithFinalTimeout(10*time.Second))
		cancel()
	})
	return p
}

// see waits until all texts have been drawn.
func (p *program) see(t *testing.T, texts ...string) {
	t.Helper()
	var seen bytes.Buffer
	teatest.WaitFor(t, io.TeeReader(p.Output(), &seen), func([]byte) bool {
		for _, text := range texts {
			if !strings.Contains(seen.String(), text) {
				return false
			}
		}
		return true
	}, teatest.WithDuration(15*time.Second), teatest.WithCheckInterval(10*time.Millisecond))
}

func (p *program) press(keys ...tea.KeyType) {
	for _, k := range keys {
		p.Send(tea.KeyMsg{Type: k})
	}
}

func event(id, agent, tool string) tui.Event {
	return tui.Event{ID: id, Trace: api.Trace{TraceItem: api.TraceItem{ID: "trc_" + id, AgentName: agent, ToolName: tool, Status: "success", DurationMs: 12, CreatedAt: time.Now()}}}
}

func plainOptions(source tui.Source, plane tui.Plane) tui.Options {
	return tui.Options{Source: source, Plane: plane, Name: "http://plane.test", Output: io.Discard, Timeout: 5 * time.Second}
}

// Traces appear as they arrive; a filter, the details and back, pause with a count
// of new traces, and quit.
func TestFlow(t *testing.T) {
	source := newFakeSource()
	p := start(t, plainOptions(source, &recording.Plane{}))
	p.see(t, "No traces yet", "● live")
	source.events <- event("1", "alpha", "search")
	source.events <- event("2", "beta", "delete")
	p.see(t, "alpha", "beta", "▶ following · 2 traces")
	p.Type("/")
	p.Type("agent:alp")
	p.see(t, "1 of 2 traces match agent:alp")
	p.press(tea.KeyEnter, tea.KeyEnter)
	p.see(t, "Trace trc_1", "Spans: not found (404)")
	p.press(tea.KeyEsc, tea.KeyEsc)
	p.see(t, "2 traces")
	p.Type("p")
	p.see(t, "PAUSED")
	source.events <- event("3", "gamma", "search")
	p.see(t, "1 new trace waits")
	p.Type("p")
	p.see(t, "gamma")
	p.Type("q")
	p.WaitFinished(t, teatest.WithFinalTimeout(5*time.Second))
}

// A lost connection is shown and opened again after the last event, and r retries
// at once; when the control plane has another history, it is followed from its
// beginning.
func TestReconnect(t *testing.T) {
	source := newFakeSource()
	p := start(t, plainOptions(source, &recording.Plane{}))
	if after := <-source.opened; after != "" {
		t.Errorf("opened after %q", after)
	}
	source.events <- event("7", "alpha", "search")
	p.see(t, "alpha")
	for range 3 {
		source.refuse <- errors.New("no route")
	}
	source.breaks <- io.EOF
	p.see(t, "Not connected: the control plane has ended the stream", "attempt 2 in")
	p.Type("r")
	// opened presses r until the source is opened: without r the last of these
	// attempts would come after half a minute.
	opened := func(want string) {
		t.Helper()
		for {
			select {
			case after := <-source.opened:
				if after != want {
					t.Errorf("opened after %q, want %q", after, want)
				}
				return
			case <-time.After(20 * time.Millisecond):
				p.Type("r")
			}
		}
	}
	for range 4 {
		opened("7")
	}
	p.see(t, "● live")
	source.refuse <- &client.Error{Status: 400, Message: "invalid input"}
	source.breaks <- io.EOF
	opened("7")
	opened("")
	p.see(t, "No traces yet")
}

// Several keys that a terminal sends at once are handled one by one; pasted text is
// ignored where no text can be typed.
func TestKeysAtOnce(t *testing.T) {
	m := tui.New(t.Context(), plainOptions(newFakeSource(), nil))
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q1p/s"), Paste: true})
	if v := m.View(); strings.Contains(v, "PAUSED") {
		t.Errorf("pasted text was taken for keys:\n%s", v)
	}
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("p/agent:x")})
	if v := m.View(); !strings.Contains(v, "PAUSED") || !strings.Contains(v, "/ agent:x") {
		t.Errorf("keys at once:\n%s", v)
	}
	m.Update(tea.KeyMsg{Type: tea.KeyEsc})
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("?")})
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("s"), Alt: true})
	if v := m.View(); !strings.Contains(v, "From the stream") {
		t.Errorf("esc and s together:\n%s", v)
	}
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("1/agent:x")})
	m.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(" tool:y"), Paste: true})
	if v := m.View(); !strings.Contains(v, "/ agent:x tool:y") {
		t.Errorf("pasted into the filter:\n%s", v)
	}
}

// slowPlane responds only when the request is canceled.
type slowPlane struct {
	recording.Plane
	asked, gone atomic.Int32
}

func (s *slowPlane) ListBudgets(ctx context.Context) (api.List[api.Budget], error) {
	s.asked.Add(1)
	<-ctx.Done()
	s.gone.Add(1)
	return api.List[api.Budget]{}, ctx.Err()
}

// A control plane that does not respond blocks nothing: keys work meanwhile, and
// the request is canceled when the screen is left.
func TestNetworkBlocksNothing(t *testing.T) {
	plane := &slowPlane{}
	p := start(t, plainOptions(newFakeSource(), plane))
	p.Type("5")
	p.see(t, "Asking the control plane")
	p.Type("4")
	p.see(t, "no-deletes")
	for deadline := time.Now().Add(5 * time.Second); plane.gone.Load() != plane.asked.Load() || plane.asked.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests, %d given up", plane.asked.Load(), plane.gone.Load())
		}
	}
}

// A policy is disabled only after a confirmation; with a key that lacks the
// permission a message is shown.
func TestTogglePolicy(t *testing.T) {
	plane := &recording.Plane{}
	s := tui.NewScreen(options(plane, looks[0]), 100, 30)
	s.Key("4", "d")
	if !strings.Contains(s.View(), "Disable no-deletes (block, tool delete_*)? [y/N]") {
		t.Errorf("not asked:\n%s", s.View())
	}
	s.Key("n")
	if v := s.View(); !strings.Contains(v, "nothing was changed") || !strings.Contains(v, "on, fired 1,284 times") {
		t.Errorf("after n:\n%s", v)
	}
	s.Key("d", "y")
	if v := s.View(); !strings.Contains(v, "no-deletes is disabled") || !strings.Contains(v, "off, fired 1,284 times") {
		t.Errorf("after y:\n%s", v)
	}
	s.Key("d", "y")
	if v := s.View(); !strings.Contains(v, "no-deletes is enabled") {
		t.Errorf("after another:\n%s", v)
	}
	plane.Refuse = true
	s.Key("d", "y")
	if v := s.View(); !strings.Contains(v, "this key may not change policies (403)") || !strings.Contains(v, "on, fired 1,284 times") {
		t.Errorf("refused:\n%s", v)
	}
	s.Key("d")
	if v := s.View(); strings.Contains(v, "[y/N]") || strings.Contains(v, "d disable") {
		t.Errorf("asked again, or offered, with a key that may not:\n%s", v)
	}
}

// When a policy is enabled and currently matches nothing, the warning is shown,
// with the number of warnings when the status line has no room for all.
func TestEnablingAPolicyShowsItsWarnings(t *testing.T) {
	plane := &recording.Plane{Warnings: []string{`on: no agent is called "planer"; did you mean "planner"?`}}
	s := tui.NewScreen(options(plane, looks[0]), 120, 30)
	s.Key("4", "d", "y")
	if v := s.View(); !strings.Contains(v, "no-deletes is disabled") || strings.Contains(v, "planer") {
		t.Errorf("disabled:\n%s", v)
	}
	s.Key("d", "y")
	if v := s.View(); !strings.Contains(v, `no-deletes is enabled, but on: no agent is called "planer"; did you mean "planner"?`) {
		t.Errorf("one warning:\n%s", v)
	}
	plane.Warnings = append(plane.Warnings, `condition.entities: no detector finds "SSNN"`, "a third")
	s.Key("d", "y", "d", "y")
	if v := s.View(); !strings.Contains(v, `no-deletes is enabled, with 3 warnings; the first: on: no agent is called "planer"`) {
		t.Errorf("several warnings:\n%s", v)
	}
	plane.Warnings = []string{"a\x1b[2Jb"}
	s.Key("d", "y", "d", "y")
	if v := s.View(); strings.Contains(v, "\x1b[2J") || !strings.Contains(v, "no-deletes is enabled, but a") {
		t.Errorf("a warning with an escape sequence:\n%q", v)
	}
}

// Tabs and rows are clicked; a click on the selected row opens it.
func TestMouse(t *testing.T) {
	s := tui.NewScreen(options(&recording.Plane{}, looks[0]), 100, 30)
	s.Feed(recording.Traces(100)...)
	tab := strings.Index(s.View(), "5 Budgets")
	s.Click(tab+2, 0)
	if !strings.Contains(s.View(), "research-day") {
		t.Errorf("the tab did not open:\n%s", s.View())
	}
	s.Key("1")
	row := strings.Split(s.View(), "\n")[10]
	s.Click(20, 10)
	if got := strings.Split(s.View(), "\n")[10]; !strings.HasPrefix(got, "▌") || strings.TrimPrefix(got, "▌ ") != strings.TrimPrefix(row, "  ")+strings.Repeat(" ", max(0, len(got)-len("▌ ")-len(row)+2)) && !strings.Contains(got, strings.TrimSpace(row)) {
		t.Errorf("the row was not selected: %q, was %q", got, row)
	}
	s.Click(20, 10)
	if !strings.Contains(s.View(), "Spans  ") {
		t.Errorf("the trace did not open:\n%s", s.View())
	}
}

// Enter opens the selected row on every tab without changing anything; esc returns
// to the list.
func TestEnterOpensOnEveryTab(t *testing.T) {
	for tab, row := range map[string]struct{ opened, listed string }{
		"1": {"Trace ", "▶ following"}, "3": {"Agent support-bot", "TRACES 24H"}, "4": {"pol_01k6r0nodelete", "STATE"},
		"5": {"bud_01k6r01", "STATE"}, "6": {"Target ", "STATE"}, "7": {"Approval apr_", "STATE"},
	} {
		s := tui.NewScreen(options(&recording.Plane{}, looks[0]), 80, 24)
		s.Feed(recording.Traces(20)...)
		s.Key(tab, "enter")
		if v := s.View(); !strings.Contains(v, row.opened) || strings.Contains(v, row.listed) || strings.Contains(v, "[y/N]") {
			t.Errorf("tab %s, after enter:\n%s", tab, v)
		}
		s.Key("esc")
		if v := s.View(); tab != "1" && !strings.Contains(v, row.listed) {
			t.Errorf("tab %s, after esc:\n%s", tab, v)
		}
	}
}

// A policy can also be enabled and disabled on its own page; `e` and space, which
// have another meaning on the traces, change no policy.
func TestToggleOpenedPolicy(t *testing.T) {
	s := tui.NewScreen(options(&recording.Plane{}, looks[0]), 80, 24)
	s.Key("4", "e", "space")
	if v := s.View(); strings.Contains(v, "[y/N]") {
		t.Errorf("asked:\n%s", v)
	}
	s.Key("enter", "d", "y")
	if v := s.View(); !strings.Contains(v, "no-deletes is disabled") || !strings.Contains(v, "off, fired 1,284 times") {
		t.Errorf("after d and y:\n%s", v)
	}
}

// A message is only shown on its screen; the next screen shows its keys.
func TestMessageDoesNotHideKeysOfTheNextTab(t *testing.T) {
	s := tui.NewScreen(options(&recording.Plane{}, looks[0]), 80, 24)
	s.Key("4", "d", "n")
	if v := s.View(); !strings.Contains(v, "nothing was changed") {
		t.Errorf("no message:\n%s", v)
	}
	s.Key("5")
	if v := s.View(); strings.Contains(v, "nothing was changed") || !strings.Contains(v, "enter open") {
		t.Errorf("the keys are hidden:\n%s", v)
	}
}

// The line about a lost connection always mentions r for a retry, for any length of
// the reason and any width.
func TestOfflineLineKeepsRetryKey(t *testing.T) {
	for _, w := range []int{30, 40, 60, 80, 120} {
		s := tui.NewScreen(options(&recording.Plane{}, looks[0]), w, 24)
		s.Lose(errors.New(strings.Repeat("a long reason ", 20)), 2, 2500*time.Millisecond)
		line := strings.Split(s.View(), "\n")[1]
		if !strings.Contains(line, "Not connected") && w > 40 || !strings.HasSuffix(line, "r retries now") {
			t.Errorf("at %d columns: %q", w, line)
		}
	}
}

// The difference between the two policies of a template is visible at 80 columns.
func TestPoliciesOf80ColumnsTellPhaseAndStrategy(t *testing.T) {
	s := tui.NewScreen(options(&recording.Plane{}, looks[0]), 80, 24)
	s.Key("4")
	for _, want := range []string{"PHASE", "response redact: mask", "request  block"} {
		if v := s.View(); !strings.Contains(v, want) {
			t.Errorf("no %q:\n%s", want, v)
		}
	}
}

// shuffledPlane returns the tools of an agent in a different order each time.
type shuffledPlane struct {
	recording.Plane
	turn int
}

func (p *shuffledPlane) ListAgentTools(context.Context, string, client.Page) (api.Page[api.AgentTool], error) {
	tools := []api.AgentTool{{ToolName: "beta", CallCount: 2}, {ToolName: "alpha", CallCount: 2}, {ToolName: "gamma", CallCount: 9}}
	p.turn++
	tools[0], tools[p.turn%3] = tools[p.turn%3], tools[0]
	return api.Page[api.AgentTool]{Data: tools, Total: 3}, nil
}

// Tools are sorted by calls, and by name when calls are equal.
func TestToolsHaveAStableOrder(t *testing.T) {
	o := options(&recording.Plane{}, looks[0])
	o.Plane = &shuffledPlane{}
	s := tui.NewScreen(o, 100, 30)
	s.Key("3", "enter")
	for range 4 {
		v := s.View()
		if g, a, b := strings.Index(v, "gamma"), strings.Index(v, "alpha"), strings.Index(v, "beta"); g < 0 || g > a || a > b {
			t.Errorf("gamma at %d, alpha at %d, beta at %d:\n%s", g, a, b, v)
		}
		s.Key("r")
	}
}

// Times are in UTC and marked as such, in any time zone.
func TestTimesAreInUTC(t *testing.T) {
	o := options(&recording.Plane{}, looks[0])
	now := o.Now
	o.Now = func() time.Time { return now().In(time.FixedZone("elsewhere", 9*3600)) }
	s := tui.NewScreen(o, 120, 40)
	s.Feed(recording.Traces(20)...)
	for _, step := range []struct {
		key, want string
	}{{"1", "TIME (UTC)"}, {"1", " 14:32:0"}, {"enter", "2026-11-02 14:27:43.316Z"}, {"3", "as of 14:32:10 UTC"}, {"enter", "2026-09-02 14:32Z"}, {"5", "2026-12-01 00:00Z"}, {"6", "(times in UTC)"}} {
		s.Key(step.key)
		if v := s.View(); !strings.Contains(v, step.want) {
			t.Errorf("after %s no %q:\n%s", step.key, step.want, v)
		}
	}
}

// A call is granted or refused where its arguments are read, and only after a confirmation. The
// reason why a key may not decide is shown.
func TestDecideApproval(t *testing.T) {
	plane := &recording.Plane{}
	s := tui.NewScreen(options(plane, looks[0]), 100, 30)
	for _, step := range []struct {
		keys []string
		want []string
		not  []string
	}{
		{[]string{"7", "g"}, []string{"Grant refund_order for oauth:ada@example.com? [y/N]", `/to  "ada.brandt@example.com"`, "restored: EMAIL", "812 characters left out", `\u202e  and with`}, nil},
		{[]string{"n"}, []string{"nothing was changed", "▲ pending"}, []string{"[y/N]"}},
		{[]string{"g", "e", "s", "e", "e", " ", "q", "y", "7"}, []string{"Note: see qy7_", "enter keeps it"}, []string{"[y/N]"}},
		{[]string{"enter"}, []string{"Grant refund_order for oauth:ada", "[y/N] e: note (see qy7)"}, nil},
		{[]string{"y"}, []string{"refund_order for oauth:ada@example.com: ● granted", "● granted, unused 0 s", "by usr_01k6r0mei: see qy7"}, []string{"g grant"}},
		{[]string{"g", "d"}, nil, []string{"[y/N]"}},
		{[]string{"x"}, []string{"Revoke refund_order"}, nil},
		{[]string{"y"}, []string{"✕ denied"}, []string{"x revoke"}},
		{[]string{"7", "r"}, []string{"1 pending approvals", "restart_service", "unknown"}, []string{"refund_order"}},
		{[]string{"f"}, []string{"1 granted approvals", "run_query", "unused 2 h 0 min", "x revoke"}, []string{"g grant"}},
		{[]string{"f"}, []string{"1 denied approvals", "refund_order"}, nil},
		{[]string{"f", "f"}, []string{"No expired approvals"}, nil},
		{[]string{"f"}, []string{"4 approvals", "f status: all"}, nil},
		{[]string{"f", "t"}, []string{"request:req_01k6r0restart"}, nil},
	} {
		s.Key(step.keys...)
		for _, want := range step.want {
			if v := s.View(); !strings.Contains(v, want) {
				t.Errorf("after %v no %q:\n%s", step.keys, want, v)
			}
		}
		for _, not := range step.not {
			if v := s.View(); strings.Contains(v, not) {
				t.Errorf("after %v %q:\n%s", step.keys, not, v)
			}
		}
	}
	// A reason that was added after the arguments were drawn is not granted unseen.
	s.Key("7", "enter", "g")
	plane.Merged++
	s.Key("y")
	if v := s.View(); !strings.Contains(v, "not possible: the approval has changed: its version is 2") || !strings.Contains(v, "▲ pending") {
		t.Errorf("merged meanwhile:\n%s", v)
	}
	s.Key("g", "y")
	if v := s.View(); !strings.Contains(v, "● granted") {
		t.Errorf("read again:\n%s", v)
	}
	plane.Refuse = true
	s.Key("7", "f", "r", "x", "y")
	if v := s.View(); !strings.Contains(v, "not possible: the caller cannot decide about the own call") || !strings.Contains(v, "● granted") {
		t.Errorf("refused:\n%s", v)
	}
}

// hostilePlane has an approval whose texts a terminal would interpret.
type hostilePlane struct{ recording.Plane }

func (*hostilePlane) GetApproval(context.Context, string) (api.ApprovalRecord, error) {
	text := "a\x1b[2J\u202e\U000e0041" + strings.Repeat("long", 1000) + "THE END"
	return api.ApprovalRecord{Tool: text, Principal: text, Status: text, Arguments: []api.ApprovalArgument{{Pointer: text, Value: text, Restored: text}}}, nil
}

// What a gateway has sent is drawn without control sequences, and long arguments are drawn to their
// end.
func TestHostileApproval(t *testing.T) {
	o := options(&recording.Plane{}, looks[0])
	o.Plane = &hostilePlane{}
	s := tui.NewScreen(o, 100, 30)
	s.Key("7", "enter")
	for range 2 {
		if v := s.View(); strings.ContainsAny(v, "\x1b\u202e\U000e0041") {
			t.Errorf("drawn:\n%q", v)
		}
		s.Key("G")
	}
	if v := s.View(); !strings.Contains(v, "THE END") {
		t.Errorf("no end:\n%s", v)
	}
}
