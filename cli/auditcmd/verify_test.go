package auditcmd

import (
	"strings"
	"testing"

	"svc/gateway/audit"
)

// TestNoLineIsProvenAndUnproven: lines that a known line proves, and no signature, are printed as
// unsigned, and not as proven and unproven both.
func TestNoLineIsProvenAndUnproven(t *testing.T) {
	v := &audit.Verification{Proven: audit.Range{First: 1, Last: 10}, KnownProven: audit.Range{First: 1, Last: 20}}
	v.Unproven = append(v.Unproven, audit.Unproven{Range: audit.Range{First: 11, Last: 20}, Why: "they follow the last signed checkpoint"},
		audit.Unproven{Range: audit.Range{First: 21, Last: 25}, Why: "they follow the last signed checkpoint"})
	text := verificationText(v, "", true)
	for _, want := range []string{"\nunsigned     lines 11 to 20: ", "\nunproven     lines 21 to 25: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\nunproven     lines 11") {
		t.Errorf("lines that are proven are printed as unproven:\n%s", text)
	}
}
