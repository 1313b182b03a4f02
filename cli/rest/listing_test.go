package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/client"
	"svc/store/api"
)

type thing struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

var thingColumns = Columns[thing]{Header: []string{"ID", "TEXT"}, Row: func(v thing) []string { return []string{v.ID, v.Text} }}

// things is a list of n things; fails is called before each page.
func things(n int, fails func(page int) error) func(context.Context, client.Page) (api.Page[thing], error) {
	pages := 0
	return func(_ context.Context, p client.Page) (api.Page[thing], error) {
		pages++
		if err := fails(pages); err != nil {
			return api.Page[thing]{}, err
		}
		page := api.Page[thing]{Data: []thing{}, Total: n, Limit: p.Limit, Offset: p.Offset}
		for i := p.Offset; i < min(n, p.Offset+p.Limit); i++ {
			page.Data = append(page.Data, thing{fmt.Sprint("t", i), "a: \"b\"\nc"})
		}
		return page, nil
	}
}

func never(int) error { return nil }

func testListing(f command.Format, fetch func(context.Context, client.Page) (api.Page[thing], error)) (*listing[thing], *bytes.Buffer, *bytes.Buffer) {
	var out, note bytes.Buffer
	env := process.Env{Stdout: &out, Stderr: &note}
	return &listing[thing]{fetch: fetch, out: &listWriter[thing]{env: env, format: f, cols: thingColumns}, note: &note,
		wait: func(context.Context, time.Duration) error { return errors.New("nothing should wait") }}, &out, &note
}

// A list that is written page by page is the same document as one that is written at once.
func TestListIsWrittenPageByPage(t *testing.T) {
	for _, n := range []int{0, 1, 499, 500, 501, 1200} {
		want := api.Page[thing]{Data: []thing{}, Total: n, Limit: n}
		for i := range n {
			want.Data = append(want.Data, thing{fmt.Sprint("t", i), "a: \"b\"\nc"})
		}
		for _, f := range []command.Format{command.FormatJSON, command.FormatYAML} {
			l, out, _ := testListing(f, things(n, never))
			if err := l.all(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := command.WriteValue(&b, f, want); err != nil {
				t.Fatal(err)
			}
			if f == command.FormatJSON && out.String() != b.String() {
				t.Errorf("%d things as JSON: %.300s\nwant %.300s", n, out, &b)
			}
			var got, expected any
			if err := errors.Join(yaml.Unmarshal(out.Bytes(), &got), yaml.Unmarshal(b.Bytes(), &expected)); err != nil || fmt.Sprint(got) != fmt.Sprint(expected) {
				t.Errorf("%d things as %s: %v: %.300s\nwant %.300s", n, f, err, out, &b)
			}
		}
		l, out, _ := testListing(command.FormatTable, things(n, never))
		if err := l.all(t.Context(), 0); err != nil || strings.Count(out.String(), "\n") != n+1 {
			t.Errorf("a table of %d: %v, %.300s", n, err, out)
		}
	}
}

func TestAllWaitsWhenTheRateIsLimited(t *testing.T) {
	limited := false
	l, out, note := testListing(command.FormatJSON, things(1200, func(page int) error {
		if page == 2 || page == 3 {
			return fmt.Errorf("list: %w", &client.Error{Status: 429, Message: "rate limit exceeded", RetryAfter: time.Duration(page) * time.Second})
		}
		return nil
	}))
	var waited []time.Duration
	l.wait = func(_ context.Context, d time.Duration) error {
		limited = true
		// The pages before the error are written.
		if got := strings.Count(out.String(), `"id"`); got != 500 {
			t.Errorf("%d things are written before the wait", got)
		}
		waited = append(waited, d)
		return nil
	}
	if err := l.all(t.Context(), 0); err != nil || !limited {
		t.Fatal(err, limited)
	}
	var page api.Page[thing]
	if err := json.Unmarshal(out.Bytes(), &page); err != nil || len(page.Data) != 1200 || page.Data[1199].ID != "t1199" {
		t.Errorf("%d things, %v", len(page.Data), err)
	}
	if fmt.Sprint(waited) != "[2s 3s]" || !strings.Contains(note.String(), "rate limit reached after 500; continuing in 2s") {
		t.Errorf("waited %v; %s", waited, note)
	}
}

// After a 503 with Retry-After, --all retries.
func TestAllWaitsWhileTheStoreIsAway(t *testing.T) {
	l, out, note := testListing(command.FormatJSON, things(600, func(page int) error {
		if page == 2 {
			return &client.Error{Status: 503, Message: "not available", RetryAfter: 5 * time.Second}
		}
		return nil
	}))
	var waited []time.Duration
	l.wait = func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil }
	if err := l.all(t.Context(), 0); err != nil || strings.Count(out.String(), `"id"`) != 600 {
		t.Fatal(err, out)
	}
	if fmt.Sprint(waited) != "[5s]" || !strings.Contains(note.String(), "control plane not available (503) after 500; continuing in 5s") {
		t.Errorf("waited %v; %s", waited, note)
	}
	l, _, _ = testListing(command.FormatJSON, things(600, func(int) error {
		return &client.Error{Status: 503, Message: "not available", RetryAfter: time.Second}
	}))
	asked := 0
	l.wait = func(context.Context, time.Duration) error { asked++; return nil }
	if err := l.all(t.Context(), 0); err == nil || asked != maxDown {
		t.Errorf("%v after %d waits", err, asked)
	}
}

func TestAllKeepsWhatItHasWhenAPageFails(t *testing.T) {
	for name, broken := range map[string]error{
		"an error":         errors.New("the connection broke"),
		"much too patient": &client.Error{Status: 429, Message: "rate limit exceeded", RetryAfter: time.Hour},
	} {
		l, out, note := testListing(command.FormatJSON, things(1200, func(page int) error {
			if page == 3 {
				return broken
			}
			return nil
		}))
		if err := l.all(t.Context(), 0); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		var page api.Page[thing]
		if err := json.Unmarshal(out.Bytes(), &page); err != nil || len(page.Data) != 1000 || page.Total != 1200 {
			t.Errorf("%s: %d of %d things, %v", name, len(page.Data), page.Total, err)
		}
		if !strings.Contains(note.String(), "1000 of 1200 were read") {
			t.Errorf("%s: %s", name, note)
		}
	}
}

func TestAllStopsAtTheTotal(t *testing.T) {
	asked := 0
	l, _, _ := testListing(command.FormatJSON, things(500, func(page int) error { asked = page; return nil }))
	if err := l.all(t.Context(), 0); err != nil || asked != 1 {
		t.Errorf("%d requests for one full page, %v", asked, err)
	}
}

// Every format of a list has one line for each item, behind a header where it has one, and
// is the same page by page.
func TestListFormats(t *testing.T) {
	line := `{"id":"t0","text":"a: \"b\"\nc"}` + "\n"
	for f, want := range map[command.Format]string{
		command.FormatTable:  "ID  TEXT\nt0  a: \"b\" c\nt1  a: \"b\" c\n",
		command.FormatWide:   "ID  TEXT      LENGTH\nt0  a: \"b\" c  8\nt1  a: \"b\" c  8\n",
		command.FormatName:   "t0\nt1\n",
		command.FormatCSV:    "id,text\r\nt0,\"a: \"\"b\"\" c\"\r\nt1,\"a: \"\"b\"\" c\"\r\n",
		command.FormatNDJSON: line + strings.Replace(line, "t0", "t1", 1),
	} {
		l, out, note := testListing(f, things(2, never))
		l.out.cols.WideHeader, l.out.cols.WideRow = []string{"LENGTH"}, func(v thing) []string { return []string{fmt.Sprint(len(v.Text))} }
		if err := l.all(t.Context(), 0); err != nil || out.String() != want || note.Len() > 0 {
			t.Errorf("%s: %v, %s\n%q, want\n%q", f, err, note, out, want)
		}
		l, out, _ = testListing(f, things(1200, never))
		lines := 1200
		if f == command.FormatTable || f == command.FormatWide || f == command.FormatCSV {
			lines++
		}
		if err := l.all(t.Context(), 0); err != nil || strings.Count(out.String(), "\n") != lines {
			t.Errorf("%s: %v, %d lines", f, err, strings.Count(out.String(), "\n"))
		}
		// The number of omitted items is printed after the list.
		l, _, note = testListing(f, things(5, never))
		if err := l.one(t.Context(), client.Page{Limit: 2}); err != nil || note.String() != "1 to 2 of 5; --all shows every one\n" {
			t.Errorf("%s: %v, %q", f, err, note)
		}
	}
}
