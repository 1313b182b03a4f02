package ui

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"svc/server/display"
)

// A chart is an SVG of shapes alone, which is stretched to the room that it gets. The words of its axes are HTML beside
// it, so that they have the size of all other text on every screen.
const (
	chartWidth  = 600
	chartHeight = 160
	leastBar    = 2 // height of a value that is not 0
)

// chart is values over time, which the page shows as a picture and as a table.
type chart struct {
	Title  string
	Parts  []part
	Series []series
	format func(float64) string
	Lines  bool // else bars, of which each stands on the one before
	whole  bool // half a call is no tick of an axis
}

// part is a part of the time of a chart.
type part struct {
	From, To time.Time
	Running  bool // it has not ended
}

// series is the values of a chart of one kind, one for each part; NaN: none.
type series struct {
	Name, Class string
	Values      []float64
}

// Name returns the time of a part in words.
func (p part) Name() string {
	layout := "2006-01-02 15:04Z"
	if p.To.Sub(p.From) >= 24*time.Hour {
		layout = time.DateOnly
	}
	if p.Running {
		layout += ", so far"
	}
	return p.From.UTC().Format(layout)
}

// X returns the words below a chart: its start, its middle and its end.
func (c chart) X() []string {
	if len(c.Parts) == 0 {
		return nil
	}
	from, to := c.Parts[0].From.UTC(), c.Parts[len(c.Parts)-1].To.UTC()
	layout := "15:04"
	if to.Sub(from) > 24*time.Hour {
		layout = "Jan 2"
	}
	return []string{from.Format(layout), from.Add(to.Sub(from) / 2).Format(layout), to.Format(layout)}
}

// Y returns the words beside a chart, from the top down.
func (c chart) Y() []string {
	end := c.end()
	return []string{c.format(end), c.format(end / 2), c.format(0)}
}

// Cell returns a value in words.
func (c chart) Cell(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return c.format(v)
}

// top returns the highest value: of bars that stand on each other, their sum.
func (c chart) top() (top float64, at int) {
	for i := range c.Parts {
		sum := 0.0
		for _, s := range c.Series {
			if v := display.Top(s.Values[i]); c.Lines {
				sum = max(sum, v)
			} else {
				sum += v
			}
		}
		if sum > top {
			top, at = sum, i
		}
	}
	return top, at
}

// end returns the end of the axis of values.
func (c chart) end() float64 {
	top, _ := c.top()
	if c.whole {
		top = max(top, 2)
	}
	return display.Axis(top)
}

// describe returns what a chart shows, in a sentence.
func (c chart) describe() string {
	top, at := c.top()
	if top == 0 {
		return "All values are 0."
	}
	return fmt.Sprintf("%s; the highest is %s, %s.", display.Plural(len(c.Parts), "value", "values"), c.format(top), c.Parts[at].Name())
}

// tip returns the values of a part in words.
func (c chart) tip(i int) string {
	words := make([]string, len(c.Series))
	for k, s := range c.Series {
		words[k] = s.Name + " " + c.Cell(s.Values[i])
	}
	return c.Parts[i].Name() + ": " + strings.Join(words, ", ")
}

// SVG returns the picture of a chart.
func (c chart) SVG() template.HTML {
	var b strings.Builder
	escape := template.HTMLEscapeString
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[4]s</title><desc>%s</desc><path class="grid" d="M0 0H%[1]dM0 %[6]dH%[1]dM0 %[2]dH%[1]d"/>`,
		chartWidth, chartHeight, escape(c.Title+": "+c.describe()), escape(c.Title), escape(c.describe()), chartHeight/2)
	if c.Lines {
		c.drawLines(&b)
	} else {
		c.drawBars(&b)
	}
	for i := range c.Parts {
		w := chartWidth / float64(len(c.Parts))
		fmt.Fprintf(&b, `<rect class="hit" x="%.1f" width="%.1f" height="%d"><title>%s</title></rect>`, float64(i)*w, w, chartHeight, escape(c.tip(i)))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// height returns how high a value is drawn; ok is false for no value.
func height(v, end float64) (h float64, ok bool) {
	h = chartHeight * v / end
	return min(max(h, 0), chartHeight), !math.IsNaN(h)
}

// drawBars draws a bar for each part, the first series at the bottom.
func (c chart) drawBars(b *strings.Builder) {
	end, w := c.end(), chartWidth/float64(len(c.Parts))
	for i := range c.Parts {
		y := float64(chartHeight)
		for _, s := range c.Series {
			if h, ok := height(s.Values[i], end); ok && s.Values[i] > 0 {
				h = min(max(h, leastBar), y)
				y -= h
				fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, s.Class, float64(i)*w+w*.1, y, w*.8, h)
			}
		}
	}
}

// drawLines draws a line for each series, with gaps where it has no value.
func (c chart) drawLines(b *strings.Builder) {
	end, w := c.end(), chartWidth/float64(len(c.Parts))
	for _, s := range c.Series {
		fmt.Fprintf(b, `<path class="line %s" d="`, s.Class)
		pen := "M"
		for i, v := range s.Values {
			h, ok := height(v, end)
			if !ok {
				pen = "M"
				continue
			}
			fmt.Fprintf(b, "%s%.1f %.1f", pen, (float64(i)+.5)*w, chartHeight-h)
			if pen == "M" {
				b.WriteString("h0") // a value between gaps is a dot
			}
			pen = "L"
		}
		b.WriteString(`"/>`)
	}
}

// share draws a part of a whole as a bar for a cell; the cell beside it has the number.
func share(value, whole float64) template.HTML {
	w := 100 * value / whole
	if !(w > 0) {
		w = 0
	}
	return template.HTML(fmt.Sprintf(`<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6"/><rect width="%.1f" height="6"/></svg>`, min(w, 100)))
}
