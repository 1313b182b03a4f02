//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Parameters of the measurement of replicas.
const (
	scaleFor     = 12 * time.Second // duration of each part
	scaleWarmUp  = 3 * time.Second
	scaleRounds  = 3
	scaleWriters = 8    // for each control plane
	scaleCores   = 0.25 // of each
	scaleBatch   = 50   // like a gateway with some hundred calls per second
)

// scale measures how many traces two control planes ingest compared with one, each limited
// to a quarter of a core. The parts alternate, so that other load on the machine affects
// both.
func (c *cluster) scale(ctx context.Context) error {
	groups := []*cpuGroup{}
	defer func() {
		for _, g := range groups {
			g.close()
		}
	}()
	for _, p := range c.role("plane") {
		g, err := newCPUGroup(c.network.prefix+p.name, scaleCores)
		if err != nil {
			return err
		}
		groups = append(groups, g)
		if err := g.add(p.cmd.Process.Pid); err != nil {
			return err
		}
	}
	// End all other processes: the machine must have more processor time than the control
	// planes use.
	_, standby := c.db.roles()
	for _, p := range append(c.role("gateway"), standby) {
		p.kill()
	}
	if err := until(20*time.Second, c.db.isAlone); err != nil {
		return err
	}
	rates := map[int][]float64{}
	for round := range scaleRounds {
		for replicas := 1; replicas <= planes; replicas++ {
			before := processorTime(c.role("plane"))
			began := time.Now()
			rate, err := c.ingestRate(ctx, replicas, round)
			if err != nil {
				return err
			}
			took := time.Since(began)
			rates[replicas] = append(rates[replicas], rate)
			fmt.Printf("%d control planes, a quarter of a core each: %.0f traces a second; of their quarters they used", replicas, rate)
			for i, used := range processorTime(c.role("plane"))[:replicas] {
				fmt.Printf(" %.0f %%", 100*float64(used-before[i])/(float64(took)*scaleCores))
			}
			fmt.Println()
		}
	}
	one, two := mean(rates[1]), mean(rates[2])
	fmt.Printf("two beside one: %.2f\n", two/one)
	return nil
}

func mean(list []float64) (m float64) {
	for _, x := range list {
		m += x / float64(len(list))
	}
	return m
}

// ingestRate is the number of traces per second that some control planes acknowledge.
func (c *cluster) ingestRate(ctx context.Context, replicas, round int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleWarmUp+scaleFor)
	defer cancel()
	// The traces have no ids: they get ids from their positions in their batches, which
	// differ.
	list := []map[string]any{}
	for range scaleBatch {
		list = append(list, map[string]any{"agentName": "agent", "toolName": "search_orders", "status": "success", "durationMs": 3.5, "costUsd": traceCost})
	}
	body, err := json.Marshal(map[string]any{"traces": list})
	if err != nil {
		return 0, err
	}
	urls := c.planeURLs()[:replicas]
	var stored atomic.Int64
	var failed atomic.Pointer[error]
	begin := time.Now().Add(scaleWarmUp)
	var wg sync.WaitGroup
	for w := range scaleWriters * replicas {
		wg.Go(func() {
			client := newClient(c.caller, urls, 30*time.Second)
			defer client.close()
			for n := 0; ctx.Err() == nil; n++ {
				header := (&rest{key: c.tenants[0].ingestKey}).header("Svc-Batch-Id", fmt.Sprintf("s-%d-%d-%d-%d", replicas, round, w, n))
				a := client.once(ctx, w, "POST", "/api/traces", header, body)
				switch {
				case ctx.Err() != nil:
				case a.err != nil || a.status != 201:
					err := fmt.Errorf("%s: %d %v %.200s", a.url, a.status, a.err, a.body)
					failed.Store(&err)
					return
				case time.Now().After(begin):
					stored.Add(scaleBatch)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(stored.Load()) / scaleFor.Seconds(), nil
}

// cpuGroup is a control group with a limit of processor time.
type cpuGroup struct{ dir string }

const cgroups = "/sys/fs/cgroup"

// newCPUGroup creates a group of version 2 if its controller is available, otherwise of
// version 1.
func newCPUGroup(name string, cores float64) (*cpuGroup, error) {
	const period = 100000
	quota := strconv.Itoa(int(cores * period))
	g := &cpuGroup{filepath.Join(cgroups, name)}
	first, second := "cpu.max", ""
	weight, most := "cpu.weight", "10000" // what it may use it gets, whatever else runs
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err != nil {
		g.dir, first, second = filepath.Join(cgroups, "cpu", name), "cpu.cfs_quota_us", "cpu.cfs_period_us"
		weight, most = "cpu.shares", "262144"
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	value := quota
	if second == "" {
		value += " " + strconv.Itoa(period)
	}
	err := errors.Join(os.WriteFile(filepath.Join(g.dir, first), []byte(value), 0o644), os.WriteFile(filepath.Join(g.dir, weight), []byte(most), 0o644))
	if second != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(g.dir, second), []byte(strconv.Itoa(period)), 0o644))
	}
	return g, err
}

func (g *cpuGroup) add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// processorTime is what each of some processes has used of the processors.
func processorTime(list []*process) (used []time.Duration) {
	const tick = 10 * time.Millisecond
	for _, p := range list {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		_, rest, _ := strings.Cut(string(raw), ") ")
		var n int64
		if fields := strings.Fields(rest); len(fields) > 12 {
			user, _ := strconv.ParseInt(fields[11], 10, 64)
			system, _ := strconv.ParseInt(fields[12], 10, 64)
			n = user + system
		}
		used = append(used, time.Duration(n)*tick)
	}
	return used
}

// close removes the group. Its processes are moved to the parent group.
func (g *cpuGroup) close() {
	raw, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return
	}
	above := &cpuGroup{filepath.Dir(g.dir)}
	for line := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(line); err == nil {
			_ = above.add(pid)
		}
	}
	_ = os.Remove(g.dir)
}
