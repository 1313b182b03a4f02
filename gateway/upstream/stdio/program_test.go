package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// programArg makes the test binary the program of an upstream.
const programArg = "program-of-an-upstream"

// roles are what the test binary can be as a helper of a gateway, by its argument.
var roles = map[string]func() int{}

// TestMain is also the main function of helpers and programs. They end without os.Exit, in which
// the race detector waits for 1 s.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case IsHelper(args) && roles[args[1]] != nil:
		syscall.Exit(roles[args[1]]())
	case IsHelper(args):
		syscall.Exit(Help(args))
	case len(args) > 0 && args[0] == programArg:
		(&program{out: bufio.NewWriter(os.Stdout), canceled: make(chan string, 16)}).run(args[1:])
		syscall.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// program is a tool server on stdio that behaves as its calls request, correctly or not.
type program struct {
	mu       sync.Mutex
	out      *bufio.Writer
	level    string
	asked    json.RawMessage // id of the call that waits for a response of the client
	began    json.RawMessage // params of initialize
	canceled chan string
	waiting  []json.RawMessage
}

type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (p *program) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
	p.out.Flush()
}

func (p *program) answer(id json.RawMessage, text string) {
	encoded, _ := json.Marshal(text)
	p.print(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, encoded)
}

func (p *program) run(args []string) {
	switch strings.Join(args, " ") {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find its database")
		os.Exit(7)
	case "never answers":
		<-time.After(time.Hour)
	case "banner":
		fmt.Println("Welcome to the server!")
		fmt.Println(`[1, 2]`)
		fmt.Println(`{"level":"info"}`)
	case "silent before initialize", "starts slowly", "starts too slowly":
		p.late(args)
	case "rejects":
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		var m incoming
		_ = json.Unmarshal(in.Bytes(), &m)
		p.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"not this revision"}}`, m.ID)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m incoming
		if json.Unmarshal(line, &m) == nil {
			p.receive(&m)
		}
	}
}

// late responds to the first request, server/discover, when initialize has arrived too,
// or never.
func (p *program) late(args []string) {
	in := bufio.NewScanner(os.Stdin)
	var discover, initialize incoming
	in.Scan()
	_ = json.Unmarshal(in.Bytes(), &discover)
	in.Scan()
	_ = json.Unmarshal(in.Bytes(), &initialize)
	switch args[0] {
	case "silent":
		p.receive(&initialize)
	case "starts":
		p.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no initialize here"}}`, initialize.ID)
		if args[1] == "slowly" {
			p.print(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"]}}`, discover.ID)
		}
	}
}

func (p *program) receive(m *incoming) {
	switch m.Method {
	case "initialize":
		p.began = bytes.Clone(m.Params)
		p.print(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`, m.ID)
	case "notifications/cancelled":
		p.canceled <- string(m.Params)
	case "logging/setLevel":
		p.level = string(m.Params)
		p.print(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "resources/subscribe", "resources/unsubscribe":
		p.print(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "tools/call":
		p.call(m)
	case "":
		text := string(m.Result)
		if m.Result == nil {
			text = string(m.Error)
		}
		p.answer(p.asked, text)
	default:
		if m.ID != nil {
			p.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
		}
	}
}

func (p *program) call(m *incoming) {
	var params struct {
		Name      string
		Arguments struct{ Text string }
		Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &params)
	text := params.Arguments.Text
	switch params.Name {
	case "echo":
		p.answer(m.ID, text)
	case "pid":
		p.answer(m.ID, strconv.Itoa(os.Getpid()))
	case "began":
		p.answer(m.ID, string(p.began)+p.level)
	case "environment":
		p.answer(m.ID, strings.Join(os.Environ(), "\n"))
	case "read":
		data, err := os.ReadFile(text)
		p.answer(m.ID, fmt.Sprint(string(data), err))
	case "kill":
		pid, _ := strconv.Atoi(text)
		p.answer(m.ID, fmt.Sprint(syscall.Kill(pid, syscall.SIGKILL)))
	case "progress":
		p.print(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, params.Meta.ProgressToken, text)
		p.waiting = append(p.waiting, m.ID)
		if n, _ := strconv.Atoi(text); n == len(p.waiting) || text == "" {
			for _, id := range p.waiting {
				p.answer(id, text)
			}
			p.waiting = nil
		}
	case "ask":
		p.asked = m.ID
		p.print(`{"jsonrpc":"2.0","id":"question","method":"roots/list"}`)
	case "hang":
		p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}`)
	case "canceled":
		go func() { p.answer(m.ID, <-p.canceled) }()
	case "changed":
		p.print(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		p.print(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}`)
		p.answer(m.ID, "")
	default:
		p.misbehave(params.Name, m.ID, text)
	}
}

// misbehave violates the protocol in different ways.
func (p *program) misbehave(how string, id json.RawMessage, text string) {
	switch how {
	case "exit":
		fmt.Fprintln(os.Stderr, "out of", text)
		os.Exit(3)
	case "closes its output":
		os.Stdout.Close()
	case "closes its input":
		os.Stdin.Close()
		p.answer(id, "closed")
		<-time.After(time.Hour)
	case "closes its errors":
		os.Stderr.Close()
		p.answer(id, "closed")
	case "stops reading":
		p.answer(id, "stopped")
		<-time.After(time.Hour)
	case "floods without a line":
		for {
			os.Stdout.WriteString(strings.Repeat("x", 64<<10))
		}
	case "floods with lines":
		for i := range 200_000 {
			p.print(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
		}
		p.answer(id, "flooded")
	case "floods its errors":
		for range 1000 {
			os.Stderr.WriteString(strings.Repeat("e", 10_000) + "\n")
		}
		for range 1000 {
			os.Stderr.WriteString("planted-secret-of-nobody" + strings.Repeat("f", 10_000))
		}
		p.answer(id, "flooded")
	case "asks and asks":
		for i := range 5000 {
			p.print(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)
		}
		p.answer(id, "asked")
	case "half a line":
		os.Stdout.WriteString(`{"jsonrpc":"2.0",`)
	case "foreign ids":
		n, _ := strconv.Atoi(string(id))
		for _, other := range []string{strconv.Itoa(n + 1000), `"` + string(id) + `"`, "null", "-1", "18446744073709551616", `{}`, strconv.Itoa(n) + ".0"} {
			p.print(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"foreign"}]}}`, other)
		}
		p.print(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, n+1)
		p.answer(id, "own")
		p.answer(id, "twice")
	case "grandchildren":
		cmd := exec.Command("sh", "-c", `trap "" TERM HUP INT; setsid sh -c 'trap "" TERM HUP; echo $$; sleep 1000; sleep 1000' & wait`)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, _ := cmd.StdoutPipe()
		_ = cmd.Start()
		line, _ := bufio.NewReader(out).ReadString('\n')
		p.answer(id, strings.TrimSpace(line))
	case "odd message":
		p.print("%s", strings.ReplaceAll(text, "ID", string(id)))
		p.answer(id, "sent")
	}
}
