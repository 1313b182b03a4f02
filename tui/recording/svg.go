package recording

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// frame is one picture of a recording with its duration.
type frame struct {
	View string
	Stay time.Duration
}

// Size of a cell and of the frame around the screen, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 17
	padding    = 14
	bar        = 30
)

// svg draws frames of cols by rows cells as an endless animation; one frame
// is a still picture. The text stays text, so that screen readers can read it
// and browsers can search it.
func svg(title string, cols, rows int, frames []frame) []byte {
	var b bytes.Buffer
	w, h := float64(cols)*cellWidth+2*padding, float64(rows)*cellHeight+2*padding+bar
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" xml:space="preserve" fill="#d5dae1" role="img" aria-label="%s">`+"\n", w, h, w, h, escape(title))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n", escape(title))
	b.WriteString("text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;font-size:14px;white-space:pre}\n.b{font-weight:bold}\n")
	total := time.Duration(0)
	for _, f := range frames {
		total += f.Stay
	}
	if len(frames) > 1 {
		at := time.Duration(0)
		for i, f := range frames {
			from, to := 100*float64(at)/float64(total), 100*float64(at+f.Stay)/float64(total)
			fmt.Fprintf(&b, "@keyframes f%d{0%%{visibility:hidden}%.3f%%{visibility:visible}%.3f%%,100%%{visibility:hidden}}\n", i, from, to)
			fmt.Fprintf(&b, ".f%d{animation:f%d %.1fs step-end infinite}\n", i, i, total.Seconds())
			at += f.Stay
		}
		b.WriteString("@media (prefers-reduced-motion:reduce){g{animation:none!important}}\n")
	}
	b.WriteString("</style>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="10" fill="#0d1117"/>`+"\n", w, h)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="6" fill="%s"/>`+"\n", 22+20*i, colour)
	}
	for i, f := range frames {
		hidden := ""
		if i > 0 { // viewers without animation show the first frame
			hidden = ` visibility="hidden"`
		}
		fmt.Fprintf(&b, `<g class="f%d"%s>`+"\n", i, hidden)
		drawFrame(&b, f.View, rows)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func drawFrame(b *bytes.Buffer, view string, rows int) {
	for y, line := range parse(view, ansi.StringWidth) {
		if y >= rows {
			break
		}
		top := float64(padding+bar) + float64(y)*cellHeight
		for _, r := range line {
			x := padding + float64(r.col)*cellWidth
			if r.back != "" {
				fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%d" fill="%s"/>`+"\n", tenths(x), tenths(top), tenths(float64(r.width)*cellWidth), cellHeight, r.back)
			}
		}
		for _, r := range line {
			text := strings.TrimRight(r.text, " ")
			if text == "" {
				continue
			}
			lead := len(text) - len(strings.TrimLeft(text, " "))
			text = text[lead:]
			attrs := ""
			if r.fore != "" {
				attrs += ` fill="` + r.fore + `"`
			}
			if r.bold {
				attrs += ` class="b"`
			}
			// Each run is stretched to the width of its cells, for any font.
			fmt.Fprintf(b, `<text x="%s" y="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n",
				tenths(padding+float64(r.col+lead)*cellWidth), tenths(top+13), tenths(float64(ansi.StringWidth(text))*cellWidth), attrs, escape(text))
		}
	}
}

// tenths formats a number with at most one digit after the point.
func tenths(v float64) string { return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") }

func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}
