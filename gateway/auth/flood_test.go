package auth

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// serverEnv makes the test binary a server that only checks keys, so that its memory can be
// measured from outside.
const serverEnv = "SVC_AUTH_TEST_HASH"

func TestMain(m *testing.M) {
	if hash := os.Getenv(serverEnv); hash != "" {
		serve(hash)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve serves until standard input ends.
func serve(hash string) {
	k, err := NewVerifier(time.Now).Keyring(Config{Enabled: true, Keys: []KeyConfig{{ID: "ci", Hash: hash}}})
	if err != nil {
		panic(err)
	}
	h := NewHeader("Authorization", "Bearer")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := h.Key(r.Header)
		if err == nil {
			_, err = k.Verify(r.Context(), key, "192.0.2.1")
		}
		switch {
		case errors.Is(err, ErrBusy):
			w.WriteHeader(http.StatusTooManyRequests)
		case err != nil:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	fmt.Println(s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Close()
}

// rss returns a number of /proc/PID/status in MiB.
func rss(t testing.TB, pid int, field string) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// While 40 clients send wrong keys without pause (valid id, wrong secret), 500 requests a second
// of a known key are all served, and memory grows by at most 60 MiB. The hash has the costs that
// keygen uses.
func TestWrongKeyFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("floods for some seconds")
	}
	if runtime.GOOS != "linux" {
		t.Skip("reads the memory of a process from /proc")
	}
	const rate, seconds, clients = 500, 4, 40
	text, entry := makeKey(t, "ci", DefaultParams())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+entry.Hash)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer stdin.Close()
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)

	transport := &http.Transport{MaxIdleConnsPerHost: 2 * clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	call := func(key string) int {
		req, err := http.NewRequest(http.MethodPost, url, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	// The key is known, and the server has run for a while.
	for range 500 {
		if got := call(text); got != http.StatusOK {
			t.Fatalf("the right key: %d", got)
		}
	}
	before := rss(t, cmd.Process.Pid, "VmRSS")

	stop := make(chan struct{})
	var answers [600]atomic.Int64
	var flood sync.WaitGroup
	for range clients {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				wrong, err := NewKey("ci")
				if err != nil {
					t.Error(err)
					return
				}
				answers[call(wrong)].Add(1)
			}
		})
	}
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	var served atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	var known sync.WaitGroup
	for range rate * seconds {
		<-tick.C
		known.Go(func() {
			began := time.Now()
			if call(text) == http.StatusOK {
				served.Add(1)
			}
			mu.Lock()
			times = append(times, time.Since(began))
			mu.Unlock()
		})
	}
	known.Wait()
	close(stop)
	flood.Wait()
	grown := rss(t, cmd.Process.Pid, "VmHWM") - before
	slices.Sort(times)
	t.Logf("%d of %d served, p50 %s, p99 %s; wrong keys: %d answered 401, %d answered 429; peak memory %+.1f MiB over %.1f",
		served.Load(), rate*seconds, times[len(times)/2], times[len(times)*99/100],
		answers[401].Load(), answers[429].Load(), grown, before)
	if got := served.Load(); got != rate*seconds {
		t.Errorf("%d of %d requests of the known key were served", got, rate*seconds)
	}
	if answers[401].Load()+answers[429].Load() < clients || answers[200].Load() > 0 {
		t.Error("the flood did not happen, or was accepted")
	}
	if grown > 60 && !raceEnabled {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
}
