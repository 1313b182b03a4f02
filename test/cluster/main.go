//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// run is one round.
type run struct {
	c      *cluster
	ledger *ledger
	seed   string // of Idempotency-Keys

	tenants []*tenant // those of c
	admin   *rest     // of the first
	probe   *caller

	policyID string
	blocked  bool

	lastRedis time.Time        // when Redis was last unavailable, failed over, or did not respond
	failures  map[*process]int // of each control plane: calls without a response of Redis

	lines  map[string]time.Time // requests that the gateways have audited
	lineOf map[string]int       // successful calls of each tool
	read   map[string]int64     // the offset up to which each audit file was read
}

// Limits of a round.
const (
	shortFor = 100 * time.Second // the time in which faults of a short round begin
	wholeIn  = 90 * time.Second
	maxUnled = 15 * time.Second // in addition to the 30 s of a lease
)

func main() {
	short := flag.Bool("short", false, "some of the faults, in at most 3 minutes")
	seed := flag.Uint64("seed", 1, "chooses the faults of a short round")
	only := flag.String("only", "", "only the faults whose name contains this text")
	traces := flag.String("traces", inClickHouse, "where traces are: "+inClickHouse+" (two shards) or "+inPostgres)
	scale := flag.Bool("scale", false, "no faults: measure what two control planes ingest beside one, each held to a quarter of a core")
	keep := flag.Bool("keep", false, "leave the folder with logs and data")
	program := flag.String("svc", "", "the program; built from the tree when empty")
	serve := flag.String("serve-tool", "", "")
	listen := flag.String("listen", "", "")
	flag.Parse()
	if *serve != "" {
		fmt.Fprintln(os.Stderr, serveTool(*serve, *listen, flag.Args()))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *traces != inClickHouse && *traces != inPostgres {
		fmt.Fprintf(os.Stderr, "cluster: -traces is %s or %s\n", inClickHouse, inPostgres)
		os.Exit(1)
	}
	if err := round(ctx, options{*short, *scale, *keep, *seed, *only, *program, *traces}); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	short, scale, keep bool
	seed               uint64
	only, program      string
	traces             string
}

func round(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "svc-cluster-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	if o.keep {
		fmt.Println("logs and data are in " + dir)
	} else {
		defer os.RemoveAll(dir)
	}
	program := o.program
	if program == "" {
		program = filepath.Join(dir, "svc")
		if out, err := exec.Command("go", "build", "-o", program, "./cmd/svc").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	begin := time.Now()
	background, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := newCluster(dir, program, o.traces)
	defer func() {
		cancel() // nothing fails over any more
		c.close()
	}()
	if err != nil {
		return err
	}
	if err := c.start(background); err != nil {
		return err
	}
	if o.scale {
		return c.scale(ctx)
	}
	r, err := newRun(c)
	if err != nil {
		return err
	}
	if err := r.whole(wholeIn); err != nil {
		return err
	}
	fmt.Printf("the cluster is whole after %.1f s: %d processes, traces in %s\n\n", time.Since(begin).Seconds(), len(c.list), o.traces)
	var wg sync.WaitGroup
	using, stopClients := context.WithCancel(background)
	defer stopClients()
	r.clients(using, &wg)
	list := c.faults()
	if o.short {
		list = some(list, o.seed)
	}
	fmt.Printf("%-32s %9s %9s %6s %8s  %s\n", "fault", "whole [s]", "pause [s]", "lost", "doubled", "errors by kind")
	failed := 0
	for _, f := range list {
		if !strings.Contains(f.name, o.only) {
			continue
		}
		if ctx.Err() != nil || o.short && time.Since(begin) > shortFor {
			break
		}
		if !r.one(ctx, f) {
			failed++
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.last(stopClients, &wg) {
		failed++
	}
	fmt.Printf("\nround of %.0f s: %d failovers of PostgreSQL, background work without a holder for at most %.1f s beyond its lease\n",
		time.Since(begin).Seconds(), c.db.promoted, c.db.longestUnled.Seconds())
	if c.db.longestUnled > maxUnled {
		failed++
	}
	if failed > 0 || len(c.notes) > 0 {
		return fmt.Errorf("%d rows failed, %d notes", failed, len(c.notes))
	}
	return nil
}

// newRun creates what clients need.
func newRun(c *cluster) (*run, error) {
	r := &run{c: c, ledger: newLedger(), seed: rand.Text(), tenants: c.tenants, admin: c.tenants[0].admin, probe: newCaller(c, c.gatewayKey),
		lines: map[string]time.Time{}, lineOf: map[string]int{}, read: map[string]int64{}, failures: map[*process]int{}}
	for _, t := range r.tenants {
		if err := t.makeBudget(); err != nil {
			return nil, err
		}
	}
	var policy struct{ ID string }
	err := r.admin.must("POST", "/api/policies", map[string]any{"name": "probe", "enabled": false, "phase": "request", "action": "block",
		"condition": map[string]any{"type": "tool_name", "toolName": "tool1_probe"}}, &policy)
	r.policyID = policy.ID
	return r, err
}

// one injects a fault and prints its row. It returns whether the result was correct.
func (r *run) one(ctx context.Context, f fault) bool {
	begin := time.Now()
	err := f.begin()
	over := time.After(f.lasts)
	shardsBack := func() func() []string { return func() []string { return nil } }
	if err == nil && len(f.shards) > 0 {
		shardsBack = r.watchShards(f.shards)
		err = r.govern(f)
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	lastAnswers := shardsBack()
	err = errors.Join(err, f.end())
	if err == nil && ctx.Err() == nil {
		err = r.whole(wholeIn)
	}
	took := time.Since(begin)
	v := r.check(begin)
	kinds, wrong, sessions := r.ledger.period()
	wrong = append(wrong, lastAnswers()...)
	if sessions > 0 {
		kinds = strings.TrimPrefix(kinds+fmt.Sprintf(", sessions begun anew %d", sessions), ", ")
	}
	unanswered := r.unanswered()
	if unanswered > 0 && !f.redis {
		kinds = strings.TrimPrefix(kinds+fmt.Sprintf(", redis late %d", unanswered), ", ")
	}
	r.limits(&v, f.redis || unanswered > 0, begin)
	fmt.Printf("%-32s %9.1f %9.1f %6d %8d  %s\n", f.name, took.Seconds(), r.ledger.longestPause().Seconds(), v.lost, v.doubled, kinds)
	for _, text := range append(v.notes, wrong...) {
		fmt.Println("    !", text)
	}
	if err != nil {
		fmt.Println("    ! not whole:", err)
	}
	return err == nil && v.lost == 0 && v.doubled == 0 && len(v.notes) == 0 && len(wrong) == 0
}

// limits compares the allowed requests with the limits. A failover of Redis may lose the newest
// requests: one more burst, or one more window. The same applies when it did not respond.
func (r *run) limits(v *verdict, redis bool, since time.Time) {
	r.ledger.mu.Lock()
	passed, accepted := r.ledger.passed, r.ledger.accepted
	r.ledger.passed = nil
	cut := 0
	for cut < len(accepted) && accepted[cut].done.Before(since.Add(-restWindow)) {
		cut++
	}
	r.ledger.accepted = accepted[cut:]
	r.ledger.mu.Unlock()
	extra := 0
	if redis {
		r.lastRedis = time.Now()
	}
	if !r.lastRedis.IsZero() && since.Sub(r.lastRedis) < restWindow {
		extra = 1
	}
	if len(passed) > 0 {
		length := passed[len(passed)-1].done.Sub(passed[0].sent).Seconds()
		if most := bucketRate*length + float64(bucketBurst*(1+extra)) + 1; float64(len(passed)) > most {
			v.note("%d calls of the limited caller in %.1f s, at most %.0f are allowed", len(passed), length, most)
		}
	}
	if n := mostWithin(accepted, restWindow, since.Add(-restWindow)); n > restLimit*(1+extra) {
		v.note("%d requests of the limited tenant in a minute, %d are allowed", n, restLimit*(1+extra))
	}
}

// last ends the clients and compares everything once more, exactly.
func (r *run) last(stopClients func(), wg *sync.WaitGroup) bool {
	stopClients()
	wg.Wait()
	v := r.check(time.Time{})
	lists := map[*tenant]map[string]stored{}
	var err error
	for _, t := range r.tenants {
		list, _, e := r.export(t, time.Time{})
		lists[t], err = list, errors.Join(err, e)
	}
	// A line is written before its trace is reported, so every trace has a line by now.
	if err := errors.Join(err, r.audited()); err != nil {
		v.miss("%v", err)
	}
	all := 0
	for t, list := range lists {
		r.lastBudget(&v, t, list)
		all += len(list)
	}
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	calls, sent := 0, 0
	for _, s := range r.ledger.sent {
		sent += len(s.acknowledged)
	}
	for tool, n := range r.ledger.answered {
		if calls += n; r.lineOf[tool] < n {
			v.miss("%d calls of %s were answered, %d were audited", n, tool, r.lineOf[tool])
		}
	}
	fmt.Printf("%-32s %9s %9s %6d %8d  %d traces sent and %d calls answered, %d traces in all\n", "all of it", "", "", v.lost, v.doubled, sent, calls, all)
	for _, text := range v.notes {
		fmt.Println("    !", text)
	}
	return v.lost == 0 && v.doubled == 0 && len(v.notes) == 0
}

// lastBudget compares the traces of a tenant with audit lines and with what its budget has used.
func (r *run) lastBudget(v *verdict, t *tenant, list map[string]stored) {
	sent := 0
	for id, trace := range list {
		switch trace.AgentName {
		case agentName:
			sent++
		case "caller", "limited":
			if _, audited := r.lines[id]; !audited {
				v.twice("trace %s is of no audit line", id)
			}
		}
	}
	used, err := t.used()
	switch {
	case err != nil:
		v.miss("%v", err)
	case int(used/traceCost+0.5) < sent:
		v.miss("the budget of tenant %s has %.0f traces of %d", t.name, used/traceCost, sent)
	case int(used/traceCost+0.5) > sent:
		v.twice("the budget of tenant %s has %.0f traces of %d", t.name, used/traceCost, sent)
	}
}

// govern changes a policy while shards are away, which must reach the gateways: it needs
// no traces.
func (r *run) govern(f fault) error {
	if !f.governed {
		return nil
	}
	blocked := !r.blocked
	if err := until(noticeIn, func() error { return r.block(blocked) }); err != nil {
		return err
	}
	r.blocked = blocked
	if err := until(noticeIn, func() error { return r.isBlocked(blocked) }); err != nil {
		return fmt.Errorf("while a shard is away: %w", err)
	}
	return nil
}
