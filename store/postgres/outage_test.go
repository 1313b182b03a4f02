//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/store"
	"svc/store/postgres/postgrestest"
)

// A full disk of the engine is told apart from an engine that is away: only freed space ends it.
func TestAFullDiskOfTheEngine(t *testing.T) {
	s := &Store{where: "db.example", ended: t.Context()}
	for code, full := range map[string]bool{diskFull: true, "53300": false} { // too many connections
		err := s.wrapError(t.Context(), &pgconn.PgError{Code: code, Message: "no"})
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDiskFull) != full {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// When the wait of a commit for a synchronous standby is canceled, the engine acknowledges
// the commit with a warning. A failover may lose such a commit, so the store must not
// report success.
func TestACommitThatNoStandbyHasIsNoSuccess(t *testing.T) {
	server := postgrestest.Start(t)
	s := open(t, server.Database(t), Options{FlushEvery: time.Hour, MergeEvery: -1})
	ctx := withTimeout(t, 20*time.Second)
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	canceled := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			var n int
			err := s.pool.QueryRow(ctx, `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&n)
			if err != nil || n > 0 {
				canceled <- err
				return
			}
		}
		canceled <- ctx.Err()
	}()
	var err error
	for err == nil { // the engine reloads its configuration asynchronously
		err = s.SetWatermark(ctx, "mark", time.Now())
	}
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errNotReplicated) {
		t.Errorf("a commit without a standby: %v", err)
	}
	if err := <-canceled; err != nil {
		t.Error(err)
	}
	for _, statement := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"} {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetWatermark(ctx, "mark", time.Now()); err != nil {
		t.Errorf("a commit after that: %v", err)
	}
}

// TestFrozen: when the engine is frozen, waiting calls end once the watch detects it, and
// further calls fail at once. The store recovers when the engine resumes. Slow statements
// do not count as a frozen engine.
func TestFrozen(t *testing.T) {
	server := postgrestest.Start(t)
	w := watching{every: 50 * time.Millisecond, answer: 200 * time.Millisecond, connect: 200 * time.Millisecond}
	s := open(t, server.Database(t), Options{FlushEvery: time.Hour, MergeEvery: -1, Serving: true, watched: w})
	ctx := withTimeout(t, 30*time.Second)
	slow := func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `SELECT pg_sleep(0.6)`); return err }
	if err := s.read(ctx, slow); err != nil {
		t.Errorf("a slow statement: %v", err)
	}
	calls := map[string]func() error{
		"a read":   func() error { _, err := s.ListTenants(ctx); return err },
		"a write":  func() error { return s.SetWatermark(ctx, "mark", time.Now()) },
		"a commit": func() error { return s.write(ctx, slow) },
		"ready":    func() error { return s.Ready(ctx) },
	}
	freeze := func(sig syscall.Signal) {
		for _, pid := range server.Processes() {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
	}
	freeze(syscall.SIGSTOP)
	failed := make(chan error, len(calls))
	for what, call := range calls {
		go func() {
			err := call()
			if !errors.Is(err, store.ErrUnavailable) {
				err = fmt.Errorf("%s at a frozen engine: %w", what, err)
			} else {
				err = nil
			}
			failed <- err
		}()
	}
	for range calls {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if ctx.Err() != nil {
		t.Fatal("the calls waited for their own deadline")
	}
	began := time.Now()
	if err := s.SetWatermark(ctx, "mark", time.Now()); !errors.Is(err, store.ErrUnavailable) || time.Since(began) > w.answer/2 {
		t.Errorf("a call after it was noticed: %v after %v", err, time.Since(began))
	}
	here, _ := s.presence.state()
	freeze(syscall.SIGCONT)
	for s.SetWatermark(ctx, "mark", time.Now()) != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := s.Ready(ctx); err != nil || here.Err() == nil {
		t.Errorf("after its return: %v", err)
	}
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// A request whose row could not be removed, because the engine failed, must not block
// retries at its own handle, and only for a short time those at another one.
func TestAnAttemptThatWasLeftBehind(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.Database(t)
	var down atomic.Bool
	failed := errors.New("the engine failed")
	first, second := open(t, url, Options{fault: func() error {
		if down.Load() {
			return failed
		}
		return nil
	}}), open(t, url, Options{})
	ctx := context.Background()
	_, _, err := first.Bootstrap(ctx, store.TenantCreate{ID: "t", Name: "t", AdminID: store.DefaultAdminID,
		Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Prefix: "svc_api_x", Digest: store.DigestKey("x")}})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(s *Store, token string) error {
		response, err := s.Tenant("t").BeginAttempt(withTimeout(t, 20*time.Second), store.IdempotentRequest{KeyID: "k", Route: "POST /", Token: token})
		if err == nil && response != nil {
			t.Errorf("%s: there is a response", token)
		}
		return err
	}
	for _, token := range []string{"same", "other"} {
		if err := begin(first, token); err != nil {
			t.Fatal(err)
		}
		// The request has ended, and its row still exists.
		down.Store(true)
		if err := first.Tenant("t").AbandonAttempt(ctx, store.IdempotentRequest{KeyID: "k", Route: "POST /", Token: token}); !errors.Is(err, failed) {
			t.Fatalf("the row was removed: %v", err)
		}
		down.Store(false)
		retry := first
		if token == "other" {
			retry = second
		}
		if err := begin(retry, token); err != nil {
			t.Errorf("a retry at the %s handle: %v", token, err)
		}
	}
}

// A handle that was paused for longer than its rows last does not store the response to a
// request that another handle has taken over, nor the change that the response belongs to.
func TestAnAttemptThatWasTakenOver(t *testing.T) {
	url := postgrestest.Start(t).Database(t)
	var paused atomic.Int64
	now := func() time.Time { return time.Unix(1e9, 0).Add(time.Duration(paused.Load())) }
	first, second := open(t, url, Options{Now: now}), open(t, url, Options{Now: now})
	ctx := t.Context()
	if _, _, err := first.Bootstrap(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	begin := func(s *Store, token string) store.IdempotentRequest {
		r := store.IdempotentRequest{KeyID: "k", Route: "POST /", Token: token}
		if response, err := s.Tenant("t").BeginAttempt(withTimeout(t, 20*time.Second), r); response != nil || err != nil {
			t.Fatalf("%s: %+v, %v", token, response, err)
		}
		return r
	}
	taken := begin(first, "taken")
	paused.Add(int64(claimTTL))
	begin(second, "taken")
	expired := begin(first, "expired")
	paused.Add(int64(claimTTL) + 1)
	if err := second.dropExpired(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range []store.IdempotentRequest{taken, expired} {
		made := store.StoringResponse(ctx, r, func(store.Team) store.StoredResponse { return store.StoredResponse{Status: 201} })
		if _, err := first.Tenant("t").CreateTeam(made, store.TeamCreate{Name: r.Token}); err == nil {
			t.Errorf("%s: the change was made", r.Token)
		}
		if err := first.Tenant("t").FinishAttempt(ctx, r, store.StoredResponse{Status: 400}); err == nil {
			t.Errorf("%s: a response was stored", r.Token)
		}
	}
	if _, n, err := first.Tenant("t").ListTeams(ctx, store.Page{}); n != 0 || err != nil {
		t.Errorf("%d teams, %v", n, err)
	}
	begin(first, "expired")
}
