package detect

import (
	"math"
	"slices"
	"strings"
)

// Bounds of what is taken apart, in letters.
const (
	minGlued   = 14   // shorter runs of letters may well be a word
	maxRun     = 256  // of one run
	gluedWork  = 1024 // of all runs of a text
	runWork    = 2048 // of all runs that are looked at
	longestKey = 18   // of a word in a run
)

// shortWords are the short words that a run may well hold; other known ones of three
// letters count more, and others of two are taken for parts of longer words.
var shortWords = func() map[string]bool {
	all := make(map[string]bool)
	for _, w := range strings.Fields(`am an as at be by do go he hi if in is it me my no of on or so to up us we
		all and any are ask but can did for get had has her him his how its let may new not now off old one our out own say
		see set she the too two use was way who why yes you`) {
		all[w] = true
	}
	return all
}()

// segment returns a run of small letters with a space between its words. Among
// all ways to divide it, it takes the one with the fewest words, short and unknown
// ones counting more.
func segment(run []byte) []byte {
	run = run[:min(len(run), maxRun)]
	var cost [maxRun + 1]float32
	var from [maxRun + 1]int16
	for i := 1; i <= len(run); i++ {
		cost[i] = math.MaxFloat32
	}
	for i := range run {
		if c := cost[i] + 4; c < cost[i+1] { // a letter that belongs to no word
			cost[i+1], from[i+1] = c, int16(i)
		}
		h := uint32(2166136261)
		for n := 1; n <= longestKey && i+n <= len(run); n++ {
			h = (h ^ uint32(run[i+n-1])) * 16777619
			if c := cost[i] + wordCost(run[i:i+n], h); c < cost[i+n] {
				cost[i+n], from[i+n] = c, int16(i)
			}
		}
	}
	var cuts []int
	for at := len(run); at > 0; at = int(from[at]) {
		cuts = append(cuts, at)
	}
	slices.Reverse(cuts)
	out, at := make([]byte, 0, len(run)+len(cuts)), 0
	for _, cut := range cuts {
		if at > 0 {
			out = append(out, ' ')
		}
		out = append(out, run[at:cut]...)
		at = cut
	}
	return out
}

// wordCost is what a word with hash h costs in a division.
func wordCost(w []byte, h uint32) float32 {
	switch {
	case len(w) == 1 && (w[0] == 'a' || w[0] == 'i'):
		return 2
	case len(w) == 2 && shortWords[string(w)]:
		return 1.5
	case len(w) == 3 && shortWords[string(w)]:
		return 1.1
	case len(w) == 3 && vectorOf(h) != nil:
		return 1.6
	case len(w) > 3 && vectorOf(h) != nil:
		return 1
	}
	return math.MaxFloat32 / 4
}

// divide puts spaces into the long runs of letters of a folded text in which
// a rule holds, as it does for letters alone. Without such it returns t itself.
func (e *examination) divide(t []byte) []byte {
	var out []byte
	copied := 0
	for i := 0; i < len(t); {
		start := i
		for i < len(t) && t[i] >= 'a' && t[i] <= 'z' {
			i++
		}
		if i == start {
			i++
			continue
		}
		run := t[start:min(i, start+maxRun)]
		if i-start < minGlued || len(run) > min(e.glued, e.runs) {
			continue
		}
		e.runs -= len(run)
		if e.hits = words.scan(e.hits[:0], run, true); holds(e.hits) {
			e.glued -= len(run)
			out = append(append(out, t[copied:start]...), segment(run)...)
			copied = start + len(run)
		}
	}
	if copied == 0 {
		return t
	}
	return append(out, t[copied:]...)
}

// holds reports whether a rule holds among hits.
func holds(hits []hit) bool {
	if len(hits) < 2 {
		return false
	}
	var s strengths
	s.judge(hits, 1)
	return s.best != [len(s.best)]float64{}
}
