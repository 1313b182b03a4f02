package tui_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"svc/server/client"
	"svc/tui"
	"svc/tui/recording"
)

// updating is the flag -update, which the golden package of teatest defines.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// golden compares a screen with testdata/NAME.txt. Escape sequences are
// replaced by visible text, so that differences can be read.
func golden(t *testing.T, name, view string) {
	t.Helper()
	got := strings.ReplaceAll(view, "\x1b[", "␛") + "\n"
	path := filepath.Join("testdata", name+".txt")
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from %s (go test ./tui -update rewrites it):\n%s", name, path, got)
	}
}

// fits fails when a line is wider than the terminal or there are more lines
// than it has.
func fits(t *testing.T, view string, w, h int) {
	t.Helper()
	lines := strings.Split(view, "\n")
	if len(lines) > h {
		t.Errorf("%d lines on a terminal of %d", len(lines), h)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n > w {
			t.Errorf("line %d takes %d cells of %d: %q", i, n, w, l)
		}
	}
}

type look struct {
	name   string
	colour bool
	theme  tui.Theme
}

var looks = []look{{"plain", false, tui.Dark}, {"dark", true, tui.Dark}, {"light", true, tui.Light}}

func options(p *recording.Plane, l look) tui.Options {
	o := recording.Options(p)
	o.Colour, o.Theme = l.colour, l.theme
	return o
}

// shots are the screens and the keys that open them.
var shots = []struct {
	name string
	keys []string
	do   func(*tui.Screen)
}{
	{name: "traces"},
	{name: "traces-scrolled", keys: []string{"up", "up", "k"}, do: more},
	{name: "traces-paused", keys: []string{"p"}, do: more},
	{name: "traces-older", keys: []string{"home", "pgup"}},
	{name: "traces-oldest", keys: []string{"home", "home", "home", "home", "home"}},
	{name: "traces-range", keys: []string{"w", "2026-11-02 14:25..14:26", "enter"}},
	{name: "range-typing", keys: []string{"w", "last"}},
	{name: "filter-typing", keys: []string{"/", "agent:billing status:bl"}},
	{name: "filter-wrong", keys: []string{"/", "agnt:x"}},
	{name: "filter-nothing", keys: []string{"/", "tool:nosuch", "enter"}},
	{name: "trace", keys: []string{"up", "enter"}},
	{name: "trace-blocked", keys: []string{"/", "status:blocked", "enter", "enter"}},
	{name: "stats", keys: []string{"s"}},
	{name: "stats-by-model", keys: []string{"s", "w", "b"}},
	{name: "agents", keys: []string{"3"}},
	{name: "agent", keys: []string{"3", "enter"}},
	{name: "policies", keys: []string{"4"}},
	{name: "policies-asking", keys: []string{"4", "d"}},
	{name: "policy", keys: []string{"4", "down", "enter"}},
	{name: "budgets", keys: []string{"5"}},
	{name: "slas", keys: []string{"6"}},
	{name: "approvals", keys: []string{"7"}},
	{name: "approvals-granted", keys: []string{"7", "f"}},
	{name: "approval", keys: []string{"7", "enter"}},
	{name: "approval-asking", keys: []string{"7", "g"}},
	{name: "approval-hidden", keys: []string{"7", "down", "enter"}},
	{name: "gateways", keys: []string{"8"}},
	{name: "gateway", keys: []string{"8", "down", "enter"}},
	{name: "help", keys: []string{"?"}},
	{name: "waiting", keys: []string{"5"}, do: func(s *tui.Screen) { s.Wait(3 * time.Second) }},
	{name: "disconnected", do: func(s *tui.Screen) { s.Lose(errors.New("EOF"), 2, 2500*time.Millisecond) }},
}

func more(s *tui.Screen) { s.Feed(recording.Traces(430)[390:430]...) }

// Every screen is equal to its golden file, at three sizes without color, and
// in both themes at the smallest.
func TestScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {250, 60}} {
		for _, l := range looks {
			if l.colour && size.w != 80 {
				continue
			}
			for _, shot := range shots {
				name := fmt.Sprintf("%s-%dx%d-%s", shot.name, size.w, size.h, l.name)
				t.Run(name, func(t *testing.T) {
					s := tui.NewScreen(options(&recording.Plane{}, l), size.w, size.h)
					s.Feed(recording.Traces(400)...)
					s.Key(shot.keys...)
					if shot.do != nil {
						shot.do(s)
					}
					view := s.View()
					fits(t, view, size.w, size.h)
					if l.name == "plain" && strings.Contains(view, "\x1b") {
						t.Error("colour without colour")
					}
					golden(t, name, view)
				})
			}
		}
	}
}

// An empty, forbidden or failing screen shows the reason, and what to do.
func TestScreensWithNothingToShow(t *testing.T) {
	refused := &client.Error{Status: 403, Message: "insufficient permission"}
	for _, row := range []struct {
		name  string
		plane *recording.Plane
		want  []string // one key per tab
	}{
		{"empty", &recording.Plane{Empty: true}, []string{"No traces yet", "Last 24h", "No agents yet", "No policies yet", "No budgets yet", "No SLA targets yet", "No pending approvals", "No gateway reports"}},
		{"forbidden", &recording.Plane{Err: refused}, []string{"No traces yet", "this key may not do that (403)", "This key may not see them (403)", "This key may not see them (403)", "This key may not see them (403)", "This key may not see them (403)", "This key may not see them (403)", "This key may not see them (403)"}},
		{"unauthorized", &recording.Plane{Err: &client.Error{Status: 401, Message: "x"}}, []string{"No traces yet", "check SVC_API_KEY", "check SVC_API_KEY", "check SVC_API_KEY", "check SVC_API_KEY", "check SVC_API_KEY", "check SVC_API_KEY", "check SVC_API_KEY"}},
	} {
		s := tui.NewScreen(options(row.plane, looks[0]), 80, 24)
		for i, want := range row.want {
			s.Key(fmt.Sprint(i + 1))
			name := fmt.Sprintf("%s-%d", row.name, i+1)
			t.Run(name, func(t *testing.T) {
				if !strings.Contains(s.View(), want) {
					t.Errorf("no %q in\n%s", want, s.View())
				}
				fits(t, s.View(), 80, 24)
				golden(t, name, s.View())
			})
		}
	}
}

// At any size, no line is wider than the terminal and there are no more lines
// than it has; help and quit are visible from 30 columns on.
func TestAnySize(t *testing.T) {
	sixty := recording.Traces(60)
	huge := tui.NewScreen(options(&recording.Plane{}, looks[1]), 500, 200)
	huge.Feed(sixty...)
	fits(t, huge.View(), 500, 200)
	for _, l := range looks[:2] {
		for w := 1; w <= 260; w += 1 + w/3 {
			for _, h := range []int{1, 3, 7, 9, 17, 70} {
				for _, shot := range shots {
					s := tui.NewScreen(options(&recording.Plane{}, l), w, h)
					s.Feed(sixty...)
					s.Key(shot.keys...)
					if shot.do != nil {
						shot.do(s)
					}
					view := s.View()
					fits(t, view, w, h)
					if w >= 30 && h >= 7 && !strings.Contains(ansi.Strip(view), "q quit") && !strings.Contains(shot.name, "filter-") && !strings.Contains(shot.name, "typing") && !strings.Contains(shot.name, "asking") {
						t.Errorf("%s at %dx%d does not say how to quit:\n%s", shot.name, w, h, view)
					}
					if t.Failed() {
						t.Fatalf("%s at %dx%d", shot.name, w, h)
					}
				}
			}
		}
	}
}

// No information is shown by color alone: the text of a colored screen is
// that of the plain one, except for the brackets of the active item and the
// cursor.
func TestColourSaysNothingMore(t *testing.T) {
	for _, shot := range shots {
		plain := tui.NewScreen(options(&recording.Plane{}, looks[0]), 100, 30)
		dark := tui.NewScreen(options(&recording.Plane{}, looks[1]), 100, 30)
		for _, s := range []*tui.Screen{plain, dark} {
			s.Feed(recording.Traces(60)...)
			s.Key(shot.keys...)
		}
		same := strings.NewReplacer("[", " ", "]", " ", "_", " ")
		if a, b := same.Replace(plain.View()), same.Replace(ansi.Strip(dark.View())); strings.TrimSpace(a) != strings.TrimSpace(b) {
			t.Errorf("%s:\n%s\n%s", shot.name, a, b)
		}
	}
}
