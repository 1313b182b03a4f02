package check

import (
	"regexp/syntax"
	"slices"
	"unicode"
)

// coverSearch searches for the shortest name that one program accepts and no other does.
// It simulates all programs on all names at once: a state is the set of positions of each
// program after the same characters. The number of states is finite, so a search that
// ends without such a name proves that there is none.
type coverSearch struct {
	target *syntax.Prog
	covers []*syntax.Prog
	left   int // remaining units of work

	meets bool // the covers must accept the name too
	words bool // an expression tests word boundaries
	seen  map[string]bool
	queue []state
	key   []byte
}

// maxStates bounds the memory of a search.
const maxStates = 20_000

// state is the positions of the programs, before empty steps are taken, because empty
// steps may depend on the next character.
type state struct {
	target []uint32
	covers [][]uint32
	before rune // class of the previous character: start, word or other
	name   string
}

// Characters that represent their class, for expressions that test the neighbors of a
// position. atEdge is the value of package syntax for the start and the end.
const (
	atEdge = rune(-1)
	word   = 'a'
	other  = '-'
)

func (w *coverSearch) run() (coverage, string) {
	w.words = testsWords(w.target) || slices.ContainsFunc(w.covers, testsWords)
	w.seen = map[string]bool{}
	start := state{target: []uint32{uint32(w.target.Start)}, before: atEdge}
	for _, c := range w.covers {
		start.covers = append(start.covers, []uint32{uint32(c.Start)})
	}
	w.add(start)
	for i := 0; i < len(w.queue); i++ {
		s := w.queue[i]
		w.queue[i] = state{} // release the memory of visited states
		if w.left <= 0 || len(w.seen) > maxStates {
			return coversUnknown, ""
		}
		if s.name != "" && w.accepts(&s) {
			return coversNotAll, s.name
		}
		w.step(&s)
	}
	return coversAll, ""
}

// accepts reports whether the target accepts at this state and no other program does; with meets,
// whether all do.
func (w *coverSearch) accepts(s *state) bool {
	flags := syntax.EmptyOpContext(s.before, atEdge)
	if _, ok := w.reach(w.target, s.target, flags); !ok {
		return false
	}
	for i, c := range w.covers {
		if _, ok := w.reach(c, s.covers[i], flags); ok != w.meets {
			return false
		}
	}
	return true
}

// step visits the successors of a state.
func (w *coverSearch) step(s *state) {
	kinds := []rune{other}
	if w.words {
		kinds = []rune{word, other}
	}
	for _, kind := range kinds {
		flags := syntax.EmptyOpContext(s.before, kind)
		target, _ := w.reach(w.target, s.target, flags)
		if len(target) == 0 {
			continue
		}
		covers := make([][]uint32, len(w.covers))
		for i, c := range w.covers {
			covers[i], _ = w.reach(c, s.covers[i], flags)
		}
		for _, r := range w.alphabet(target, covers) {
			if w.words && isWord(r) != (kind == word) {
				continue
			}
			next := state{target: w.consume(w.target, target, r), before: kind, name: s.name + string(r)}
			if len(next.target) == 0 {
				continue
			}
			for i, c := range w.covers {
				next.covers = append(next.covers, w.consume(c, covers[i], r))
			}
			if w.add(next); w.left <= 0 {
				return
			}
		}
	}
}

// add queues a state that was not queued before.
func (w *coverSearch) add(s state) {
	k := append(w.key[:0], byte(s.before))
	k = appendPositions(k, s.target)
	for _, c := range s.covers {
		k = appendPositions(k, c)
	}
	w.key = k
	if !w.seen[string(k)] {
		w.seen[string(k)] = true
		w.queue = append(w.queue, s)
	}
	w.left -= len(k) / 8
}

func appendPositions(k []byte, list []uint32) []byte {
	for _, p := range list {
		k = append(k, byte(p), byte(p>>8), byte(p>>16), byte(p>>24))
	}
	return append(k, 0xff, 0xff, 0xff, 0xff)
}

// reach follows the empty steps that the neighboring characters allow. It returns the
// positions that need a character next, and whether the end is reached.
func (w *coverSearch) reach(p *syntax.Prog, from []uint32, flags syntax.EmptyOp) (at []uint32, end bool) {
	visited := make(map[uint32]bool, 2*len(from))
	stack := slices.Clone(from)
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if visited[pc] {
			continue
		}
		visited[pc] = true
		w.left--
		switch i := &p.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags == 0 {
				stack = append(stack, i.Out)
			}
		case syntax.InstMatch:
			end = true
		case syntax.InstFail:
		default:
			at = append(at, pc)
		}
	}
	slices.Sort(at)
	return at, end
}

// consume returns the positions after a character.
func (w *coverSearch) consume(p *syntax.Prog, from []uint32, r rune) []uint32 {
	var to []uint32
	for _, pc := range from {
		w.left--
		if i := &p.Inst[pc]; i.MatchRune(r) {
			to = append(to, i.Out)
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// nameEdges and wordEdges are the bounds of the classes of name and word characters: one character
// represents all between two bounds.
var (
	nameEdges = []rune{' ', 0x7f, 0x80, 0xd800, 0xe000, unicode.MaxRune + 1}
	wordEdges = []rune{'0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1}
)

// alphabet returns one character for each class that all positions treat alike.
func (w *coverSearch) alphabet(target []uint32, covers [][]uint32) []rune {
	cuts := slices.Clone(nameEdges)
	if w.words {
		cuts = append(cuts, wordEdges...)
	}
	for _, pc := range target {
		cuts = appendCuts(cuts, &w.target.Inst[pc])
	}
	for i, c := range w.covers {
		for _, pc := range covers[i] {
			cuts = appendCuts(cuts, &c.Inst[pc])
		}
	}
	w.left -= len(cuts)
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []rune
	for i := 0; i+1 < len(cuts); i++ {
		if from := cuts[i]; inName(from) {
			out = append(out, pick(from, cuts[i+1]))
		}
	}
	return out
}

// appendCuts appends the bounds of the characters that an instruction matches.
func appendCuts(cuts []rune, i *syntax.Inst) []rune {
	if i.Op == syntax.InstRuneAny || i.Op == syntax.InstRuneAnyNotNL {
		return cuts // names contain no line feed
	}
	if len(i.Rune) == 1 {
		r := i.Rune[0]
		cuts = append(cuts, r, r+1)
		if syntax.Flags(i.Arg)&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				cuts = append(cuts, f, f+1)
			}
		}
		return cuts
	}
	for j := 0; j+1 < len(i.Rune); j += 2 {
		cuts = append(cuts, i.Rune[j], i.Rune[j+1]+1)
	}
	return cuts
}

// pick chooses the most readable character of a class, for messages.
func pick(from, to rune) rune {
	for _, r := range "ax0A_" {
		if from <= r && r < to {
			return r
		}
	}
	return from
}

// inName reports whether a tool name may contain a character.
func inName(r rune) bool {
	return r >= ' ' && r != 0x7f && (r < 0xd800 || r > 0xdfff) && r <= unicode.MaxRune
}

func isWord(r rune) bool { return syntax.IsWordChar(r) }

// testsWords reports whether a program tests word boundaries.
func testsWords(p *syntax.Prog) bool {
	return slices.ContainsFunc(p.Inst, func(i syntax.Inst) bool {
		return i.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(i.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
	})
}
