package config

import (
	"fmt"
	"strings"
)

// Markdown generates the reference of the file from the fields, their comments and
// defaults, and the table of effects.
func Markdown() ([]byte, error) {
	root, err := Describe()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(intro)
	root.section(&b)
	return []byte(b.String()), nil
}

const intro = `# Configuration of the gateway

<!-- Made by go test ./gateway/config -run TestDocuments -update; do not edit. -->

The gateway reads one YAML file, ` + "`" + DefaultPath + "`" + ` unless ` + "`--config=PATH`" + ` names another. It is read strictly, at
the start and at every SIGHUP: an unknown or duplicate key, a value of the wrong type or out of range, a reference to
something that is not there make the file invalid, and every mistake is reported at once with its line and column. At the
start that ends the process; at a SIGHUP the running configuration stays as it is.

- Text is quoted or plain; a number or ` + "`true`" + ` where text is wanted needs quotes. Dates need none.
- Truth values are ` + "`true` and `false`" + `; ` + "`yes`, `no`, `on` and `off`" + ` are text.
- Numbers are decimal, without leading zeros. Durations have units: ` + "`500ms`, `30s`, `5m`, `24h`" + `.
- Times are RFC 3339, or a date alone for midnight UTC.
- A key without a value is a mistake: write ` + "`[]`, `{}` or `\"\"`" + ` for nothing, or leave the key out.
- Anchors, aliases, merge keys, tags and a second document are refused; so are files over 1 MiB and nesting over 32.
- In the fields marked *env*, ` + "`${NAME}`" + ` is replaced by the environment variable, and ` + "`${file:/PATH}`" + ` by the text of a
  [file](secrets.md). One that is not set, or empty, is a mistake. The value is text: it is not read as YAML, and not expanded again. Nothing is expanded below ` + "`policy`" + `.
- *Reload* says whether SIGHUP applies a change: *yes*; *no*, then the old value stays and ` + "`/readyz`" + ` lists the field in
  ` + "`restart_pending`" + `; *partial*, then it depends on the sub-key.

An editor that knows the YAML language server completes and checks the file with this first line:

` + "```yaml" + `
# yaml-language-server: $schema=svc.schema.json
` + "```" + `
`

// section writes the table of an object and then the objects in it.
func (n *Node) section(b *strings.Builder) {
	title := "Top level"
	if n.Path != "" {
		title = "`" + n.Path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	b.WriteString("| Key | Type | Default | Reload | |\n|---|---|---|---|---|\n")
	for _, f := range n.Fields {
		if f.Type == "any" {
			continue // a field that its section always rejects
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.typeCell(), f.defaultCell(), f.Effect, f.noteCell())
	}
	for _, f := range n.Fields {
		for f.Elem != nil {
			f = f.Elem
		}
		if f.Type == "object" {
			f.section(b)
		}
	}
}

func (n *Node) typeCell() string {
	switch n.Type {
	case "list":
		if n.Single {
			return n.Elem.typeCell() + " or list of them"
		}
		return "list of " + n.Elem.typeCell()
	case "map":
		return "map to " + n.Elem.typeCell()
	}
	return n.Type
}

func (n *Node) defaultCell() string {
	if n.Required {
		return "**required**"
	}
	return cell(n.Default)
}

func (n *Node) noteCell() string {
	s := strings.ReplaceAll(n.Doc, "|", `\|`)
	if n.Enum != nil {
		values := make([]string, len(n.Enum))
		for i, v := range n.Enum {
			values[i] = cell(v)
		}
		s += " One of " + strings.Join(values, ", ") + "."
	}
	if n.Env {
		s += " *env*"
	}
	return strings.TrimSpace(s)
}

// cell escapes a value for a table.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v == "" {
			return "`\"\"`"
		}
		return "`" + strings.ReplaceAll(v, "|", `\|`) + "`"
	default:
		return "`" + fmt.Sprint(v) + "`"
	}
}
