package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"svc/gateway/policy"
	"svc/gateway/redis"
)

// burstBelowRate warns of buckets that hold less than one second of the rate: simultaneous calls
// are refused although the rate would allow them.
func burstBelowRate(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.RateLimit.String() || r.TokensPerSecond == nil {
			continue
		}
		burst, field := 1, "tokens_per_second"
		if r.Burst != nil {
			burst, field = *r.Burst, "burst"
		}
		if rate := *r.TokensPerSecond; float64(burst) < rate && !math.IsInf(rate, 0) {
			p.warn(p.ruleAt(r.index).Field(field), smallestBurst(rate),
				"rule %s lets %s through at once and refuses more, though it allows %s in a second", r.quoted(), calls(float64(burst)), calls(rate))
		}
	}
	if l := p.file.InputRateLimit; l.Enabled && l.Burst > 0 && float64(l.Burst) < l.RequestsPerSecond {
		p.warn(p.root().Field("input_rate_limit").Field("burst"), smallestBurst(l.RequestsPerSecond),
			"an address gets %s through at once and no more, though the limit allows %s in a second", calls(float64(l.Burst)), calls(l.RequestsPerSecond))
	}
}

func smallestBurst(rate float64) string {
	return fmt.Sprintf("set burst to %d or more", int64(math.Ceil(math.Min(rate, math.MaxInt32))))
}

// calls formats a number of calls.
func calls(n float64) string {
	return strconv.FormatFloat(n, 'f', -1, 64) + plural(int(math.Ceil(n)), " call", " calls")
}

// inMemoryLimits notes that each replica has its own buckets, and warns if the file shows that
// there are replicas.
func inMemoryLimits(p *pass) {
	if p.file.RateLimitStore.Type != redis.TypeInMemory {
		return
	}
	limits := p.file.InputRateLimit.Enabled
	at := p.root().Field("input_rate_limit")
	for i := range p.rules {
		if r := &p.rules[i]; r.Action == policy.RateLimit.String() && !limits {
			limits, at = true, p.ruleAt(r.index).Field("id")
		}
	}
	const hint = "set rate_limit_store.type to redis to share the buckets"
	switch {
	case !limits:
	case p.file.Sessions.KeyFile != "":
		p.warn(at, hint, "sessions.key_file is for replicas, and each of them has rate limits of its own: N replicas allow N times as much")
	case !p.doc.Given("rate_limit_store.type"):
		p.info(at, hint+", or write in_memory there if there is only one gateway", "with N replicas the limit is N times as high, because each gateway counts by itself")
	}
}

// sessionKeyNotShared warns of replicas with session keys of their own: each refuses or ignores what
// the others have sealed or signed with theirs.
func sessionKeyNotShared(p *pass) {
	if effects := p.file.SessionKeyUnshared(); len(effects) > 0 {
		p.warn(p.root().Field("rate_limit_store").Field("type"), "set sessions.key_file to a file that all replicas have, or silence this if there is only one gateway",
			"replicas share rate_limit_store but not the session key: %s", strings.Join(effects, "; "))
	}
}
