package stdio

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/upstream"
)

// Limits of log lines about programs.
const (
	noteQueue  = 256  // lines that wait for a slow log
	noteBytes  = 500  // of one line of a program
	noteBurst  = 100  // burst of lines of one upstream
	noteRate   = 10   // lines of one upstream per second
	tailLines  = 5    // lines of standard error in the log line about the end of a process
	stderrLine = 4096 // in bytes; longer lines are truncated
)

// notes logs the output of programs, and their events. Logging never blocks: lines go through a bounded
// queue, and lines beyond a rate are only counted.
type notes struct {
	log   *slog.Logger
	queue chan note
	done  chan struct{}
	// dropped counts the lines of standard output that were not messages.
	dropped atomic.Uint64

	mu      sync.Mutex
	ended   bool
	tokens  float64
	at      time.Time
	omitted int
}

type note struct {
	level slog.Level
	text  string
	attrs []any
}

func newNotes(log *slog.Logger, name string) *notes {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	n := &notes{log: log.With("upstream", name), queue: make(chan note, noteQueue), done: make(chan struct{}), tokens: noteBurst}
	go func() {
		defer close(n.done)
		for one := range n.queue {
			n.log.Log(context.Background(), one.level, one.text, one.attrs...)
		}
	}()
	return n
}

// close writes the remaining lines.
func (n *notes) close() {
	n.mu.Lock()
	if !n.ended {
		n.ended = true
		close(n.queue)
	}
	n.mu.Unlock()
	<-n.done
}

// add queues a line, within the rate.
func (n *notes) add(one note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.tokens = min(noteBurst, n.tokens+now.Sub(n.at).Seconds()*noteRate)
	n.at = now
	if n.ended || n.tokens < 1 {
		n.omitted++
		return
	}
	n.tokens--
	if n.omitted > 0 {
		one.attrs = append(one.attrs, "lines_left_out", n.omitted)
	}
	select {
	case n.queue <- one:
		n.omitted = 0
	default:
		n.omitted++
	}
}

func (n *notes) debug(text string, attrs ...any) {
	if n.log.Enabled(context.Background(), slog.LevelDebug) {
		n.add(note{slog.LevelDebug, text, attrs})
	}
}

// stderr logs a line of a program's standard error.
func (n *notes) stderr(p *process, line []byte) {
	n.add(note{slog.LevelInfo, "a program wrote to its standard error", []any{"process", p.number, "line", upstream.Printable(line, noteBytes)}})
}

// message logs a log message of a program that several clients use.
func (n *notes) message(p *process, params []byte) {
	n.add(note{slog.LevelInfo, "a program logs", []any{"process", p.number, "message", upstream.Printable(params, noteBytes)}})
}

// skipped logs a line of standard output that is not a message.
func (n *notes) skipped(p *process, line []byte, err error) {
	n.dropped.Add(1)
	n.add(note{slog.LevelWarn, "a line that a program wrote to its standard output is not a message and is ignored", []any{
		"process", p.number, "line", upstream.Printable(line, noteBytes), "reason", upstream.Printable(err.Error(), noteBytes),
	}})
}

// foreign logs a response that belongs to no request.
func (n *notes) foreign(p *process, id []byte) {
	n.add(note{slog.LevelWarn, "a response of a program has the id of no request and is ignored", []any{"process", p.number, "id", upstream.Printable(id, 64)}})
}

// failed logs the unexpected end of a process. p is nil for a process that was not started.
func (n *notes) failed(err error, p *process) {
	attrs := []any{"reason", causeText(err)}
	if p != nil {
		attrs = append(attrs, "process", p.number, "stderr", &ExitError{tail: p.tail, silent: p.silent})
	}
	n.add(note{slog.LevelWarn, "a process of an upstream failed", attrs})
}

// tail is the last lines of a program's standard error.
type tail struct {
	mu    sync.Mutex
	lines []string
}

// add adds a line. The frames of a stack trace, of which some runtimes print more than the limit, are less
// useful than the error above them.
func (t *tail) add(line []byte) {
	if indented := bytes.TrimLeft(line, " \t"); len(indented) == 0 || len(indented) < len(line) && bytes.HasPrefix(indented, []byte("at ")) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, upstream.Printable(line, noteBytes))
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, " | ")
}

// readErrors reads the standard error of the program until it ends. A line that is too long is truncated.
func (p *process) readErrors() {
	defer close(p.silent)
	keep := p.t.config.Stderr == upstream.StderrLog
	in := lines{r: p.child.Stderr, limit: stderrLine}
	cut := false // the rest of a truncated line follows
	for {
		line, err := in.next()
		if errors.Is(err, errLineTooLong) {
			line, err = in.buf[in.start:in.end], nil
			in.start = in.end
			if cut {
				continue
			}
			cut = true
		} else if cut && err == nil {
			cut = false
			continue
		}
		if err != nil {
			return
		}
		if keep && len(line) > 0 {
			p.tail.add(line)
			p.t.notes.stderr(p, line)
		}
	}
}
