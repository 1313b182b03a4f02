package display

import "svc/store/api"

// BudgetState returns the state of a budget of which a share is spent.
func BudgetState(percent float64) Word {
	switch {
	case percent >= 100:
		return Word{"✕ over", Bad}
	case percent >= 80:
		return Word{"▲ nearly", Warn}
	}
	return Word{"● within", Good}
}

// SLAState returns the state of an SLA target.
func SLAState(status string) Word {
	switch status {
	case "healthy":
		return Word{"● healthy", Good}
	case "at_risk":
		return Word{"▲ at risk", Warn}
	case "breached":
		return Word{"✕ breached", Bad}
	case "no_data":
		return Word{"○ no data", Dim}
	}
	return Word{status, Plain}
}

// Measured returns the level of a value by the rule of the control plane: within a tenth of the target it is at risk.
func Measured(current, target float64) Level {
	switch {
	case current > target:
		return Bad
	case current > 0.9*target:
		return Warn
	}
	return Good
}

// Against returns a measured value and its target, which may be nil, in an SLA target with a status.
func Against(status string, current float64, target *float64, show func(float64) string) Word {
	switch {
	case status == "no_data":
		return Word{"- / " + maybe(target, show), Dim}
	case target == nil:
		return Word{show(current) + " / -", Dim}
	}
	return Word{show(current) + " / " + show(*target), Measured(current, *target)}
}

// maybe returns a value in words, "-" for none.
func maybe(v *float64, show func(float64) string) string {
	if v == nil {
		return "-"
	}
	return show(*v)
}

// Missed says by how much a target was missed.
func Missed(v api.SLAViolation) string {
	if v.ViolationType == "error_rate" {
		return "errors " + Percent(v.ActualErrorRate) + ", target " + maybe(v.TargetErrorRate, Percent)
	}
	return "p99 " + Millis(v.ActualP99Ms) + ", target " + maybe(v.TargetP99Ms, Millis)
}
