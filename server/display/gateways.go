package display

import (
	"fmt"
	"slices"
	"strings"

	"svc/store/api"
)

// GatewayState returns the state of a gateway or of an instance.
func GatewayState(state string) Word {
	switch state {
	case api.GatewayRunning:
		return Word{"● running", Good}
	case api.GatewaySilent:
		return Word{"✕ silent", Bad}
	case api.GatewayStopped:
		return Word{"○ stopped", Dim}
	}
	return Word{state, Plain}
}

// GatewayPolicies says how many policies an instance enforces, or why it does not enforce the newest ones.
func GatewayPolicies(i api.GatewayInstance) Word {
	switch {
	case !i.Governance.Enabled:
		return Word{"off", Warn}
	case i.Behind:
		return Word{"behind", Bad}
	case i.Outdated: // they changed less than a minute ago
		return Word{"not yet", Dim}
	}
	return Word{Count(i.Governance.Policies), Plain}
}

// UpstreamState returns the state of an upstream.
func UpstreamState(state string) Word {
	switch state {
	case "ok":
		return Word{state, Good}
	case "failing", "open":
		return Word{state, Bad}
	}
	return Word{state, Dim}
}

// FailingFirst returns upstreams, those first that fail.
func FailingFirst(upstreams []api.GatewayUpstream) []api.GatewayUpstream {
	rank := map[string]int{"open": -2, "failing": -1}
	return slices.SortedStableFunc(slices.Values(upstreams), func(a, b api.GatewayUpstream) int { return rank[a.State] - rank[b.State] })
}

// GatewayUpstreams counts the upstreams of an instance, those first that fail.
func GatewayUpstreams(i api.GatewayInstance) Word {
	counts := map[string]int{}
	for _, u := range i.Upstreams {
		counts[u.State]++
	}
	var parts []string
	for _, state := range [...]string{"open", "failing", "ok", "unknown"} {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	if i.LeftOut > 0 {
		parts = append(parts, fmt.Sprintf("%d more", i.LeftOut))
	}
	if counts["open"]+counts["failing"] > 0 {
		return Word{strings.Join(parts, ", "), Bad}
	}
	return Word{OrDash(strings.Join(parts, ", ")), Plain}
}

// GatewayAudit says whether an instance writes audit lines.
func GatewayAudit(i api.GatewayInstance) Word {
	switch {
	case !i.Audit.Writable:
		return Word{"not writable", Bad}
	case i.Audit.Lost > 0:
		return Word{"lost lines", Bad}
	}
	return Word{"ok", Plain}
}

// GatewayLicense says how long a license is valid: warn about one that has to be renewed within a month.
func GatewayLicense(i api.GatewayInstance) Word {
	days := fmt.Sprintf("%d d", i.License.DaysLeft)
	switch {
	case i.License.State == "":
		return Word{"-", Dim}
	case i.License.DaysLeft < licenseDays:
		return Word{days, Bad}
	case i.License.DaysLeft < 30:
		return Word{days, Warn}
	}
	return Word{days, Plain}
}

// ConfigDigests returns the digests of the configurations of those instances that have not stopped: more than one
// means that processes of one gateway were started with different files.
func ConfigDigests(g api.Gateway) (digests []string) {
	for i := range g.Instances {
		in := &g.Instances[i]
		if in.State != api.GatewayStopped && in.ConfigDigest != "" && !slices.Contains(digests, in.ConfigDigest) {
			digests = append(digests, in.ConfigDigest)
		}
	}
	return digests
}
