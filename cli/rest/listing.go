package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"svc/cli/command"
	"svc/cli/process"
	"svc/server/client"
	"svc/store/api"
)

// pageSize is the page size of --all: the maximum of the API.
const pageSize = 500

// maxRetryAfter bounds how long --all waits when the control plane limits it or is
// unavailable. The rate window is a minute, so a much longer wait has another cause.
const maxRetryAfter = 5 * time.Minute

// maxDown bounds how often --all retries a page after a 503.
const maxDown = 60

// listing reads a list and writes it page by page.
type listing[T any] struct {
	fetch func(context.Context, client.Page) (api.Page[T], error)
	out   *listWriter[T]
	wait  func(context.Context, time.Duration) error
	note  io.Writer // called with a line for each wait
}

// one reads and writes the requested page.
func (l *listing[T]) one(ctx context.Context, p client.Page) error {
	page, err := l.fetch(ctx, p)
	if err != nil {
		return err
	}
	if err := l.out.page(page.Data); err != nil {
		return err
	}
	return l.out.end(page.Total, page.Limit, page.Offset)
}

// all reads pages from offset on and writes each when it has arrived. When the control plane
// limits the rate or cannot reach its store, all waits for the time of Retry-After. After an
// error the output is still a complete document.
func (l *listing[T]) all(ctx context.Context, offset int) error {
	n, total := 0, 0
	next := client.Page{Limit: pageSize, Offset: offset}
	for {
		page, err := l.patiently(ctx, next, n)
		if err != nil {
			if n > 0 {
				fmt.Fprintf(l.note, "%d of %d were read before the error\n", n, total)
				err = errors.Join(err, l.out.end(total, n, offset))
			}
			return err
		}
		if err := l.out.page(page.Data); err != nil {
			return err
		}
		n, total = n+len(page.Data), page.Total
		switch {
		case page.Next != "": // new items do not shift the pages
			next = client.Page{Limit: pageSize, After: page.Next}
		case len(page.Data) == 0 || next.After != "" || offset+n >= total:
			return l.out.end(total, n, offset)
		default: // a list without cursors
			next.Offset = offset + n
		}
	}
}

// stream reads a list that the control plane sends as a whole with one request, from offset on,
// and writes it in pieces of a page. It waits as all does, but only for the begin of the list.
func (l *listing[T]) stream(ctx context.Context, offset int, each func(context.Context, func(T) error) error) error {
	read := 0
	page := make([]T, 0, pageSize)
	flush := func() error {
		defer func() { page = page[:0] }()
		return l.out.page(page)
	}
	err := l.retried(ctx, 0, func() (bool, error) {
		err := each(ctx, func(v T) error {
			if read++; read > offset {
				page = append(page, v)
			}
			if len(page) < pageSize {
				return nil
			}
			return flush()
		})
		return read == 0, err
	})
	written := max(read-offset, 0)
	if err != nil && written == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintf(l.note, "%d were read before the error\n", written)
	}
	return errors.Join(err, flush(), l.out.end(read, written, offset))
}

// patiently reads one page, and retries after each Retry-After.
func (l *listing[T]) patiently(ctx context.Context, p client.Page, read int) (page api.Page[T], err error) {
	err = l.retried(ctx, read, func() (bool, error) {
		page, err = l.fetch(ctx, p)
		return true, err
	})
	return page, err
}

// retried calls do until it succeeds, again after the Retry-After of each error while do reports
// that it may be repeated.
func (l *listing[T]) retried(ctx context.Context, read int, do func() (repeatable bool, err error)) error {
	for down := 0; ; {
		repeatable, err := do()
		limited := (*client.Error)(nil)
		if !repeatable || !errors.As(err, &limited) || limited.RetryAfter <= 0 || limited.RetryAfter > maxRetryAfter {
			return err
		}
		why := "rate limit reached"
		if limited.Status != http.StatusTooManyRequests {
			if down++; down > maxDown {
				return err
			}
			why = "control plane not available (" + strconv.Itoa(limited.Status) + ")"
		}
		fmt.Fprintf(l.note, "%s after %d; continuing in %s\n", why, read, limited.RetryAfter)
		if err := l.wait(ctx, limited.RetryAfter); err != nil {
			return err
		}
	}
}

// Wait waits, or returns when its context ends.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listWriter writes the pages of a list as one document: an api.Page as JSON or
// YAML, a table, or a line for each item.
type listWriter[T any] struct {
	env    process.Env
	format command.Format
	cols   Columns[T]
	whole  bool // the API returns the list without limit and offset
	rows   int
	table  *command.TableWriter
	csv    *command.CSVWriter
}

// page writes the items of one page.
func (w *listWriter[T]) page(items []T) error {
	switch w.format {
	case command.FormatTable, command.FormatWide:
		return w.tabulate(items)
	case command.FormatName:
		return w.names(items)
	case command.FormatCSV:
		if w.csv == nil {
			var example T
			w.csv = command.NewCSVWriter(w.env.Stdout, example)
			if err := w.csv.Header(); err != nil {
				return err
			}
		}
		w.rows += len(items)
		for _, v := range items {
			if err := w.csv.Write(v); err != nil {
				return err
			}
		}
		return nil
	}
	for _, v := range items {
		if err := w.item(v); err != nil {
			return err
		}
	}
	return nil
}

// tabulate writes items as rows, with all columns where the table is wide.
func (w *listWriter[T]) tabulate(items []T) error {
	wide := w.format == command.FormatWide
	rows := make([][]string, len(items))
	for i, v := range items {
		rows[i] = w.cols.Row(v)
		if wide && w.cols.WideRow != nil {
			rows[i] = append(rows[i], w.cols.WideRow(v)...)
		}
	}
	if w.table == nil {
		w.table = command.NewTable(w.env)
		header := w.cols.Header
		if wide {
			w.table.Width = 0
			header = slices.Concat(header, w.cols.WideHeader)
		}
		rows = append([][]string{header}, rows...)
	}
	w.rows += len(items)
	return w.table.Write(rows)
}

// names writes the argument for other commands of each item: the name, or the id of an item
// without a name.
func (w *listWriter[T]) names(items []T) error {
	column := slices.Index(w.cols.Header, "NAME")
	if column < 0 {
		column = max(slices.Index(w.cols.Header, "ID"), 0)
	}
	var b bytes.Buffer
	for _, v := range items {
		name := ""
		if w.cols.Name != nil {
			name = w.cols.Name(v)
		} else {
			name = w.cols.Row(v)[column]
		}
		b.WriteString(command.Clean(name) + "\n")
	}
	w.rows += len(items)
	_, err := w.env.Stdout.Write(b.Bytes())
	return err
}

// item writes one item of a JSON or YAML document, or a line of NDJSON.
func (w *listWriter[T]) item(v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if w.format == command.FormatNDJSON {
		b.Write(append(data, '\n'))
	} else if w.format == command.FormatYAML {
		if w.rows == 0 {
			b.WriteString("data:\n")
		}
		var item bytes.Buffer
		if err := command.WriteRaw(&item, command.FormatYAML, fmt.Appendf(nil, "[%s]", data)); err != nil {
			return err
		}
		for line := range bytes.Lines(item.Bytes()) {
			if len(line) > 1 {
				b.WriteString("  ")
			}
			b.Write(line)
		}
	} else {
		if w.rows == 0 {
			b.WriteString("{\n  \"data\": [\n    ")
		} else {
			b.WriteString(",\n    ")
		}
		if err := json.Indent(&b, data, "    ", "  "); err != nil {
			return fmt.Errorf("indent json: %w", err)
		}
	}
	w.rows++
	_, err = w.env.Stdout.Write(command.EscapeInvisible(b.Bytes()))
	return err
}

// end writes the end of the document.
func (w *listWriter[T]) end(total, limit, offset int) error {
	if w.format != command.FormatJSON && w.format != command.FormatYAML {
		if shown := offset + w.rows; shown < total && w.rows > 0 {
			fmt.Fprintf(w.env.Stderr, "%d to %d of %d; --all shows every one\n", offset+1, shown, total)
		}
		return nil
	}
	members := []struct {
		name  string
		value int
	}{{"total", total}, {"limit", limit}, {"offset", offset}}
	if w.whole {
		members = members[:1]
	}
	var b bytes.Buffer
	for i, m := range members {
		switch {
		case w.format == command.FormatYAML && i == 0 && w.rows == 0:
			b.WriteString("data: []\n")
		case w.format == command.FormatYAML:
		case i > 0:
			b.WriteString(",\n")
		case w.rows == 0:
			b.WriteString("{\n  \"data\": [],\n")
		default:
			b.WriteString("\n  ],\n")
		}
		if w.format == command.FormatYAML {
			b.WriteString(m.name + ": " + strconv.Itoa(m.value) + "\n")
		} else {
			b.WriteString("  \"" + m.name + "\": " + strconv.Itoa(m.value))
		}
	}
	if w.format != command.FormatYAML {
		b.WriteString("\n}\n")
	}
	_, err := w.env.Stdout.Write(b.Bytes())
	return err
}
