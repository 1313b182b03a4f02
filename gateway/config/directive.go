package config

import (
	"strings"

	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// directive is the prefix of comments for lint.
const directive = "svc-lint:"

// Directive is a comment in the file for lint:
//
//	# svc-lint: ignore shadowed-rule,unused-upstream kept until the move is done
type Directive struct {
	// Pos is the position of the comment.
	Pos diag.Pos
	// Text is the text after "svc-lint:".
	Text string
	// From and To are the lines that the comment applies to: its own, or the entry that
	// begins on its line or, for a comment on a line of its own, after it.
	From, To int
}

// Directives returns the comments for lint, in the order of the file.
func (d *Document) Directives() []Directive {
	if d.root == nil || !strings.Contains(string(d.data), directive) {
		return nil
	}
	values := scalarsWith(d.root, directive, nil)
	lines := splitLines(strings.TrimPrefix(string(d.data), "\ufeff"))
	var out []Directive
	for i, line := range lines {
		at := strings.Index(line, directive)
		if at < 0 || len(out) >= diag.MaxFindings {
			continue
		}
		before := strings.TrimRight(line[:at], " \t")
		bare, isComment := strings.CutSuffix(before, "#")
		if !isComment || bare != "" && !strings.HasSuffix(bare, " ") && !strings.HasSuffix(bare, "\t") || values[strings.TrimSpace(line[at:])] {
			continue
		}
		from := i + 1
		if strings.TrimSpace(bare) == "" {
			from = nextLine(lines, i+1)
		}
		out = append(out, Directive{
			Pos:  diag.Pos{Line: i + 1, Column: len([]rune(bare)) + 1},
			Text: strings.TrimSpace(line[at+len(directive):]),
			From: from, To: max(from, lastLine(d.root, from)),
		})
	}
	return out
}

// nextLine returns the number of the first line from index i on that is neither
// blank nor a comment.
func nextLine(lines []string, i int) int {
	for ; i < len(lines); i++ {
		if s := strings.TrimSpace(lines[i]); s != "" && s[0] != '#' {
			return i + 1
		}
	}
	return len(lines)
}

// scalarsWith collects the lines of values that contain a text, where the text is data
// and no comment.
func scalarsWith(n *yaml.Node, text string, into map[string]bool) map[string]bool {
	if into == nil {
		into = make(map[string]bool)
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, text) {
		for line := range strings.Lines(n.Value) {
			if at := strings.Index(line, text); at >= 0 {
				rest := strings.TrimSpace(line[at:])
				into[rest], into[rest+`"`], into[rest+"'"] = true, true, true
			}
		}
	}
	for _, c := range n.Content {
		scalarsWith(c, text, into)
	}
	return into
}

// lastLine returns the last line of the outermost entry of a list or mapping
// that begins on a line, 0 when none does.
func lastLine(n *yaml.Node, line int) int {
	step := 1
	if n.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i+step <= len(n.Content); i += step {
		first, last := n.Content[i], n.Content[i+step-1]
		if first.Line == line {
			return endOf(last)
		}
		if first.Line < line && endOf(last) >= line {
			return lastLine(last, line)
		}
	}
	return 0
}

// endOf returns the last line of a node.
func endOf(n *yaml.Node) int {
	end := n.Line
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		end += strings.Count(strings.TrimSuffix(n.Value, "\n"), "\n") + 1
	}
	for _, c := range n.Content {
		end = max(end, endOf(c))
	}
	return end
}
