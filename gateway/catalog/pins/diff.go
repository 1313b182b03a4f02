package pins

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"svc/gateway/mcp"
)

// Change is one place where two definitions differ.
type Change struct {
	// Pointer is the position as a JSON Pointer (RFC 6901); empty for the whole
	// definition.
	Pointer string
	// Old and New are the values in canonical JSON; empty when absent.
	Old, New string
	// Words is set when both values are strings: the new text, in which [-words-] were
	// removed and {+words+} were added. Invisible characters are escaped.
	Words string
}

// maxChanges bounds the differences of one comparison; the last one represents all
// further ones.
const maxChanges = 1000

// Diff compares two definitions, both in canonical form.
func Diff(older, newer Definition) []Change {
	a, errA := mcp.Value(older.JSON)
	b, errB := mcp.Value(newer.JSON)
	if errA != nil || errB != nil {
		return []Change{{Old: string(older.JSON), New: string(newer.JSON)}}
	}
	var d differ
	d.compare("", a, b)
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(c Change) {
	if len(d.changes) < maxChanges {
		d.changes = append(d.changes, c)
	}
}

func (d *differ) compare(at string, a, b any) {
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			d.members(at, x, y)
			return
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok {
			d.elements(at, x, y)
			return
		}
	}
	older, newer := string(mcp.Append(nil, a)), string(mcp.Append(nil, b))
	if older == newer {
		return
	}
	c := Change{Pointer: at, Old: older, New: newer}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			c.Words = words(x, y)
		}
	}
	d.add(c)
}

func (d *differ) members(at string, a, b map[string]any) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		place := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		x, before := a[name]
		y, after := b[name]
		d.one(place, x, before, y, after)
	}
}

func (d *differ) elements(at string, a, b []any) {
	for i := range max(len(a), len(b)) {
		var x, y any
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		d.one(at+"/"+strconv.Itoa(i), x, i < len(a), y, i < len(b))
	}
}

func (d *differ) one(at string, x any, before bool, y any, after bool) {
	switch {
	case before && after:
		d.compare(at, x, y)
	case before:
		d.add(Change{Pointer: at, Old: string(mcp.Append(nil, x))})
	default:
		d.add(Change{Pointer: at, New: string(mcp.Append(nil, y))})
	}
}

// FileChange is a file of a skill that was added, removed or changed: Old, New or none is nil.
type FileChange struct {
	URI      string
	Old, New *SkillFile
}

// DiffSkills compares two definitions of a skill, of which one may be the zero Definition: its frontmatter
// and the rest that is no list of files, and its files, sorted by address.
func DiffSkills(older, newer Definition) (changes []Change, files []FileChange) {
	a, formA := skillParts(older)
	b, formB := skillParts(newer)
	changes = Diff(formA, formB)
	for _, f := range a {
		c := FileChange{URI: f.URI, Old: &f}
		if i, ok := slices.BinarySearchFunc(b, f.URI, compareFile); !ok {
			files = append(files, c)
		} else if c.New = &b[i]; *c.New != f {
			files = append(files, c)
		}
	}
	for _, f := range b {
		if _, ok := slices.BinarySearchFunc(a, f.URI, compareFile); !ok {
			files = append(files, FileChange{URI: f.URI, New: &f})
		}
	}
	slices.SortFunc(files, func(a, b FileChange) int { return strings.Compare(a.URI, b.URI) })
	return changes, files
}

// skillParts returns the files of a definition of a skill, and a definition of the rest.
func skillParts(d Definition) ([]SkillFile, Definition) {
	s, err := readSkill(d.JSON)
	if err != nil {
		return nil, defined(map[string]any{})
	}
	rest := map[string]any{"frontmatter": s.Frontmatter}
	if s.Dynamic {
		rest["resources"] = dynamicSkill
	}
	return s.Files, defined(rest)
}

// maxTable bounds the work of a comparison by words; for longer texts the differing part
// is shown as replaced.
const maxTable = 4 << 20

// words compares two texts word by word.
func words(older, newer string) string {
	a, b := splitWords(older), splitWords(newer)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	var out strings.Builder
	show(&out, a[:start])
	middle(&out, a[start:len(a)-end], b[start:len(b)-end])
	show(&out, a[len(a)-end:])
	return out.String()
}

// middle writes the difference: by the longest common subsequence of words, or as a
// whole when the table for that would be too large.
func middle(out *strings.Builder, a, b []string) {
	if len(a)*len(b) > maxTable {
		mark(out, "[-", a, "-]")
		mark(out, "{+", b, "+}")
		return
	}
	// common[i][j] is the length for a[i:] and b[j:].
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			show(out, a[i:i+1])
			i, j = i+1, j+1
			continue
		}
		k, l := i, j
		for (k < len(a) || l < len(b)) && !(k < len(a) && l < len(b) && a[k] == b[l]) {
			if l == len(b) || k < len(a) && common[k+1][l] >= common[k][l+1] {
				k++
			} else {
				l++
			}
		}
		mark(out, "[-", a[i:k], "-]")
		mark(out, "{+", b[j:l], "+}")
		i, j = k, l
	}
}

func mark(out *strings.Builder, before string, list []string, after string) {
	if len(list) == 0 {
		return
	}
	out.WriteString(before)
	show(out, list)
	out.WriteString(after)
}

// splitWords splits a text into words, single other characters and runs of white space,
// without losing a character.
func splitWords(s string) []string {
	var out []string
	start, class := 0, -1
	for i, r := range s {
		c := 2
		switch {
		case unicode.IsSpace(r):
			c = 0
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			c = 1
		}
		if i > start && (c != class || c == 2) {
			out = append(out, s[start:i])
			start = i
		}
		class = c
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// Visible returns a text in which invisible characters are escaped.
func Visible(text string) string {
	var out strings.Builder
	show(&out, []string{text})
	return out.String()
}

// show writes words; invisible characters, and characters that move or hide text on a
// terminal, are escaped.
func show(out *strings.Builder, list []string) {
	for _, s := range list {
		for _, r := range s {
			if r == '\n' || r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) {
				out.WriteRune(r)
				continue
			}
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
	}
}
