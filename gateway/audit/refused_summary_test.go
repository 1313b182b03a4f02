package audit

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func refusedSample() *Refused {
	return &Refused{Counts: []KindCount{{"unauthorized", 40}, {"input_rate_limited", 2}},
		Addresses: []AddressCount{{"192.0.2.1", 2}, {"2001:db8::/64", 40}}}
}

// The line of a summary has counts by error_kind, in the order of their names, and the busiest
// addresses first.
func TestLineOfASummary(t *testing.T) {
	r := &Record{Kind: KindSummary, Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Duration: time.Second, Refused: refusedSample()}
	line := lineOf(r)
	const want = `{"seq":1,"ts":"2026-11-20T12:00:00.000000Z","kind":"summary","duration_ms":1000.000,` +
		`"counts":{"input_rate_limited":2,"unauthorized":40},"addresses":[{"address":"2001:db8::/64","requests":40},{"address":"192.0.2.1","requests":2}]}`
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Error(diff)
	}
	var got Record
	if err := Decode(line, &got); err != nil {
		t.Fatal(err)
	}
	r.Seq = 1
	if diff := cmp.Diff(r, &got); diff != "" || got.Refused.Requests() != 42 {
		t.Error(diff)
	}
	for range 100 {
		r.Refused.Counts = append(r.Refused.Counts, KindCount{strings.Repeat("\x00", 300), 1 << 63})
		r.Refused.Addresses = append(r.Refused.Addresses, AddressCount{strings.Repeat("\x00", 300), 1 << 63})
	}
	if line = lineOf(r); len(line) > MaxLine || Decode(line, &got) != nil || len(got.Refused.Addresses) != MaxAddresses {
		t.Errorf("a line of %d bytes", len(line))
	}
	for _, line := range []string{
		`{"seq":1,"kind":"summary","counts":{"a":-1}}`, `{"seq":1,"kind":"summary","counts":[]}`, `{"seq":1,"kind":"summary","counts":{"a":"1"}}`,
		`{"seq":1,"kind":"summary","addresses":{}}`, `{"seq":1,"kind":"summary","addresses":[1]}`,
	} {
		if Decode([]byte(line), &got) == nil {
			t.Errorf("%s was read", line)
		}
	}
	if err := Decode([]byte(`{"seq":1,"kind":"request","counts":{"a":1}}`), &got); err != nil || got.Refused != nil {
		t.Errorf("%v, counts on the line of a request: %v", err, got.Refused)
	}
	if err := Decode([]byte(`{"seq":1,"kind":"summary"}`), &got); err != nil || got.Refused == nil {
		t.Errorf("%v, a summary without counts: %v", err, got.Refused)
	}
}

// A summary is a line of the chain. One that fails is not in the file and not counted as lost,
// whatever on_write_error is set to.
func TestASummaryThatFailsIsNoLostLine(t *testing.T) {
	for _, onError := range []string{onErrorRefuse, onErrorCount} {
		d := &disk{}
		c := testConfig(t)
		c.OnWriteError = onError
		l := mustOpen(t, c, Options{OpenFile: d.open})
		d.limited.Store(true)
		if err := l.WriteRefused(time.Now(), 0, refusedSample()); err == nil {
			t.Errorf("%s: a full disk took the summary", onError)
		}
		d.limited.Store(false)
		if err := l.WriteRefused(time.Now(), 0, refusedSample()); err != nil {
			t.Errorf("%s: %v", onError, err)
		}
		if n := l.Lost(); n != 0 {
			t.Errorf("%s: %d lines are lost", onError, n)
		}
		l.CountLost(7)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), `"kind":"summary"`); n != 1 {
			t.Errorf("%s: %d summaries", onError, n)
		}
		if !strings.Contains(string(text), `"lost":7`) {
			t.Errorf("%s: no checkpoint has the lost requests:\n%s", onError, text)
		}
		files, err := InOrder([]string{c.Path})
		if err != nil {
			t.Fatal(err)
		}
		v, err := Verify(context.Background(), files, VerifyOptions{})
		if err != nil || !v.OK() || v.Lost != 7 {
			t.Errorf("%s: %v, %v, %d lost", onError, err, v.Problems, v.Lost)
		}
		if err := l.WriteRefused(time.Now(), 0, refusedSample()); !errors.Is(err, errClosed) {
			t.Errorf("%s: after the end: %v", onError, err)
		}
	}
}

// On a frozen disk a summary waits until its outcome is certain; behind a pending line it is
// returned at once.
func TestASummaryOnAFrozenDiskIsWrittenOnceOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openFrozen(t, onErrorRefuse)
		d.freeze()
		first := make(chan error, 1)
		go func() { first <- l.WriteRefused(time.Now(), 0, refusedSample()) }()
		<-time.After(10 * l.queue.writeTimeout())
		synctest.Wait()
		select {
		case err := <-first:
			t.Errorf("it returned while it was being written: %v", err)
		default:
		}
		if err := l.WriteRefused(time.Now(), 0, refusedSample()); err == nil {
			t.Error("another one was written on a frozen disk")
		}
		d.thaw()
		if err := <-first; err != nil {
			t.Errorf("the disk took it: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(l.writer.cfg.Path)
		if n := strings.Count(string(text), `"kind":"summary"`); err != nil || n != 1 || strings.Contains(string(text), `"late"`) {
			t.Errorf("%v, %d summaries:\n%s", err, n, text)
		}
	})
}
