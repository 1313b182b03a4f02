package flow_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/policy/flow"
)

const issuer = "https://iss.example/"

func caller(kind auth.Kind, issuer, value string) flow.Caller {
	p := auth.Principal{Kind: kind, Issuer: issuer, Value: value}
	return flow.Caller{Key: string(p.AppendKey(nil))}
}

// words has each principal with its labels.
func words(list []flow.Held) string {
	var out []string
	for _, h := range list {
		var names []string
		for _, l := range h.Labels {
			names = append(names, l.Name)
		}
		out = append(out, h.Principal+" "+strings.Join(names, "+"))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestShowAndClear(t *testing.T) {
	dir, names := t.TempDir(), flow.NewNames("a", "b")
	var mu sync.Mutex
	var audited []flow.Held
	open := func() *flow.Memory {
		m, err := flow.Open(flow.Options{StateDir: dir, Names: names, Window: time.Hour, OnClear: func(h flow.Held) {
			mu.Lock()
			defer mu.Unlock()
			audited = append(audited, h)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	key, user, other := caller(auth.KindKey, "", "alice"), caller(auth.KindOAuth, issuer, "alice"), caller(auth.KindOAuth, "https://other/", "a:b")
	v6, v4 := flow.Caller{Address: netip.MustParseAddr("2001:db8::1")}, flow.Caller{Address: netip.MustParseAddr("192.0.2.1")}
	session := flow.Caller{Key: "id", Session: true}
	long := caller(auth.KindKey, "", strings.Repeat("x", 9000))
	for _, c := range []flow.Caller{key, user, other, v6, v4, session, long} {
		if err := m.Set(t.Context(), c, names.Of("a"), names); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Set(t.Context(), key, names.Of("b"), names); err != nil {
		t.Fatal(err)
	}
	for principal, want := range map[string]string{
		"key:alice": "key:alice a+b", "oauth:alice": "oauth:alice a", "alice": "key:alice a+b, oauth:alice a", "oauth:a:b": "oauth:a:b a", "a:b": "oauth:a:b a",
		"2001:db8::ffff": "ip:2001:db8::/64 a", "ip:2001:db8::ffff": "ip:2001:db8::/64 a", "2001:db8::/64": "ip:2001:db8::/64 a", "ip:192.0.2.1": "ip:192.0.2.1 a", "192.0.2.1": "ip:192.0.2.1 a",
		"ip:alice": "", "bob": "", "key:a:b": "",
	} {
		got, err := flow.Show(dir, principal, time.Hour, time.Now())
		if err != nil || words(got) != want {
			t.Errorf("%s: %q, %v, not %q", principal, words(got), err, want)
		}
	}
	if got, err := flow.Show(dir, "session:id", time.Hour, time.Now()); err != nil || len(got) != 1 {
		t.Errorf("the session: %v, %v", got, err)
	}
	if got, err := flow.Show(dir, "key:"+strings.Repeat("x", 9000), time.Hour, time.Now()); err != nil || len(got) != 1 {
		t.Errorf("the long key: %v, %v", got, err)
	}
	if got, err := flow.Show(dir, "", time.Hour, time.Now()); err != nil || len(got) != 7 {
		t.Errorf("all: %s, %v", words(got), err)
	}
	if got, err := flow.Show(dir, "", time.Hour, time.Now().Add(time.Hour+time.Minute)); err != nil || len(got) != 0 {
		t.Errorf("ended: %s, %v", words(got), err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := flow.Clear(ctx, dir, "alice", issuer, "b")
	if err != nil || words(got) != "key:alice b" {
		t.Errorf("one label cleared: %s, %v", words(got), err)
	}
	if got, err := flow.Show(dir, "alice", time.Hour, time.Now()); err != nil || words(got) != "key:alice a, oauth:alice a" {
		t.Errorf("after one label was cleared: %s, %v", words(got), err)
	}
	if l := m.Of(t.Context(), key, names); l != names.Of("a") {
		t.Errorf("after one label was cleared: %v", names.In(l))
	}
	if err := m.Set(t.Context(), key, names.Of("b"), names); err != nil {
		t.Fatal(err)
	}
	got, err = flow.Clear(ctx, dir, "alice", issuer)
	if err != nil || words(got) != "key:alice a+b, oauth:alice a" {
		t.Errorf("cleared: %s, %v", words(got), err)
	}
	for _, c := range []flow.Caller{key, user} {
		if l := m.Of(t.Context(), c, names); l != 0 {
			t.Errorf("%v has %v", c, names.In(l))
		}
	}
	if m.Of(t.Context(), other, names) == 0 {
		t.Error("another caller has no label any more")
	}
	if err := m.Set(t.Context(), user, names.Of("b"), names); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if words(audited) != "key:alice a+b, key:alice b, oauth:alice a" {
		t.Errorf("audited: %s", words(audited))
	}
	mu.Unlock()

	// Without a gateway the request waits for one.
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := flow.Clear(brief, dir, "192.0.2.1", ""); !errors.Is(err, flow.ErrNotTaken) {
		t.Errorf("nobody has taken it: %v", err)
	}
	if got, err := flow.Show(dir, "192.0.2.1", time.Hour, time.Now()); err != nil || words(got) != "ip:192.0.2.1 a" {
		t.Errorf("before it is taken: %s, %v", words(got), err)
	}
	m = open()
	defer m.Close()
	if got, err := flow.Show(dir, "192.0.2.1", time.Hour, time.Now()); err != nil || len(got) != 0 {
		t.Errorf("after it was taken: %s, %v", words(got), err)
	}
	if l := m.Of(t.Context(), v4, names); l != 0 {
		t.Errorf("%v after the start", names.In(l))
	}
	if l := m.Of(t.Context(), user, names); l != names.Of("b") {
		t.Errorf("the user has %v after the start", names.In(l))
	}
	mu.Lock()
	defer mu.Unlock()
	if got := words(audited); got != "ip:192.0.2.1 a, key:alice a+b, key:alice b, oauth:alice a" {
		t.Errorf("audited: %s", got)
	}
}
