package display

import (
	"cmp"
	"math"

	"svc/store/api"
)

// Group returns the name of a group of statistics or costs, as it was reported; empty when it has none.
func Group(k api.GroupKey) string {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	switch {
	case k.AgentName != nil || k.AgentID != nil:
		return cmp.Or(text(k.AgentName), text(k.AgentID))
	case k.ModelName != nil || k.ModelProvider != nil:
		return Model(text(k.ModelProvider), text(k.ModelName))
	}
	return text(k.Environment) + text(k.ToolName) + text(k.RuleID) + text(k.ClientName) // at most one is set
}

// Model returns the name of a model with its provider, as far as they are known.
func Model(provider, name string) string {
	if provider == "" || name == "" {
		return provider + name
	}
	return provider + "/" + name
}

// ErrorRate returns an error rate in percent.
func ErrorRate(percent float64) Word {
	w := Word{Percent(percent), Plain}
	switch {
	case percent >= 5:
		w.Level = Bad
	case percent >= 1:
		w.Level = Warn
	}
	return w
}

// Top returns the highest of some values, which a chart is scaled to: 0 without one. NaN is no value.
func Top(values ...float64) (top float64) {
	for _, v := range values {
		if v > top {
			top = v
		}
	}
	return top
}

// Axis returns the end of an axis for values up to top: a round number whose half is one too.
func Axis(top float64) float64 {
	if !(top > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(top)))
	for _, n := range []float64{1, 2, 4, 6, 8, 10} {
		if end := n * unit; end >= top && !math.IsInf(end, 0) {
			return end
		}
	}
	return top // beyond the powers of ten
}
