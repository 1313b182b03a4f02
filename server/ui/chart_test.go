package ui

import (
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc/server/display"
)

// TestChart: whatever the values are, the SVG is well-formed, its numbers are within it, and its table has the values.
func TestChart(t *testing.T) {
	nan := math.NaN()
	number := regexp.MustCompile(`-?[0-9.]+(?:e[-+]?\d+)?`)
	for name, test := range map[string]struct {
		values   []float64
		y        string
		describe string
		shapes   int // bars, or points of lines
	}{
		"empty":     {nil, "1 0.50 0", "All values are 0.", 0},
		"one value": {[]float64{7}, "8 4 0", "1 value; the highest is 7, 2026-11-30 09:00Z.", 1},
		"all zero":  {[]float64{0, 0, 0}, "1 0.50 0", "All values are 0.", 0},
		"gaps":      {[]float64{1, nan, 3, nan}, "4 2 0", "4 values; the highest is 3, 2026-11-30 11:00Z.", 2},
		"all gaps":  {[]float64{nan, nan}, "1 0.50 0", "All values are 0.", 0},
		"huge":      {[]float64{1, math.MaxFloat64}, "", "", 2},
		"infinite":  {[]float64{1, math.Inf(1)}, "", "", 1},
		"tiny":      {[]float64{5e-324, 1e-9}, "", "", 2},
		"negative":  {[]float64{-5, 10}, "10 5 0", "2 values; the highest is 10, 2026-11-30 10:00Z.", 1},
	} {
		for _, lines := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				c := chart{Title: "A <b>title</b>", Lines: lines, format: display.Short, Series: []series{{"s", "s1", test.values}}}
				for i := range test.values {
					at := epoch.Add(time.Duration(i) * time.Hour)
					c.Parts = append(c.Parts, part{From: at, To: at.Add(time.Hour)})
				}
				svg := string(c.SVG())
				for d := xml.NewDecoder(strings.NewReader(svg)); ; {
					if _, err := d.Token(); err == io.EOF {
						break
					} else if err != nil {
						t.Fatalf("%v in %s", err, svg)
					}
				}
				for _, bad := range []string{"NaN", "%!", "style=", "<b>"} {
					if strings.Contains(svg, bad) {
						t.Errorf("%q in %s", bad, svg)
					}
				}
				shapes := 0
				for _, m := range regexp.MustCompile(`<rect class="s1" ([^>]*)/>|<path class="line s1" d="([^"]*)"/>`).FindAllStringSubmatch(svg, -1) {
					shapes += strings.Count(m[0], "<rect") + len(regexp.MustCompile("[ML]").FindAllString(m[2], -1))
					for _, n := range number.FindAllString(m[1]+m[2], -1) {
						if len(n) > 5 || strings.Contains(m[0], "Inf") {
							t.Errorf("number %s in %s", n, m[0])
						}
					}
				}
				if want := test.shapes; !lines && shapes != want || lines && name == "gaps" && shapes != want {
					t.Errorf("%d shapes, want %d: %s", shapes, want, svg)
				}
				if y := strings.Join(c.Y(), " "); test.y != "" && y != test.y {
					t.Errorf("axis %q, want %q", y, test.y)
				}
				if test.describe != "" && c.describe() != test.describe {
					t.Errorf("described as %q, want %q", c.describe(), test.describe)
				}
				if (len(c.Parts) == 0) != (c.X() == nil) {
					t.Errorf("words of the time %v", c.X())
				}
				for _, v := range test.values {
					if cell := c.Cell(v); math.IsNaN(v) != (cell == "-") {
						t.Errorf("cell of %v is %q", v, cell)
					}
				}
			})
		}
	}
}

// TestAxis: axes end at round numbers whose half is round too.
func TestAxis(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, math.NaN(): 1, -1: 1, 1: 1, 1.01: 2, 3: 4, 5: 6, 9: 10, 99: 100, 101: 200, 0.03: 0.04, math.Inf(1): math.Inf(1)} {
		if got := display.Axis(top); math.Abs(got-want) > 1e-12 && got != want {
			t.Errorf("axis for %v ends at %v, want %v", top, got, want)
		}
	}
	for _, top := range []float64{math.MaxFloat64, 1e308, 5e-324, 1e-300} {
		if got := display.Axis(top); !(got >= top) {
			t.Errorf("axis for %v ends at %v", top, got)
		}
	}
}
