package diag

import (
	"fmt"
	"io"
	"strings"
)

// WriteGitHub writes the findings as workflow commands, one line each, which GitHub shows as
// annotations on the lines of a pull request:
//
//	::warning file=svc.yaml,line=4,col=3,title=shadowed-rule::policy.rules[1].id: …
//
// Characters that could end a command or begin another are escaped. The error is that of w.
func WriteGitHub(w io.Writer, findings []Finding) error {
	var b strings.Builder
	for _, f := range findings {
		name := "error"
		switch f.Severity {
		case Warning:
			name = "warning"
		case Info:
			name = "notice"
		}
		var props []string
		add := func(key, value string) { props = append(props, key+"="+property.Replace(clean(value))) }
		if f.Pos.File != "" {
			add("file", f.Pos.File)
		}
		if f.Pos.Line > 0 {
			add("line", fmt.Sprint(f.Pos.Line))
		}
		if f.Pos.Column > 0 {
			add("col", fmt.Sprint(f.Pos.Column))
		}
		if f.Code != "" {
			add("title", f.Code)
		}
		b.WriteString("::" + name)
		if len(props) > 0 {
			b.WriteString(" " + strings.Join(props, ","))
		}
		b.WriteString("::" + message.Replace(clean(sentence(f))) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var (
	message  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
