package lint

import (
	"fmt"
	"math"
	"strconv"

	"svc/gateway/policy"
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
