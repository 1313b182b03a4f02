package planecmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/client"
	"svc/store/api"
)

// valueChange is a field of a resource with its current value and the value in documents,
// each as a JSON text without secrets. The text is empty when the field is absent.
type valueChange struct {
	Field string          `json:"field"` // members of objects have the name of the object in front, as in condition.threshold
	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
}

// diffed is a change with the changed values.
type diffed struct {
	api.AppliedChange
	Values []valueChange `json:"values,omitempty"`
}

// diffOf adds the values of the updates to the changes.
func diffOf(ctx context.Context, c *client.Client, in api.Apply, applied api.Applied) ([]diffed, error) {
	list := make([]diffed, len(applied.Data))
	kinds := map[string]bool{}
	for i, change := range applied.Data {
		list[i].AppliedChange = change
		if change.Change == api.ChangeUpdate {
			kinds[change.Kind] = true
		}
	}
	if len(kinds) == 0 {
		return list, nil
	}
	now, err := c.ExportDocuments(ctx, slices.Sorted(maps.Keys(kinds))...)
	if err != nil {
		return list, err
	}
	specs := map[[2]string]json.RawMessage{}
	for _, d := range now.Documents {
		specs[[2]string{d.Kind, d.Name}] = d.Spec
	}
	// The response has a change for each document, in their order.
	for i := range min(len(in.Documents), len(list)) {
		change := &list[i]
		if change.Change != api.ChangeUpdate {
			continue
		}
		var old, wanted map[string]json.RawMessage
		if json.Unmarshal(specs[[2]string{change.Kind, change.Name}], &old) != nil || json.Unmarshal(in.Documents[i].Spec, &wanted) != nil {
			continue // it was deleted meanwhile
		}
		for _, field := range change.Fields {
			if change.Kind == api.KindWebhook && field == "url" { // the control plane compares digests
				change.Values = append(change.Values, valueChange{field, hidden(old[field]), hidden(wanted[field])})
				continue
			}
			change.Values = appendValues(change.Values, field, old[field], wanted[field])
		}
	}
	return list, nil
}

// appendValues appends the differences between two JSON values, member by member when both
// are objects.
func appendValues(list []valueChange, field string, old, wanted json.RawMessage) []valueChange {
	var from, to map[string]json.RawMessage
	if json.Unmarshal(old, &from) == nil && json.Unmarshal(wanted, &to) == nil && from != nil && to != nil {
		all := maps.Clone(from)
		maps.Copy(all, to)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			list = appendValues(list, field+"."+name, from[name], to[name])
		}
		return list
	}
	old, wanted = canonical(old), canonical(wanted)
	if bytes.Equal(old, wanted) {
		return list
	}
	if secretName.MatchString(field) {
		old, wanted = hidden(old), hidden(wanted)
	} else {
		old, wanted = withoutSecrets(old), withoutSecrets(wanted)
	}
	return append(list, valueChange{field, old, wanted})
}

// canonical returns a JSON value in one spelling.
func canonical(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if len(raw) == 0 || d.Decode(&v) != nil || v == nil {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// notShown replaces a secret.
const notShown = "(not shown)"

var (
	secretName = regexp.MustCompile(`(?i)(secret|passw|token|api[-_]?key|private[-_]?key|credential|authorization|cookie)`)
	// secretLine matches a line of a configuration whose name is that of a secret.
	secretLine = regexp.MustCompile(`(?i)([\w.-]*(?:secret|passw|token|api[-_]?key|private[-_]?key|credential|authorization|cookie)[\w.-]*["']?\s*[:=]\s*)\S.*`)
	// longToken matches texts that look like keys.
	longToken = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

func hidden(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return json.RawMessage(`"` + notShown + `"`)
}

// withoutSecrets replaces texts that look like secrets in a JSON string; other values are
// not changed.
func withoutSecrets(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return raw
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = secretLine.ReplaceAllString(line, "${1}"+notShown)
		lines[i] = longToken.ReplaceAllStringFunc(line, func(token string) string {
			if strings.ContainsAny(token, "0123456789") {
				return notShown
			}
			return token
		})
	}
	return canonical(json.RawMessage(mustQuote(strings.Join(lines, "\n"))))
}

// mustQuote returns a text as a JSON string.
func mustQuote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is JSON
	}
	return string(b)
}

// writeDiff shows the changes, each update with its values below it.
func writeDiff(env process.Env, format command.Format, applied api.Applied, list []diffed) error {
	if format != command.FormatTable {
		return command.WriteValue(env.Stdout, format, struct {
			Data    []diffed `json:"data"`
			Applied bool     `json:"applied"`
		}{list, applied.Applied})
	}
	if err := writeApplied(env, format, applied); err != nil {
		return err
	}
	var b strings.Builder
	for _, d := range list {
		if len(d.Values) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s %s\n", command.Clean(d.Kind), command.Clean(d.Name))
		for _, v := range d.Values {
			writeValues(&b, v)
		}
	}
	_, err := env.Stdout.Write([]byte(b.String()))
	return err
}

// writeValues shows one field: both values on one line, or for texts of several lines the
// lines that differ.
func writeValues(b *strings.Builder, v valueChange) {
	field := command.Clean(v.Field)
	var old, wanted string
	texts := (len(v.Old) == 0 || json.Unmarshal(v.Old, &old) == nil) && (len(v.New) == 0 || json.Unmarshal(v.New, &wanted) == nil)
	if !texts || !strings.Contains(old+wanted, "\n") {
		show := func(raw json.RawMessage) string { return cmp.Or(command.Clean(string(raw)), "(default)") }
		if show(v.Old) == show(v.New) {
			fmt.Fprintf(b, "  %s: changed, %s\n", field, show(v.New))
			return
		}
		fmt.Fprintf(b, "  %s: %s → %s\n", field, show(v.Old), show(v.New))
		return
	}
	from, to := strings.Split(strings.TrimRight(old, "\n"), "\n"), strings.Split(strings.TrimRight(wanted, "\n"), "\n")
	first := 0
	for first < min(len(from), len(to)) && from[first] == to[first] {
		first++
	}
	last := 0
	for last < min(len(from), len(to))-first && from[len(from)-1-last] == to[len(to)-1-last] {
		last++
	}
	fmt.Fprintf(b, "  %s, from line %d:\n", field, first+1)
	if first+last == len(from) && first+last == len(to) {
		b.WriteString("    (changed in what is not shown, or in its last line end)\n")
	}
	for _, line := range from[first : len(from)-last] {
		fmt.Fprintf(b, "    - %s\n", command.Clean(line))
	}
	for _, line := range to[first : len(to)-last] {
		fmt.Fprintf(b, "    + %s\n", command.Clean(line))
	}
}
