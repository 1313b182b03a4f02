package diag

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteText writes the findings for a person:
//
//	svc.yaml:4:3: error: policy.rules[0]: unknown field "idd" [unknown-field]
//	    4 |   idd: x
//	      |   ^
//	      = did you mean "id"?
//
// Control and direction-changing characters are shown as escapes, so that a hostile file cannot
// control the terminal. The error is that of w.
func WriteText(w io.Writer, findings []Finding) error {
	var b strings.Builder
	for _, f := range findings {
		writeOne(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeOne(b *strings.Builder, f Finding) {
	if p := f.Pos.String(); p != "" {
		b.WriteString(clean(p) + ": ")
	}
	b.WriteString(f.Severity.String() + ": ")
	if f.Path != "" {
		b.WriteString(clean(f.Path) + ": ")
	}
	b.WriteString(clean(f.Message))
	if f.Code != "" {
		b.WriteString(" [" + f.Code + "]")
	}
	b.WriteByte('\n')
	if f.Excerpt != "" {
		fmt.Fprintf(b, "%5d | %s\n", f.Pos.Line, clean(f.Excerpt))
		if f.Caret > 0 {
			b.WriteString("      | " + indent(f.Excerpt, f.Caret-1) + "^\n")
		}
	}
	if f.Hint != "" {
		b.WriteString("      = " + clean(f.Hint) + "\n")
	}
}

// indent returns the white space that puts a caret below character n of the line: tabs stay tabs,
// and an escaped character has the width of its escape.
func indent(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n == 0 {
			break
		}
		n--
		if r == '\t' {
			b.WriteByte('\t')
			continue
		}
		b.WriteString(strings.Repeat(" ", len([]rune(escape(r)))))
	}
	return b.String()
}

func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(escape(r))
	}
	return b.String()
}

// escape returns r as it may be shown: tabs and printable characters unchanged, all others
// (control, format and bidirectional characters) as \u escapes.
func escape(r rune) string {
	if r == '\t' || unicode.IsPrint(r) {
		return string(r)
	}
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// jsonFinding is one finding in [WriteJSON]; its member names are stable.
type jsonFinding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Path     string   `json:"path,omitempty"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Excerpt  string   `json:"excerpt,omitempty"`
}

// WriteJSON writes {"findings": […], "errors": n, "warnings": n, "infos": n} and a newline; infos
// is omitted when there are none. The list is never null. The error is that of w.
func WriteJSON(w io.Writer, findings []Finding) error {
	doc := struct {
		Findings []jsonFinding `json:"findings"`
		Errors   int           `json:"errors"`
		Warnings int           `json:"warnings"`
		Infos    int           `json:"infos,omitempty"`
	}{Findings: make([]jsonFinding, 0, len(findings))}
	for _, f := range findings {
		switch f.Severity {
		case Error:
			doc.Errors++
		case Warning:
			doc.Warnings++
		default:
			doc.Infos++
		}
		doc.Findings = append(doc.Findings, jsonFinding{
			Code: f.Code, Severity: f.Severity, File: f.Pos.File, Line: f.Pos.Line, Column: f.Pos.Column,
			Path: f.Path, Message: f.Message, Hint: f.Hint, Excerpt: f.Excerpt,
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
