package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"svc/gateway/mcp"
)

// Format is the value of -o.
type Format string

const (
	FormatText   Format = "text"
	FormatTable  Format = "table"
	FormatJSON   Format = "json"
	FormatYAML   Format = "yaml"
	FormatNDJSON Format = "ndjson" // one JSON object per line
	FormatWide   Format = "wide"   // a table with more columns and without truncation
	FormatName   Format = "name"   // one name or id per line, as other commands accept it
	FormatCSV    Format = "csv"    // see CSVWriter
)

// ListFormats are the formats of commands that list.
var ListFormats = []Format{FormatTable, FormatWide, FormatName, FormatCSV, FormatNDJSON, FormatJSON, FormatYAML}

// formatValue is the flag that accepts one of the formats a command has.
type formatValue struct {
	value   *Format
	allowed []Format
}

func (v formatValue) String() string {
	if v.value == nil {
		return ""
	}
	return string(*v.value)
}

func (v formatValue) Type() string {
	names := make([]string, len(v.allowed))
	for i, f := range v.allowed {
		names[i] = string(f)
	}
	return strings.Join(names, "|")
}

func (v formatValue) Set(s string) error {
	if !slices.Contains(v.allowed, Format(s)) {
		return fmt.Errorf("must be one of %s", strings.ReplaceAll(v.Type(), "|", ", "))
	}
	*v.value = Format(s)
	return nil
}

// AddFormatFlag adds -o with the formats of a command; *value has its default.
func AddFormatFlag(cmd *cobra.Command, value *Format, allowed ...Format) {
	v := formatValue{value, allowed}
	cmd.Flags().VarP(v, "output", "o", "output format")
	if err := cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return strings.Split(v.Type(), "|"), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // only when the flag is registered twice, which fails at every start
	}
}

// wantsJSON reports whether a command was asked for JSON, so that its errors
// are JSON too.
func wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("output")
	return f != nil && (f.Value.String() == string(FormatJSON) || f.Value.String() == string(FormatNDJSON))
}

// WriteValue writes one value as JSON or YAML, both with the JSON names.
func WriteValue(w io.Writer, f Format, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteRaw(w, f, data)
}

// WriteRaw writes a JSON text with its members in the same order, indented or
// as YAML.
func WriteRaw(w io.Writer, f Format, data []byte) error {
	var out bytes.Buffer
	if f == FormatYAML {
		var node yaml.Node
		if err := yaml.Unmarshal(data, &node); err != nil {
			return fmt.Errorf("convert to yaml: %w", err)
		}
		blockStyle(&node)
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := enc.Encode(&node); err != nil {
			return fmt.Errorf("convert to yaml: %w", err)
		}
	} else {
		if err := json.Indent(&out, data, "", "  "); err != nil {
			return fmt.Errorf("indent json: %w", err)
		}
		out.WriteByte('\n')
		_, err := w.Write(EscapeInvisible(out.Bytes()))
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// EscapeInvisible writes characters that a terminal would interpret as \u escapes, as
// [mcp.EscapeInvisible] does.
func EscapeInvisible(data []byte) []byte { return mcp.EscapeInvisible(data) }

// invisible reports whether a rune has an effect on terminals or layout without
// being visible.
func invisible(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == '\u2028' || r == '\u2029'
}

// blockStyle turns the flow style of parsed JSON into ordinary YAML. Empty
// collections stay [] and {}; strings are quoted where the encoder must.
func blockStyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		switch {
		case n.Tag == "!!str" && strings.ContainsRune(n.Value, '\n'):
			n.Style = yaml.LiteralStyle
		case n.Tag == "!!str" && ambiguous(n.Value):
			n.Style = yaml.DoubleQuotedStyle
		default:
			n.Style = 0
		}
	} else if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// ambiguous reports whether YAML 1.1, which many tools still use, reads a
// string as a boolean or as a number in base 60.
func ambiguous(s string) bool {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off":
		return true
	}
	return strings.Trim(s, "0123456789:.") == "" && strings.Contains(s, ":")
}

// Clean makes a string from outside safe to print: it replaces terminal
// escapes, control characters, direction overrides and invisible characters by
// a visible mark.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case invisible(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
