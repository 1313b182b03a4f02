package arguments

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of a condition.
const (
	maxPointer = 1024 // bytes of a JSON Pointer
	maxSteps   = 32
	maxEntries = 64 // pointers of one condition
)

// anyStep is the step of a pointer that matches each element or member.
const anyStep = "*"

// Plan has the pointers of all conditions of a set of rules. Conditions are added first; from the
// first [Plan.Read] on it is immutable and safe for concurrent use.
type Plan struct {
	root     node
	pointers int
	byText   map[string]int
}

// node is a step that pointers share: a node of a trie.
type node struct {
	// ends are the pointers that end at this node, below all that end below it.
	ends, below []int
	each        *node   // the step *
	named       []child // in the order in which they were added
	// folded maps the folded name of a step to its indexes in named.
	folded map[string][]int
	// elements are the indexes in named of the steps that can be the index of an array.
	elements []int
}

type child struct {
	name []byte
	node *node
}

// add returns the number of a pointer, the same for equal pointers.
func (p *Plan) add(pointer string) (id int, wildcard bool, err error) {
	steps, err := parsePointer(pointer)
	if err != nil {
		return 0, false, err
	}
	wildcard = slices.ContainsFunc(steps, func(s step) bool { return s.each })
	if id, ok := p.byText[pointer]; ok {
		return id, wildcard, nil
	}
	if p.byText == nil {
		p.byText = map[string]int{}
	}
	id = p.pointers
	p.pointers++
	p.byText[pointer] = id
	n := &p.root
	for _, s := range steps {
		n.below = append(n.below, id)
		n = n.step(s)
	}
	n.ends = append(n.ends, id)
	return id, wildcard, nil
}

// step returns the child for a step, and adds it if it is new.
func (n *node) step(s step) *node {
	if s.each {
		if n.each == nil {
			n.each = &node{}
		}
		return n.each
	}
	c := child{name: []byte(s.name), node: &node{}}
	if n.folded == nil {
		n.folded = map[string][]int{}
	}
	key := string(fold(c.name))
	for _, i := range n.folded[key] {
		if string(n.named[i].name) == s.name {
			return n.named[i].node
		}
	}
	n.folded[key] = append(n.folded[key], len(n.named))
	if isIndex(s.name) {
		n.elements = append(n.elements, len(n.named))
	}
	n.named = append(n.named, c)
	return c.node
}

// step is one step of a pointer.
type step struct {
	name string
	each bool
}

// parsePointer parses a JSON Pointer (RFC 6901) in which * matches each element or member.
func parsePointer(pointer string) ([]step, error) {
	switch {
	case pointer == "":
		return nil, nil
	case pointer[0] != '/':
		return nil, fmt.Errorf("a JSON Pointer begins with /, as in /path")
	case len(pointer) > maxPointer:
		return nil, fmt.Errorf("a JSON Pointer may have %d bytes, this one has %d", maxPointer, len(pointer))
	}
	parts := strings.Split(pointer[1:], "/")
	if len(parts) > maxSteps {
		return nil, fmt.Errorf("a JSON Pointer may have %d steps, this one has %d", maxSteps, len(parts))
	}
	steps := make([]step, len(parts))
	for i, part := range parts {
		for j := 0; j < len(part); j++ {
			if part[j] == '~' && (j+1 == len(part) || part[j+1] != '0' && part[j+1] != '1') {
				return nil, fmt.Errorf("~ is written ~0 in a JSON Pointer, and / in a name is ~1")
			}
		}
		if part == "-" {
			return nil, fmt.Errorf("- is the place behind the end of an array, where there is no value")
		}
		steps[i] = step{name: strings.NewReplacer("~1", "/", "~0", "~").Replace(part), each: part == anyStep}
	}
	return steps, nil
}

// isIndex reports whether a step can be the index of an array.
func isIndex(name string) bool {
	n, err := strconv.Atoi(name)
	return err == nil && strconv.Itoa(n) == name && n >= 0
}

// fold returns the form of a name in which names are equal that differ only in case or Unicode
// composition.
func fold(name []byte) []byte {
	if ascii(name) {
		return bytes.ToLower(name)
	}
	return norm.NFC.Bytes(cases.Fold().Bytes(norm.NFC.Bytes(name)))
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
