package request

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"svc/gateway/audit"
)

// TestUnwrittenLinesShareALogLine: while the audit disk is full, a flood of requests does not
// write one ERROR line for each.
func TestUnwrittenLinesShareALogLine(t *testing.T) {
	var out bytes.Buffer
	s := Services{Log: slog.New(slog.NewTextHandler(&out, nil))}
	for range 1000 {
		s.logUnwritten(&audit.Record{RequestID: "r1"}, errors.New("no space left on device"))
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no space left") || !strings.Contains(text, "lines=1") {
		t.Errorf("the log has:\n%s", text)
	}
}
