package display

import "svc/store/api"

// Stage is a part of the time of a trace: it begins From ms after the trace began.
type Stage struct {
	Name     string
	From, Ms float64
	Long     bool // at least half of the whole
	Rest     bool // the time that no span has
}

// Waterfall returns the spans of a trace one after the other, because they have a duration and an order, but no start,
// and the time of the whole.
func Waterfall(t *api.Trace) (stages []Stage, total float64) {
	sum := 0.0
	for _, s := range t.Spans {
		sum += s.DurationMs
	}
	total = max(t.DurationMs, sum)
	from := 0.0
	for _, s := range t.Spans {
		stages = append(stages, Stage{Name: s.Stage, From: from, Ms: s.DurationMs, Long: total > 0 && s.DurationMs/total >= 0.5})
		from += s.DurationMs
	}
	if rest := total - sum; len(stages) > 0 && total > 0 && rest/total >= 0.01 {
		stages = append(stages, Stage{Name: "(rest)", From: from, Ms: rest, Rest: true})
	}
	return stages, total
}

// Share returns the part of a whole in percent.
func Share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
