package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc/store/rollup"
)

// generation is merged statistics of a tenant: of everything that was committed up to a
// place. The rows of a day count where they have the day's version. The zero value is
// that of a tenant of which nothing was merged.
type generation struct {
	seq     int64
	version int64
	days    map[uint16]int64
}

// newestGeneration is the one that readers use.
func (t *tenant) newestGeneration(ctx context.Context, sh *shard) (g generation, err error) {
	var days []uint16
	var versions []int64
	g.days = map[uint16]int64{}
	err = sh.rows(ctx, "SELECT seq, version, days, versions FROM generations WHERE tenant = "+quote(t.id)+" ORDER BY seq DESC, version DESC LIMIT 1",
		[]any{&g.seq, &g.version, &days, &versions}, func() error {
			for i, day := range days {
				g.days[day] = versions[i]
			}
			return nil
		})
	return g, err
}

// rows selects the merged rows between two days; false where there are none.
func (g *generation) rows(from, to uint16) (string, bool) {
	var b strings.Builder
	for day, version := range g.days {
		if day < from || day > to {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "(%d,%d)", day, version)
	}
	return "(day, version) IN (" + b.String() + ")", b.Len() > 0
}

// feedColumns are the columns of the feed that statistics need.
const feedColumns = "seq, writer, created, id, again, agent, agent_name, error, blocked, env, provider, model, input, output, cost, duration, bin, policies, call_tools, call_counts"

// unmerged selects what came behind a generation, up to a place, each trace once. extra
// is more conditions. A trace that is there twice came twice within the time of a write:
// only a merge looks at what came shortly before, too, so that one whose two rows are on
// both sides of the place counts twice until then.
func (t *tenant) unmerged(g *generation, upTo int64, extra string) string {
	return t.since(g.seq, 0, upTo, extra)
}

// since selects what was committed behind a place, up to another one, each trace once, and
// none of which there is a row at most lookBack before the place. Of what came before, the
// ids of the traces that came now are read alone: at many traces a second lookBack has far
// more rows than what came.
func (t *tenant) since(after, lookBack, upTo int64, extra string) string {
	now := fmt.Sprintf("tenant = %s AND %s AND seq <= %d", quote(t.id), committedBehind(after), upTo)
	if lookBack > 0 {
		extra += fmt.Sprintf(" AND (id, again) NOT IN (SELECT id, again FROM feed WHERE tenant = %s AND %s AND seq <= %d AND id IN (SELECT id FROM feed WHERE %s))",
			quote(t.id), committedBehind(after-lookBack), after, now)
	}
	return fmt.Sprintf("(SELECT %s FROM feed WHERE %s%s ORDER BY seq, writer LIMIT 1 BY id, again)", feedColumns, now, extra)
}

// The values of dimensions as SQL, as agentWord and modelWord make them.
const (
	agentSQL  = "if(agent != '', concat('i', agent), concat('n', agent_name))"
	modelSQL  = "if(provider = '' AND model = '', '', concat(provider, '\\0', model))"
	minuteSQL = "toUInt32(intDiv(created, 60000000000))"
	// sumsSQL are the sums of traces whose durations are in one bin.
	sumsSQL = "bin, count(), toInt64(sum(error)), toInt64(sum(blocked)), sum(input), sum(output), sum(cost), " +
		"if(sum(toFloat64(duration)) > 9.2e18, toInt64(9223372036854775807), sum(duration)), min(duration), max(duration)"
)

// agentWord is an agent as a dimension: one that is not registered is its name.
func agentWord(id, name string) string {
	if id == "" {
		return "n" + name
	}
	return "i" + id
}

// sums is a row of sumsSQL.
type sums struct {
	bin             uint16
	n               uint64
	errors, blocked int64
	input, output   int64
	cost, duration  int64
	least, most     int64
}

func (s *sums) list() []any {
	return []any{&s.bin, &s.n, &s.errors, &s.blocked, &s.input, &s.output, &s.cost, &s.duration, &s.least, &s.most}
}

// partial is the row as one of merged statistics.
func (s *sums) partial() rollup.Partial {
	return rollup.Partial{Traces: int64(s.n), Errors: s.errors, Blocked: s.blocked, InputTokens: s.input, OutputTokens: s.output, Cost: s.cost,
		Duration: s.duration, Min: s.least, Max: s.most, Bins: []rollup.Bin{{Index: s.bin, Count: s.n}}}
}

// dayOfTime is the day of a time.
func dayOfTime(t time.Time) uint16 { return dayOf(nanos(t)) }
