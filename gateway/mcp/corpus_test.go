package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// entry is a line of the corpus: the expected result for the body ("accept" or
// the reason of the refusal), and the body as a Go string.
type entry struct {
	verdict string
	body    string
}

// corpus reads testdata/envelopes.txt.
func corpus(t testing.TB) []entry {
	t.Helper()
	f, err := os.Open("testdata/envelopes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []entry
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		verdict, quoted, _ := strings.Cut(line, " ")
		body, err := strconv.Unquote(strings.TrimSpace(quoted))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, entry{verdict, body})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(list) < 50 {
		t.Fatalf("the corpus has %d entries", len(list))
	}
	return list
}

// Scan accepts or refuses every envelope as the corpus records it, and every
// other parser that accepts an accepted envelope reads the same method and tool
// name.
func TestCorpusAgreesWithGo(t *testing.T) {
	for _, c := range corpus(t) {
		var m Message
		err := Scan([]byte(c.body), &m)
		verdict := "accept"
		if err != nil {
			verdict = err.(*Error).Reason
		}
		if verdict != c.verdict {
			t.Errorf("%q: %s, the corpus says %s", c.body, verdict, c.verdict)
		}
		if err == nil {
			agree(t, &m)
		}
	}
}

// The corpus must contain envelopes that parsers interpret differently;
// otherwise their agreement proves nothing.
func TestCorpusHoldsDifferences(t *testing.T) {
	differ := 0
	for _, c := range corpus(t) {
		var v struct {
			Method string
			Params struct{ Name any }
		}
		if json.Unmarshal([]byte(c.body), &v) != nil {
			continue
		}
		msg, err := jsonrpc.DecodeMessage([]byte(c.body))
		if req, ok := msg.(*jsonrpc.Request); err != nil || !ok || req.Method != v.Method {
			differ++
		}
	}
	if differ < 3 {
		t.Errorf("encoding/json and the SDK differ on %d envelopes only", differ)
	}
}

// readByNode is the result of JSON.parse for an envelope.
type readByNode struct {
	OK     bool   `json:"ok"`
	Method any    `json:"method"`
	Name   any    `json:"name"`
	Task   any    `json:"task"`
	Kind   string `json:"kind"`
}

const nodeScript = `
const lines = require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean);
for (const line of lines) {
  const out = { ok: false };
  try {
    const bytes = Buffer.from(line, "base64");
    const v = JSON.parse(new TextDecoder("utf-8").decode(bytes));
    out.ok = true;
    out.method = v?.method;
    out.name = v?.params?.name;
    out.task = v?.params?.taskId;
    out.kind = v && v.method !== undefined ? (v.id !== undefined ? "request" : "notification") : "response";
  } catch (e) {}
  console.log(JSON.stringify(out));
}`

// Node's JSON.parse reads the same method and tool name of every envelope that
// we accept.
func TestCorpusAgreesWithNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the reading of JSON.parse was not compared")
	}
	list := corpus(t)
	var in bytes.Buffer
	for _, c := range list {
		quoted, err := json.Marshal([]byte(c.body)) // base64
		if err != nil {
			t.Fatal(err)
		}
		in.Write(quoted[1 : len(quoted)-1])
		if len(c.body) == 0 {
			in.WriteString("=")
		}
		in.WriteByte('\n')
	}
	cmd := exec.Command(node, "-e", nodeScript)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	results := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(results) != len(list) {
		t.Fatalf("node answered %d of %d", len(results), len(list))
	}
	refused := 0
	for i, c := range list {
		var r readByNode
		if err := json.Unmarshal([]byte(results[i]), &r); err != nil {
			t.Fatal(err)
		}
		var m Message
		if Scan([]byte(c.body), &m) != nil {
			refused++
			continue
		}
		method, _ := r.Method.(string)
		name, isString := r.Name.(string)
		task, _ := r.Task.(string)
		if !r.OK || method != m.Method || r.Kind != m.Kind.String() || m.Kind != Response && (isString != m.HasName || name != m.Name || task != m.TaskID) {
			t.Errorf("%q: node reads %+v, we %v %q %q", c.body, r, m.Kind, m.Method, m.Name)
		}
	}
	if refused == 0 || refused == len(list) {
		t.Errorf("%d of %d are refused", refused, len(list))
	}
}
