package refusal

import (
	"sync"

	"svc/gateway/audit"
)

// reasons returns data.reason of the answers with each error_kind. The table is complete
// only after the variables of the package are initialized.
var reasons = sync.OnceValue(func() map[string]string {
	table := map[string]string{}
	for _, r := range All() {
		if _, ok := table[r.Kind]; !ok && r.Kind != "" {
			table[r.Kind] = r.Reason
		}
	}
	return table
})

// ReasonOf returns what the client of a request was told, as data.reason: empty where the
// gateway did not answer in the place of the upstream. Audit lines do not have it, because
// it follows from the action and the error_kind.
func ReasonOf(action, kind string) string {
	switch {
	case kind != "":
		return reasons()[kind]
	case action == audit.ActionDeny:
		return Policy.Reason
	case action == audit.ActionRateLimitBlocked:
		return Rate.Reason
	}
	return ""
}
