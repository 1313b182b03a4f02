package command

import (
	"encoding/json"
	"fmt"
	"slices"

	"svc/cli/process"
)

// WriteList writes a complete list in one of ListFormats. As JSON and YAML it is a
// list without an enclosing object.
func WriteList[T any](env process.Env, f Format, header []string, row func(T) []string, items []T) error {
	switch f {
	case FormatTable, FormatWide:
		t := NewTable(env)
		if f == FormatWide {
			t.Width = 0
		}
		rows := [][]string{header}
		for _, v := range items {
			rows = append(rows, row(v))
		}
		return t.Write(rows)
	case FormatName:
		column := max(slices.Index(header, "NAME"), 0)
		for _, v := range items {
			if _, err := fmt.Fprintln(env.Stdout, Clean(row(v)[column])); err != nil {
				return err
			}
		}
		return nil
	case FormatCSV:
		var example T
		w := NewCSVWriter(env.Stdout, example)
		if err := w.Header(); err != nil {
			return err
		}
		for _, v := range items {
			if err := w.Write(v); err != nil {
				return err
			}
		}
		return nil
	case FormatNDJSON:
		for _, v := range items {
			line, err := json.Marshal(v)
			if err != nil {
				return err
			}
			if _, err := env.Stdout.Write(append(EscapeInvisible(line), '\n')); err != nil {
				return err
			}
		}
		return nil
	}
	return WriteValue(env.Stdout, f, items)
}
