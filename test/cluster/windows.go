//go:build linux

package main

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"time"
)

// failures is the metric of a control plane that counts the calls that Redis did not answer
// in time. Its window is its own then, for a second.
const failures = "svc_rate_window_failures_total"

// unanswered returns how many calls of control planes Redis has not answered since the last
// call. It happens without a fault where the machine has no processor for either.
func (r *run) unanswered() (n int) {
	for _, p := range r.c.role("plane") {
		c := newClient(r.c.operator, []string{"http://" + net.JoinHostPort(p.host.address, metricsPort)}, 5*time.Second)
		a := c.once(context.Background(), 0, "GET", "/metrics", nil, nil)
		c.close()
		total, found := sumOf(a.body, failures)
		if a.err != nil || !found {
			continue
		}
		was := r.failures[p]
		if total < was { // it was started again
			was = 0
		}
		n += total - was
		r.failures[p] = total
	}
	return n
}

// sumOf adds up the values of a metric.
func sumOf(text []byte, name string) (sum int, found bool) {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) != 2 || f[0] != name && !strings.HasPrefix(f[0], name+"{") {
			continue
		}
		v, err := strconv.ParseFloat(f[1], 64)
		if err == nil {
			sum, found = sum+int(v), true
		}
	}
	return sum, found
}
