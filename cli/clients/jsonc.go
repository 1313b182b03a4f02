package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// maxDepth bounds the nesting of a file.
const maxDepth = 200

// node is a value in a JSON file with comments and trailing commas, by its position.
type node struct {
	start, end int
	kind       byte // '{', '[' or 'v'
	names      []string
	starts     []int // of the names
	values     []node
	commas     []int // the positions of the commas after the values; -1 for none
	trailing   bool  // whether a comma follows the last value
	// last is the end of the last value, comma or comment before the closing bracket; of
	// the opening bracket when there is none.
	last int
}

// member returns the value of a name; nil when there is none.
func (n *node) member(name string) (*node, error) {
	var found *node
	for i := range n.names {
		if n.names[i] == name {
			if found != nil {
				return nil, fmt.Errorf("it has the member %q twice", name)
			}
			found = &n.values[i]
		}
	}
	return found, nil
}

// jsoncParser accepts what clients accept: JSON, // and /* */ comments, trailing commas,
// and a byte order mark. github.com/tailscale/hujson does not serve: brackets without end
// overflow its stack, a comment that ends the file is an error, and its errors repeat values,
// which may be secrets.
type jsoncParser struct {
	text []byte
	at   int
	last int // the end of the last token or comment
	// plain is the text with comments and trailing commas replaced by blanks.
	plain []byte
}

// parseJSONC returns the root node, and the document as strict JSON.
func parseJSONC(text []byte) (*node, []byte, error) {
	p := &jsoncParser{text: text, plain: bytes.Clone(text)}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		p.at = 3
		copy(p.plain, "   ")
	}
	if err := p.space(); err != nil {
		return nil, nil, err
	}
	root, err := p.value(0)
	if err == nil {
		err = p.space()
	}
	if err == nil && p.at < len(text) {
		err = p.fail("there is data after the end")
	}
	if err != nil {
		return nil, nil, err
	}
	if !json.Valid(p.plain) {
		return nil, nil, errors.New("it is not JSON")
	}
	return root, p.plain, nil
}

func (p *jsoncParser) fail(text string) error {
	line := 1 + bytes.Count(p.text[:min(p.at, len(p.text))], []byte("\n"))
	return fmt.Errorf("line %d: %s", line, text)
}

// blank replaces a part of the strict text by blanks.
func (p *jsoncParser) blank(from, to int) {
	for i := from; i < to; i++ {
		if c := p.plain[i]; c != '\n' && c != '\r' {
			p.plain[i] = ' '
		}
	}
}

// space skips blanks and comments.
func (p *jsoncParser) space() error {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.at++
		case c == '/':
			from := p.at
			rest := p.text[p.at:]
			switch {
			case bytes.HasPrefix(rest, []byte("//")):
				n := bytes.IndexAny(rest, "\r\n")
				if n < 0 {
					n = len(rest)
				}
				p.at += n
			case bytes.HasPrefix(rest, []byte("/*")):
				n := bytes.Index(rest[2:], []byte("*/"))
				if n < 0 {
					return p.fail("a comment does not end")
				}
				p.at += n + 4
			default:
				return p.fail("a slash does not begin a comment")
			}
			p.blank(from, p.at)
			p.last = p.at
		default:
			return nil
		}
	}
	return nil
}

func (p *jsoncParser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, p.fail("it is nested too deeply")
	}
	if p.at >= len(p.text) {
		return nil, p.fail("a value is missing")
	}
	n := &node{start: p.at, kind: 'v'}
	switch c := p.text[p.at]; c {
	case '{', '[':
		n.kind = c
		if err := p.list(n, depth); err != nil {
			return nil, err
		}
	case '"':
		if _, err := p.string(); err != nil {
			return nil, err
		}
	default:
		for p.at < len(p.text) && bytes.IndexByte([]byte("+-.0123456789abcdefghijklmnopqrstuvwxyzE"), p.text[p.at]) >= 0 {
			p.at++
		}
		if p.at == n.start {
			return nil, p.fail(fmt.Sprintf("%q does not begin a value", c))
		}
	}
	n.end, p.last = p.at, p.at
	return n, nil
}

// list reads an object or an array, starting at its opening bracket.
func (p *jsoncParser) list(n *node, depth int) error {
	closing := byte('}')
	if n.kind == '[' {
		closing = ']'
	}
	p.at++
	p.last = p.at
	for comma := -1; ; {
		if err := p.space(); err != nil {
			return err
		}
		switch {
		case p.at >= len(p.text):
			return p.fail(fmt.Sprintf("a %c is missing", closing))
		case p.text[p.at] == closing:
			if n.trailing = comma >= 0; n.trailing {
				p.blank(comma, comma+1)
			}
			n.last = p.last
			p.at++
			return nil
		case len(n.values) > 0 && comma < 0:
			return p.fail("a comma is missing")
		}
		if n.kind == '{' {
			n.starts = append(n.starts, p.at)
			if err := p.name(n); err != nil {
				return err
			}
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.values = append(n.values, *v)
		if err := p.space(); err != nil {
			return err
		}
		comma = -1
		if p.at < len(p.text) && p.text[p.at] == ',' {
			comma = p.at
			p.at++
			p.last = p.at
		}
		n.commas = append(n.commas, comma)
	}
}

// name reads the name of a member and its colon.
func (p *jsoncParser) name(n *node) error {
	if p.text[p.at] != '"' {
		return p.fail("the name of a member is missing")
	}
	name, err := p.string()
	if err == nil {
		err = p.space()
	}
	if err != nil {
		return err
	}
	if p.at >= len(p.text) || p.text[p.at] != ':' {
		return p.fail("a colon is missing")
	}
	p.at++
	n.names = append(n.names, name)
	return p.space()
}

func (p *jsoncParser) string() (string, error) {
	start := p.at
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			var text string
			if json.Unmarshal(p.text[start:p.at], &text) != nil {
				return "", p.fail(strconv.Quote(string(p.text[start:min(p.at, start+40)])) + " is not a string")
			}
			return text, nil
		}
	}
	return "", p.fail("a string does not end")
}

// strictJSON returns a file with comments and trailing commas as strict JSON.
func strictJSON(text []byte) ([]byte, error) {
	_, plain, err := parseJSONC(text)
	return plain, err
}
