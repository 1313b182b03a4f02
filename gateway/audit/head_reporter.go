package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"svc/store/api"
)

// HeadSink stores chain heads where an attacker with write access to the audit file
// cannot change them.
type HeadSink interface {
	ReportAuditHead(ctx context.Context, head api.AuditHeadReport) (api.AuditHead, error)
}

// HeadOptions are the parameters of a [HeadReporter].
type HeadOptions struct {
	// Gateway is the name of this gateway; the host name when empty.
	Gateway string
	// Log is the audit log whose heads are reported.
	Log *Log
	// Sink stores the heads.
	Sink HeadSink
	// Interval is the time between reports; a minute when zero.
	Interval time.Duration
	// Logger logs failed reports, once per outage; nil discards them.
	Logger *slog.Logger
}

// HeadReporter reports the chain head to the control plane, so that a truncated audit
// file is detected by comparison: svc audit verify --head.
type HeadReporter struct {
	opts    HeadOptions
	last    api.AuditHeadReport // the last report that the control plane accepted
	failing bool
}

// headTimeout bounds the last report, which is sent when the gateway stops.
const headTimeout = 2 * time.Second

// NewHeadReporter returns a reporter. It does nothing before Run.
func NewHeadReporter(opts HeadOptions) (*HeadReporter, error) {
	var err error
	if opts.Gateway, err = GatewayName(opts.Gateway); err != nil {
		return nil, err
	}
	opts.Interval = orElse(opts.Interval, time.Minute)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &HeadReporter{opts: opts}, nil
}

// GatewayName returns the configured name of this gateway, or the name of its host.
func GatewayName(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("control_plane.gateway is empty and the host has no name: %w", err)
	}
	return host, nil
}

// Run reports at once, at every interval, and a last time when ctx has ended. After a
// failure the next report contains the newer head.
func (h *HeadReporter) Run(ctx context.Context) {
	tick := time.NewTicker(h.opts.Interval)
	defer tick.Stop()
	for {
		h.report(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), headTimeout)
			defer cancel()
			h.report(last)
			return
		}
	}
}

// report sends the current head, unless the control plane has it.
func (h *HeadReporter) report(ctx context.Context) {
	now, err := h.present()
	if err == nil {
		if now.Seq == 0 || now == h.last {
			return
		}
		_, err = h.opts.Sink.ReportAuditHead(ctx, now)
	}
	switch {
	case err == nil:
		h.last, h.failing = now, false
	case errors.Is(err, context.Canceled):
	case !h.failing:
		h.failing = true
		h.opts.Logger.Warn("reporting the head of the audit chain to the control plane failed; it is retried", "error", err)
	}
}

// present returns the head to report, signed if checkpoints are signed.
// Its Seq is 0 while no line was written, or when audit.chain is off.
func (h *HeadReporter) present() (api.AuditHeadReport, error) {
	path, head, oldest, err := h.opts.Log.Head()
	if err != nil || head.Hash == (Hash{}) {
		return api.AuditHeadReport{}, err
	}
	trail, err := trailName(path)
	if err != nil {
		return api.AuditHeadReport{}, err
	}
	now := api.AuditHeadReport{Gateway: h.opts.Gateway, Trail: trail, Seq: int64(head.Seq), Hash: head.Hash.String(), OldestLine: int64(min(oldest, api.MaxAuditSeq))}
	public, signature, err := h.opts.Log.Sign(now.SignedText())
	if err == nil && public != nil {
		now.PublicKey = base64.StdEncoding.EncodeToString(public)
		now.Signature = base64.StdEncoding.EncodeToString(signature)
	}
	return now, err
}
