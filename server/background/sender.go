package background

import (
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/base/hostname"
	"svc/gateway/base/retry"
	"svc/store"
	"svc/store/api"
)

const (
	// readEvery is how often the queues are read, unless the options say otherwise.
	readEvery = time.Second
	// readAtOnce bounds the deliveries that are read of one webhook at once.
	readAtOnce = 1000
	// attemptsPerWebhook bounds the attempts in flight of one webhook; each has its own, so that a
	// slow receiver delays no other.
	attemptsPerWebhook = 4
	// answerTimeout bounds one attempt.
	answerTimeout = 10 * time.Second
	// maxPause is the longest pause between two attempts.
	maxPause = 6 * time.Hour
	// maxWhy bounds the text of an error that is stored, in bytes.
	maxWhy = 300
)

// pauses are those after the first attempts, without jitter; after the last one a delivery has failed.
var pauses = [store.MaxTries - 1]time.Duration{5 * time.Second, 20 * time.Second, 80 * time.Second, 320 * time.Second, 20 * time.Minute, 90 * time.Minute, maxPause / 6 * 5}

// Sender sends the messages to webhooks, in the process that holds its lease. Those about one subject
// are sent in order: the next one waits until the one before was delivered or has failed MaxTries
// times. Subjects and webhooks do not wait for each other. A message is sent at least once: a process
// that ends between the response and its record leaves it to the next.
//
// Queues are in the records; the sender holds ids and times in memory, and reads a message when it
// sends it.
type Sender struct {
	worker
	post    Post
	hooks   map[string]*hookQueue // by id; of the pass
	results chan result
	unsaved []result
	failing retry.Repeats

	delivered, retried, failed atomic.Uint64
	waiting                    atomic.Int64
}

// hookQueue is the queue of one webhook.
type hookQueue struct {
	tenant  string
	webhook store.Webhook
	last    string // id of the newest delivery that was read
	lines   map[store.Subject]*line
	idle    lineHeap // lines without an attempt in flight
	running int
	log     retry.Repeats
}

// line is the deliveries about one subject, oldest first.
type line struct {
	subject store.Subject
	ids     []string
	tries   int       // of the first
	next    time.Time // when the first may be attempted
}

// result is the result of an attempt.
type result struct {
	hook *hookQueue
	line *line
	store.Attempt
	unread bool // nothing was sent, because the delivery could not be read
	gone   bool // it does not wait any more
	event  string
}

// NewSender returns a Sender; Run starts it.
func NewSender(o EvaluatorOptions, post Post) *Sender {
	s := &Sender{worker: newWorker(o, "webhooks", readEvery), post: post}
	s.pass = s.send
	return s
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) { s.run(ctx) }

// Counts returns what was sent since the start. It is safe for concurrent use.
func (s *Sender) Counts() DeliveryCounts {
	return DeliveryCounts{Delivered: s.delivered.Load(), Retried: s.retried.Load(), Failed: s.failed.Load(), Waiting: int(s.waiting.Load())}
}

// send sends until ctx ends, which it does when the lease is lost.
func (s *Sender) send(ctx context.Context) error {
	s.hooks, s.results, s.unsaved = map[string]*hookQueue{}, make(chan result), nil
	var attempts sync.WaitGroup
	defer attempts.Wait()
	defer s.waiting.Store(0)
	ticker := time.NewTicker(s.Interval)
	defer ticker.Stop()
	s.read(ctx, ticker)
	for {
		due := s.start(ctx, &attempts)
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.results:
			for more := true; more; { // what is ready is stored at once
				s.unsaved = append(s.unsaved, r)
				select {
				case r = <-s.results:
				default:
					more = false
				}
			}
			s.save(ctx)
		case <-time.After(due):
		case <-ticker.C:
			s.read(ctx, ticker)
			s.save(ctx)
		}
	}
}

// read reads what was queued since the last time. A failure is logged, and the next tick reads again:
// after the interval, and where there are many tenants so late that reading takes a fifth of the time.
func (s *Sender) read(ctx context.Context, next *time.Ticker) {
	began := time.Now()
	defer func() { next.Reset(max(s.Interval, 4*time.Since(began))) }()
	known := map[string]bool{}
	err := s.eachTenant(ctx, func(t store.Tenant) error { return s.readTenant(ctx, t, known) })
	if err != nil {
		s.cannot(ctx, "the messages for webhooks cannot be read", err)
	}
	waiting := 0
	for id, h := range s.hooks {
		waiting += h.webhook.Waiting
		if err == nil && !known[id] { // its attempts in flight end with it
			delete(s.hooks, id)
		}
	}
	s.waiting.Store(int64(waiting))
}

func (s *Sender) readTenant(ctx context.Context, t store.Tenant, known map[string]bool) error {
	after := map[string]string{}
	for id, h := range s.hooks {
		if h.tenant == t.ID() {
			after[id] = h.last
		}
	}
	for more := true; more; {
		more = false
		list, err := t.Queues(ctx, after, readAtOnce)
		if store.KindOf(err) == store.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range list {
			q := &list[i]
			id := q.Webhook.ID
			h := s.hooks[id]
			if h == nil {
				h = &hookQueue{tenant: t.ID(), lines: map[store.Subject]*line{}}
				s.hooks[id] = h
			}
			known[id] = true
			if !h.webhook.UpdatedAt.Equal(q.Webhook.UpdatedAt) { // it may work now: nothing waits for its next attempt
				for _, l := range h.lines {
					l.next = time.Time{}
				}
				heap.Init(&h.idle)
			}
			h.webhook, h.last, after[id] = q.Webhook, q.Last, q.Last
			for j := range q.Waiting {
				h.add(&q.Waiting[j])
			}
			if q.Webhook.Waiting > 0 && len(h.lines) == 0 { // the store lost results, at a failover: read all again
				h.last = ""
			}
			more = more || len(q.Waiting) == readAtOnce
		}
	}
	return nil
}

// add adds a delivery to its line.
func (h *hookQueue) add(d *store.Delivery) {
	subject := store.Subject{Kind: d.Event.Subject.Kind, ID: d.Event.Subject.ID}
	l := h.lines[subject]
	if l != nil {
		l.ids = append(l.ids, d.ID)
		return
	}
	l = &line{subject: subject, ids: []string{d.ID}, tries: d.Attempts, next: d.NextAt}
	h.lines[subject] = l
	heap.Push(&h.idle, l)
}

// start begins the attempts that are due, and returns the time until the next is.
func (s *Sender) start(ctx context.Context, attempts *sync.WaitGroup) time.Duration {
	now, wait := s.Now(), time.Hour
	for _, h := range s.hooks {
		for h.webhook.Enabled && h.running < attemptsPerWebhook && len(h.idle) > 0 {
			if due := h.idle[0].next.Sub(now); due > 0 && due <= maxPause { // later: the clock went back
				wait = min(wait, due)
				break
			}
			l := heap.Pop(&h.idle).(*line)
			h.running++
			webhook, id := h.webhook, l.ids[0]
			attempts.Go(func() {
				r := s.attempt(ctx, h.tenant, &webhook, id)
				r.hook, r.line = h, l
				select {
				case s.results <- r:
				case <-ctx.Done():
				}
			})
		}
	}
	return wait
}

// attempt sends one delivery.
func (s *Sender) attempt(ctx context.Context, tenant string, h *store.Webhook, id string) (r result) {
	r.WebhookID, r.DeliveryID = h.ID, id
	d, err := s.Records.Tenant(tenant).GetDelivery(ctx, h.ID, id)
	if r.At = s.Now(); err != nil || d.State != store.DeliveryWaiting {
		r.gone = err == nil || store.KindOf(err) == store.NotFound
		r.unread, r.NextAt = !r.gone, r.At.Add(pauses[0])
		return r
	}
	r.event = d.Event.Type
	body, err := messageOf(tenant, s.PageHost, h.Format, &d)
	if err == nil {
		var a Answer
		sending, cancel := context.WithTimeout(ctx, answerTimeout)
		a, err = s.post(sending, h.URL, headerOf(h, &d, body, r.At), body)
		cancel()
		r.Status = a.Status
		if r.Delivered = err == nil && a.Status/100 == 2; r.Delivered {
			return r
		}
		n := min(d.Attempts, len(pauses)-1)
		pause := pauses[n] + time.Duration(rand.Int64N(int64(pauses[n]/5)))
		r.NextAt = s.Now().Add(min(max(pause, a.RetryAfter), maxPause))
		if err == nil {
			err = fmt.Errorf("the receiver answered %d%s", a.Status, hostname.Redirects(a.Status, a.Location))
		}
	}
	r.Error = api.CleanText(reason(err), maxWhy)
	return r
}

// reason returns the text of an error for the owner of the webhook, without what is known of this
// machine's network only.
func reason(err error) string {
	var name *net.DNSError
	switch {
	case errors.As(err, &name):
		return "the name " + name.Name + " cannot be resolved"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no response within %s", answerTimeout)
	}
	return err.Error()
}

// headerOf returns the header of a message: its signature has the scheme of identity providers' webhooks.
func headerOf(h *store.Webhook, d *store.Delivery, body []byte, now time.Time) http.Header {
	at := strconv.FormatInt(now.Unix(), 10)
	signature := "t=" + at + ",v1=" + sign(h.Secret, at, body)
	if now.Before(h.OldUntil) {
		signature += ",v1=" + sign(h.OldSecret, at, body)
	}
	return http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"svc"},
		"X-Svc-Signature": {signature}, "X-Svc-Delivery": {d.ID}, "X-Svc-Event": {d.Event.Type},
	}
}

func sign(secret, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// save stores the results, and frees their lines. What cannot be stored is kept for the next time.
func (s *Sender) save(ctx context.Context) {
	byTenant := map[string][]result{}
	for _, r := range s.unsaved {
		byTenant[r.hook.tenant] = append(byTenant[r.hook.tenant], r)
	}
	s.unsaved = nil
	for tenant, list := range byTenant {
		var attempts []store.Attempt
		for i := range list {
			if !list[i].unread && !list[i].gone {
				attempts = append(attempts, list[i].Attempt)
			}
		}
		if len(attempts) > 0 {
			disabled, err := s.Records.Tenant(tenant).RecordAttempts(ctx, attempts)
			if err != nil && store.KindOf(err) != store.NotFound {
				s.cannot(ctx, "the results of messages to webhooks cannot be stored", err)
				s.unsaved = append(s.unsaved, list...)
				continue
			}
			for i := range disabled {
				s.Logger.Warn("a webhook was disabled: all attempts have failed for days", "tenant", tenant, "webhook", disabled[i].ID, "name", disabled[i].Name,
					"for", store.FailingFor, "fix", "look at 'svc webhooks deliveries', then enable it again")
				if h := s.hooks[disabled[i].ID]; h != nil {
					h.webhook.Enabled = false
				}
			}
		}
		for i := range list {
			s.ended(&list[i])
		}
	}
}

// ended counts and logs a stored result, and makes its line wait for the next attempt.
func (s *Sender) ended(r *result) {
	h, l := r.hook, r.line
	h.running--
	switch {
	case r.unread:
		l.next = r.NextAt
	case r.gone || r.Delivered || l.tries+1 >= store.MaxTries:
		l.ids, l.tries, l.next = l.ids[1:], 0, time.Time{}
		if len(l.ids) == 0 {
			delete(h.lines, l.subject)
		}
	default:
		l.tries, l.next = l.tries+1, r.NextAt
	}
	if len(l.ids) > 0 {
		heap.Push(&h.idle, l)
	}
	switch {
	case r.unread || r.gone:
		return
	case r.Delivered:
		s.delivered.Add(1)
		return
	case l.tries == 0:
		s.failed.Add(1)
	default:
		s.retried.Add(1)
	}
	if n, due := h.log.Due(time.Now(), time.Minute); due {
		next := slog.Time("next", r.NextAt)
		if l.tries == 0 {
			next = slog.String("next", "none: it has failed for good")
		}
		s.Logger.LogAttrs(context.Background(), slog.LevelWarn, "a message to a webhook was not delivered", slog.String("tenant", h.tenant), slog.String("webhook", h.webhook.ID),
			slog.String("name", h.webhook.Name), slog.String("delivery", r.DeliveryID), slog.String("event", r.event), slog.String("error", r.Error), next, slog.Uint64("failures", n))
	}
}

// cannot logs that the store failed.
func (s *Sender) cannot(ctx context.Context, what string, err error) {
	if _, due := s.failing.Due(time.Now(), time.Minute); due && ctx.Err() == nil {
		s.Logger.Error(what, "error", err)
	}
}

// lineHeap sorts lines by the time of their next attempt, then by their first delivery.
type lineHeap []*line

func (h lineHeap) Len() int { return len(h) }
func (h lineHeap) Less(i, j int) bool {
	if !h[i].next.Equal(h[j].next) {
		return h[i].next.Before(h[j].next)
	}
	return h[i].ids[0] < h[j].ids[0]
}
func (h lineHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are those of heap.Interface.
func (h *lineHeap) Push(l any) { *h = append(*h, l.(*line)) }

// Pop removes the last.
func (h *lineHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	*h = old[:len(old)-1]
	return l
}
