package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"svc/store/api"
)

// childEnv makes the test binary a gateway that only writes audit lines and
// reports them.
const childEnv = "SVC_REPORT_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir, os.Getenv(childEnv+"_URL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// httpPlane posts to the fake control plane of the parent process.
type httpPlane struct{ url string }

func (p httpPlane) PostTraceBatch(ctx context.Context, id string, body []byte) (res api.IngestResult, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return res, err
	}
	req.Header.Set("Svc-Batch-Id", id)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return res, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		return res, statusError(answer.StatusCode)
	}
	return res, json.NewDecoder(answer.Body).Decode(&res)
}

func childConfig(dir string) (ControlPlaneConfig, Config) {
	var c ControlPlaneConfig
	c.SetDefaults()
	c.Traces.FlushInterval = 10 * time.Millisecond
	var a Config
	a.SetDefaults()
	a.Path = filepath.Join(dir, "audit.jsonl")
	a.Fsync = fsyncNever
	a.MaxSizeMB = 1
	a.MaxBackups = 1
	return c, a
}

// child records calls and streams until it is killed, or standard input ends.
// It prints what was acknowledged to it: "request ID", "open ID".
func child(dir, url string) error {
	c, a := childConfig(dir)
	l, err := Open(a, Options{MaxBacklog: 1_000_000})
	if err != nil {
		return err
	}
	rep, err := NewReporter(c, ReporterOptions{
		Reason:    reasonOf,
		AuditPath: a.Path, StateDir: dir, Sink: httpPlane{url}, Status: statusOf, Reported: l.SetReported,
		Poll: 2 * time.Millisecond, MaxPause: 50 * time.Millisecond, FlushTimeout: 20 * time.Second,
		SaveEvery: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reported := make(chan error, 1)
	go func() { reported <- rep.Run(ctx) }()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				rid := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i)
				rec := call(rid)
				rec.Time = time.Now()
				rec.Upstream = strings.Repeat("u", 200)
				if i%5 == 0 {
					rec.Kind = KindOpen
					if l.Write(ctx, rec) != nil {
						return
					}
					fmt.Println("open", rid)
					if i%10 == 0 {
						continue // never ends
					}
					rec.Kind = KindRequest
				}
				if l.Write(ctx, rec) != nil {
					return
				}
				fmt.Println("request", rid)
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(stop)
	writers.Wait()
	if err := l.Close(); err != nil {
		return err
	}
	cancel()
	return <-reported
}

// The crash of either side neither loses nor duplicates a trace: the gateway is
// killed while calls run, and the control plane fails and loses responses
// meanwhile.
func TestKillLosesAndDoublesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds")
	}
	const kills = 12
	dir := t.TempDir()
	plane := newPlane()
	var posts int
	stored := map[string]int{}
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if posts++; posts%7 == 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		before := plane.count()
		res, err := plane.PostTraceBatch(req.Context(), req.Header.Get("Svc-Batch-Id"), body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, id := range plane.order[before:] {
			stored[id]++
		}
		if posts%7 == 5 {
			// The batch is stored, and the response is lost.
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(res)
	}))
	defer server.Close()

	requests, opens := map[string]bool{}, map[string]bool{}
	run := func(life time.Duration) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_URL="+server.URL)
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if life == 0 {
			_ = stdin.Close()
		} else {
			time.AfterFunc(life, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, id, ok := strings.Cut(lines.Text(), " ")
			switch {
			case !ok:
			case what == "request":
				requests[id] = true
				delete(opens, id)
			case what == "open":
				opens[id] = true
			}
		}
		err = cmd.Wait()
		if life == 0 && err != nil {
			t.Fatalf("the last run: %v", err)
		}
	}
	for range kills {
		run(100*time.Millisecond + rand.N(200*time.Millisecond))
	}
	run(0)

	if len(requests) < 100 || len(opens) < 10 {
		t.Fatalf("only %d requests and %d open streams: the test shows nothing", len(requests), len(opens))
	}
	lost, wrong := 0, 0
	for id := range requests {
		if tr, ok := plane.get(id); !ok {
			lost++
		} else if tr.Status != "success" {
			wrong++
		}
	}
	for id := range opens {
		// The closing line may have been written although the process was
		// killed before it acknowledged that.
		if _, ok := plane.get(id); !ok {
			lost++
		}
	}
	for id, n := range stored {
		if n != 1 {
			t.Errorf("%s was stored %d times", id, n)
		}
	}
	if lost > 0 || wrong > 0 {
		t.Errorf("of %d requests and %d streams %d are lost and %d have the wrong status", len(requests), len(opens), lost, wrong)
	}
	v, err := verifyPath(context.Background(), filepath.Join(dir, "audit.jsonl"), VerifyOptions{})
	if err != nil || !v.OK() {
		t.Errorf("the trail after %d kills: %v, %v", kills, v.Problems, err)
	}
	t.Logf("%d requests, %d streams cut, %d kills, %d posts, %d starts in the trail", len(requests), len(opens), kills, posts, v.Starts)
}
