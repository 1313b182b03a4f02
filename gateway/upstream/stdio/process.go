package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// process is one running process of the program.
type process struct {
	t      *Transport
	slot   *slot
	child  *Process
	number uint64 // number of the process in the transport
	hidden []string
	began  time.Time
	writes chan struct{}
	// opened is the response to initialize as received.
	opened  []byte
	tail    *tail         // of its standard error
	silent  chan struct{} // closed at the end of standard error
	changes changes

	// Guarded by the lock of the transport.
	busy      int // calls
	idle      *time.Timer
	idleSince time.Time
	retired   bool
	outdated  bool // it ends when it has no calls: see Transport.ReplaceOpen
	exited    bool

	closed  chan struct{} // closed when no more output is read
	started atomic.Bool   // it has responded to a request
	proved  atomic.Bool   // it has responded to a call
	answers atomic.Int32  // rejections that are being written in the background

	mu     sync.Mutex
	next   uint64
	calls  map[uint64]*call
	asked  map[string]struct{} // ids of its own requests that wait for a client's response
	reason string              // the reason why the gateway ended it
	over   bool                // closed is closed, or will be soon
}

// Limits of one process.
const (
	maxPending = 1024 // calls that wait for their responses
	maxAsked   = 1024 // requests of the program that wait for their responses
	maxAnswers = 64   // responses of the gateway itself that wait to be written
)

// launch starts a process for a slot.
func (t *Transport) launch(sl *slot) (*process, error) {
	command := t.opts.Command
	if t.opts.Hidden != nil {
		command.Hidden = t.opts.Hidden()
	}
	started, err := Start(command)
	if err != nil {
		return nil, t.fail(opStart, upstream.ErrUnreachable, false, err)
	}
	t.mu.Lock()
	number := t.starts
	t.mu.Unlock()
	p := &process{
		t: t, slot: sl, child: started, number: number, hidden: command.Hidden, began: t.opts.Now(), writes: make(chan struct{}, 1), tail: new(tail), silent: make(chan struct{}),
		closed: make(chan struct{}), calls: map[uint64]*call{}, asked: map[string]struct{}{},
	}
	p.changes.pass = func(body []byte) { p.toUsers(body, nil) }
	p.idle = time.AfterFunc(time.Hour, func() { t.idled(p) })
	p.idle.Stop()
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.readMessages()
	}()
	go p.readErrors()
	go p.watch(read)
	return p, nil
}

// watch notifies all waiting callers when the process has ended and its output was read.
func (p *process) watch(read <-chan struct{}) {
	<-p.child.Exited()
	select {
	case <-read:
	case <-p.child.Gone(): // even if another process still holds its output open
		<-read
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	close(p.closed)
	p.t.gone(p)
}

// end ends the process, and returns when it and its descendants have ended.
func (p *process) end() {
	p.child.End()
	<-p.closed
	p.child.Stdout.Close()
	awaitSilence(p.silent) // its last lines say why it ended
	p.child.Stderr.Close()
}

// kill ends a process that violated the protocol. Callers get the reason.
func (p *process) kill(reason string) {
	p.mu.Lock()
	if p.reason == "" {
		p.reason = reason
	}
	p.mu.Unlock()
	p.child.Kill()
}

// exitError is the error of calls whose process has ended.
func (p *process) exitError(op string, sent bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cause := p.reason
	if cause == "" {
		cause = "the process ended: " + p.child.Exit().String()
	} else {
		cause = "the process was ended because it " + cause
	}
	return p.t.fail(op, upstream.ErrExited, sent, &ExitError{cause: cause, tail: p.tail, silent: p.silent})
}

// ExitError is the cause of an error about a process that has ended.
type ExitError struct {
	cause  string
	tail   *tail
	silent <-chan struct{} // closed when no more lines follow
}

// Error describes how the process ended, without its output.
func (e *ExitError) Error() string { return e.cause }

// Stderr returns the last lines that the process wrote to its standard error, with control
// characters escaped. It waits a moment for lines that are still being read.
func (e *ExitError) Stderr() string {
	awaitSilence(e.silent)
	return e.tail.text()
}

// awaitSilence waits until all lines of a standard error are read, or for a moment.
func awaitSilence(silent <-chan struct{}) {
	timer := time.NewTimer(stderrWait)
	defer timer.Stop()
	select {
	case <-silent:
	case <-timer.C:
	}
}

// LogValue is what Stderr returns; nothing if that is empty.
func (e *ExitError) LogValue() slog.Value {
	if last := e.Stderr(); last != "" {
		return slog.StringValue(last)
	}
	return slog.GroupValue()
}

// stderrWait bounds the wait for the end of the standard error of a process that has ended:
// its descendants may keep it open.
const stderrWait = time.Second

// rejectedError is an error response of the program to initialize.
type rejectedError struct{ body []byte }

func (e *rejectedError) Error() string { return "the program rejects initialize" }

// open opens the session at a process that was just started. The error is a rejectedError
// when the program rejects initialize.
func (p *process) open(ctx context.Context, params []byte) error {
	if params == nil {
		return nil
	}
	m := mcp.Message{}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}`, params)
	if err := mcp.Scan(body, &m); err != nil {
		return p.t.fail(opStart, upstream.ErrInvalidRequest, false, err)
	}
	c, err := p.ask(ctx, &call{own: true}, &m)
	var answer []byte
	if err == nil {
		answer, err = c.answer(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// Also when not even the request could be written in time.
		p.kill("did not answer initialize within start_timeout")
		return p.t.fail(opStart, upstream.ErrTimeout, true, errors.New("no answer to initialize within start_timeout"))
	}
	if err != nil {
		return err
	}
	var reply mcp.Message
	if mcp.Scan(answer, &reply) != nil || reply.IsError {
		return &rejectedError{answer}
	}
	p.opened = answer
	s := p.slot.session
	if s == nil || s.initialized.Load() {
		if err := p.write(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			return err
		}
	}
	if s != nil {
		if level := s.level.Load(); level != nil {
			return p.repeatLevel(ctx, *level)
		}
	}
	return nil
}

// repeatLevel sets the log level that a session had at its previous process.
func (p *process) repeatLevel(ctx context.Context, params []byte) error {
	var m mcp.Message
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":%s}`, params)
	if mcp.Scan(body, &m) != nil {
		return nil
	}
	c, err := p.ask(ctx, &call{own: true}, &m)
	if err != nil {
		return err
	}
	_, err = c.answer(ctx)
	return err
}

// ask sends a request and returns the call that waits for its response. Its id and its
// progress token are replaced by the number of the call.
func (p *process) ask(ctx context.Context, c *call, m *mcp.Message) (*call, error) {
	c.p, c.id, c.token = p, bytes.Clone(m.ID), bytes.Clone(m.Spans.ProgressToken.Of(m.Body))
	c.wake, c.closed = make(chan struct{}, 1), make(chan struct{})
	p.mu.Lock()
	switch {
	case p.over:
		p.mu.Unlock()
		return nil, p.exitError(opWrite, false)
	case len(p.calls) >= maxPending:
		p.mu.Unlock()
		return nil, p.t.fail(opWrite, upstream.ErrBusy, false, fmt.Errorf("%d calls wait for answers of one process", maxPending))
	}
	p.next++
	c.number = p.next
	p.calls[c.number] = c
	p.mu.Unlock()
	if err := p.write(ctx, c.request(m)); err != nil {
		p.forget(c)
		c.leave()
		return nil, err
	}
	return c, nil
}

// atStart returns the timeouts of a call at a process that may still be starting, because it has
// responded to nothing yet: without an initialize its start ends with the first response.
func (p *process) atStart(limits upstream.Timeouts) upstream.Timeouts {
	if limits.FirstByte > 0 && !p.started.Load() {
		limits.FirstByte = max(limits.FirstByte, p.t.config.StartTimeout-p.t.opts.Now().Sub(p.began))
	}
	return limits
}

// forget removes a call whose caller no longer waits.
func (p *process) forget(c *call) {
	p.mu.Lock()
	delete(p.calls, c.number)
	p.mu.Unlock()
}

// write writes one message. A process that does not read it within the timeout of the
// upstream is ended, because part of a line may have been written.
func (p *process) write(ctx context.Context, body []byte) error {
	select {
	case p.writes <- struct{}{}:
	case <-ctx.Done():
		return p.t.failContext(ctx, opWrite, false)
	case <-p.closed:
		return p.exitError(opWrite, false)
	}
	defer func() { <-p.writes }()
	_ = p.child.Stdin.SetWriteDeadline(time.Now().Add(p.t.opts.Config.Timeout))
	n, err := p.child.Stdin.Write(line(body))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.kill("does not read its standard input")
	case errors.Is(err, os.ErrClosed):
		return p.t.fail(opWrite, upstream.ErrExited, n > 0, errors.New("the process is being ended"))
	default:
		p.closedStream("closed its standard input")
	}
	<-p.child.Exited()
	return p.exitError(opWrite, n > 0)
}

// line makes one line of a message: line breaks between its tokens become spaces.
func line(body []byte) []byte {
	out := make([]byte, 0, len(body)+1)
	for _, c := range body {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, '\n')
}

// reply sends a response of the gateway itself to the program, without waiting: the program
// may read no input before its own output is read.
func (p *process) reply(body []byte) {
	if p.answers.Add(1) > maxAnswers {
		p.answers.Add(-1)
		return
	}
	go func() {
		defer p.answers.Add(-1)
		_ = p.write(context.Background(), body)
	}()
}

// closedStream ends a process that closed a stream, unless it is ending anyway.
func (p *process) closedStream(reason string) {
	late := time.NewTimer(exitPatience)
	defer late.Stop()
	select {
	case <-p.child.Exited():
	case <-late.C:
		p.kill(reason)
	}
}

// exitPatience is the time in which a process that has closed a stream must end.
const exitPatience = time.Second
