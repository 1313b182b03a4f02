package deploy

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// step is the time between two scrapes.
const step = 15 * time.Second

// history is what Prometheus has scraped: series by their labels. Times are since 0.
type history struct {
	series map[string]*series
	now    time.Duration
}

type series struct {
	labels labels.Labels
	points []chunks.Sample
}

type point struct {
	t int64
	f float64
}

func (p point) T() int64 { return p.t }

func (p point) ST() int64 { return 0 }

func (p point) F() float64 { return p.f }

func (p point) H() *histogram.Histogram { return nil }

func (p point) FH() *histogram.FloatHistogram { return nil }

func (p point) Type() chunkenc.ValueType { return chunkenc.ValFloat }

func (p point) Copy() chunks.Sample { return p }

var line = regexp.MustCompile(`(?m)^([a-z_]+)(\{[^}]*\})? (\S+)$`)

// scrape records that a target returned text for a time; text is empty if it did not respond.
func (h *history) scrape(t *testing.T, job, text string, lasting time.Duration) {
	t.Helper()
	if h.series == nil {
		h.series = map[string]*series{}
	}
	up := "0"
	if text != "" {
		up = "1"
	}
	samples := line.FindAllStringSubmatch(text+"\nup "+up+"\n", -1)
	for end := h.now + lasting; h.now < end; h.now += step {
		for _, s := range samples {
			value, err := strconv.ParseFloat(s[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			metric, err := parser.NewParser(parser.Options{}).ParseMetric(s[1] + s[2])
			if err != nil {
				t.Fatal(err)
			}
			all := labels.NewBuilder(metric).Set("job", job).Set("instance", "one").Labels()
			key := all.String()
			if h.series[key] == nil {
				h.series[key] = &series{labels: all}
			}
			h.series[key].points = append(h.series[key].points, point{h.now.Milliseconds(), value})
		}
	}
}

// Querier implements storage.Queryable.
func (h *history) Querier(int64, int64) (storage.Querier, error) { return h, nil }

// Select implements storage.Querier.
func (h *history) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, s := range h.series {
		matches := true
		for _, m := range matchers {
			matches = matches && m.Matches(s.labels.Get(m.Name))
		}
		if matches {
			found = append(found, storage.NewListSeries(s.labels, s.points))
		}
	}
	return &seriesSet{left: found}
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	at   storage.Series
	left []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.at }

func (s *seriesSet) Err() error { return nil }

func (s *seriesSet) Warnings() annotations.Annotations { return nil }

func (h *history) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (h *history) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (h *history) Close() error { return nil }

// fires reports whether an alert fires at the end of the history: its expression has had a result
// for all of its time.
func (h *history) fires(t *testing.T, r rule) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	wait := time.Duration(0)
	if r.For != "" {
		days, isDays := strings.CutSuffix(r.For, "d")
		var err error
		if isDays {
			var n int
			n, err = strconv.Atoi(days)
			wait = time.Duration(n) * 24 * time.Hour
		} else {
			wait, err = time.ParseDuration(r.For)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	last := h.now - step
	for at := max(last-wait, 0); at <= last; at += step {
		query, err := engine.NewInstantQuery(t.Context(), h, nil, r.Expr, time.UnixMilli(at.Milliseconds()))
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		if len(vector) == 0 {
			return false
		}
	}
	return true
}

// lasting returns a history without a scrape.
func (h *history) lasting(d time.Duration) *history {
	h.now = d
	return h
}

// as returns the history as that of another job.
func (h *history) as(job string) *history {
	other := &history{series: map[string]*series{}, now: h.now}
	for key, s := range h.series {
		other.series[key] = &series{labels: labels.NewBuilder(s.labels).Set("job", job).Labels(), points: s.points}
	}
	return other
}
