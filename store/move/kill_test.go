//go:build unix

package move_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/move"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

// childVariable makes the test binary run a migration that kills itself: seed, source
// file, target database and store of traces.
const childVariable = "SVC_TEST_MIGRATION"

func TestMain(m *testing.M) {
	if args := os.Getenv(childVariable); args != "" {
		if err := child(strings.Split(args, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs a migration that is killed shortly after the start of one of its writes.
func child(args []string) error {
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	from, err := bolt.OpenSource(args[1], bolt.Options{})
	if err != nil {
		return err
	}
	to, err := postgres.OpenTarget(ctx, args[2], postgres.Options{})
	if err != nil {
		return err
	}
	traces, err := clickhouse.OpenTarget(ctx, args[3], clickhouse.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	k := &killer{r: rand.New(rand.NewPCG(seed, 0))}
	k.left = 1 + k.r.IntN(8)
	o := move.Options{From: from, To: &killedTarget{to, k}, TracesTo: &killedTraces{traces, k}, Base: time.Now().Add(-time.Hour).UnixNano()}
	move.SmallBatches(&o)
	return move.Run(ctx, o)
}

// killer kills its process during or shortly after a write.
type killer struct {
	r    *rand.Rand
	left int
}

func (k *killer) write(fn func() error) error {
	if k.left--; k.left == 0 {
		time.AfterFunc(time.Duration(k.r.Int64N(int64(6*time.Millisecond))), func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	return fn()
}

type killedTarget struct {
	move.Target
	k *killer
}

func (t *killedTarget) Begin(ctx context.Context, marker []byte) error {
	return t.k.write(func() error { return t.Target.Begin(ctx, marker) })
}

func (t *killedTarget) Import(ctx context.Context, b move.Batch) error {
	return t.k.write(func() error { return t.Target.Import(ctx, b) })
}

type killedTraces struct {
	move.TraceTarget
	k *killer
}

func (t *killedTraces) ImportTraces(ctx context.Context, tenant string, place int64, list []move.Trace, again bool) error {
	return t.k.write(func() error { return t.TraceTarget.ImportTraces(ctx, tenant, place, list, again) })
}

func (t *killedTraces) ImportStatistics(ctx context.Context, tenant string, place int64, rows func(func(move.Kind, move.Row) error) error) error {
	return t.k.write(func() error { return t.TraceTarget.ImportStatistics(ctx, tenant, place, rows) })
}

// TestKilled kills a migration from bbolt to PostgreSQL and ClickHouse twenty times,
// and then lets it finish: every row is in the target once.
func TestKilled(t *testing.T) {
	t.Parallel()
	const kills = 20
	path := filepath.Join(t.TempDir(), "svc.db")
	var want []string
	with(t, func() (*bolt.Store, error) { return bolt.Open(path, bolt.Options{NoSync: true}) }, func(st *bolt.Store) {
		fill(t, st, 300, 4)
		want = answers(t, st, st)
	})
	url, traces := postgrestest.Start(t).Database(t), clickhousetest.Start(t).Database(t)
	killed := 0
	for seed := 1; ; seed++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d\n%s\n%s\n%s", childVariable, seed, path, url, traces))
		if killed >= kills {
			break
		}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("the migration ended after %d kills", killed)
		}
		if !strings.Contains(err.Error(), "signal: killed") {
			t.Fatalf("after %d kills: %v\n%s", killed, err, out)
		}
		killed++
		if _, err := postgres.Open(ctx, url, postgres.Options{Serving: true}); err == nil {
			t.Fatalf("after %d kills a server opens the target", killed)
		}
	}
	with(t, func() (*bolt.Moved, error) { return bolt.OpenSource(path, bolt.Options{}) }, func(from *bolt.Moved) {
		with(t, func() (*postgres.Moved, error) { return postgres.OpenTarget(ctx, url, postgres.Options{}) }, func(to *postgres.Moved) {
			with(t, func() (*clickhouse.Moved, error) {
				return clickhouse.OpenTarget(ctx, traces, clickhouse.Options{Timeout: time.Minute})
			}, func(tr *clickhouse.Moved) {
				if err := move.Run(ctx, move.Options{From: from, To: to, TracesTo: tr}); err != nil {
					t.Fatal(err)
				}
			})
		})
	})
	with(t, func() (*postgres.Store, error) { return postgres.Open(ctx, url, postgres.Options{}) }, func(st *postgres.Store) {
		options := clickhouse.Options{Agents: func(tenant string) store.AgentDirectory { return st.Tenant(tenant) }, Timeout: time.Minute, MergeEvery: -1}
		with(t, func() (*clickhouse.Store, error) { return clickhouse.Open(ctx, traces, options) }, func(tr *clickhouse.Store) {
			if diff := cmp.Diff(want, answers(t, st, tr)); diff != "" {
				t.Errorf("answers before and after differ (-before +after):\n%s", diff)
			}
		})
	})
}
