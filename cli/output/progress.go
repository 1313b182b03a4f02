package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"svc/cli/process"
)

// Progress shows on a terminal how much a command has read or written. The line is on
// standard error.
type Progress struct {
	env         process.Env
	total, Done int64 // bytes; total is 0 when unknown
	began, last time.Time
	shown       bool
}

// NewProgress returns the progress of reading files.
func NewProgress(env process.Env, paths []string) *Progress {
	p := &Progress{env: env}
	if !env.StderrTTY {
		return p // shows nothing
	}
	p.began = env.Now()
	for _, path := range paths {
		size, ok := env.Size(path)
		if !ok {
			p.total = 0
			break
		}
		p.total += size
	}
	return p
}

// NewOutputProgress returns the progress of writing to standard output. When that is a
// terminal, it shows nothing.
func NewOutputProgress(env process.Env) *Progress {
	env.StderrTTY = env.StderrTTY && !env.StdoutTTY
	return NewProgress(env, nil)
}

// Reader counts the bytes that are read from in.
func (p *Progress) Reader(in io.Reader) io.Reader { return &progressReader{p, in} }

type progressReader struct {
	p  *Progress
	in io.Reader
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.p.Done += int64(n)
	r.p.Show()
	return n, err
}

// Writer counts the bytes that are written to out.
func (p *Progress) Writer(out io.Writer) io.Writer { return &progressWriter{p, out} }

type progressWriter struct {
	p   *Progress
	out io.Writer
}

func (w *progressWriter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	w.p.Reached(w.p.Done + int64(n))
	return n, err
}

// Reached sets the number of bytes that a command has read or written.
func (p *Progress) Reached(done int64) {
	p.Done = done
	p.Show()
}

// Show redraws the line, a few times a second.
func (p *Progress) Show() {
	if !p.env.StderrTTY {
		return
	}
	now := p.env.Now()
	if now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	fmt.Fprintf(p.env.Stderr, "\r\x1b[K%s", p.line(now))
	p.shown = true
}

// line is what is shown.
func (p *Progress) line(now time.Time) string {
	const mib = 1 << 20
	text := fmt.Sprintf("%d MiB", p.Done/mib)
	if p.total > 0 {
		share := min(float64(p.Done)/float64(p.total), 1)
		const width = 24
		full := int(share * width)
		text = fmt.Sprintf("[%s%s] %3.0f %% of %d MiB", strings.Repeat("#", full), strings.Repeat(".", width-full), share*100, p.total/mib)
	}
	if s := now.Sub(p.began).Seconds(); s > 0 {
		text += fmt.Sprintf(", %.0f MiB/s", float64(p.Done)/mib/s)
	}
	return text
}

// End removes the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.env.Stderr, "\r\x1b[K")
		p.shown = false
	}
}
