//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc/server/client"
	"svc/store/api"
)

// plane is a real control plane, `svc serve` on its embedded store, that stores
// the traces of one target.
type plane struct {
	url  string
	key  string // of scope api
	proc *process
}

// startReporting starts a control plane and a gateway that reports to it, each
// pinned to the given cores.
func (r *rig) startReporting(ctx context.Context, name, cores, planeCores string) (*target, error) {
	p, err := r.startPlane(ctx, name, planeCores)
	if err != nil {
		return nil, err
	}
	created, err := client.New(p.url, p.key).CreateKey(ctx, api.KeyCreate{Name: "bench", Scope: "ingest"})
	if err != nil {
		p.proc.stop()
		return nil, fmt.Errorf("create an ingest key: %w", err)
	}
	if isGoverned(name) {
		err = p.applyTemplates(ctx)
	}
	var t *target
	if err == nil {
		t, err = r.startGateway(ctx, name, cores, p.url, created.Key)
	}
	if err != nil {
		p.proc.stop()
		return nil, err
	}
	t.plane = p
	return t, nil
}

// startPlane starts a control plane. The limit of ingest requests is raised: the
// default of 600 batches per minute is below the rate of a closed loop of calls.
func (r *rig) startPlane(ctx context.Context, name, cores string) (*plane, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, name+"-plane")
	proc, err := start(ctx, cores, nil, name+"'s control plane", r.binary(name), "serve", "--listen", addr, "--data-dir", dir, "--rate-limit", "10000", "--ingest-rate-limit", "1000000")
	if err != nil {
		return nil, err
	}
	p := &plane{url: "http://" + addr, proc: proc}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err := proc.failed(); err != nil {
			return nil, err
		}
		if resp, err := http.Get(p.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			proc.stop()
			return nil, fmt.Errorf("%s is not ready: %s", proc.name, tail(proc.out.String()))
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "bootstrap-key"))
	if err != nil {
		proc.stop()
		return nil, err
	}
	p.key = strings.TrimSpace(string(key))
	return p, nil
}

// stop ends the target and its control plane.
func (t *target) stop() {
	t.proc.stop()
	if t.plane != nil {
		t.plane.proc.stop()
	}
}

// planeUsage returns the CPU time of the target's control plane so far; 0 if it
// has none.
func (t *target) planeUsage() time.Duration {
	if t.plane == nil {
		return 0
	}
	u, err := t.plane.proc.usage()
	if err != nil {
		return 0
	}
	return u.cpu
}

// allArrived waits until the control plane has a trace of every measured
// request: otherwise a reporter that lags behind would look cheap.
func (t *target) allArrived(ctx context.Context) error {
	if t.plane == nil {
		return nil
	}
	c := client.New(t.plane.url, t.plane.key)
	stored := 0
	for range 60 {
		page, err := c.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: 1}})
		if err != nil {
			return fmt.Errorf("%s: count the traces: %w", t.name, err)
		}
		if stored = page.Total; stored >= t.asked {
			return nil
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: the control plane has %d traces of at least %d requests", t.name, stored, t.asked)
}
