//go:build linux

package main

import (
	"net/http"
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

// A seed always selects the same faults; each kind occurs, and the failover of
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

// While a shard is away its tenants get 503 in time, and then at once; others are served.
func TestJudge(t *testing.T) {
	epoch := time.Unix(1_700_000_000, 0)
	at := func(sent, done float64, status int) question {
		header := http.Header{}
		if status == 503 {
			header.Set("Retry-After", "5")
		}
		seconds := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
		return question{span{seconds(sent), seconds(done)}, answer{status: status, header: header, body: []byte(`{"error":"x"}`)}}
	}
	bare := at(1, 1, 503)
	bare.header = http.Header{}
	for name, tt := range map[string]struct {
		list []question
		away bool
		want int // what is wrong
	}{
		"noticed":                   {[]question{at(0, 8, 503), at(8, 8, 503), at(9.9, 10.5, 200)}, true, 0},
		"not noticed":               {[]question{at(0, 10.5, 200)}, true, 1},
		"noticed late":              {[]question{at(0, 10.5, 503)}, true, 1},
		"late when it is known":     {[]question{at(0, 1, 503), at(1, 5, 503)}, true, 1},
		"answered while it is away": {[]question{at(1, 2, 200), at(3, 4, 503)}, true, 1},
		"without Retry-After":       {[]question{bare, at(2, 3, 503)}, true, 1},
		"another shard":             {[]question{at(0, 1, 200), at(1, 2, 200)}, false, 0},
		"another shard, refused":    {[]question{at(0, 1, 200), at(1, 2, 503)}, false, 1},
		"another shard, late":       {[]question{at(0, 4, 200)}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(tt.list, tt.away, epoch, epoch.Add(10*time.Second)); len(got) != tt.want {
				t.Errorf("%q, want %d", got, tt.want)
			}
		})
	}
}

func TestSumOf(t *testing.T) {
	text := "# HELP a x\n# TYPE a counter\na{n=\"1\"} 2\na{n=\"2\"} 3\nab 9\n"
	if sum, found := sumOf([]byte(text), "a"); sum != 5 || !found {
		t.Errorf("%d, %v", sum, found)
	}
	if _, found := sumOf([]byte(text), "b"); found {
		t.Error("a metric that is not there was found")
	}
}
