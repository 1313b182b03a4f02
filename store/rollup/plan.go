package rollup

import "time"

// Dimension is the dimension by which the rows of a result are grouped.
type Dimension uint8

// The dimensions.
const (
	None Dimension = iota
	Agent
	Model
	Environment
	Tool // the first dimension of names
	Rule
	Client
)

// FinestTable returns the table with the shortest buckets that has a dimension.
func (d Dimension) FinestTable() Table {
	if d < Tool {
		return Minute
	}
	return HourTool + 2*Table(d-Tool)
}

// Query selects the traces of a window, all or those of one agent.
type Query struct {
	From, To time.Time
	By       Dimension
	OneAgent bool
	// MinutesFrom is the time before which minute rows have been removed; zero: none.
	MinutesFrom time.Time
}

// Range is a range of buckets of a table: From inclusive, To exclusive.
type Range struct {
	Table    Table
	From, To uint32
}

// Plan is the set of rows that answer a query, without overlap.
type Plan struct {
	From, To time.Time // the bounds after rounding
	Ranges   []Range
}

// NewPlan rounds the bounds of the query outwards to whole minutes (whole hours by a
// dimension of names, and where the minutes have been removed) and covers the window with days, hours at both ends of the
// days, and minutes at both ends of the hours.
func NewPlan(q Query) Plan {
	finest := q.By.FinestTable().Level().Seconds()
	from, to := floorTo(q.From, finest), ceilTo(q.To, finest)
	if !q.MinutesFrom.IsZero() {
		kept := ceilTo(q.MinutesFrom, 3600)
		if from < kept {
			from = from / 3600 * 3600
		}
		if to < kept {
			to = (to + 3599) / 3600 * 3600
		}
	}
	p := Plan{From: time.Unix(from, 0).UTC(), To: time.Unix(to, 0).UTC()}
	if from >= to {
		p.To = p.From
		return p
	}
	hour, day := tables(q)
	// [from, h0) minutes, [h0, d0) hours, [d0, d1) days, [d1, h1) hours, [h1, to) minutes
	h0, h1 := (from+3599)/3600*3600, to/3600*3600
	if h0 > h1 { // within one hour
		p.add(Minute, from, to)
		return p
	}
	p.add(Minute, from, h0)
	d0, d1 := (h0+86399)/86400*86400, h1/86400*86400
	if day == NumTables || d0 >= d1 {
		p.add(hour, h0, h1)
	} else {
		p.add(hour, h0, d0)
		p.add(day, d0, d1)
		p.add(hour, d1, h1)
	}
	p.add(Minute, h1, to)
	return p
}

func (p *Plan) add(t Table, from, to int64) {
	if from < to {
		w := t.Level().Seconds()
		p.Ranges = append(p.Ranges, Range{Table: t, From: uint32(from / w), To: uint32(to / w)})
	}
}

// tables returns the smallest tables that can answer; NumTables: no table by day can.
func tables(q Query) (hour, day Table) {
	switch {
	case q.By >= Tool: // never of one agent
		return q.By.FinestTable(), q.By.FinestTable() + 1
	case q.OneAgent && (q.By == None || q.By == Agent), q.By == Agent:
		return HourAgent, DayAgent
	case q.OneAgent:
		return Hour, NumTables
	case q.By == Model:
		return HourModel, DayModel
	default:
		return HourEnvironment, DayEnvironment
	}
}

func floorTo(t time.Time, width int64) int64 {
	return max(t.Unix(), 0) / width * width
}

func ceilTo(t time.Time, width int64) int64 {
	s := max(t.Unix(), 0)
	if t.Nanosecond() > 0 {
		s++
	}
	return (s + width - 1) / width * width
}
