//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// loadSpec is the load generator's task, read from standard input.
type loadSpec struct {
	Addr     string
	Tool     string
	Keys     []string
	Modern   bool // the client supports 2026-07-28
	Conns    int
	Rate     int // requests per second; 0 is a closed loop
	Warmup   time.Duration
	Duration time.Duration
}

// loadResult is printed at the end. A line is printed before that at the end of
// the warm-up.
type loadResult struct {
	Requests int
	Failures int
	Failure  string // the first failure
	Elapsed  time.Duration
	P50, P99 time.Duration
}

// fixedConns is the maximum number of connections for a fixed rate.
const fixedConns = 64

// loadRole sends load to one target.
func loadRole([]string) error {
	var spec loadSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return err
	}
	if spec.Rate > 0 {
		spec.Conns = fixedConns
	}
	p, err := newPoller()
	if err != nil {
		return err
	}
	defer p.close()
	g := &generator{
		poller: p, random: rand.New(rand.NewPCG(5, uint64(os.Getpid()))),
		requests: corpus(spec.Tool, spec.Addr, spec.Keys, spec.Modern), conns: map[int]*loadConn{},
		latencies: make([]uint32, 1<<20),
	}
	for range spec.Conns {
		fd, err := dialSocket(spec.Addr)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := p.add(fd); err != nil {
			return err
		}
		g.conns[fd] = &loadConn{fd: fd, buf: make([]byte, 256<<10)}
	}
	if err := g.run(spec.Rate, spec.Warmup); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	fmt.Println("start")
	g.done, g.failures, g.failure = 0, 0, ""
	clear(g.latencies)
	start := time.Now()
	if err := g.run(spec.Rate, spec.Duration); err != nil {
		return err
	}
	r := loadResult{Requests: g.done, Failures: g.failures, Failure: g.failure, Elapsed: time.Since(start), P50: g.quantile(0.50), P99: g.quantile(0.99)}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// generator sends requests and measures the time to their responses.
type generator struct {
	poller   *poller
	random   *rand.Rand
	requests [][]byte
	conns    map[int]*loadConn

	idle    []*loadConn
	due     []time.Time // requests of a fixed rate that are due and not sent yet
	running int

	done      int
	failures  int
	failure   string
	latencies []uint32 // by microsecond; the last one is for all longer ones
}

type loadConn struct {
	fd    int
	buf   []byte
	n     int
	id    []byte // the expected id of the response
	start time.Time
}

var errGone = errors.New("the target closed the connection")

// run sends for the given time and waits for the last responses. With a fixed
// rate the time is measured from when a request was due, so that the wait that a
// stalled target causes is included.
func (g *generator) run(rate int, d time.Duration) error {
	now := time.Now()
	end := now.Add(d)
	timer := -1
	g.idle, g.due = g.idle[:0], g.due[:0]
	for _, c := range g.conns {
		if rate > 0 {
			g.idle = append(g.idle, c)
		} else if err := g.send(c, now); err != nil {
			return err
		}
	}
	next := now
	interval := time.Duration(0)
	if rate > 0 {
		interval = time.Second / time.Duration(rate)
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		ts := unix.NsecToTimespec(int64(interval))
		if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil); err != nil {
			return err
		}
		if err := g.poller.add(fd); err != nil {
			return err
		}
		timer = fd
	}
	for {
		now = time.Now()
		if over := now.After(end); over && g.running == 0 {
			return nil
		} else if now.After(end.Add(10 * time.Second)) {
			return fmt.Errorf("%d answers are missing after 10 s", g.running)
		}
		events, err := g.poller.wait(100)
		if err != nil {
			return err
		}
		for _, e := range events {
			if int(e.Fd) == timer {
				var b [8]byte
				_, _ = unix.Read(timer, b[:])
				continue
			}
			c := g.conns[int(e.Fd)]
			complete, err := g.receive(c)
			if i := slices.Index(g.idle, c); err == errGone && i >= 0 && len(g.conns) > 1 {
				// It was unused for long: with a fixed rate a few connections
				// are sufficient.
				g.idle = slices.Delete(g.idle, i, i+1)
				delete(g.conns, c.fd)
				_ = g.poller.remove(c.fd)
				continue
			}
			if err != nil {
				return err
			}
			if !complete {
				continue
			}
			if rate > 0 {
				g.idle = append(g.idle, c)
			} else if now := time.Now(); now.Before(end) {
				if err := g.send(c, now); err != nil {
					return err
				}
			}
		}
		if rate > 0 {
			for now = time.Now(); next.Before(now) && next.Before(end); next = next.Add(interval) {
				g.due = append(g.due, next)
			}
			for len(g.due) > 0 && len(g.idle) > 0 {
				c := g.idle[len(g.idle)-1]
				g.idle = g.idle[:len(g.idle)-1]
				if err := g.send(c, g.due[0]); err != nil {
					return err
				}
				g.due = slices.Delete(g.due, 0, 1)
			}
		}
	}
}

func (g *generator) send(c *loadConn, start time.Time) error {
	i := g.random.IntN(len(g.requests))
	c.id = strconv.AppendInt(append(c.id[:0], `"id":`...), int64(i+1000), 10)
	c.start, c.n = start, 0
	g.running++
	return writeAll(c.fd, g.requests[i])
}

// receive reads the available data; complete reports that the response has
// ended.
func (g *generator) receive(c *loadConn) (complete bool, err error) {
	if c.n == len(c.buf) {
		return false, errors.New("an answer is larger than the buffer")
	}
	n, err := unix.Read(c.fd, c.buf[c.n:])
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, errGone
	}
	c.n += n
	b := c.buf[:c.n]
	end := bytes.Index(b[:min(len(b), 4<<10)], []byte("\r\n\r\n"))
	if end < 0 {
		return false, nil
	}
	end += 4
	if i := bytes.Index(b[:end], []byte("Content-Length: ")); i >= 0 {
		if len(b) < end+number(b[i+len("Content-Length: "):end]) {
			return false, nil
		}
	} else if len(b) < end+5 || !bytes.HasSuffix(b, []byte("0\r\n\r\n")) {
		return false, nil
	}
	g.running--
	g.done++
	us := min(time.Since(c.start).Microseconds(), int64(len(g.latencies)-1))
	g.latencies[us]++
	// The id is at the start of JSON and in the last frame of a stream; the end of the upstream's
	// result is at the end of both.
	body := b[end:]
	last := body[max(0, len(body)-1024):]
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) || !bytes.Contains(last, []byte(resultEnd)) ||
		!bytes.Contains(body[:min(len(body), 64)], c.id) && !bytes.Contains(last, c.id) {
		g.failures++
		if g.failure == "" {
			g.failure = fmt.Sprintf("want %s and %s in %.400q", c.id, resultEnd, b)
		}
	}
	return true, nil
}

func (g *generator) quantile(q float64) time.Duration {
	rank := int(q * float64(g.done))
	for us, n := range g.latencies {
		if rank -= int(n); rank < 0 {
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}
