package gateway

import (
	"encoding/json"
	"net/http"

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
	if g.draining.Load() || g.license.State(g.now()) == license.Expired {
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

func probeMethod(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header()["Allow"] = []string{"GET, HEAD"}
	w.WriteHeader(http.StatusMethodNotAllowed)
	return false
}
