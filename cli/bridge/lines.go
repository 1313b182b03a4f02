package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"svc/gateway/base/retry"
)

// inputLine is one line of the client, or the error that ended the input.
type inputLine struct {
	text    []byte
	tooLong bool // the line was longer than the bound and was dropped
	err     error
}

// readLines sends the lines of in, without their ends and without empty ones, and closes
// the channel at the end. When ctx ends it may still block in a read; the process exits
// then.
func readLines(ctx context.Context, in io.Reader, limit int, to chan<- inputLine) {
	defer close(to)
	r := bufio.NewReaderSize(in, 64<<10)
	send := func(l inputLine) bool {
		select {
		case to <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		line, tooLong, err := readLine(r, limit)
		if tooLong || len(bytes.TrimSpace(line)) > 0 {
			if !send(inputLine{text: bytes.TrimSpace(line), tooLong: tooLong}) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				send(inputLine{err: err})
			}
			return
		}
	}
}

// readLine reads up to the next line feed, and keeps at most limit bytes.
func readLine(r *bufio.Reader, limit int) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > limit+1; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// lines writes messages, each on a line of its own.
type lines struct {
	mu     sync.Mutex
	w      io.Writer
	failed func(error)
}

const (
	// readTimeout bounds the wait for a client that does not read.
	readTimeout = 250 * time.Millisecond
	// readPoll is the interval of the check, and the whole wait on systems where the
	// bridge cannot find out what the client has read.
	readPoll = 2 * time.Millisecond
)

// awaitRead waits until the client has read what was written, for a bounded time. The
// official TypeScript clients handle a notification after all messages that they read
// together with it. When the response is among them, the request is already completed and
// its progress notification is lost. So a notification must be read before the response is
// written.
func (l *lines) awaitRead(ctx context.Context) {
	for until := time.Now().Add(readTimeout); ; {
		n, known := unread(l.w)
		if known && n == 0 || !retry.Wait(ctx, readPoll) || !known || time.Now().After(until) {
			return
		}
	}
}

// write writes one message on a line. Line feeds in it are removed; in JSON they are only
// between tokens.
func (l *lines) write(message []byte) {
	if bytes.ContainsAny(message, "\r\n") {
		var b bytes.Buffer
		if json.Compact(&b, message) != nil {
			return // not JSON; the caller has checked that
		}
		message = b.Bytes()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := make([]byte, 0, len(message)+1)
	if _, err := l.w.Write(append(append(line, message...), '\n')); err != nil {
		l.failed(err)
	}
}
