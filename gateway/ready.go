package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"svc/gateway/license"
)

// readiness is the body of a 200 from /readyz (gateway specification,
// /readyz). The optional fields are present only when they say something.
type readiness struct {
	Status         string   `json:"status"`
	RestartPending []string `json:"restart_pending,omitempty"`
	DroppedRecords uint64   `json:"audit_sink_dropped_records,omitempty"`
}

// serveHealth answers the liveness probe: 200 as long as the process can. It
// looks at nothing that could fail, so that a probe never kills a gateway for
// the sake of something a restart cannot mend.
func (g *Gateway) serveHealth(w http.ResponseWriter, r *http.Request) {
	if !probeMethod(w, r) {
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.Write([]byte("ok"))
}

// serveReady answers the readiness probe: 503 with an empty body while
// draining or without a good license, else 200. Upstreams are not asked.
func (g *Gateway) serveReady(w http.ResponseWriter, r *http.Request) {
	if !probeMethod(w, r) {
		return
	}
	if g.notReady() != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(readiness{
		Status:         "ok",
		RestartPending: *g.restartPending.Load(),
		DroppedRecords: g.audit.DroppedRecords(),
	})
	if err != nil { // strings and a number: cannot happen
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Write(body)
}

// notReady says why /readyz answers 503; empty when it answers 200.
func (g *Gateway) notReady() string {
	s := g.license.Status(g.now())
	switch {
	case g.draining.Load():
		return "draining: the gateway is shutting down"
	case s.State != license.Expired:
		return ""
	case s.Err != nil:
		return "license: " + s.Err.Error()
	}
	return "license: expired at " + s.License.ExpiresAt.Format(time.RFC3339) + ", grace ended at " + s.License.GraceEnds().Format(time.RFC3339)
}

// serveReason answers /readyz on the metrics listener: as /readyz does, and with
// ?verbose also why the gateway is not ready.
func (g *Gateway) serveReason(w http.ResponseWriter, r *http.Request) {
	why := g.notReady()
	if why == "" || !r.URL.Query().Has("verbose") {
		g.serveReady(w, r)
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.WriteHeader(http.StatusServiceUnavailable)
	w.Write([]byte(why + "\n"))
}

// logLicense logs the state of the license after it changed.
func (g *Gateway) logLicense(s license.Status) {
	if s.Err != nil {
		g.log.Error("license does not verify: /readyz answers 503 until it does", "error", s.Err)
		return
	}
	attrs := []any{"expires", s.License.ExpiresAt, "grace_ends", s.License.GraceEnds()}
	switch s.State {
	case license.Valid:
		g.log.Info("license is valid", attrs...)
	case license.Grace:
		g.log.Warn("license has expired and is in its grace period: /readyz answers 503 when that ends", append(attrs, "days_left", daysLeft(s, g.now()))...)
	default:
		g.log.Error("license has expired and its grace period has ended: /readyz answers 503", attrs...)
	}
}

// daysLeft is how many days the license still works, grace included; negative when
// it has ended, 0 when it does not verify.
func daysLeft(s license.Status, now time.Time) float64 {
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

// Drain makes /readyz answer 503 from now on. Requests are still served.
func (g *Gateway) Drain() { g.draining.Store(true) }

// ShutdownTimes returns how long /readyz answers 503 before connections are
// refused, and how long requests in flight are then waited for (gateway
// specification, shutdown).
func (g *Gateway) ShutdownTimes() (window, grace time.Duration) {
	s := g.live.Load().cfg.Shutdown
	return s.DrainSignalWindow, s.Grace
}
