//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// measurement is one load on one target in one round.
type measurement struct {
	loadResult
	cpu    time.Duration // of the target
	system time.Duration // the kernel's part of cpu under load
	plane  time.Duration // of the control plane that the target reports to
	rig    time.Duration // of upstream and load generator
	others time.Duration // of everything else on the machine
	rss    int64
}

// key identifies a cell of the table.
type key struct{ shape, target string }

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	// An upper bound in case of a failure.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(o.rounds*len(o.shapes)*len(o.targets))*(longest()*2*o.duration+maxCalm+time.Second))
	defer cancel()
	r := &rig{}
	if r.self, err = os.Executable(); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "svc-bench-"); err != nil {
		return err
	}
	if o.keep {
		fmt.Fprintln(os.Stderr, "directory:", r.dir)
	} else {
		defer os.RemoveAll(r.dir)
		defer os.RemoveAll(r.dir + "-children") // where the gateway keeps the folders of programs
	}
	if err := os.Chmod(r.dir, 0o711); err != nil { // nginx's worker may run as another user
		return err
	}
	if err := r.makeKeys(o.keys); err != nil {
		return err
	}
	if err := r.startUpstream(ctx); err != nil {
		return err
	}
	defer r.upstream.stop()
	if r.spinner, err = start(ctx, rigCore, nil, "spin", r.self, "spin"); err != nil {
		return err
	}
	defer r.spinner.stop()
	if slices.ContainsFunc(o.targets, isGateway) {
		if err := r.buildSvc(ctx, o); err != nil {
			return err
		}
	}
	var targets []*target
	for _, name := range o.targets {
		t, err := r.startTarget(ctx, name, o)
		if err != nil {
			return err
		}
		defer t.stop()
		targets = append(targets, t)
		if t.rest, err = t.settled(ctx); err != nil {
			return err
		}
		// Each key is used once, so that no hash is computed during the
		// measurement.
		s, _ := shapeByName("small")
		if _, err := r.measure(ctx, t, s, &options{conns: 1, duration: time.Second}); err != nil {
			return fmt.Errorf("%s: first calls: %w", name, err)
		}
	}
	memory, err := r.footprints(ctx, targets, o)
	if err != nil {
		return err
	}
	cells := map[key][]measurement{}
	for round := range o.rounds {
		for _, name := range o.shapes {
			s, _ := shapeByName(name)
			// Each round begins with another target, so that no target always
			// follows the same one.
			for i := range targets {
				t := targets[(i+round)%len(targets)]
				m, err := r.measure(ctx, t, s, o)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, s.title, err)
				}
				if m.Failures > 0 {
					return fmt.Errorf("%s, %s: %d of %d answers are wrong: %s", t.name, s.title, m.Failures, m.Requests, m.Failure)
				}
				t.asked += m.Requests
				cells[key{name, t.name}] = append(cells[key{name, t.name}], m)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	for _, t := range targets {
		if err := t.allArrived(ctx); err != nil {
			return err
		}
	}
	printTable(os.Stdout, o, cells)
	printFootprints(os.Stdout, o, memory)
	return nil
}

// measure runs one load. CPU time is read at the end of the warm-up and at the
// end.
func (r *rig) measure(ctx context.Context, t *target, s shape, o *options) (measurement, error) {
	spec := loadSpec{Addr: t.addressFor(s), Tool: toolPrefix(t.name) + s.tool, Keys: r.keys, Modern: isModern(t.name), Conns: o.conns, Warmup: o.duration / 5, Duration: time.Duration(s.times) * o.duration}
	if s.fixed {
		spec.Rate = o.rate
	}
	input, err := json.Marshal(spec)
	if err != nil {
		return measurement{}, err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return measurement{}, err
	}
	defer pr.Close()
	load, err := r.startLoad(ctx, input, pw)
	pw.Close()
	if err != nil {
		return measurement{}, err
	}
	defer load.stop()
	lines := bufio.NewReader(pr)
	fail := func(err error) (measurement, error) {
		load.stop()
		if dead := t.proc.failed(); dead != nil {
			return measurement{}, dead
		}
		return measurement{}, fmt.Errorf("load: %w: %s", err, tail(load.out.String()))
	}
	if _, err := lines.ReadBytes('\n'); err != nil {
		return fail(err)
	}
	before, err := t.proc.usage()
	if err != nil {
		return fail(err)
	}
	planeBefore := t.planeUsage()
	rigBefore, loadBefore := r.rigUsage(load)
	busyBefore, spunBefore := machineBusy(), r.spun()
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fail(err)
	}
	busyAfter, spunAfter := machineBusy(), r.spun()
	rigAfter, _ := r.rigUsage(nil)
	after, err := t.proc.usage()
	if err != nil {
		return fail(err)
	}
	m := measurement{cpu: after.cpu - before.cpu, system: after.system - before.system, plane: t.planeUsage() - planeBefore, rss: after.rss}
	<-load.done
	m.rig = rigAfter - rigBefore + load.cmd.ProcessState.UserTime() + load.cmd.ProcessState.SystemTime() - loadBefore
	m.others = max(0, busyAfter-busyBefore-(spunAfter-spunBefore)-m.cpu-m.plane-m.rig)
	if err := json.Unmarshal(line, &m.loadResult); err != nil {
		return measurement{}, fmt.Errorf("load: %w", err)
	}
	// Deferred work of a target is charged to it, not to the next load or the next
	// target.
	calm, err := t.calm(ctx)
	m.cpu += calm - after.cpu
	m.plane = t.planeUsage() - planeBefore
	return m, err
}

// A target is calm when it uses at most one clock tick of CPU time in calmTime. It
// has maxCalm to become calm.
const (
	calmTime = 200 * time.Millisecond
	maxCalm  = 5 * time.Second
)

// calm waits until the target has no work left, and returns the CPU time that it
// has used so far.
func (t *target) calm(ctx context.Context) (time.Duration, error) {
	before := -time.Hour
	for range maxCalm / calmTime {
		u, err := t.proc.usage()
		if err != nil || u.cpu-before <= 10*time.Millisecond {
			return u.cpu, err
		}
		before = u.cpu
		select {
		case <-time.After(calmTime):
		case <-ctx.Done():
			return u.cpu, ctx.Err()
		}
	}
	return before, nil
}

func (r *rig) startLoad(ctx context.Context, input []byte, stdout *os.File) (*process, error) {
	return startWithInput(ctx, rigCore, bytes.NewReader(input), stdout, "load", r.self, "load")
}

// spun returns the CPU time of the process that keeps the rig's core awake.
func (r *rig) spun() time.Duration {
	u, err := r.spinner.usage()
	if err != nil {
		return 0
	}
	return u.cpu
}

// rigUsage returns the CPU time of the upstream and of the load generator.
func (r *rig) rigUsage(load *process) (upstream, generator time.Duration) {
	if u, err := r.upstream.usage(); err == nil {
		upstream = u.cpu
	}
	if load != nil {
		if u, err := load.usage(); err == nil {
			generator = u.cpu
		}
	}
	return upstream, generator
}

// calmRounds drops the rounds of a shape in which other programs on the machine
// used more than o.calm percent of a core during one of the targets, unless that applies
// to all rounds: then it keeps the calmest. It returns the number of remaining
// rounds.
func calmRounds(o *options, cells map[key][]measurement, shape string) (kept int) {
	disturbed := make([]float64, o.rounds)
	for _, t := range o.targets {
		for i, m := range cells[key{shape, t}] {
			disturbed[i] = max(disturbed[i], m.others.Seconds()/m.Elapsed.Seconds())
		}
	}
	bound := max(float64(o.calm)/100, slices.Min(disturbed))
	for _, t := range o.targets {
		var calm []measurement
		for i, m := range cells[key{shape, t}] {
			if disturbed[i] <= bound {
				calm = append(calm, m)
			}
		}
		cells[key{shape, t}], kept = calm, len(calm)
	}
	return kept
}

// median returns the middle value of f over the rounds.
func median(ms []measurement, f func(*measurement) float64) float64 {
	values := make([]float64, len(ms))
	for i := range ms {
		values[i] = f(&ms[i])
	}
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}
