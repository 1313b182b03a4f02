//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	answerVariants = 32
	largeAnswer    = 100 << 10
	frameCount     = 20

	// holdTool is the prefix of the tools whose stream stays open.
	holdTool = "hold_"
	// askTool is the prefix of the tools that send the client a request, and
	// wait.
	askTool = "ask_"
)

// upstreamRole serves MCP tool calls with prepared responses, selected by the
// tool's prefix and number, into which the request's id is inserted. It also
// accepts the traces of the gateway. It prints its address and runs until it is
// ended.
func upstreamRole([]string) error {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(l, 512); err != nil {
		return err
	}
	sa, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	fmt.Printf("127.0.0.1:%d\n", sa.(*unix.SockaddrInet4).Port)
	p, err := newPoller()
	if err != nil {
		return err
	}
	if err := p.add(l); err != nil {
		return err
	}
	s := &upstreamServer{answers: prepare(), conns: map[int]*upstreamConn{}}
	for {
		events, err := p.wait(-1)
		if err != nil {
			return err
		}
		for _, e := range events {
			fd := int(e.Fd)
			if fd == l {
				if fd, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC); err == nil {
					_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
					s.conns[fd] = &upstreamConn{buf: make([]byte, 64<<10)}
					err = p.add(fd)
				}
				if err != nil {
					return err
				}
			} else if !s.serve(fd) {
				unix.Close(fd)
				delete(s.conns, fd)
			}
		}
	}
}

type upstreamServer struct {
	answers *prepared
	conns   map[int]*upstreamConn
	out     []byte
}

type upstreamConn struct {
	buf []byte
	n   int
}

// serve reads the available data and responds to every complete request.
func (s *upstreamServer) serve(fd int) bool {
	c := s.conns[fd]
	if c.n == len(c.buf) {
		if len(c.buf) >= 32<<20 {
			return false
		}
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := unix.Read(fd, c.buf[c.n:])
	if n <= 0 || err != nil {
		return false
	}
	c.n += n
	for {
		head, body, size := message(c.buf[:c.n])
		if size == 0 {
			return true
		}
		if err := s.answer(fd, head, body); err != nil {
			return false
		}
		c.n = copy(c.buf, c.buf[size:c.n])
	}
}

// message returns the first request in b and its size, which is 0 while it is
// incomplete.
func message(b []byte) (head, body []byte, size int) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return nil, nil, 0
	}
	head = b[:end+4]
	n := 0
	if i := bytes.Index(head, []byte("ontent-")); i >= 0 { // both spellings of the field
		for i >= 0 {
			if v, ok := bytes.CutPrefix(head[i:], []byte("ontent-Length: ")); ok {
				n = number(v)
			} else if v, ok := bytes.CutPrefix(head[i:], []byte("ontent-length: ")); ok {
				n = number(v)
			}
			next := bytes.Index(head[i+1:], []byte("ontent-"))
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	if size = len(head) + n; len(b) < size {
		return nil, nil, 0
	}
	return head, b[len(head):size], size
}

func number(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func (s *upstreamServer) answer(fd int, head, body []byte) error {
	if bytes.HasPrefix(head, []byte("POST /api/traces ")) {
		out := fmt.Sprintf(`{"data":{"accepted":%d,"duplicates":0}}`, bytes.Count(body, []byte(`"createdAt":`)))
		return writeAll(fd, fmt.Appendf(nil, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(out), out))
	}
	if bytes.HasPrefix(head, []byte("DELETE ")) || bytes.Contains(body, []byte(`"method":"notifications/`)) {
		return writeAll(fd, []byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
	}
	id, tool, result := s.answers.result(body)
	switch {
	case bytes.Contains(body, []byte(`"method":"initialize"`)):
		return s.json(fd, "Mcp-Session-Id: bench\r\n", id, result)
	case bytes.HasPrefix(tool, []byte("sse_")):
		return s.stream(fd, id, result)
	case bytes.HasPrefix(tool, []byte(holdTool)):
		return s.hold(fd, appendProgress(nil, id, 0))
	case bytes.HasPrefix(tool, []byte(askTool)):
		return s.hold(fd, []byte(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"May the work go on?","requestedSchema":{"type":"object","properties":{"go":{"type":"boolean"}}}}}`))
	default:
		return s.json(fd, "", id, result)
	}
}

// stdioRole is a program that serves the same over its standard input and output.
func stdioRole([]string) error {
	answers, in := prepare(), bufio.NewReaderSize(os.Stdin, 1<<20)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.Contains(line, []byte(`"method":"notifications/`)) {
			continue
		}
		id, _, result := answers.result(line)
		out = append(append(append(append(out[:0], answerHead...), id...), result...), '\n')
		if _, err := os.Stdout.Write(out); err != nil {
			return err
		}
	}
}

// result returns the id of a request, the tool that it calls, and its result.
func (p *prepared) result(body []byte) (id, tool, result []byte) {
	if id = value(body, `"id":`); len(id) == 0 {
		id = append(append([]byte{'"'}, value(body, `"id":"`)...), '"')
	}
	switch {
	case bytes.Contains(body, []byte(`"method":"initialize"`)):
		return id, nil, []byte(`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}`)
	case bytes.Contains(body, []byte(`"method":"tools/list"`)):
		return id, nil, p.list
	}
	tool = value(body, `"name":"`)
	variant := 0
	if i := bytes.LastIndexByte(tool, '_'); i >= 0 {
		variant = number(tool[i+1:]) % answerVariants
	}
	if bytes.HasPrefix(tool, []byte("large_")) {
		return id, tool, p.large[variant]
	}
	return id, tool, p.small[variant]
}

const answerHead = `{"jsonrpc":"2.0","id":`

// resultEnd is in the last bytes of the result of every call.
const resultEnd = `"next":null},"isError":false`

// json responds with more header fields, the id, and a result that starts with a comma.
func (s *upstreamServer) json(fd int, fields string, id, result []byte) error {
	b := append(append(s.out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"...), fields...)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(answerHead)+len(id)+len(result)), 10)
	b = append(b, "\r\n\r\n"+answerHead...)
	b = append(b, id...)
	b = append(b, result...)
	s.out = b
	return writeAll(fd, b)
}

// stream responds with progress notifications and the result, each frame in a
// write of its own, like a server that produces them one after the other.
func (s *upstreamServer) stream(fd int, id, result []byte) error {
	if err := writeAll(fd, []byte(streamHead)); err != nil {
		return err
	}
	for i := range frameCount {
		frame := s.out[:0]
		frame = append(frame, "event: message\ndata: "...)
		if i < frameCount-1 {
			frame = appendProgress(frame, id, i)
		} else {
			frame = append(append(append(frame, answerHead...), id...), result...)
		}
		frame = append(frame, "\n\n"...)
		chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(frame), frame)
		if i == frameCount-1 {
			chunk = append(chunk, "0\r\n\r\n"...)
		}
		s.out = frame
		if err := writeAll(fd, chunk); err != nil {
			return err
		}
	}
	return nil
}

// hold begins a stream with one frame and leaves it open.
func (s *upstreamServer) hold(fd int, message []byte) error {
	frame := append([]byte("event: message\ndata: "), message...)
	return writeAll(fd, fmt.Appendf(nil, "%s%x\r\n%s\n\n\r\n", streamHead, len(frame)+2, frame))
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"

func appendProgress(b, id []byte, step int) []byte {
	return fmt.Appendf(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%s","progress":%d,"total":%d,"message":"step %d of the work is done"}}`, id, step, frameCount, step)
}

// value returns the plain value that follows key in body, up to its end.
func value(body []byte, key string) []byte {
	_, rest, ok := bytes.Cut(body, []byte(key))
	if !ok {
		return []byte("null")
	}
	return rest[:max(bytes.IndexAny(rest, `,"}`), 0)]
}

// prepared holds results, from the comma after the id to the end.
type prepared struct {
	small, large [answerVariants][]byte
	list         []byte // of the tools
}

func prepare() *prepared {
	r := rand.New(rand.NewPCG(3, 4))
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(vocabulary[r.IntN(len(vocabulary))])
			b.WriteByte(' ')
		}
		return b.String()[:n]
	}
	result := func(n int) []byte {
		return fmt.Appendf(nil, `,"result":{"content":[{"type":"text","text":"%s"}],"structuredContent":{"total":%d,%s}}`, text(n), r.IntN(1e6), resultEnd)
	}
	p := &prepared{}
	for i := range answerVariants {
		p.small[i] = result(120 + r.IntN(160))
		p.large[i] = result(largeAnswer)
	}
	// The list has the tools that the load of small calls uses.
	tools := map[string]bool{}
	for _, request := range corpus("small_", "", []string{""}, false) {
		tools[fmt.Sprintf(`{"name":"%s","inputSchema":{"type":"object"}}`, value(request, `"name":"`))] = true
	}
	p.list = fmt.Appendf(nil, `,"result":{"tools":[%s]}}`, strings.Join(slices.Sorted(maps.Keys(tools)), ","))
	return p
}
