package audit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
)

// sinkGrace is the time that a sink has to deliver its queued lines when the log is
// closed.
const sinkGrace = 2 * time.Second

// deliverer sends lines to a remote receiver. The lines have no line feed.
type deliverer interface {
	deliver(ctx context.Context, lines [][]byte) error
	close()
}

// sink copies lines to a remote receiver. It never blocks the log: when
// the buffer is full, lines are dropped and counted (gateway specification, Events).
type sink struct {
	to      deliverer
	cfg     SinkConfig
	log     *slog.Logger
	lines   chan []byte
	dropped atomic.Uint64

	failing, refused retry.Repeats // bound the log

	cancel context.CancelFunc
	quit   chan struct{}
	ended  chan struct{}
	once   sync.Once
}

func newSinks(cfgs []SinkConfig, log *slog.Logger) []*sink {
	var sinks []*sink
	for _, cfg := range cfgs {
		var to deliverer
		switch cfg.Type {
		case SinkHTTP:
			to = newHTTPSink(cfg)
		case SinkOTLP:
			to = newOTLPSink(cfg)
		case SinkSyslog:
			to = newSyslogSink(cfg)
		default:
			continue // refused by Config.Validate
		}
		ctx, cancel := context.WithCancel(context.Background())
		s := &sink{
			to: to, cfg: cfg, log: log,
			lines:  make(chan []byte, cfg.Buffer),
			cancel: cancel,
			quit:   make(chan struct{}), ended: make(chan struct{}),
		}
		go s.run(ctx)
		sinks = append(sinks, s)
	}
	return sinks
}

// send queues a copy of each line of out.
func (s *sink) send(out []byte) {
	shared := bytes.Clone(out)
	for len(shared) > 0 {
		n := bytes.IndexByte(shared, '\n')
		if n < 0 {
			return
		}
		select {
		case s.lines <- shared[:n:n]:
		default:
			s.dropped.Add(1)
		}
		shared = shared[n+1:]
	}
}

// close stops the sink after at most grace and returns the number of lines that it
// dropped in total, including its queued lines.
func (s *sink) close(grace time.Duration) uint64 {
	s.once.Do(func() {
		close(s.quit)
		timer := time.AfterFunc(grace, s.cancel)
		<-s.ended
		timer.Stop()
		s.cancel()
		s.to.close()
	})
	return s.dropped.Load()
}

// run delivers in batches until the sink is closed. A delivery that fails is retried with
// backoff; meanwhile the buffer fills and overflows.
func (s *sink) run(ctx context.Context) {
	defer close(s.ended)
	batch := make([][]byte, 0, s.cfg.Batch)
	for {
		batch = batch[:0]
		select {
		case line := <-s.lines:
			batch = append(batch, line)
		case <-s.quit:
			select {
			case line := <-s.lines:
				batch = append(batch, line)
			default:
				return
			}
		}
	more:
		for len(batch) < s.cfg.Batch {
			select {
			case line := <-s.lines:
				batch = append(batch, line)
			default:
				break more
			}
		}
		if !s.deliver(ctx, batch) {
			s.dropped.Add(uint64(len(s.lines)))
			return
		}
	}
}

// sinkLogEvery is the time between two lines of the log about a sink that fails.
const sinkLogEvery = time.Minute

// deliver retries until every line was accepted or refused for good, or ctx ends. What is refused as
// a whole is sent in halves, so that only the lines that the receiver does not take are dropped.
func (s *sink) deliver(ctx context.Context, batch [][]byte) bool {
	const longest = 15 * time.Second
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longest) {
		attempt, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		err := s.to.deliver(attempt, batch)
		cancel()
		if err == nil {
			return true
		}
		if refused := (*rejectedError)(nil); errors.As(err, &refused) {
			if half := len(batch) / 2; refused.some && half > 0 {
				first := s.deliver(ctx, batch[:half])
				return s.deliver(ctx, batch[half:]) && first
			}
			s.dropped.Add(refused.lines)
			if n, due := s.refused.Due(time.Now(), sinkLogEvery); due {
				s.log.Warn("an audit sink dropped lines", "type", s.cfg.Type, "error", err, "times", n, "dropped", s.dropped.Load())
			}
			return true
		}
		if n, due := s.failing.Due(time.Now(), sinkLogEvery); due {
			s.log.Warn("an audit sink does not accept lines; they are sent again", "type", s.cfg.Type, "error", err, "times", n, "queued", len(s.lines), "dropped", s.dropped.Load())
		}
		if !retry.Wait(ctx, pause) {
			s.dropped.Add(uint64(len(batch)))
			return false
		}
	}
}

// DroppedRecords returns the number of lines that remote sinks have dropped since the log
// was opened (gateway specification, /readyz audit_sink_dropped_records).
func (l *Log) DroppedRecords() uint64 {
	n := l.dropped.Load()
	if sinks := l.sinks.Load(); sinks != nil {
		for _, s := range *sinks {
			n += s.dropped.Load()
		}
	}
	return n
}

// QueuedRecords returns the number of lines that are queued for remote sinks.
func (l *Log) QueuedRecords() int {
	n := 0
	if sinks := l.sinks.Load(); sinks != nil {
		for _, s := range *sinks {
			n += len(s.lines)
		}
	}
	return n
}
