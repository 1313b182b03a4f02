package lint

import (
	"svc/gateway/policy"
	"svc/gateway/ratelimit"
)

// inMemoryLimits notes that each replica has its own buckets, and warns if the file shows that
// there are replicas.
func inMemoryLimits(p *pass) {
	if p.file.RateLimitStore.Type != ratelimit.TypeInMemory {
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
