package bolt

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// The test binary is also run as the process to be killed.
const childEnv = "SVC_BOLT_TEST_CHILD"

// childMain ingests into the store given in the environment, and prints each
// batch's first id once the batch is acknowledged.
func childMain() bool {
	path, round, ok := strings.Cut(os.Getenv(childEnv), "|")
	if !ok {
		return false
	}
	s, err := Open(path, Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	tn := s.tenant("t")
	for i := 0; ; i++ {
		batch := make([]store.Trace, 1+i%7*20)
		for j := range batch {
			batch[j] = store.Trace{ID: crashID(round, i, j), AgentName: fmt.Sprintf("agent %d", j%5), Status: store.TraceSuccess,
				Cost: 1, Duration: time.Duration(j) * time.Millisecond, ToolName: "tool"}
		}
		if _, err := tn.Ingest(context.Background(), store.Batch{Traces: batch}); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Printf("ok %d %d\n", i, len(batch))
	}
}

func crashID(round string, batch, n int) string { return fmt.Sprintf("%s-%d-%d", round, batch, n) }

// TestKilledDuringIngest kills an ingesting process repeatedly on one file:
// every acknowledged trace is stored, and the rollups equal a recount.
func TestKilledDuringIngest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	acknowledged := 0
	for round := range rounds {
		name := fmt.Sprint(round)
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+path+"|"+name)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var acks [][2]int
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var batch, n int
			if _, err := fmt.Sscanf(lines.Text(), "ok %d %d", &batch, &n); err != nil {
				t.Errorf("child says %q", lines.Text())
				break
			}
			acks = append(acks, [2]int{batch, n})
			if len(acks) == 3+round*5 {
				go func() {
					time.Sleep(time.Duration(round*613) * time.Microsecond) // during one of the next batches
					cmd.Process.Kill()
				}()
			}
		}
		_ = cmd.Wait()
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, a := range acks {
			for j := range a[1] {
				if _, err := s.TracesOf("t").GetTrace(ctx, crashID(name, a[0], j)); err != nil {
					t.Fatalf("round %d: acknowledged trace %d of batch %d: %v", round, j, a[0], err)
				}
			}
			acknowledged += a[1]
		}
		checkRecount(t, s, "t")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d traces were acknowledged in %d killed processes", acknowledged, rounds)
}

// checkRecount compares the counters, the blocks, the tools and the rollups of a
// tenant with its traces.
func checkRecount(t *testing.T, s *Store, id string) {
	t.Helper()
	ctx, tn := context.Background(), s.tenant(id)
	list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
	if err != nil || total != len(list) {
		t.Fatalf("%d of %d traces, %v", len(list), total, err)
	}
	var want store.Totals
	tools := map[string]int64{}
	for _, tr := range list {
		want.Traces++
		want.Cost += tr.Cost
		want.DurationSum += tr.Duration
		if tr.Status == store.TraceError {
			want.Errors++
		}
		if tr.ToolName != "" {
			tools[tr.AgentID]++
		}
	}
	st, err := tn.Stats(ctx, store.StatsQuery{From: time.Unix(0, 0), To: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), GroupBy: store.GroupByAgent})
	if err != nil {
		t.Fatal(err)
	}
	if g := st.Summary; g.Traces != want.Traces || g.Cost != want.Cost || g.DurationSum != want.DurationSum || g.Errors != want.Errors {
		t.Fatalf("rollups %+v, recount %+v", g, want)
	}
	for agent, n := range tools {
		list, _, err := tn.ListTools(ctx, agent, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list {
			n -= tool.CallCount
		}
		if n != 0 {
			t.Fatalf("calls of tools of %s differ by %d", agent, n)
		}
	}
}
