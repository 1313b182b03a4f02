//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"text/tabwriter"
	"time"
)

// A target is left idle until its memory has not fallen for a settle time, or for the
// maximum number of settle times: freed memory is returned to the system gradually.
const (
	settle    = 500 * time.Millisecond
	maxSettle = 16
)

// footprint is the resident memory of one target, in bytes.
type footprint struct {
	target  string
	rest    int64 // before the first request
	streams int64 // while so many event streams are open
}

// footprints measures the memory of each target with open event streams that have sent
// one frame each and are idle; for the target translated with as many calls held for an
// answer of their client.
func (r *rig) footprints(ctx context.Context, targets []*target, o *options) ([]footprint, error) {
	if o.streams == 0 {
		return nil, nil
	}
	var found []footprint
	for _, t := range targets {
		if configuration(t.name) == "stdio" {
			continue // its program has no streams
		}
		f := footprint{target: t.name, rest: t.rest}
		s, _ := shapeByName("sse") // streams are sent where the load is sent
		tool, first := holdTool, "notifications/progress"
		if configuration(t.name) == "translated" {
			tool, first = askTool, `"resultType":"input_required"`
		}
		conns, err := openStreams(ctx, t.addressFor(s), corpus(toolPrefix(t.name)+tool, t.addressFor(s), r.keys, isModern(t.name)), first, o.streams)
		if err == nil {
			f.streams, err = t.settled(ctx)
		}
		for _, c := range conns {
			c.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %d open streams: %w", t.name, o.streams, err)
		}
		found = append(found, f)
	}
	return found, nil
}

// settled returns the resident memory once it no longer falls.
func (t *target) settled(ctx context.Context) (int64, error) {
	before := int64(math.MaxInt64)
	for range maxSettle {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		u, err := t.proc.usage()
		if err != nil || u.rss >= before {
			return min(u.rss, before), err
		}
		before = u.rss
	}
	return before, nil
}

// openStreams opens n event streams and returns them once each has sent its first
// frame, which contains text. With an error it returns the open ones.
func openStreams(ctx context.Context, addr string, requests [][]byte, first string, n int) ([]net.Conn, error) {
	var d net.Dialer
	var conns []net.Conn
	for i := range n {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return conns, err
		}
		if _, err := c.Write(requests[i%len(requests)]); err != nil {
			return conns, err
		}
		if err := firstFrame(c, first); err != nil {
			return conns, fmt.Errorf("stream %d: %w", i+1, err)
		}
	}
	return conns, nil
}

// firstFrame reads up to the data of the first frame, which must contain text.
func firstFrame(r io.Reader, want string) error {
	lines := bufio.NewReaderSize(r, 1<<10)
	for i := range 50 {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("no frame came: %w", err)
		}
		if i == 0 && !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			return fmt.Errorf("answered %q", strings.TrimSpace(line))
		}
		if strings.HasPrefix(line, "data:") {
			if !strings.Contains(line, want) {
				return fmt.Errorf("the first frame has no %s: %.300q", want, line)
			}
			return nil
		}
	}
	return fmt.Errorf("no frame came in the first lines")
}

// printFootprints prints the memory of the targets.
func printFootprints(w io.Writer, o *options, found []footprint) {
	if len(found) == 0 {
		return
	}
	fmt.Fprint(w, "\nresident memory\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "target\tat rest MiB\twith %d open streams MiB\t\n", o.streams)
	for _, f := range found {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t\n", f.target, float64(f.rest)/(1<<20), float64(f.streams)/(1<<20))
	}
	_ = tw.Flush()
}
