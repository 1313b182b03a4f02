package rollup

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Level is the width of the buckets of a table.
type Level uint8

// The levels.
const (
	ByMinute Level = iota
	ByHour
	ByDay
)

// Seconds returns the width of a bucket of the level.
func (l Level) Seconds() int64 {
	switch l {
	case ByMinute:
		return 60
	case ByHour:
		return 3600
	default:
		return 86400
	}
}

// Bucket returns the number of the bucket that contains a time, counted from 1970 in
// UTC. Times before 1970 are in bucket 0.
func (l Level) Bucket(t time.Time) uint32 {
	return uint32(max(t.Unix(), 0) / l.Seconds())
}

// Start returns the start of a bucket, inclusive.
func (l Level) Start(bucket uint32) time.Time {
	return time.Unix(int64(bucket)*l.Seconds(), 0).UTC()
}

// Table is a set of rows: a level, and the dimensions of their keys. The cubes have
// agent, model and environment; the others have one of them, so that a query over
// weeks reads few rows. The tables of names have a dimension of names, in the place of the
// environment, and no minutes: with sparse traffic almost every trace would add a row.
type Table uint8

// The tables.
const (
	Minute Table = iota
	Hour
	HourAgent
	HourModel
	HourEnvironment
	DayAgent
	DayModel
	DayEnvironment
	HourTool // the first table of names: two of each dimension
	DayTool
	HourRule
	DayRule
	HourClient
	DayClient
	NumTables // the number of tables
)

// Level returns the level of the table.
func (t Table) Level() Level {
	switch t {
	case Minute:
		return ByMinute
	case Hour, HourAgent, HourModel, HourEnvironment, HourTool, HourRule, HourClient:
		return ByHour
	default:
		return ByDay
	}
}

// Names returns the dimension of a table of names, None for other tables.
func (t Table) Names() Dimension {
	if t < HourTool || t > DayClient {
		return None
	}
	return Tool + Dimension(t-HourTool)/2
}

// HasAllDimensions reports whether the keys of the table have all three dimensions.
func (t Table) HasAllDimensions() bool { return t == Minute || t == Hour }

// String returns the name of the table.
func (t Table) String() string {
	return [...]string{"minute", "hour", "hour_agent", "hour_model", "hour_environment",
		"day_agent", "day_model", "day_environment", "hour_tool", "day_tool",
		"hour_rule", "day_rule", "hour_client", "day_client", "unknown"}[min(t, NumTables)]
}

// TableNamed returns the table with a name.
func TableNamed(name string) (Table, error) {
	for t := range NumTables {
		if t.String() == name {
			return t, nil
		}
	}
	return NumTables, fmt.Errorf("unknown table of statistics %q", name)
}

// Key identifies a row. Dimensions that the table does not have are 0. Env is the name in tables
// of names.
type Key struct {
	Table  Table
	Bucket uint32
	Agent  uint32
	Model  uint32
	Env    uint32
}

// Compare orders keys by table, bucket, agent, model, environment.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Table, o.Table), cmp.Compare(k.Bucket, o.Bucket),
		cmp.Compare(k.Agent, o.Agent), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Env, o.Env))
}

// Observation has the fields of one trace that statistics use.
type Observation struct {
	At           time.Time
	Agent        uint32
	Model        uint32
	Env          uint32
	Names        [3]uint32 // tool, rule, client
	Error        bool
	Blocked      bool
	InputTokens  int64
	OutputTokens int64
	Cost         int64 // nano-dollars
	Duration     time.Duration
}

// Entry is a row, or an increment of it.
type Entry struct {
	Key     Key
	Partial Partial
}

// Compute returns the entries of every table for a de-duplicated batch, sorted by key.
func Compute(obs []Observation) []Entry { return Expand(each(obs)) }

// Finest returns the entries of the finest tables, which are Minute and the tables of names by
// the hour, for a de-duplicated batch, sorted by key.
func Finest(obs []Observation) []Entry {
	rows := each(obs)
	return groupAndMerge(make([]Entry, 0, len(rows)), rows, func(k Key) Key { return k })
}

// each returns a minute row per observation, and the hour rows of names.
func each(obs []Observation) []Entry {
	rows := make([]Entry, len(obs), len(obs)+len(obs)/4+8)
	bins := make([]Bin, len(obs))
	for i := range obs {
		o := &obs[i]
		bins[i] = Bin{Index: BinOf(o.Duration), Count: 1}
		duration := int64(max(o.Duration, 0))
		rows[i] = Entry{
			Key: Key{Table: Minute, Bucket: ByMinute.Bucket(o.At), Agent: o.Agent, Model: o.Model, Env: o.Env},
			Partial: Partial{Traces: 1, Errors: one(o.Error), Blocked: one(o.Blocked),
				InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, Cost: o.Cost,
				Duration: duration, Min: duration, Max: duration, Bins: bins[i : i+1 : i+1]},
		}
	}
	names := NewCollector()
	for by := Tool; by <= Client; by++ {
		for i := range obs {
			names.Add(Key{Table: by.FinestTable(), Bucket: ByHour.Bucket(obs[i].At), Env: obs[i].Names[by-Tool]}, &rows[i].Partial)
		}
	}
	return append(rows, names.Entries()...)
}

// Expand returns the entries of every table, sorted by key, for entries of the finest
// tables in any order: the result equals Compute of the same observations. An engine
// may store the finest entries of a batch and compute the other tables later.
func Expand(rows []Entry) []Entry {
	// Each table is computed from the preceding table that is fine enough, in the
	// order of tables; within a table rows are sorted by key.
	all := make([]Entry, 0, 4*len(rows))
	var at [NumTables + 1]int
	for t, from := range [NumTables]Table{
		Minute: Minute, Hour: Minute, HourAgent: Hour, HourModel: Hour, HourEnvironment: Hour,
		DayAgent: HourAgent, DayModel: HourModel, DayEnvironment: HourEnvironment,
		HourTool: HourTool, DayTool: HourTool,
		HourRule: HourRule, DayRule: HourRule,
		HourClient: HourClient, DayClient: HourClient,
	} {
		source := rows
		if Table(t) != from {
			source = all[at[from]:at[from+1]]
		}
		at[t] = len(all)
		all = groupAndMerge(all, source, func(k Key) Key { return k.in(Table(t)) })
		at[t+1] = len(all)
	}
	return all
}

// Combine merges sorted lists of entries into one.
func Combine(lists ...[]Entry) []Entry {
	if len(lists) == 1 {
		return lists[0]
	}
	rows := slices.Concat(lists...)
	return groupAndMerge(make([]Entry, 0, len(rows)), rows, func(k Key) Key { return k })
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// in returns the key of the row of an equal or coarser table that includes a row. A row is in no
// finest table but its own: the table is then NumTables.
func (k Key) in(t Table) Key {
	if t != k.Table && (k.Table.Names() != t.Names() || t == Minute) {
		return Key{Table: NumTables}
	}
	k.Bucket = uint32(int64(k.Bucket) / (t.Level().Seconds() / k.Table.Level().Seconds()))
	k.Table = t
	switch t {
	case HourAgent, DayAgent:
		k.Model, k.Env = 0, 0
	case HourModel, DayModel:
		k.Agent, k.Env = 0, 0
	case HourEnvironment, DayEnvironment:
		k.Agent, k.Model = 0, 0
	}
	return k
}

// ranked is a row's key, packed for sorting, with the row's index.
type ranked struct {
	table  Table
	hi, lo uint64
	row    int32
}

func (r *ranked) same(o *ranked) bool { return r.hi == o.hi && r.lo == o.lo && r.table == o.table }

// groupAndMerge appends rows under new keys to dst, sorted by those keys, and merges
// rows with equal keys. Rows whose new table is NumTables are left out. The input rows are not
// changed; dst may share their bins.
func groupAndMerge(dst, rows []Entry, rekey func(Key) Key) []Entry {
	order := make([]ranked, 0, len(rows))
	for i := range rows {
		if k := rekey(rows[i].Key); k.Table != NumTables {
			order = append(order, ranked{k.Table, uint64(k.Bucket)<<32 | uint64(k.Agent), uint64(k.Model)<<32 | uint64(k.Env), int32(i)})
		}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		switch {
		case a.table != b.table:
			return cmp.Compare(a.table, b.table)
		case a.hi != b.hi:
			return cmp.Compare(a.hi, b.hi)
		default:
			return cmp.Compare(a.lo, b.lo)
		}
	})
	var run []Bin
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && order[j].same(&order[i]) {
			j++
		}
		e := rows[order[i].row]
		e.Key = rekey(e.Key)
		if j > i+1 {
			run = run[:0]
			for k := i; k < j; k++ {
				p := &rows[order[k].row].Partial
				run = append(run, p.Bins...)
				if k > i {
					e.Partial.addCounters(p)
				}
			}
			e.Partial.Bins = sumBins(run)
		}
		dst = append(dst, e)
		i = j
	}
	return dst
}
