package recording

import (
	"strconv"
	"strings"
)

// run is a part of a line in one style.
type run struct {
	col        int // position in cells from the left
	width      int // width in cells
	text       string
	fore, back string // #rrggbb; empty for the terminal's default
	bold       bool
}

// parse splits a drawn screen into runs, line by line. It supports what
// package tui uses: SGR with true color, bold and reset.
func parse(view string, width func(string) int) [][]run {
	var lines [][]run
	for text := range strings.SplitSeq(view, "\n") {
		var line []run
		var style run
		col := 0
		for text != "" {
			before, after, found := strings.Cut(text, "\x1b[")
			if before != "" {
				r := style
				r.col, r.width, r.text = col, width(before), before
				line = append(line, r)
				col += r.width
			}
			if !found {
				break
			}
			codes, rest, _ := strings.Cut(after, "m")
			style.apply(codes)
			text = rest
		}
		lines = append(lines, line)
	}
	return lines
}

// apply applies one SGR sequence.
func (r *run) apply(codes string) {
	n := strings.Split(codes, ";")
	for i := 0; i < len(n); i++ {
		switch n[i] {
		case "", "0":
			*r = run{}
		case "1":
			r.bold = true
		case "38", "48":
			if i+4 >= len(n) || n[i+1] != "2" {
				return
			}
			if n[i] == "38" {
				r.fore = hex(n[i+2 : i+5])
			} else {
				r.back = hex(n[i+2 : i+5])
			}
			i += 4
		}
	}
}

func hex(parts []string) string {
	var b strings.Builder
	b.WriteByte('#')
	for _, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > 255 {
			v = 0
		}
		if v < 16 {
			b.WriteByte('0')
		}
		b.WriteString(strconv.FormatInt(int64(v), 16))
	}
	return b.String()
}
