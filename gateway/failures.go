package gateway

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

const (
	// failureInterval is how often the log has a line for one upstream and cause.
	failureInterval = time.Minute
	// maxFailureCauses bounds the causes that are told apart at one moment.
	maxFailureCauses = 1024
	// failureQueue bounds the lines that wait for a slow log.
	failureQueue = 64
	// failureFlush bounds the wait for a slow log when the gateway closes.
	failureFlush = time.Second
	// maxRefusedBody is how much of a refused answer the log shows, in bytes.
	maxRefusedBody = 200
)

// failure is why an upstream's answer, or the lack of one, was not passed on.
type failure struct {
	upstream string
	url      string
	// code names the class of the cause; failures of one upstream with one code
	// share a line in the log.
	code      string
	cause     string // in words
	status    int    // of the upstream's answer; 0 without one
	body      string // the beginning of a refused answer, printable
	requestID string
}

// failureLog writes a WARN for each upstream and cause: the first failure at
// once, further ones counted, with one line an interval.
//
// Requests never wait for the log: they put a line into a bounded queue that one
// goroutine empties. When the queue is full the line is counted as a repeat.
type failureLog struct {
	log   *slog.Logger
	queue chan failure
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex // guards what follows; held for no longer than a look-up
	seen map[failureKey]*repeated
}

type failureKey struct{ upstream, code string }

// repeated counts the failures since the last line about them.
type repeated struct {
	count uint64
	last  failure
}

// newFailureLog starts the goroutine that writes; close ends it.
func newFailureLog(log *slog.Logger) *failureLog {
	f := &failureLog{
		log: log, queue: make(chan failure, failureQueue), stop: make(chan struct{}), done: make(chan struct{}),
		seen: make(map[failureKey]*repeated),
	}
	go f.run()
	return f
}

// first reports whether a failure is to be logged now, so that its details are
// worth gathering. It counts the failure otherwise.
func (f *failureLog) first(fail *failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := failureKey{fail.upstream, fail.code}
	if r := f.seen[key]; r != nil {
		r.count++
		r.last = *fail
		return false
	}
	if len(f.seen) >= maxFailureCauses {
		return false
	}
	f.seen[key] = &repeated{last: *fail}
	return true
}

// write queues the line of a failure for which first returned true.
func (f *failureLog) write(fail *failure) {
	select {
	case f.queue <- *fail:
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if r := f.seen[failureKey{fail.upstream, fail.code}]; r != nil {
			r.count++
			r.last = *fail
		}
	}
}

// report logs a failure, or counts it.
func (f *failureLog) report(fail *failure) {
	if f.first(fail) {
		f.write(fail)
	}
}

// run writes lines until close.
func (f *failureLog) run() {
	defer close(f.done)
	sweep := time.NewTicker(failureInterval)
	defer sweep.Stop()
	for {
		select {
		case fail := <-f.queue:
			f.log.LogAttrs(context.Background(), slog.LevelWarn, "upstream failed", fail.attrs()...)
		case <-sweep.C:
			f.logRepeats()
		case <-f.stop:
			for len(f.queue) > 0 {
				fail := <-f.queue
				f.log.LogAttrs(context.Background(), slog.LevelWarn, "upstream failed", fail.attrs()...)
			}
			f.logRepeats()
			return
		}
	}
}

// logRepeats logs how often each failure was repeated since the last line about
// it, and forgets those that were not: the next one is logged at once.
func (f *failureLog) logRepeats() {
	var lines []repeated
	f.mu.Lock()
	for key, r := range f.seen {
		if r.count == 0 {
			delete(f.seen, key)
			continue
		}
		lines = append(lines, *r)
		r.count = 0
	}
	f.mu.Unlock()
	for i := range lines {
		attrs := append(lines[i].last.attrs(), slog.Uint64("repeats", lines[i].count), slog.String("within", failureInterval.String()))
		f.log.LogAttrs(context.Background(), slog.LevelWarn, "upstream keeps failing", attrs...)
	}
}

// close writes what is left. It waits for a log that does not take the lines for
// no longer than failureFlush.
func (f *failureLog) close() {
	close(f.stop)
	limit := time.NewTimer(failureFlush)
	defer limit.Stop()
	select {
	case <-f.done:
	case <-limit.C:
	}
}

func (f *failure) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("upstream", f.upstream), slog.String("url", f.url)}
	if f.status != 0 {
		attrs = append(attrs, slog.Int("status", f.status))
	}
	attrs = append(attrs, slog.String("cause", f.cause))
	if f.body != "" {
		attrs = append(attrs, slog.String("body", f.body))
	}
	return append(attrs, slog.String("request_id", f.requestID))
}

// failureOf describes a failure of an upstream during this request.
func (ex *exchange) failureOf(t *target, cause upstream.Cause) *failure {
	return &failure{
		upstream: t.name, url: t.client.LogURL(), code: cause.Code, cause: cause.Text, requestID: ex.rec.RequestID,
	}
}

// refuseResponse reports an answer of the upstream that is not passed on, and
// returns the refusal that takes its place. read is what was read of its body,
// nil when nothing was.
func (ex *exchange) refuseResponse(refused *refusal.Refusal, resp *upstream.Response, read []byte, cause upstream.Cause) *refusal.Refusal {
	fail := ex.failureOf(ex.up, cause)
	fail.status = resp.Status
	if ex.g.failures.first(fail) {
		if read == nil {
			read = beginningOf(resp)
		}
		fail.body = upstream.Printable(read, maxRefusedBody)
		ex.g.failures.write(fail)
	}
	return refused
}

// refuseContent refuses an answer for its status or its Content-Type.
func (ex *exchange) refuseContent(refused *refusal.Refusal, resp *upstream.Response, read []byte) *refusal.Refusal {
	media := mediaType(resp.Header.Get("Content-Type"))
	cause := upstream.Cause{Code: "status_" + strconv.Itoa(resp.Status), Text: "answered status " + strconv.Itoa(resp.Status)}
	if resp.Status < 300 {
		cause.Code = "content_type"
		if media == "" || resp.ContentLength == 0 {
			cause.Text += " without a message"
		}
	}
	if media != "" {
		cause.Text += ", " + upstream.Printable(media, 100)
	}
	return ex.refuseResponse(refused, resp, read, cause)
}

// refusedBodyWait bounds the wait for the beginning of a refused answer.
const refusedBodyWait = 250 * time.Millisecond

// beginningOf reads the beginning of an answer that is not passed on, for the
// log. The body cannot be read any further afterwards.
func beginningOf(resp *upstream.Response) []byte {
	stop := time.AfterFunc(refusedBodyWait, func() { resp.Body.Close() })
	defer stop.Stop()
	b := make([]byte, maxRefusedBody+utf8.UTFMax)
	n, _ := io.ReadFull(resp.Body, b) // what came until then is worth showing
	return b[:n]
}

// streamFailure is why an event stream ended before the answer, when that is the
// upstream's doing.
func streamFailure(refused *refusal.Refusal, err error) (upstream.Cause, bool) {
	switch refused.Kind {
	case refusal.Ended.Kind:
		return upstream.Cause{Code: "stream_ended", Text: "the event stream ended before the answer"}, true
	case refusal.UpstreamInvalid.Kind:
		return invalidFrame(err), true
	case refusal.Timeout.Kind, refusal.Unreachable.Kind:
		return upstream.CauseOf(err), true
	}
	return upstream.Cause{}, false
}

// invalidFrame says why a frame of an event stream is not passed on.
func invalidFrame(err error) upstream.Cause {
	return upstream.Cause{Code: "invalid_frame", Text: "the event stream holds an invalid frame: " + upstream.Printable(err.Error(), maxRefusedBody)}
}

// invalidMessage says why JSON is not the message that an answer must be.
func invalidMessage(err error) upstream.Cause {
	text := "answered JSON that is no JSON-RPC response"
	if err != nil {
		text += ": " + upstream.Printable(err.Error(), maxRefusedBody)
	}
	return upstream.Cause{Code: "invalid_message", Text: text}
}
