package command

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// CSVWriter writes values of one type as CSV (RFC 4180), one record each, after a record
// with the names of their JSON members. Members of objects have the name of the object in
// front, as in client.name. Lists of strings are joined with semicolons; other values are
// JSON. Numbers and times have their JSON form.
type CSVWriter struct {
	out     *csv.Writer
	columns [][]string // paths
}

// NewCSVWriter returns a writer for values of the type of example.
func NewCSVWriter(out io.Writer, example any) *CSVWriter {
	w := &CSVWriter{out: csv.NewWriter(out)}
	w.out.UseCRLF = true
	w.members(reflect.TypeOf(example), nil)
	return w
}

// members appends the columns of a struct, in the order of its fields.
func (w *CSVWriter) members(t reflect.Type, path []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		object := inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && !inner.Implements(reflect.TypeFor[json.Marshaler]())
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && object:
			w.members(inner, path)
		case object:
			w.members(inner, append(path[:len(path):len(path)], name))
		default:
			w.columns = append(w.columns, append(path[:len(path):len(path)], name))
		}
	}
}

// Header writes the record with the names.
func (w *CSVWriter) Header() error {
	names := make([]string, len(w.columns))
	for i, path := range w.columns {
		names[i] = strings.Join(path, ".")
	}
	return w.write(names)
}

// Write writes one value.
func (w *CSVWriter) Write(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	record := make([]string, len(w.columns))
	for i, path := range w.columns {
		if record[i], err = csvCell(raw, path); err != nil {
			return err
		}
	}
	return w.write(record)
}

func (w *CSVWriter) write(record []string) error {
	if err := w.out.Write(record); err != nil {
		return err
	}
	w.out.Flush()
	return w.out.Error()
}

// csvCell returns the text of the cell for the member of a JSON object at a path.
func csvCell(raw json.RawMessage, path []string) (string, error) {
	for _, name := range path {
		var object map[string]json.RawMessage
		if len(raw) == 0 || string(raw) == "null" {
			return "", nil
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", fmt.Errorf("member %s: %w", strings.Join(path, "."), err)
		}
		raw = object[name]
	}
	var text string
	var list []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case json.Unmarshal(raw, &text) == nil:
		return csvText(text), nil
	case json.Unmarshal(raw, &list) == nil:
		return csvText(strings.Join(list, ";")), nil
	case raw[0] == '[' && len(raw) == 2:
		return "", nil
	}
	return string(EscapeInvisible(raw)), nil
}

// csvText returns the cell for a text from outside. A text that a spreadsheet would run as
// a formula gets an apostrophe in front, as in exports of the control plane.
func csvText(s string) string {
	s = Clean(s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
