package main

import (
	"bytes"
	"regexp"
	"testing"

	"svc/gateway/detect/measure"
)

// TestScoresCountsToolArgumentsApart holds that false positives are counted over all
// honest texts and over those that tool arguments are made of.
func TestScoresCountsToolArgumentsApart(t *testing.T) {
	text := func(kind string, label int, score float64) measure.Scored {
		return measure.Scored{Injection: measure.Injection{Kind: kind, Label: label}, Score: score}
	}
	var b bytes.Buffer
	scores(&b, []measure.Scored{
		text("web", 1, 0.9), text("mail", 1, 0.1), text("web", 0, 0.7), text("doc", 0, 0), text("code", 0, 0.6), text("sql", 0, 0), text("tool_argument", 0, 0),
	}, 0.5, false)
	if !regexp.MustCompile(`(?m)^0\.50 +1/2 .* 2/5 .* 1/3 `).Match(b.Bytes()) {
		t.Errorf("%s", b.String())
	}
}
