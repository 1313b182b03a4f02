package stdio

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// The unit with a process of its own is as the upstream's sharing specifies.
func TestSharing(t *testing.T) {
	token := func(rights byte) *upstream.Caller {
		return &upstream.Caller{
			Principal: &auth.Principal{Kind: auth.KindOAuth, Issuer: "i", Value: "carol", Claims: &policy.Claims{Subject: "carol"}},
			Token:     &auth.Token{Rights: [32]byte{rights}}, // hash of all claims, including those that no rule uses
		}
	}
	callers := []*upstream.Caller{caller("alice"), caller("alice"), caller("bob"), token(1), token(1), token(2), address("192.0.2.1"), address("192.0.2.1")}
	for mode, want := range map[string]string{
		upstream.SharingSession:   "0 1 2 3 4 5 6 7",
		upstream.SharingPrincipal: "0 0 1 2 2 3 4 5",
		upstream.SharingAll:       "0 0 0 0 0 0 0 0",
		upstream.SharingNone:      "0 1 2 3 4 5 6 7",
	} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, sharing(mode))
			seen := map[string]int{}
			var got []string
			for _, who := range callers {
				c := r.open(who)
				pid := c.must("pid", "")
				if again := c.must("pid", ""); (again == pid) == (mode == upstream.SharingNone) {
					t.Errorf("the next call is in process %s, the one before in %s", again, pid)
				}
				if _, ok := seen[pid]; !ok {
					seen[pid] = len(seen)
				}
				got = append(got, strconv.Itoa(seen[pid]))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%v, want %s", got, want)
			}
			began := r.open(caller("alice")).must("began", "")
			if own := mode == upstream.SharingSession; strings.Contains(began, `"roots"`) != own || strings.Contains(began, `"extensions":`+mcp.HostExtensions) == own {
				t.Errorf("the process was told of %s", began)
			}
		})
	}
}

// A session outlives its process, and sends the next process the same initialize and
// level.
func TestASessionOutlivesItsProcess(t *testing.T) {
	r := newRig(t, func(c *upstream.Config) { c.IdleTimeout = 100 * time.Millisecond })
	c := r.open(caller("alice"))
	if resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`); err != nil {
		t.Fatal(err)
	} else {
		read(t, resp)
	}
	before := c.must("pid", "")
	await(t, "the process ends", func() bool { return r.Stats().Processes == 0 })
	if after := c.must("pid", ""); after == before {
		t.Errorf("the process is still %s", after)
	}
	if began := c.must("began", ""); began != capable+`{"level":"error"}` {
		t.Errorf("the second process was told %s", began)
	}
}

// Processes that started before a reload named further files of the gateway can open these: an idle
// one ends at once, one with a call after it, with the client's answers, and the next call starts
// another with the files hidden. A reload that hides nothing more replaces none.
func TestAReloadThatHidesMoreReplacesProcesses(t *testing.T) {
	for _, shared := range []string{upstream.SharingSession, upstream.SharingAll} {
		r := newRig(t, sharing(shared))
		hidden := []string{"/srv/before"}
		var mu sync.Mutex
		r.opts.Hidden = func() []string {
			mu.Lock()
			defer mu.Unlock()
			return hidden
		}
		hide := func(paths ...string) {
			mu.Lock()
			defer mu.Unlock()
			hidden = paths
		}
		c := r.open(caller("alice"))
		first := c.must("pid", "")
		if n := r.ReplaceOpen(); n != 0 || c.must("pid", "") != first {
			t.Errorf("%s: nothing new is hidden, and %d are replaced", shared, n)
		}
		hide("/srv/before", "/srv/after")
		if n := r.ReplaceOpen(); n != 1 {
			t.Errorf("%s: %d idle processes are replaced", shared, n)
		}
		second := c.must("pid", "")
		if second == first {
			t.Errorf("%s: the idle process is still there", shared)
		}
		resp, err := c.post(t.Context(), `{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"_meta":{"progressToken":"w"},"name":"progress","arguments":{"text":"9"}}}`)
		if err != nil { // the response begins with the progress, and waits for eight more calls
			t.Fatal(err)
		}
		hide("/srv/later", "/srv/before", "/srv/after")
		if n := r.ReplaceOpen(); n != 1 || r.Stats().Processes != 1 {
			t.Errorf("%s: %d busy processes are replaced, %d run", shared, n, r.Stats().Processes)
		}
		if third := c.must("pid", ""); third == second != (shared == upstream.SharingSession) {
			t.Errorf("%s: a call beside the one that waits is made in the same process: %v", shared, third == second)
		}
		resp.Body.Close()
		await(t, "the process ends with its call", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			for p := range r.live {
				if p.outdated {
					return false
				}
			}
			return true
		})
		if third := c.must("pid", ""); third == second {
			t.Errorf("%s: the busy process is still there", shared)
		}
	}
}

// One caller can neither use up the processes of all, nor be denied its own by others.
func TestBoundsOnProcesses(t *testing.T) {
	r := newRig(t, func(c *upstream.Config) { c.MaxProcesses, c.MaxPerPrincipal = 4, 3 })
	var held []*client
	hold := func(c *client) {
		t.Helper()
		resp, err := c.post(t.Context(), toolCall("hang", ""))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		held = append(held, c)
	}
	mallory := caller("mallory")
	first := r.open(mallory)
	for range 3 { // its own idle processes are ended first
		r.open(mallory)
	}
	if n := r.Stats().Processes; n != 3 {
		t.Errorf("%d processes of one caller", n)
	}
	for range 3 {
		hold(r.open(mallory))
	}
	if _, err := r.try(mallory); !errors.Is(err, upstream.ErrBusy) || !strings.Contains(err.Error(), "max_per_principal") {
		t.Errorf("a process too many of one caller: %v", err)
	}
	if _, err := first.ask("echo", ""); !errors.Is(err, upstream.ErrBusy) {
		t.Errorf("its first session: %v", err)
	}
	alice := r.open(caller("alice"))
	if got := alice.must("echo", "fine"); got != "fine" {
		t.Error(got)
	}
	bob := r.open(caller("bob")) // replaces the idle one
	hold(bob)
	if _, err := alice.ask("echo", ""); !errors.Is(err, upstream.ErrBusy) || !strings.Contains(err.Error(), "max_processes") {
		t.Errorf("a process too many: %v", err)
	}
	r.End(t.Context(), &upstream.Request{Session: mcp.Session{ID: held[0].id}})
	if got := alice.must("echo", "again"); got != "again" {
		t.Error(got)
	}
}

// Addresses are counted by their IPv6 network.
func TestAddressesCountByNetwork(t *testing.T) {
	for _, tt := range []struct {
		a, b *upstream.Caller
		same bool
	}{
		{address("2001:db8::1"), address("2001:db8::2"), true},
		{address("2001:db8::1"), address("2001:db8:0:1::1"), false},
		{address("192.0.2.1"), address("192.0.2.2"), false},
		{address("192.0.2.1"), caller("192.0.2.1"), false},
	} {
		if same := ownerOf(tt.a) == ownerOf(tt.b); same != tt.same {
			t.Errorf("%s and %s: %v", tt.a.Principal.Value, tt.b.Principal.Value, same)
		}
	}
}

// The end of a process fails the calls that wait for it, and the process is started
// again after a growing backoff. Other processes are not affected.
func TestAProcessThatEnds(t *testing.T) {
	r := newRig(t, nil)
	c, other := r.open(caller("alice")), r.open(caller("bob"))
	for i, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		var failed *upstream.Error
		if _, err := c.ask("exit", "memory"); !errors.As(err, &failed) || !errors.Is(err, upstream.ErrExited) || !failed.Sent || !strings.Contains(err.Error(), "exit status 3") {
			t.Fatalf("%d: %v", i, err)
		}
		var exit *ExitError
		if _, err := c.ask("echo", ""); !errors.Is(err, upstream.ErrExited) || !strings.Contains(err.Error(), "started again in") || !errors.As(err, &exit) || exit.Stderr() != "out of memory" {
			t.Fatalf("%d: at once after it: %v", i, err)
		}
		if _, err := other.ask("echo", ""); err != nil {
			t.Errorf("another caller: %v", err)
		}
		r.late.Add(int64(pause))
	}
	if got := c.must("echo", "works"); got != "works" {
		t.Error(got)
	}
	if wait, _ := r.failures.wait(ownerOf(c.who), r.opts.Now()); wait != 0 {
		t.Errorf("a call that succeeded leaves a pause of %v", wait)
	}
	await(t, "the log has the reason", func() bool {
		return strings.Contains(r.logs.String(), `reason="the process ended: exit status 3"`) && strings.Contains(r.logs.String(), `stderr="out of memory"`)
	})
	if s := r.Stats(); s.Exits != 3 || s.Starts != 5 {
		t.Errorf("%+v", s)
	}
}

// A program that does not start is an error with the cause, and is not started in a
// loop.
func TestAProgramThatDoesNotComeUp(t *testing.T) {
	for _, tt := range []struct {
		how    string
		change func(*upstream.Config)
		kind   error
		want   string
	}{
		{"exits", nil, upstream.ErrExited, "exit status 7"},
		{"never answers", func(c *upstream.Config) { c.StartTimeout = 200 * time.Millisecond }, upstream.ErrTimeout, "start_timeout"},
		{"never answers", func(c *upstream.Config) { c.StartTimeout = 1 }, upstream.ErrTimeout, "start_timeout"},
	} {
		r := newRig(t, tt.change, tt.how)
		for i := range 20 {
			_, err := r.try(caller("alice"))
			if i == 0 && (!errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v", tt.how, err)
			}
			if i > 0 && !errors.Is(err, upstream.ErrExited) {
				t.Errorf("%s, again: %v", tt.how, err)
			}
		}
		if n := r.Stats().Starts; n != 1 {
			t.Errorf("%s: %d processes were started", tt.how, n)
		}
	}
	r := newRig(t, nil)
	r.opts.Command.Args = []string{"no-such-program"}
	if _, err := r.try(caller("alice")); !errors.Is(err, upstream.ErrUnreachable) || !strings.Contains(err.Error(), "not found in PATH") {
		t.Error(err)
	}
	rejecting := newRig(t, nil, "rejects")
	resp, err := rejecting.Post(t.Context(), &upstream.Request{Caller: caller("alice"), Body: []byte(`{"jsonrpc":"2.0","id":9,"method":"initialize","params":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if body := read(t, resp); body != `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"not this revision"}}` || resp.Header.Has(mcp.HeaderSession) {
		t.Errorf("%s, %v", body, resp.Header)
	}
}
