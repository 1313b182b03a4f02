package refusal

import (
	"sync"

	"svc/gateway/audit"
)

// reasons maps each error_kind to the data.reason of its responses. The table is complete
// only after the package's variables are initialized.
var reasons = sync.OnceValue(func() map[string]string {
	table := map[string]string{}
	for _, r := range All() {
		if _, ok := table[r.Kind]; !ok && r.Kind != "" {
			table[r.Kind] = r.Reason
		}
	}
	return table
})

// ReasonOf returns the data.reason that the client of a request got: empty if the response
// came from the upstream. Audit lines do not contain it, because it follows from the
// action and the error_kind.
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
