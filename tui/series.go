package tui

import (
	"math"
	"time"

	"svc/server/display"
)

const (
	// bucketTime is the time of one bar of a chart.
	bucketTime = 5 * time.Second
	// bucketCount is the number of bars that are kept: half an hour.
	bucketCount = 360
	// latencyBins is the resolution of latencies: four bins per power of two,
	// up to a day.
	latencyBins = 4*27 + 2
)

// bucket has the totals of the traces that began within bucketTime.
type bucket struct {
	number int64 // number of the bucket since 1970
	traces int
	errors int
	cost   float64
	bins   [latencyBins]uint32
}

// series has the data of the charts: the traces that arrived over the stream,
// by their start.
type series struct {
	buckets [bucketCount]bucket
	since   int64 // the first bucket with complete data
}

func newSeries(now time.Time) *series { return &series{since: bucketOf(now)} }

func bucketOf(t time.Time) int64 { return t.UnixNano() / int64(bucketTime) }

func (s *series) add(r *row, now time.Time) {
	n := bucketOf(r.trace.CreatedAt)
	if last := bucketOf(now); n <= last-bucketCount || n > last {
		return
	}
	s.since = min(s.since, n)
	b := &s.buckets[n%bucketCount]
	if b.number != n {
		*b = bucket{number: n}
	}
	b.traces++
	if r.outcome != succeeded {
		b.errors++
	}
	b.cost += r.trace.CostUSD
	b.bins[binOf(r.trace.DurationMs)]++
}

func binOf(ms float64) int {
	return max(0, min(latencyBins-1, int(math.Ceil(4*math.Log2(max(ms, 0)+1)))))
}

// p95 returns the upper end of the bin with the 95th percentile.
func p95(bins *[latencyBins]uint32, traces int) float64 {
	if traces == 0 {
		return math.NaN()
	}
	rank, seen := uint32(math.Ceil(0.95*float64(traces))), uint32(0)
	for i, n := range bins {
		if seen += n; seen >= rank {
			return math.Exp2(float64(i)/4) - 1
		}
	}
	return math.NaN()
}

// chart is one row of bars, oldest first, and the value of the last minute.
type chart struct {
	bars       []float64
	lastMinute float64
	top        float64
}

// charts returns the last n bars: traces per second, errors per second, the
// 95th percentile in milliseconds, dollars per minute. The current bar is
// omitted because it is incomplete.
func (s *series) charts(now time.Time, n int) (rate, errors, latency, cost chart) {
	n = max(1, min(n, bucketCount-1))
	last := bucketOf(now) - 1
	perSecond, perMinute := bucketTime.Seconds(), float64(time.Minute/bucketTime)
	var minute bucket
	for i := last - int64(n) + 1; i <= last; i++ {
		b := &s.buckets[i%bucketCount]
		if b.number != i {
			b = &bucket{}
		}
		if i < s.since {
			for _, c := range []*chart{&rate, &errors, &latency, &cost} {
				c.bars = append(c.bars, math.NaN())
			}
			continue
		}
		rate.bars = append(rate.bars, float64(b.traces)/perSecond)
		errors.bars = append(errors.bars, float64(b.errors)/perSecond)
		latency.bars = append(latency.bars, p95(&b.bins, b.traces))
		cost.bars = append(cost.bars, b.cost*perMinute)
		if i > last-int64(perMinute) {
			minute.traces += b.traces
			minute.errors += b.errors
			minute.cost += b.cost
			for j, c := range b.bins {
				minute.bins[j] += c
			}
		}
	}
	rate.lastMinute = float64(minute.traces) / 60
	errors.lastMinute = float64(minute.errors) / 60
	latency.lastMinute = p95(&minute.bins, minute.traces)
	cost.lastMinute = minute.cost
	for _, c := range []*chart{&rate, &errors, &latency, &cost} {
		c.top = display.Top(c.bars...)
	}
	return rate, errors, latency, cost
}

// draw draws the bars h lines high, scaled to the highest. Unknown and
// undefined values are blank.
func (c chart) draw(h int) []string {
	if h <= 1 {
		return []string{spark(c.bars)}
	}
	lines := make([][]rune, h)
	for i := range lines {
		lines[i] = make([]rune, len(c.bars))
	}
	for x, v := range c.bars {
		level := 0
		if c.top > 0 && v > 0 {
			level = max(1, int(math.Round(v/c.top*float64(h*8))))
		}
		for y := range h {
			fill := level - (h-1-y)*8
			switch {
			case fill >= 8:
				lines[y][x] = '█'
			case fill > 0:
				lines[y][x] = []rune("▁▂▃▄▅▆▇")[fill-1]
			case y == h-1 && !math.IsNaN(v):
				lines[y][x] = '▁'
			default:
				lines[y][x] = ' '
			}
		}
	}
	out := make([]string, h)
	for i, l := range lines {
		out[i] = string(l)
	}
	return out
}
