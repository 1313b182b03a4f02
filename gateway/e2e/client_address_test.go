package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrustedProxyStatesTheClientAddress(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n")
	first := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.1")
	second := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.2")
	third := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.1")
	if first.status != 200 || second.status != 200 || third.status != 429 {
		t.Errorf("got %d %d %d, want 200 200 429: buckets are keyed by the stated address", first.status, second.status, third.status)
	}
	if line := r.lines(3)[0]; line["client_ip"] != "203.0.113.1" {
		t.Errorf("client_ip %v", line["client_ip"])
	}
}

// Behind a proxy that maintains X-Forwarded-For and forwards Forwarded unchanged, a client could
// choose its own address; the selected header prevents it.
func TestAClientCannotChooseItsAddressInTheOtherHeader(t *testing.T) {
	up := newUpstream(t, echo)
	settings := "trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 3}\n"
	calls := func(r *rig) (statuses []int) {
		for i := range 6 {
			got := r.post(call("1", "safe"), "X-Forwarded-For", "198.51.100.7", "Forwarded", fmt.Sprintf("for=203.0.113.%d", i+1))
			statuses = append(statuses, got.status)
		}
		return statuses
	}
	selected := newRig(t, basic(up.URL)+settings+"client_address_header: x-forwarded-for\n")
	if diff := cmp.Diff([]int{200, 200, 200, 429, 429, 429}, calls(selected)); diff != "" {
		t.Error(diff)
	}
	if line := selected.lines(6)[0]; line["client_ip"] != "198.51.100.7" {
		t.Errorf("client_ip %v", line["client_ip"])
	}
	if strings.Contains(selected.logs.String(), "X-Forwarded-For") {
		t.Errorf("a warning about a header that is ignored: %s", selected.logs)
	}
	both := newRig(t, basic(up.URL)+settings)
	if diff := cmp.Diff([]int{200, 200, 200, 200, 200, 200}, calls(both)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(both.logs.String(), "set client_address_header"); n != 1 {
		t.Errorf("%d warnings, want 1: %s", n, both.logs)
	}
}
