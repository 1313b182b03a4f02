package flow

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A full memory takes no labels away, and a new caller counts as having every label until there is room, and
// afterwards those that were set while there was none.
func TestFull(t *testing.T) {
	time := newClock()
	var log bytes.Buffer
	m := open(t, Options{Names: two, Now: time.now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range MaxCallers {
		if i == MaxCallers/2 {
			time.advance(30e9)
		}
		set(t, m, Caller{Key: fmt.Sprint("1", i)}, two, "private")
	}
	has(t, m, alice, two, "private", "untrusted")
	has(t, m, Caller{Key: "11"}, two, "private")
	has(t, m, Caller{Address: netip.MustParseAddr("192.0.2.1")}, two) // these have places of their own
	set(t, m, alice, two, "untrusted")
	for range 100 {
		set(t, m, bob, two, "untrusted")
	}
	if s := m.Stats(); s.Callers != MaxCallers || s.Addresses != 0 || s.NoRoom != 101 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "no room"); n != 1 {
		t.Errorf("%d lines about it: %s", n, log.String())
	}
	time.advance(31e9)
	m.tick()
	if s := m.Stats(); s.Callers >= MaxCallers {
		t.Errorf("%+v", s)
	}
	has(t, m, bob, two, "untrusted")
	has(t, m, Caller{Key: "1new"}, two, "untrusted")
	set(t, m, Caller{Key: "1new"}, two, "private")
	has(t, m, Caller{Key: "1new"}, two, "private")
	time.advance(30e9)
	has(t, m, bob, two)
}

// Addresses of one network (/48) become one caller when there are too many; others keep their places.
func TestTheLargestNetworkGivesWay(t *testing.T) {
	time := newClock()
	m := open(t, Options{Names: two, Now: time.now})
	by := func(format string, args ...any) Caller {
		return Caller{Address: netip.MustParseAddr(fmt.Sprintf(format, args...))}
	}
	for i := range MaxAddresses / 2 {
		set(t, m, by("192.0.%d.%d", i/256, i%256), two, "untrusted")
	}
	for i := range MaxAddresses - MaxAddresses/2 {
		set(t, m, by("2001:db8:0:%x::1", i), two, "private")
	}
	set(t, m, by("2001:db8:1::1"), two, "untrusted")
	if s := m.Stats(); s.Addresses != MaxAddresses/2+2 || s.NoRoom != 0 {
		t.Errorf("%+v", s)
	}
	has(t, m, by("2001:db8:1::2"), two, "untrusted")
	has(t, m, by("2001:db8:2::2"), two)
	has(t, m, by("2001:db8:0:1::2"), two, "private")
	has(t, m, by("2001:db8:0:ffff::2"), two, "private")
	has(t, m, by("192.0.1.1"), two, "untrusted")
	set(t, m, by("2001:db8::1"), two, "untrusted")
	has(t, m, by("2001:db8:0:ffff::2"), two, "private", "untrusted")
	time.advance(60e9)
	has(t, m, by("2001:db8:0:ffff::2"), two)
}

// One million callers need a bounded memory.
func TestAMillionCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	names := NewNames(strings.Fields("a b c d e f g h i j k l m n o p")...)
	m := open(t, Options{Names: names, Window: time.Hour})
	for i := range 1_000_000 {
		c := Caller{Key: fmt.Sprintf("112:https://iss/user-%d@example.com", i)}
		if i%2 == 0 {
			c = Caller{Address: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}
		}
		if err := m.Set(t.Context(), c, names.Every(), names); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB for %+v", grown>>20, m.Stats())
	if s := m.Stats(); grown > 100<<20 || s.Callers != MaxCallers || s.Addresses != MaxAddresses {
		t.Errorf("%d bytes for %+v", grown, s)
	}
}

func TestOfAllocatesNothing(t *testing.T) {
	m := open(t, Options{Names: two})
	session := Caller{Key: "a session", Session: true}
	v6 := Caller{Address: netip.MustParseAddr("2001:db8::1")}
	for _, c := range []Caller{alice, session, v6} {
		set(t, m, c, two, "private")
	}
	for _, c := range []Caller{alice, bob, session, v6, {Address: netip.MustParseAddr("2001:db9::1")}} {
		most := 0.0
		if c.Session { // the digest
			most = 1
		}
		if n := testing.AllocsPerRun(100, func() { _ = m.Of(t.Context(), c, two) }); n > most {
			t.Errorf("%v: Of makes %v allocations", c, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = m.Set(t.Context(), alice, 1, two) }); n != 0 {
		t.Errorf("a renewal makes %v allocations", n)
	}
}

func BenchmarkOf(b *testing.B) {
	m, err := Open(Options{Names: two, Window: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for i := range MaxCallers {
		_ = m.Set(b.Context(), Caller{Key: fmt.Sprint("1", i)}, 1, two)
	}
	c := Caller{Key: "112345"}
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Of(b.Context(), c, two)
	}
}

func BenchmarkRenew(b *testing.B) {
	m, err := Open(Options{Names: two, Window: time.Minute, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Set(b.Context(), alice, 1, two)
	}
}

func BenchmarkNewLabel(b *testing.B) {
	m, err := Open(Options{Names: two, Window: time.Minute, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for i := 0; b.Loop(); i++ {
		_ = m.Set(b.Context(), Caller{Key: fmt.Sprint("1", i)}, 1, two)
	}
}
