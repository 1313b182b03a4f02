package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
)

type inner struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type base struct {
	ID string `json:"id"`
}

type row struct {
	base
	At     time.Time      `json:"at"`
	Client inner          `json:"client,omitzero"`
	Last   *inner         `json:"last"`
	Tags   []string       `json:"tags"`
	Rest   map[string]int `json:"rest,omitempty"`
	N      *float64       `json:"n,omitempty"`
	Hidden string         `json:"-"`
}

// The columns of a type are the same for all values, whatever members they omit, and no
// text is run by a spreadsheet.
func TestCSV(t *testing.T) {
	var b bytes.Buffer
	w := NewCSVWriter(&b, row{})
	if err := w.Header(); err != nil {
		t.Fatal(err)
	}
	n := 1e21
	for _, v := range []row{
		{},
		{base: base{"=1+1"}, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Client: inner{"a,b", "2\n\x1b[31m"}, Last: &inner{Name: "\"x\""},
			Tags: []string{"-x", "y"}, Rest: map[string]int{"a": 1}, N: &n},
	} {
		if err := w.Write(v); err != nil {
			t.Fatal(err)
		}
	}
	want := "id,at,client.name,client.version,last.name,last.version,tags,rest,n\r\n" +
		",0001-01-01T00:00:00Z,,,,,,,\r\n" +
		"'=1+1,2026-01-02T03:04:05Z,\"a,b\",2 \uFFFD[31m,\"\"\"x\"\"\",,'-x;y,\"{\"\"a\"\":1}\",1e+21\r\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A status is colored only on a terminal and never with NO_COLOR, and colors do not change
// the widths of columns.
func TestColoredStatus(t *testing.T) {
	header, rows := []string{"STATUS", "NAME"}, func() [][]string {
		return [][]string{{"blocked", "a"}, {"ok", "failed"}, {"other", "x"}, {"日本", "y"}}
	}
	show := func(env process.Env) string {
		var b bytes.Buffer
		env.Stdout = &b
		if err := ShowTable(env, header, rows()); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	none := func(string) (string, bool) { return "", false }
	plain := show(process.Env{LookupEnv: none})
	if strings.Contains(plain, "\x1b") {
		t.Errorf("color in a pipe: %q", plain)
	}
	got := show(process.Env{LookupEnv: none, StdoutTTY: true, Width: 80})
	want := strings.NewReplacer("blocked", "\x1b[33mblocked\x1b[0m", "ok ", "\x1b[32mok\x1b[0m ").Replace(plain)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	without := func(name string) (string, bool) { return "1", name == "NO_COLOR" }
	if got := show(process.Env{LookupEnv: without, StdoutTTY: true, Width: 80}); got != plain {
		t.Errorf("with NO_COLOR: %q", got)
	}
}
