package tui

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"svc/server/display"
	"svc/store/api"
)

// A screen needs only its row in the table: its tab, keys, help and list are derived
// from it.
func TestAScreenIsARowOfTheTable(t *testing.T) {
	before := screens
	t.Cleanup(func() { screens = before })
	screens = append(append([]screen{}, before...), screen{
		title: "Words", key: "w", help: "words", plane: true,
		page: listOf(func(s *shared) table[string] {
			return table[string]{
				noun: "words", id: func(w string) string { return w },
				fetch: func(context.Context) (listed[string], error) {
					return listed[string]{[]string{"alpha", "beta"}, 2}, nil
				},
				columns: []column[string]{{title: "WORD", min: 10, cell: func(w string, _ int) (string, style) { return w, s.styles.plain }}},
				opened:  func(w string) []field { return []field{{name: "Letters", value: w}} },
				traces:  func(w string) string { return "agent:" + w }, tracesHint: "its traces",
			}
		}),
	})
	s := NewScreen(Options{Output: io.Discard, Plane: struct{ Plane }{}, Now: func() time.Time { return noon }}, 150, 60)
	see := func(want ...string) {
		t.Helper()
		view := ansi.Strip(s.View())
		for _, w := range want {
			if !strings.Contains(view, w) {
				t.Errorf("the screen does not show %q:\n%s", w, view)
			}
		}
	}
	s.Key("9")
	see("9 Words", "2 words", "WORD", "▌ alpha", "t its traces")
	s.Key("1", "w", "down", "enter")
	see("Letters", "beta")
	s.Key("esc", "?")
	see("1 to 9", "w ", "words")
	s.Key("?", "t")
	see("agent:beta")
}

// Without a control plane only the screens that do not need it exist.
func TestScreensWithoutAControlPlane(t *testing.T) {
	s := &shared{}
	var titles []string
	for _, sc := range available(s) {
		titles = append(titles, sc.title)
	}
	if got := strings.Join(titles, " "); got != "Traces Stats" {
		t.Errorf("screens %s", got)
	}
	if got := screenKeys(s)[0].key; got != "1, 2" {
		t.Errorf("keys %s", got)
	}
}

// A policy that blocks until a person grants is not shown as one that blocks.
func TestActionOfPolicyWithApproval(t *testing.T) {
	if got := display.Action(&api.Policy{Action: "block", Approval: &api.Approval{}}); got != "block, approval" {
		t.Errorf("%q", got)
	}
}
