package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"svc/gateway/base/retry"
	"svc/store/api"
)

// minBackoff is the initial backoff; it doubles up to MaxPause.
const minBackoff = 250 * time.Millisecond

// post sends a batch to the control plane and returns true when all traces are stored or
// quarantined. It retries until ctx ends. Outages, a revoked key and a wrong URL are all
// retried, because the audit files keep the traces meanwhile.
func (r *Reporter) post(ctx context.Context, b *batch) bool {
	for from := 0; from < b.len(); from += r.cfg.Traces.BatchSize {
		if !r.postPart(ctx, b, from, min(b.len(), from+r.cfg.Traces.BatchSize)) {
			return false
		}
	}
	return true
}

// postPart posts the traces from one index up to another.
func (r *Reporter) postPart(ctx context.Context, b *batch, from, to int) bool {
	body, id := b.body(from, to), r.batchID(b, from, to)
	for pause := minBackoff; ; pause = min(2*pause, r.opts.MaxPause) {
		attempt, cancel := context.WithTimeout(ctx, r.cfg.Traces.Timeout)
		res, err := r.opts.Sink.PostTraceBatch(attempt, id, body)
		cancel()
		if err == nil {
			r.stats.posted.Add(uint64(max(res.Accepted, 0)))
			r.stats.duplicates.Add(uint64(max(res.Duplicates, 0)))
			r.recovered()
			b.answer = res.Store
			return true
		}
		b.lent = true
		status, wait := r.opts.Status(err)
		switch status {
		case 400, 413, 422:
			r.recovered()
			return r.bisect(ctx, b, from, to, err)
		}
		if ctx.Err() != nil {
			return false
		}
		r.stats.failures.Add(1)
		r.failing(status, err)
		// The jitter covers the upper half of the backoff, so that gateways that failed
		// at the same time do not retry at the same time.
		sleep := max(pause/2+rand.N(pause/2+1), min(wait, r.opts.MaxPause))
		if !retry.Wait(ctx, sleep) {
			return false
		}
	}
}

// originOf returns an ASCII name of an audit file of a gateway, for any name of the gateway.
func originOf(gateway, path string) (string, error) {
	name, err := GatewayName(gateway)
	if err != nil {
		return "", err
	}
	trail, err := trailName(path)
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8]) + "/" + trail, err
}

// batchID returns the id of the traces of a batch from one index up to another: the
// origin, the positions of its first and last line, and the two indexes.
func (r *Reporter) batchID(b *batch, from, to int) string {
	return fmt.Sprintf("%s %d:%d-%d:%d %d-%d", r.origin, b.start.File, b.start.Offset, b.after.File, b.after.Offset, from, to)
}

// bisect finds the traces that cause the control plane to refuse a batch, and quarantines
// them.
func (r *Reporter) bisect(ctx context.Context, b *batch, from, to int, cause error) bool {
	if to-from == 1 {
		r.setAside(b.one(from), cause)
		return true
	}
	half := from + (to-from)/2
	return r.postPart(ctx, b, from, half) && r.postPart(ctx, b, half, to)
}

func (r *Reporter) setAside(trace []byte, cause error) {
	var t api.TraceInput
	_ = json.Unmarshal(trace, &t) // decode the reporter's own JSON to get the id
	if err := r.quar.add(trace, cause); err != nil {
		r.stats.dropped.Add(1)
		r.opts.Logger.Error("a trace that the control plane refused is dropped", "id", t.ID, "refused", cause, "error", err)
		return
	}
	r.stats.quarantined.Add(1)
	r.opts.Logger.Warn("the control plane refused a trace; it was moved to the quarantine file", "id", t.ID, "refused", cause, "file", r.quar.name)
}

// failing records an outage and logs it once for each reason.
func (r *Reporter) failing(status int, err error) {
	why := "the control plane does not respond"
	switch {
	case status == 401 || status == 403:
		why = "the control plane refuses the ingest key; requests still pass, and their traces wait in the audit files"
	case status == 429:
		why = "the control plane limits the rate of traces"
	case status > 0:
		why = fmt.Sprintf("the control plane returns status %d", status)
	}
	if old := r.stats.failing.Swap(&why); old == nil || *old != why {
		r.opts.Logger.Warn(why, "error", err)
	}
}

func (r *Reporter) recovered() {
	if r.stats.failing.Swap(nil) != nil {
		r.opts.Logger.Info("the control plane accepts traces again")
	}
}

// maxQuarantine bounds the size of the quarantine file.
const maxQuarantine = 64 << 20

// quarantine is the file of refused traces: one JSON object per line, with the reason.
type quarantine struct{ name string }

func (q quarantine) add(trace []byte, cause error) error {
	b, err := json.Marshal(struct {
		Refused string          `json:"refused"`
		Trace   json.RawMessage `json:"trace"`
	}{cause.Error(), trace})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(q.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size()+int64(len(b)) > maxQuarantine {
		err = fmt.Errorf("%s is full", q.name)
	}
	if err == nil {
		_, err = f.Write(append(b, '\n'))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
