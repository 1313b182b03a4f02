//go:build linux

package main

import (
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"
)

// The figures of one measurement.
func cpuPerRequest(m *measurement) float64 {
	return float64(m.cpu.Nanoseconds()) / 1e3 / float64(max(m.Requests, 1))
}
func systemPerRequest(m *measurement) float64 {
	return float64(m.system.Nanoseconds()) / 1e3 / float64(max(m.Requests, 1))
}
func planePerRequest(m *measurement) float64 {
	return float64(m.plane.Nanoseconds()) / 1e3 / float64(max(m.Requests, 1))
}
func perSecond(m *measurement) float64 { return float64(m.Requests) / m.Elapsed.Seconds() }
func p50(m *measurement) float64       { return float64(m.P50.Microseconds()) }
func p99(m *measurement) float64       { return float64(m.P99.Microseconds()) }
func rss(m *measurement) float64       { return float64(m.rss) / (1 << 20) }
func rigLoad(m *measurement) float64   { return 100 * m.rig.Seconds() / m.Elapsed.Seconds() }
func others(m *measurement) float64    { return 100 * m.others.Seconds() / m.Elapsed.Seconds() }

// printTable prints a table per shape. Ratios are relative to the reference of
// the same round; all figures are medians over the rounds.
func printTable(w io.Writer, o *options, cells map[key][]measurement) {
	fmt.Fprintf(w, "%s, %d cores; medians of %d rounds of %s; %d connections; ratios to %s in the same round\n",
		runtime.Version(), runtime.NumCPU(), o.rounds, o.duration, o.conns, o.targets[0])
	for _, name := range o.shapes {
		s, _ := shapeByName(name)
		title := s.title
		if s.fixed {
			title += fmt.Sprintf(" of %d/s", o.rate)
		}
		fmt.Fprintf(w, "\n%s (%d calm rounds of %d)\n", title, calmRounds(o, cells, name), o.rounds)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(tw, "target\tCPU µs/req\t×\tto base\tsystem\treq/s\tp50 µs\t×\tp99 µs\t×\tRSS MiB\trig %\tothers %\tplane µs/req\t\n")
		reference := cells[key{name, o.targets[0]}]
		for _, target := range o.targets {
			ms, toBase := cells[key{name, target}], ""
			if twin := cells[key{name, baseOf(target)}]; twin != nil {
				toBase = fmt.Sprintf("%.3f", ratio(ms, twin, cpuPerRequest))
			}
			fmt.Fprintf(tw, "%s\t%.1f\t%.2f\t%s\t%.1f\t%.0f\t%.0f\t%.2f\t%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.1f\t\n", target,
				median(ms, cpuPerRequest), ratio(ms, reference, cpuPerRequest), toBase, median(ms, systemPerRequest), median(ms, perSecond),
				median(ms, p50), ratio(ms, reference, p50), median(ms, p99), ratio(ms, reference, p99),
				median(ms, rss), median(ms, rigLoad), median(ms, others), median(ms, planePerRequest))
		}
		_ = tw.Flush()
	}
}

// ratio is the median over the rounds of f divided by the reference's f.
func ratio(ms, reference []measurement, f func(*measurement) float64) float64 {
	quotients := make([]measurement, len(ms))
	for i := range ms {
		quotients[i].Elapsed = time.Duration(1e6 * f(&ms[i]) / max(f(&reference[i]), 1e-9))
	}
	return median(quotients, func(m *measurement) float64 { return float64(m.Elapsed) / 1e6 })
}
