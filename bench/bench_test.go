//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMessage(t *testing.T) {
	const one = "POST / HTTP/1.1\r\nContent-Type: a\r\nContent-Length: 3\r\n\r\nabc"
	tests := []struct {
		name, in, body string
		size           int
	}{
		{"nothing", "", "", 0},
		{"half a header", one[:20], "", 0},
		{"half a body", one[:len(one)-1], "", 0},
		{"one", one, "abc", len(one)},
		{"one and a half", one + one[:30], "abc", len(one)},
		{"no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", 27},
		{"lower case", strings.ToLower(one), "abc", len(one)},
	}
	for _, tt := range tests {
		_, body, size := message([]byte(tt.in))
		if string(body) != tt.body || size != tt.size {
			t.Errorf("%s: %q of %d, want %q of %d", tt.name, body, size, tt.body, tt.size)
		}
	}
}

// TestCorpus: the upstream can respond to the load, and the load is varied.
func TestCorpus(t *testing.T) {
	seen, tools := map[string]bool{}, map[string]bool{}
	for i, r := range corpus("small_", "127.0.0.1:1", []string{"key-a", "key-b"}, false) {
		_, body, size := message(r)
		if size != len(r) {
			t.Fatalf("request %d is not one message: %q", i, r)
		}
		if id := value(body, `"id":`); number(id) != i+1000 {
			t.Fatalf("request %d has id %q", i, id)
		}
		tool := value(body, `"name":"`)
		if !bytes.HasPrefix(tool, []byte("small_")) {
			t.Fatalf("request %d calls %q", i, tool)
		}
		seen[string(body)], tools[string(tool)] = true, true
	}
	if len(seen) != corpusSize || len(tools) < 1000 {
		t.Errorf("%d bodies and %d tools", len(seen), len(tools))
	}
}

func TestMedianOfRatios(t *testing.T) {
	of := func(us ...int) []measurement {
		var ms []measurement
		for _, n := range us {
			ms = append(ms, measurement{loadResult: loadResult{Requests: 1, Elapsed: time.Second}, cpu: time.Duration(n) * time.Microsecond})
		}
		return ms
	}
	if got := ratio(of(20, 60, 40), of(10, 20, 40), cpuPerRequest); got < 1.99 || got > 2.01 {
		t.Errorf("ratio %f, want 2", got)
	}
	if got := median(of(4, 1), cpuPerRequest); got != 2.5 {
		t.Errorf("median %f, want 2.5", got)
	}
}

func TestDisturbedRoundsAreLeftOut(t *testing.T) {
	o := &options{targets: []string{"a", "b"}, rounds: 3, calm: 20}
	m := func(others time.Duration) measurement {
		return measurement{loadResult: loadResult{Elapsed: time.Second}, others: others}
	}
	cells := map[key][]measurement{
		{"s", "a"}: {m(0), m(900 * time.Millisecond), m(0)},
		{"s", "b"}: {m(100 * time.Millisecond), m(0), m(0)},
		{"x", "a"}: {m(700 * time.Millisecond), m(600 * time.Millisecond), m(800 * time.Millisecond)},
		{"x", "b"}: {m(0), m(0), m(0)},
	}
	if n := calmRounds(o, cells, "s"); n != 2 || len(cells[key{"s", "b"}]) != 2 {
		t.Errorf("%d calm rounds, want 2", n)
	}
	if n := calmRounds(o, cells, "x"); n != 1 || cells[key{"x", "a"}][0].others != 600*time.Millisecond {
		t.Errorf("%d rounds kept, want the calmest", n)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := usageOf(os.Getpid())
	if err != nil || after.cpu <= before.cpu || after.rss < 1<<20 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
	if machineBusy() < after.cpu {
		t.Error("the machine used less than this process")
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{"-targets apache", "-streams -1", "-shapes tiny", "-rounds 0", "-duration 1h", "-rate 0", "extra"} {
		if _, err := parseOptions(strings.Fields(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	if _, err := parseOptions(nil); err != nil {
		t.Error(err)
	}
}

// TestTwins: every target of svc, and no other, exists for the build for comparison, with the
// same configuration.
func TestTwins(t *testing.T) {
	r := &rig{svc: "svc", base: "other"}
	for _, name := range append(slices.Clone(targetNames), "base") {
		twin := baseOf(name)
		_, err := parseOptions([]string{"-targets", twin, "-base", "other"})
		if (err == nil) != (name != "base" && isGateway(name)) {
			t.Errorf("%s: %v", twin, err)
		}
		if _, alone := parseOptions([]string{"-targets", twin}); alone == nil {
			t.Errorf("%s is accepted without -base", twin)
		}
		if err != nil {
			continue
		}
		of := func(name string) string { return r.gatewayConfig("", "", "", "", name) }
		if r.binary(name) != "svc" || r.binary(twin) != "other" || of(twin) != of(name) || isModern(twin) != isModern(name) || toolPrefix(twin) != toolPrefix(name) {
			t.Errorf("%s is not %s of the other build", twin, name)
		}
	}
}

// TestUpstreamListsTheToolsOfTheLoad holds for ids that are numbers and for ids that are texts.
func TestUpstreamListsTheToolsOfTheLoad(t *testing.T) {
	p := prepare()
	for _, id := range []string{"7", `"seven"`} {
		got, _, list := p.result(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`, id))
		if string(got) != id || !json.Valid(append(append([]byte(answerHead), got...), list...)) {
			t.Errorf("id %s: %s%.100q", id, got, list)
		}
		for _, r := range corpus("small_", "", []string{"key"}, false) {
			if tool := value(r, `"name":"`); !bytes.Contains(list, fmt.Appendf(nil, `{"name":"%s",`, tool)) {
				t.Fatalf("%s is not listed", tool)
			}
		}
	}
}

// TestOnlyResultsOfTheUpstreamCount: an error with status 200 is a failure.
func TestOnlyResultsOfTheUpstreamCount(t *testing.T) {
	for body, failures := range map[string]int{
		answerHead + "7" + string(prepare().small[0]):                  0,
		answerHead + "8" + string(prepare().small[0]):                  1,
		answerHead + `7,"error":{"code":-32602,"message":"no route"}}`: 1,
		answerHead + `7,"result":{"content":[],"isError":true}}`:       1,
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		w.Close()
		g := &generator{latencies: make([]uint32, 1)}
		complete, err := g.receive(&loadConn{fd: int(r.Fd()), buf: make([]byte, 4<<10), id: []byte(`"id":7`)})
		if !complete || err != nil || g.failures != failures {
			t.Errorf("%s: %t, %v, %d failures", body, complete, err, g.failures)
		}
	}
}

func TestShortRunHasEveryShapeAndTakesSeconds(t *testing.T) {
	o, err := parseOptions([]string{"-short"})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.shapes) != len(shapes) || o.rounds != 1 || o.duration > time.Second || o.streams > 100 {
		t.Errorf("%+v", o)
	}
	if n := len(o.targets); n < 2 || o.targets[n-1] != "gateway" {
		t.Errorf("targets %v", o.targets)
	}
}

func TestFirstFrame(t *testing.T) {
	for _, row := range []struct {
		name, in string
		ok       bool
	}{
		{"a frame", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n20\r\nevent: message\ndata: {}\n", true},
		{"refused", "HTTP/1.1 403 Forbidden\r\n\r\ndata: {}\n", false},
		{"cut", "HTTP/1.1 200 OK\r\n\r\n", false},
		{"endless", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 100), false},
	} {
		if err := firstFrame(strings.NewReader(row.in), ""); (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
