package recording

import (
	"io"
	"time"

	"svc/tui"
)

// columns and rows are the size of the terminal in the tour.
const (
	columns = 110
	rows    = 30
)

// Options are the options of a screen with invented data at the time moment.
func Options(p *Plane) tui.Options {
	return tui.Options{
		Plane: p, Name: "https://svc.example.com", Output: io.Discard, Colour: true, Theme: tui.Dark,
		Now: func() time.Time { return moment }, Copy: func(string) error { return nil },
	}
}

// tour shows the features of svc tui: traces arrive, one is opened, they are
// filtered, and the other screens are opened.
func tour() []frame {
	s := tui.NewScreen(Options(&Plane{}), columns, rows)
	all := Traces(traceCount)
	var frames []frame
	shot := func(stay time.Duration) { frames = append(frames, frame{s.View(), stay}) }

	s.Feed(all[:len(all)-3]...)
	shot(900 * time.Millisecond)
	for _, ev := range all[len(all)-3:] {
		s.Feed(ev)
		shot(400 * time.Millisecond)
	}
	shot(800 * time.Millisecond)
	s.Key("/", "status:bl")
	shot(700 * time.Millisecond)
	s.Key("ocked")
	shot(1200 * time.Millisecond)
	s.Key("enter", "enter")
	shot(2200 * time.Millisecond)
	s.Key("esc", "esc", "up", "up", "enter")
	shot(2600 * time.Millisecond)
	s.Key("esc", "s")
	shot(2800 * time.Millisecond)
	s.Key("4")
	shot(2200 * time.Millisecond)
	s.Key("5")
	shot(2000 * time.Millisecond)
	s.Key("6")
	shot(2200 * time.Millisecond)
	return frames
}

// Picture returns the tour as SVG.
func Picture() []byte {
	return svg("svc tui: live traces, one blocked call with its spans, statistics, policies, budgets and SLA targets", columns, rows, tour())
}
