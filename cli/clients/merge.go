package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// setMember sets the value at container.name in a JSON file, and changes nothing else in
// its text. An existing value is replaced only if mine, which gets it as JSON, returns true.
func setMember(file []byte, container, name string, value any, mine func(json.RawMessage) bool) ([]byte, error) {
	if len(bytes.TrimSpace(bytes.TrimPrefix(file, []byte("\ufeff")))) == 0 {
		file = []byte("{}\n")
	}
	root, plain, want, err := parseObject(file)
	if err != nil {
		return nil, err
	}
	if err := putMember(want, container, name, value); err != nil {
		return nil, err
	}
	servers, err := root.member(container)
	if err != nil {
		return nil, err
	}
	e := newEditor(file)
	var merged []byte
	switch {
	case servers == nil:
		merged, err = e.insert(root, container, members{{name, value}})
	case servers.kind != '{':
		return nil, fmt.Errorf("its member %q is not an object", container)
	default:
		old, twice := servers.member(name)
		switch {
		case twice != nil:
			return nil, twice
		case old == nil:
			merged, err = e.insert(servers, name, value)
		case sameJSON(file[old.start:old.end], value):
			return file, nil
		case !mine(plain[old.start:old.end]):
			return nil, takenName(container, name)
		default:
			merged, err = e.replace(old, value)
		}
	}
	if err != nil {
		return nil, err
	}
	return merged, checkMerged(merged, want)
}

// takenName is the error for a name that another server has at the client.
func takenName(container, name string) error {
	return fmt.Errorf("%s.%s is there already with other values: remove it, or give the gateway another name with --name", container, name)
}

// wrote reports whether an entry of a client is one for a gateway, as this package writes them: with
// the same URL, the same reference to the key, or for svc itself.
func (s *Server) wrote(raw json.RawMessage) bool {
	old, err := parseEntry(raw)
	if err != nil {
		return false
	}
	for _, url := range []string{"url", "httpUrl"} {
		if old.get(url).text() == s.URL {
			return true
		}
	}
	key := old.get("headers").get("Authorization").text()
	return slices.Contains([]string{"Bearer ${" + s.KeyEnv + "}", "Bearer ${env:" + s.KeyEnv + "}", "Bearer ${input:" + vsCodeInput(s) + "}"}, key) ||
		isOwnBridge(append([]string{old.get("command").text()}, old.get("args").texts()...))
}

// addInput appends an input to a file that has none with its id.
func addInput(file []byte, input members) ([]byte, error) {
	root, _, doc, err := parseObject(file)
	if err != nil {
		return nil, err
	}
	list, err := root.member("inputs")
	if err != nil {
		return nil, err
	}
	var added map[string]any
	if err := decoded(input, &added); err != nil {
		return nil, err
	}
	e := newEditor(file)
	var merged []byte
	switch {
	case list == nil:
		merged, err = e.insert(root, "inputs", []any{input})
		doc["inputs"] = []any{added}
	case list.kind != '[':
		return nil, errors.New(`its member "inputs" is not a list`)
	default:
		have, _ := doc["inputs"].([]any)
		for _, it := range have {
			if it, ok := it.(map[string]any); ok && it["id"] == added["id"] {
				return file, nil
			}
		}
		merged, err = e.insert(list, "", input)
		doc["inputs"] = append(have, added)
	}
	if err != nil {
		return nil, err
	}
	return merged, checkMerged(merged, doc)
}

// parseObject returns the root node of a file that is a JSON object, its text without comments, and
// its value.
func parseObject(file []byte) (root *node, plain []byte, value map[string]any, err error) {
	root, plain, err = parseJSONC(file)
	if err != nil {
		return nil, nil, nil, err
	}
	if root.kind != '{' {
		return nil, nil, nil, errors.New("it is not a JSON object")
	}
	err = json.Unmarshal(plain, &value)
	return root, plain, value, err
}

// decoded stores a value in to as a reader of its JSON sees it.
func decoded(value, to any) error {
	raw, err := plainJSON(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}

// putMember changes the value of the file as the change of its text must.
func putMember(doc map[string]any, container, name string, value any) error {
	var v any
	if err := decoded(value, &v); err != nil {
		return err
	}
	servers, ok := doc[container].(map[string]any)
	if !ok {
		servers = map[string]any{}
		doc[container] = servers
	}
	servers[name] = v
	return nil
}

// checkMerged rejects a result whose value differs from the intended one.
func checkMerged(merged []byte, want map[string]any) error {
	_, plain, err := parseJSONC(merged)
	if err != nil {
		return fmt.Errorf("the change cannot be made in this file: %w", err)
	}
	var got map[string]any
	if json.Unmarshal(plain, &got) != nil || !reflect.DeepEqual(got, want) {
		return errors.New("the change would change more of this file: paste it by hand")
	}
	return nil
}

func sameJSON(raw []byte, value any) bool {
	_, plain, err := parseJSONC(raw)
	if err != nil {
		return false
	}
	var a, b any
	return json.Unmarshal(plain, &a) == nil && decoded(value, &b) == nil && reflect.DeepEqual(a, b)
}

// editor changes a file in the file's own style.
type editor struct {
	text []byte
	unit string // one level of indentation
	eol  string
}

func newEditor(text []byte) *editor {
	e := &editor{text: text, unit: "  ", eol: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		e.eol = "\r\n"
	}
	for line := range bytes.Lines(text) {
		if blanks := leading(line); blanks != "" && len(bytes.TrimSpace(line)) > 0 {
			e.unit = blanks
			break
		}
	}
	return e
}

// leading returns the indentation of a line.
func leading(line []byte) string {
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// indentAt returns the indentation of the line at a position.
func (e *editor) indentAt(at int) string {
	start := bytes.LastIndexByte(e.text[:at], '\n') + 1
	return leading(e.text[start:])
}

// format encodes a value with the file's indentation.
func (e *editor) format(v any, prefix string) (string, error) {
	raw, err := indented(v, prefix, e.unit)
	return strings.ReplaceAll(string(raw), "\n", e.eol), err
}

// replace replaces the text of a node by another value.
func (e *editor) replace(n *node, v any) ([]byte, error) {
	text, err := e.format(v, e.indentAt(n.start))
	return e.splice(n.start, n.end, text), err
}

func (e *editor) splice(from, to int, text string) []byte {
	return append(append(append([]byte(nil), e.text[:from]...), text...), e.text[to:]...)
}

// insert adds a member to an object, or with an empty name an element to an array, after
// the existing ones.
func (e *editor) insert(n *node, name string, v any) ([]byte, error) {
	closing := n.end - 1
	outer := e.indentAt(closing)
	text, err := e.format(v, outer+e.unit)
	if err != nil {
		return nil, err
	}
	if name != "" {
		quoted, err := plainJSON(name)
		if err != nil {
			return nil, err
		}
		text = string(quoted) + ": " + text
	}
	if n.trailing {
		text += ","
	}
	text = e.eol + outer + e.unit + text
	if !bytes.ContainsRune(e.text[n.last:closing], '\n') {
		text += e.eol + outer
	}
	out := e.splice(n.last, n.last, text)
	if len(n.values) > 0 && !n.trailing {
		end := n.values[len(n.values)-1].end
		out = append(append(append([]byte(nil), out[:end]...), ','), out[end:]...)
	}
	return out, nil
}
