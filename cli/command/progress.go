package command

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
	step        string // what is being done, where there are several steps
	total, Done int64  // bytes; total is 0 when unknown
	began, last time.Time
	lines       time.Duration // how often a line is written where there is no terminal; 0: never
	shown       bool
}

// lineEvery is how often a long command that nobody watches reports how far it is.
const lineEvery = 10 * time.Second

// NewLongProgress returns the progress of a command that takes minutes: where there is no
// terminal it writes lines.
func NewLongProgress(env process.Env) *Progress {
	p := NewProgress(env, nil)
	p.lines, p.began, p.last = lineEvery, env.Now(), env.Now()
	return p
}

// Total sets how much there is; 0 when unknown.
func (p *Progress) Total(bytes int64) { p.total = bytes }

// Step shows how far a step is.
func (p *Progress) Step(step string, done, total int64) {
	if step != p.step {
		p.step, p.began = step, p.env.Now()
	}
	p.total = total
	p.Reached(done)
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
func (p *Progress) Reader(in io.Reader) io.Reader { return counted{p, in.Read} }

// Writer counts the bytes that are written to out.
func (p *Progress) Writer(out io.Writer) io.Writer { return counted{p, out.Write} }

// counted is a reader or a writer whose bytes are counted.
type counted struct {
	p  *Progress
	do func([]byte) (int, error)
}

func (c counted) Read(b []byte) (int, error) { return c.Write(b) }

func (c counted) Write(b []byte) (int, error) {
	n, err := c.do(b)
	c.p.Reached(c.p.Done + int64(n))
	return n, err
}

// Reached sets the number of bytes that a command has read or written.
func (p *Progress) Reached(done int64) {
	p.Done = done
	p.Show()
}

// Show redraws the line, a few times a second, or writes one now and then where there is
// no terminal.
func (p *Progress) Show() {
	if !p.env.StderrTTY && p.lines == 0 {
		return
	}
	now := p.env.Now()
	if !p.env.StderrTTY {
		if now.Sub(p.last) >= p.lines {
			p.last = now
			fmt.Fprintln(p.env.Stderr, p.text(now))
		}
		return
	}
	if now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	fmt.Fprintf(p.env.Stderr, "\r\x1b[K%s", p.line(now))
	p.shown = true
}

// line is what is shown.
func (p *Progress) line(now time.Time) string {
	if p.total == 0 {
		return p.text(now)
	}
	const width = 24
	full := int(p.share() * width)
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), p.text(now))
}

// share is how much of all is done.
func (p *Progress) share() float64 { return min(float64(p.Done)/float64(p.total), 1) }

// text is the line without its bar.
func (p *Progress) text(now time.Time) string {
	const mib = 1 << 20
	text := fmt.Sprintf("%d MiB", p.Done/mib)
	if p.total > 0 {
		text = fmt.Sprintf("%3.0f %% of %d MiB", p.share()*100, p.total/mib)
	}
	if s := now.Sub(p.began).Seconds(); s > 0 {
		text += fmt.Sprintf(", %.0f MiB/s", float64(p.Done)/mib/s)
	}
	if p.step != "" {
		text = p.step + ": " + strings.TrimLeft(text, " ")
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
