package recording

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// The picture is well-formed, shows its first frame without animation, and is
// the same each time.
func TestPicture(t *testing.T) {
	svg := Picture()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	shown, hidden := 0, 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "g" {
			shown++
			for _, a := range e.Attr {
				if a.Name.Local == "visibility" && a.Value == "hidden" {
					hidden++
				}
			}
		}
	}
	if n := len(tour()); shown != n || hidden != n-1 {
		t.Errorf("%d frames, %d hidden, of %d", shown, hidden, n)
	}
	if string(Picture()) != string(svg) {
		t.Error("the picture is another one each time")
	}
	for _, want := range []string{"following", "blocked", "policy_eval", "From the stream", "mask-personal-data", "research-day", "breached"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the tour does not show %q", want)
		}
	}
}

// Styles, and characters that XML must escape, are preserved in the conversion
// of a screen to SVG.
func TestSVG(t *testing.T) {
	lines := parse("a\x1b[1;38;2;255;0;16mb<\x1b[0m \x1b[48;2;1;2;3m漢\x1b[0mz", func(s string) int { return len([]rune(s)) + strings.Count(s, "漢") })
	want := []run{
		{col: 0, width: 1, text: "a"}, {col: 1, width: 2, text: "b<", fore: "#ff0010", bold: true}, {col: 3, width: 1, text: " "},
		{col: 4, width: 2, text: "漢", back: "#010203"}, {col: 6, width: 1, text: "z"},
	}
	if len(lines) != 1 || len(lines[0]) != len(want) {
		t.Fatalf("%+v", lines)
	}
	for i, r := range lines[0] {
		if r != want[i] {
			t.Errorf("run %d: %+v, want %+v", i, r, want[i])
		}
	}
	still := string(svg("<title>", 10, 1, []frame{{"\x1b[38;2;1;2;3m<&>\x1b[0m", time.Second}}))
	if strings.Contains(still, "<&>") || !strings.Contains(still, "&lt;&amp;&gt;") || strings.Contains(still, "@keyframes") {
		t.Error(still)
	}
}
