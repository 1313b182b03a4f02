//go:build linux

package main

import (
	"testing"
	"time"
)

func TestMostWithin(t *testing.T) {
	at := func(sent, done int) span {
		epoch := time.Unix(1_700_000_000, 0)
		return span{epoch.Add(time.Duration(sent) * time.Second), epoch.Add(time.Duration(done) * time.Second)}
	}
	for name, tt := range map[string]struct {
		list []span
		want int
	}{
		"nothing":                  {nil, 0},
		"all within":               {[]span{at(0, 1), at(1, 2), at(2, 3)}, 3},
		"answered after the end":   {[]span{at(0, 1), at(5, 12)}, 1},
		"the fullest counts":       {[]span{at(0, 1), at(20, 21), at(22, 23), at(25, 26), at(40, 41)}, 3},
		"sent before the interval": {[]span{at(-5, 1), at(2, 3)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mostWithin(tt.list, 10*time.Second, time.Time{}); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

// A seed chooses the same faults again; each kind has its turn, and the failover of
// PostgreSQL is always first.
func TestSome(t *testing.T) {
	all := []fault{{name: "kill a"}, {name: "kill primary"}, {name: "kill b"}, {name: "freeze a"}, {name: "freeze b"}, {name: "cut a from b"}}
	for seed := range uint64(20) {
		one, two := some(all, seed), some(all, seed)
		if len(one) != len(all) || one[0].name != "kill primary" {
			t.Fatalf("seed %d: %v", seed, one)
		}
		for i := range one {
			if one[i].name != two[i].name {
				t.Errorf("seed %d: %s and %s", seed, one[i].name, two[i].name)
			}
		}
	}
}
