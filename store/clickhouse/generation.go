package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc/store/rollup"
)

// generation is the merged statistics of a tenant: of everything that was committed up to
// a position. Of each day, the rows with the day's version are valid. The zero value
// stands for a tenant without merged statistics.
type generation struct {
	seq     int64
	version int64
	days    map[uint16]int64
}

// newestGeneration returns the generation that readers use.
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

// rows selects the merged rows between two days; it returns false when there are none.
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
const feedColumns = "seq, writer, created, id, again, agent, agent_name, error, blocked, env, team, provider, model, input, output, cost, duration, bin, tool, rule, client_name, reason, policies, call_tools, call_counts"

// unmerged selects the traces that were committed after a generation, up to a position,
// each trace once. extra is an additional condition. A trace that is stored twice was
// committed twice within the duration of a write. Only a merge also checks commits shortly
// before the position, so a trace with one row on each side of it counts twice until the
// next merge.
func (t *tenant) unmerged(g *generation, upTo int64, extra string) string {
	return t.since(g.seq, 0, upTo, extra)
}

// since selects the traces that were committed after a position, up to another one, each
// trace once, without traces that have a row at most lookBack before the position. Of the
// rows in lookBack only those with ids of the new traces are read: at high rates lookBack
// has far more rows than the new range.
func (t *tenant) since(after, lookBack, upTo int64, extra string) string {
	now := fmt.Sprintf("tenant = %s AND %s AND seq <= %d", quote(t.id), committedBehind(after), upTo)
	if lookBack > 0 {
		extra += fmt.Sprintf(" AND (id, again) NOT IN (SELECT id, again FROM feed WHERE tenant = %s AND %s AND seq <= %d AND id IN (SELECT id FROM feed WHERE %s))",
			quote(t.id), committedBehind(after-lookBack), after, now)
	}
	return fmt.Sprintf("(SELECT %s FROM feed WHERE %s%s ORDER BY seq, writer LIMIT 1 BY id, again)", feedColumns, now, extra)
}

// SQL for the values of dimensions, as rollup.AgentWord, rollup.ModelWord and rollup.EnvWord build them.
const (
	agentSQL  = "if(agent != '', concat('i', agent), concat('n', agent_name))"
	modelSQL  = "if(provider = '' AND model = '', '', concat(provider, '\\0', model))"
	envSQL    = "if(team = '', env, concat(env, '\\0', team))"
	minuteSQL = "toUInt32(intDiv(created, 60000000000))"
	// sumsSQL are the sums over traces whose durations are in one bin.
	sumsSQL = "bin, count(), toInt64(sum(error)), toInt64(sum(blocked)), sum(input), sum(output), sum(cost), " +
		"if(sum(toFloat64(duration)) > 9.2e18, toInt64(9223372036854775807), sum(duration)), min(duration), max(duration)"
)

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

// partial returns the row as merged statistics.
func (s *sums) partial() rollup.Partial {
	return rollup.Partial{Traces: int64(s.n), Errors: s.errors, Blocked: s.blocked, InputTokens: s.input, OutputTokens: s.output, Cost: s.cost,
		Duration: s.duration, Min: s.least, Max: s.most, Bins: []rollup.Bin{{Index: s.bin, Count: s.n}}}
}

// dayOfTime returns the day of a time.
func dayOfTime(t time.Time) uint16 { return dayOf(nanos(t)) }
