package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"svc/gateway/audit"
	"svc/gateway/config"
	"svc/gateway/upstream"
	"svc/gateway/upstream/targets"
	"svc/store/api"
)

// Times between reports to the control plane.
const (
	reportInterval = 30 * time.Second
	// reportPause is the least time between two reports: changes in it are reported together.
	reportPause = 10 * time.Second
	// reportCheck is how often the gateway looks for changes.
	reportCheck = time.Second
	// reportTimeout bounds a report, and the last one, which says that the gateway has stopped.
	reportTimeout, lastReportTimeout = 10 * time.Second, 2 * time.Second
	// maxReportPause bounds the pause that a control plane can ask for.
	maxReportPause = time.Minute
	// warnedEvery is the time between two log lines about failures of one kind.
	warnedEvery = 10 * time.Minute
	// maxUpstreamText bounds the upstreams of a report, in bytes of JSON, and leaves room for the rest.
	maxUpstreamText = api.MaxGatewayReport * 3 / 4
)

// ReportFunc sends the report of a gateway, with the value of api.SignatureHeader if it is signed.
type ReportFunc func(ctx context.Context, name string, body []byte, signature string) error

// fleetReporter reports this process to the control plane, for the list of gateways.
type fleetReporter struct {
	name    string
	send    ReportFunc
	status  func(error) (status int, retryAfter time.Duration)
	state   func() api.GatewayReport // without Instance and Seq
	sign    func(text []byte) (header string, err error)
	log     *slog.Logger
	id      string
	seq     int64
	sent    []byte // the last report without its counters, as JSON; nil: it was not accepted
	failing bool   // the log has a line about it
	// warned has the times of the log lines about failures, by their status.
	warned map[int]time.Time
}

// openFleet prepares the reports of this process.
func (g *Gateway) openFleet(cfg *config.File, opts Options) error {
	if opts.Report == nil || len(cfg.ControlPlane.URL) == 0 || cfg.ControlPlane.IngestKey == "" {
		return nil
	}
	name, err := audit.GatewayName(cfg.ControlPlane.Gateway)
	if err != nil {
		return err
	}
	if wrong := api.GatewayName(name); wrong != "" { // of the host: the configuration is checked
		g.services.Log.Warn("this gateway does not report itself to the control plane: set control_plane.gateway", "gateway", name, "error", "the name "+wrong)
		return nil
	}
	id := make([]byte, 16)
	rand.Read(id)
	started := g.services.Now().UTC().Truncate(time.Second)
	g.fleet = &fleetReporter{
		name: name, send: opts.Report, status: opts.SinkStatus, log: g.services.Log, warned: map[int]time.Time{}, id: hex.EncodeToString(id),
		state: func() api.GatewayReport { return g.report(started) },
		sign: func(text []byte) (string, error) {
			public, signature, err := g.services.Audit.Sign(text)
			if err != nil || public == nil {
				return "", err
			}
			return api.GatewaySignature(public, signature), nil
		},
	}
	return nil
}

// report is the state of the gateway, of a size that the control plane accepts.
func (g *Gateway) report(started time.Time) api.GatewayReport {
	now, cfg := g.services.Now(), g.services.Live.Load().Config
	r := api.GatewayReport{
		Version: shown(g.version), StartedAt: started, State: api.GatewayRunning,
		Upstreams: []api.GatewayUpstream{}, RestartPending: []string{},
		Audit: api.GatewayAudit{Writable: g.services.Audit.Ready() == nil, Lost: int64(min(g.services.Audit.Lost(), api.MaxAuditSeq))},
	}
	for _, key := range g.health.Pending() {
		if len(r.RestartPending) < api.MaxGatewayPending {
			r.RestartPending = append(r.RestartPending, shown(key))
		}
	}
	if _, head, _, err := g.services.Audit.Head(); err == nil {
		r.Audit.LastLine = int64(min(head.Seq, api.MaxAuditSeq))
	}
	r.Calls, r.Blocked, r.Failed = g.services.Audit.Counts()
	if s := g.license.Status(now); s.License != nil || s.Err != nil {
		r.License = api.GatewayLicense{State: s.State.String(), DaysLeft: int64(math.Floor(daysLeft(s, now)))}
	}
	if g.services.Governance != nil {
		r.Governance.Enabled = true
	}
	if b := g.services.Governance.Current(); b != nil {
		r.Governance.Revision, r.Governance.Policies = b.Revision(), int64(b.Policies())
		digest := cfg.Digest()
		r.ConfigDigest = b.ConfigDigest(digest[:])
	}
	spoken := g.upstreams.Spoken()
	for i := range cfg.Upstreams {
		name := cfg.Upstreams[i].Name
		if t := g.services.Targets[name]; t != nil {
			r.Upstreams = append(r.Upstreams, api.GatewayUpstream{Name: shown(name), State: upstreamState(t), Revision: spoken[name]})
		}
	}
	r.Upstreams = fitting(r.Upstreams)
	return r
}

// fitting returns the upstreams that a report has room for. When that is not all of them, those that fail come
// first.
func fitting(all []api.GatewayUpstream) []api.GatewayUpstream {
	room := func() int {
		size := 0
		for i := range all {
			text, _ := json.Marshal(all[i]) // strings: never fails
			if size += len(text) + 1; size > maxUpstreamText || i == api.MaxGatewayUpstreams {
				return i
			}
		}
		return len(all)
	}
	if n := room(); n == len(all) {
		return all
	}
	fine := func(u api.GatewayUpstream) int {
		if u.State == "open" || u.State == "failing" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b api.GatewayUpstream) int { return fine(a) - fine(b) })
	return all[:room()]
}

// upstreamState is one of api.UpstreamStates.
func upstreamState(t *upstream.Upstream) string {
	s, _ := targets.StatsOf(t)
	switch {
	case s.BreakerOpen:
		return "open"
	case s.Health == upstream.HealthFailing:
		return "failing"
	case s.Health == upstream.HealthOK:
		return "ok"
	}
	return "unknown"
}

// shown bounds a text of a report.
func shown(s string) string { return api.GatewayText(s) }

// Run reports at once, at every interval and at each change, and a last time when ctx has ended: that the
// gateway has stopped.
func (f *fleetReporter) Run(ctx context.Context) {
	tick := time.NewTicker(reportCheck)
	defer tick.Stop()
	var last time.Time // of the last attempt
	pause := time.Duration(0)
	for {
		r := f.state()
		if since := time.Since(last); last.IsZero() || since >= max(reportPause, pause) && (since >= reportInterval || !bytes.Equal(f.sent, lasting(r))) {
			attempt, cancel := context.WithTimeout(ctx, reportTimeout)
			pause = min(f.report(attempt, r), maxReportPause)
			cancel()
			last = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r := f.state()
			r.State = api.GatewayStopped
			attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReportTimeout)
			defer cancel()
			f.report(attempt, r)
			return
		}
	}
}

// lasting is a report without what changes all the time.
func lasting(r api.GatewayReport) []byte {
	r.Calls, r.Blocked, r.Failed, r.Audit.LastLine = 0, 0, 0, 0
	text, _ := json.Marshal(r) // strings and numbers: never fails
	return text
}

// report sends a report, and returns how long the control plane asks to wait before the next one.
func (f *fleetReporter) report(ctx context.Context, r api.GatewayReport) time.Duration {
	f.seq++
	r.Instance, r.Seq = f.id, f.seq
	body, err := json.Marshal(r)
	var signature string
	if err == nil {
		signature, err = f.sign(api.GatewaySignedText(f.name, body))
	}
	if err == nil {
		err = f.send(ctx, f.name, body, signature)
	}
	if err == nil {
		r.Instance, r.Seq = "", 0
		f.sent = lasting(r)
		if f.failing {
			f.log.Info("the control plane accepts reports of this gateway again")
		}
		f.failing = false
		return 0
	}
	f.sent = nil
	status, wait := f.status(err)
	now := time.Now()
	if last, ok := f.warned[status]; r.State == api.GatewayStopped || errors.Is(err, context.Canceled) || ok && now.Sub(last) < warnedEvery {
		return wait
	}
	f.failing, f.warned[status] = true, now
	advice := "the gateway is not in svc gateways list, or is silent there, until it can"
	if status == 403 {
		advice = "another gateway of this name signs with another key, or earlier reports were signed: give gateways of one name the same audit.checkpoint_key_file, others another control_plane.gateway, or accept the key with svc audit heads accept"
	}
	f.log.Warn("this gateway cannot report itself to the control plane; it tries again", "gateway", f.name, "error", err, "advice", advice)
	return wait
}
