package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestApplyIsCutOff kills a real control plane with SIGKILL while it applies documents: in
// the middle of the request, at points during its work, and after the response. After each
// restart all documents or none are applied, documents with a response are applied, and
// the chain of administrators' events has one event for each change.
func TestApplyIsCutOff(t *testing.T) {
	program, err := exec.LookPath("svc") // this test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	const key = "svc_api_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	const n = 300
	dir := t.TempDir()
	address := freeAddress(t)
	start := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command(program, "serve", "--listen", address, "--data-dir", filepath.Join(dir, "data"))
		cmd.Env = append(os.Environ(), "SVC_BOOTSTRAP_API_KEY="+key, "SVC_RATE_LIMIT=100000", "GORACE=atexit_sleep_ms=10")
		var log lockedBuffer
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for until := time.Now().Add(30 * time.Second); ; <-tick.C {
			resp, err := http.Get("http://" + address + "/healthz")
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return cmd
				}
			}
			if time.Now().After(until) {
				t.Fatalf("svc serve is not ready: %v\n%s", err, log.String())
			}
		}
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	ask := func(method, path string, body io.Reader) (int, []byte, error) {
		req, err := http.NewRequest(method, "http://"+address+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return resp.StatusCode, raw, err
	}
	documents := func(limit int) []byte {
		var b strings.Builder
		b.WriteString(`{"documents":[{"kind":"Agent","name":"a"}`)
		for i := range n {
			fmt.Fprintf(&b, `,{"kind":"Budget","name":"b%03d","spec":{"agent":"a","period":"daily","limitUsd":%d}}`, i, limit)
		}
		return []byte(b.String() + "]}")
	}

	server := start()
	began := time.Now()
	if status, raw, err := ask("POST", "/api/apply", bytes.NewReader(documents(1))); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %.300s", status, err, raw)
	}
	took := time.Since(began)
	last, applied, kept := 1, 0, 0
	for point := range 8 {
		wanted := last + 1
		body := documents(wanted)
		answered := make(chan bool, 1)
		switch point {
		case 0: // half of the request is sent
			half, write := io.Pipe()
			go func() {
				status, _, err := ask("POST", "/api/apply", half)
				answered <- err == nil && status == http.StatusOK
			}()
			_, _ = write.Write(body[:len(body)/2])
			kill(server)
			_ = write.Close()
		default:
			go func() {
				status, _, err := ask("POST", "/api/apply", bytes.NewReader(body))
				answered <- err == nil && status == http.StatusOK
			}()
			ok := false
			select {
			case ok = <-answered:
			case <-time.After(took * time.Duration(point) / 6): // the last point is usually after the response
			}
			kill(server)
			if ok {
				answered <- true
			}
		}
		ok := <-answered
		server = start()
		var list struct {
			Data []struct {
				Name     string
				LimitUSD float64
			}
		}
		status, raw, err := ask("GET", "/api/costs/budgets", nil)
		if err != nil || status != http.StatusOK || json.Unmarshal(raw, &list) != nil || len(list.Data) != n {
			t.Fatalf("point %d: %d, %v, %d budgets: %.300s", point, status, err, len(list.Data), raw)
		}
		limits := map[float64]int{}
		for _, b := range list.Data {
			limits[b.LimitUSD]++
		}
		switch {
		case len(limits) != 1:
			t.Fatalf("point %d: applied in part: budgets by their limit are %v", point, limits)
		case limits[float64(wanted)] == n:
			last, applied = wanted, applied+1
		case limits[float64(last)] != n || ok:
			t.Fatalf("point %d: the apply was answered: %t; budgets by their limit are %v, want %d or %d", point, ok, limits, last, wanted)
		default:
			kept++
		}
	}
	t.Logf("one apply took %v; of 8 that were cut off %d were applied and %d were not", took, applied, kept)
	if kept == 0 {
		t.Error("no apply was cut off before its end")
	}
	cmd := exec.Command(program, "audit", "events", "--verify", "--url", "http://"+address)
	cmd.Env = append(os.Environ(), "SVC_API_KEY="+key, "GORACE=atexit_sleep_ms=10")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "events verified") {
		t.Errorf("%v: %s", err, out)
	}
	status, raw, err := ask("GET", "/api/audit/events?object=budget&limit=500", nil)
	events := 0
	for page := raw; err == nil && status == http.StatusOK; {
		var list struct {
			Data []struct{ ID string }
			Next string
		}
		if err = json.Unmarshal(page, &list); err != nil {
			break
		}
		if events += len(list.Data); list.Next == "" {
			break
		}
		status, page, err = ask("GET", "/api/audit/events?object=budget&limit=500&after="+list.Next, nil)
	}
	if events != n*(applied+1) || err != nil {
		t.Errorf("%d events of budgets, want %d, %v", events, n*(applied+1), err)
	}
}
