package clients

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// codexTable is the table of servers in the configuration of Codex.
const codexTable = "mcp_servers"

// codexEntry is a server in the form of Codex. Codex rejects a key next to url; it
// takes the key from a variable or in a header.
func codexEntry(s *Server) any {
	switch {
	case s.usesProgram():
		return program(s)
	case s.Key != "":
		return members{{"url", s.URL}, {"http_headers", members{{"Authorization", s.bearer("")}}}}
	}
	return members{{"url", s.URL}, {"bearer_token_env_var", s.KeyEnv}}
}

// codex writes the server as a table.
func codex(s *Server) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[%s.%s]", codexTable, s.Name)
	for _, it := range codexEntry(s).(members) {
		fmt.Fprintf(&b, "\n%s = ", it.name)
		writeTOML(&b, it.value)
	}
	return b.Bytes(), nil
}

func writeTOML(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString(tomlString(v))
	case []string:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = tomlString(v[i])
		}
		b.WriteString("[" + strings.Join(texts, ", ") + "]")
	case members:
		b.WriteString("{ ")
		for i, it := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(it.name + " = ")
			writeTOML(b, it.value)
		}
		b.WriteString(" }")
	}
}

// tomlString writes a basic string of TOML. Its escapes are those of Go, as
// QuoteToASCII writes them for printable text.
func tomlString(text string) string {
	if !strings.ContainsAny(text, "'\n\r") {
		return "'" + text + "'"
	}
	return strconv.QuoteToASCII(text)
}

// mergeTOML appends the table of a server. The existing text stays unchanged.
func mergeTOML(file []byte, s *Server) (merged []byte, changed bool, err error) {
	before, err := parseTOML(file)
	if err != nil {
		return nil, false, err
	}
	table, err := codex(s)
	if err != nil {
		return nil, false, err
	}
	alone, err := parseTOML(table)
	if err != nil {
		return nil, false, err
	}
	want := alone[codexTable].(map[string]any)[s.Name]
	if servers, ok := before[codexTable].(map[string]any); ok && servers[s.Name] != nil {
		if reflect.DeepEqual(servers[s.Name], want) {
			return file, false, nil
		}
		return nil, false, takenName(codexTable, s.Name)
	}
	merged = bytes.Clone(file)
	if len(merged) > 0 && !bytes.HasSuffix(merged, []byte("\n")) {
		merged = append(merged, '\n')
	}
	if len(merged) > 0 {
		merged = append(merged, '\n')
	}
	merged = append(append(merged, table...), '\n')
	after, err := parseTOML(merged)
	if err != nil {
		return nil, false, errors.New("a table cannot be appended to this file: write it by hand")
	}
	servers, _ := before[codexTable].(map[string]any)
	if servers == nil {
		servers = map[string]any{}
		before[codexTable] = servers
	}
	servers[s.Name] = want
	if !reflect.DeepEqual(before, after) {
		return nil, false, errors.New("appending a table would change other values of this file: write it by hand")
	}
	return merged, true, nil
}

// nestedTOML reports whether arrays, inline tables or the parts of a key are nested deeper than
// maxDepth. The decoder of TOML has no bound of its own.
func nestedTOML(text []byte) bool {
	depth, dots := 0, 0
	for i := 0; i < len(text) && depth <= maxDepth && dots <= maxDepth; i++ {
		switch c := text[i]; c {
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			quote := bytes.Repeat(text[i:i+1], 3)
			if !bytes.HasPrefix(text[i:], quote) {
				quote = quote[:1]
			}
			for i += len(quote); i < len(text) && !bytes.HasPrefix(text[i:], quote) && (len(quote) == 3 || text[i] != '\n'); i++ {
				if c == '"' && text[i] == '\\' {
					i++
				}
			}
			i += len(quote) - 1
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(depth-1, 0), 0
		case '.':
			dots++
		case '=', ',', '\n':
			dots = 0
		}
	}
	return depth > maxDepth || dots > maxDepth
}

func parseTOML(text []byte) (map[string]any, error) {
	if nestedTOML(text) {
		return nil, errors.New("it is nested too deeply")
	}
	doc := map[string]any{}
	if err := toml.Unmarshal(text, &doc); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
		}
		return nil, err
	}
	return doc, nil
}
