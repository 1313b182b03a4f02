package gateway

import (
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"svc/gateway/auth"
)

// probeOptions are the inputs of the probes.
type probeOptions struct {
	License license
	// Dropped returns the number of audit records that sinks dropped.
	Dropped func() uint64
	Logger  *slog.Logger
	Now     func() time.Time
}

// license returns the state of a license at a time; a *auth.Checker does.
type license interface {
	Status(now time.Time) auth.Status
}

// healthProbes serves the probes. It is safe for concurrent use.
type healthProbes struct {
	opts           probeOptions
	draining       atomic.Bool
	restartPending atomic.Pointer[[]string]
}

// newProbes returns the probes of a gateway that is not draining, without fields that wait for a
// restart.
func newProbes(opts probeOptions) *healthProbes {
	p := &healthProbes{opts: opts}
	p.restartPending.Store(new([]string))
	return p
}

// Drain makes /readyz respond 503 from now on.
func (p *healthProbes) Drain() { p.draining.Store(true) }

// SetRestartPending lists the fields of the configuration that wait for a restart.
func (p *healthProbes) SetRestartPending(fields []string) { p.restartPending.Store(&fields) }

// Pending returns these fields.
func (p *healthProbes) Pending() []string { return *p.restartPending.Load() }

// RestartPending returns the number of these fields.
func (p *healthProbes) RestartPending() int { return len(p.Pending()) }

// readiness is the body of a 200 from /readyz. Optional fields are absent when they are empty.
type readiness struct {
	Status         string   `json:"status"`
	RestartPending []string `json:"restart_pending,omitempty"`
	DroppedRecords uint64   `json:"audit_sink_dropped_records,omitempty"`
}

// ServeLive serves the liveness probe: always 200. It checks nothing, so that an orchestrator
// never restarts a gateway for a problem that a restart cannot fix.
func (p *healthProbes) ServeLive(w http.ResponseWriter, r *http.Request) {
	if !probeMethod(w, r) {
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.Write([]byte("ok"))
}

// ServeReady serves the readiness probe: 503 with an empty body while draining or without a valid
// license, else 200.
func (p *healthProbes) ServeReady(w http.ResponseWriter, r *http.Request) {
	if !probeMethod(w, r) {
		return
	}
	if p.NotReady() != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(readiness{Status: "ok", RestartPending: *p.restartPending.Load(), DroppedRecords: p.opts.Dropped()})
	if err != nil { // strings and a number: cannot happen
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Write(body)
}

// ServeReason serves /readyz on the metrics listener: as ServeReady does, and with ?verbose also
// the reason for 503.
func (p *healthProbes) ServeReason(w http.ResponseWriter, r *http.Request) {
	why := p.NotReady()
	if why == "" || !r.URL.Query().Has("verbose") {
		p.ServeReady(w, r)
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.WriteHeader(http.StatusServiceUnavailable)
	w.Write([]byte(why + "\n"))
}

// NotReady returns the reason why /readyz responds 503; empty when it responds 200.
func (p *healthProbes) NotReady() string {
	s := p.opts.License.Status(p.opts.Now())
	switch {
	case p.draining.Load():
		return "draining: the gateway is shutting down"
	case s.State != auth.Expired:
		return ""
	case s.Err != nil:
		return "license: " + s.Err.Error()
	}
	return "license: expired at " + s.License.ExpiresAt.Format(time.RFC3339) + ", grace ended at " + s.License.GraceEnds().Format(time.RFC3339)
}

// LicenseDays returns the number of days until the end of the grace period; negative after it, 0
// if the license does not verify.
func (p *healthProbes) LicenseDays() float64 {
	now := p.opts.Now()
	return daysLeft(p.opts.License.Status(now), now)
}

// LogStart logs a warning for a license that is not valid at the start, or ends soon.
func (p *healthProbes) LogStart() {
	now := p.opts.Now()
	switch s := p.opts.License.Status(now); {
	case s.State != auth.Valid:
		p.LogLicense(s)
	case s.EndsSoon(now):
		p.LogEnding(s)
	}
}

// LogEnding logs that the license ends soon.
func (p *healthProbes) LogEnding(s auth.Status) {
	p.opts.Logger.Warn("license ends soon: put a new one in place and send SIGHUP; /readyz answers 503 when its grace period ends",
		"state", s.State.String(), "expires", s.License.ExpiresAt, "grace_ends", s.License.GraceEnds(), "days_left", daysLeft(s, p.opts.Now()))
}

// LogLicense logs the state of the license after it changed.
func (p *healthProbes) LogLicense(s auth.Status) {
	log := p.opts.Logger
	if s.Err != nil {
		log.Error("license does not verify: /readyz answers 503 until it does", "error", s.Err)
		return
	}
	attrs := []any{"expires", s.License.ExpiresAt, "grace_ends", s.License.GraceEnds()}
	switch s.State {
	case auth.Valid:
		log.Info("license is valid", attrs...)
	case auth.Grace:
		log.Warn("license has expired and is in its grace period: /readyz answers 503 when that ends", append(attrs, "days_left", daysLeft(s, p.opts.Now()))...)
	default:
		log.Error("license has expired and its grace period has ended: /readyz answers 503", attrs...)
	}
}

func daysLeft(s auth.Status, now time.Time) float64 {
	if s.License == nil {
		return 0
	}
	return math.Round(s.License.GraceEnds().Sub(now).Hours()/24*100) / 100
}

func probeMethod(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header()["Allow"] = []string{"GET, HEAD"}
	w.WriteHeader(http.StatusMethodNotAllowed)
	return false
}
