package postgres

import (
	"encoding/binary"
	"errors"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// delta is the statistics of one batch, or of several merged ones. The values of
// dimensions are strings; they are numbered when the delta is merged into the rollups.
type delta struct {
	words   words
	minutes []rollup.Entry // their dimensions are numbers of words
	tools   map[toolKey]toolUse
	fires   map[string]int64
}

// toolKey identifies a tool of an agent.
type toolKey struct{ agent, tool string }

// toolUse is the first and the last call of a tool, and the number of calls.
type toolUse struct{ first, last, calls int64 }

// add merges another use of the tool.
func (u toolUse) add(o toolUse) toolUse {
	if u.calls == 0 {
		return o
	}
	return toolUse{min(u.first, o.first), max(u.last, o.last), u.calls + o.calls}
}

// words numbers strings; 0 is the empty string.
type words struct {
	list  []string
	known map[string]uint32
}

func newWords() words { return words{list: []string{""}, known: map[string]uint32{"": 0}} }

func (w *words) number(s string) uint32 {
	n, ok := w.known[s]
	if !ok {
		n = uint32(len(w.list))
		w.list = append(w.list, s)
		w.known[s] = n
	}
	return n
}

// agentWord returns an agent as a value of a dimension: its id, or the name of an
// agent that is not registered.
func agentWord(id, name string) string {
	if id == "" {
		return "n" + name
	}
	return "i" + id
}

// modelWord returns a model as a value of a dimension. Strings of traces have no zero
// bytes.
func modelWord(provider, model string) string {
	if provider+model == "" {
		return ""
	}
	return provider + "\x00" + model
}

// newDelta computes the statistics of a batch.
func newDelta(traces []*store.Trace, now time.Time) *delta {
	d := emptyDelta()
	obs := make([]rollup.Observation, 0, len(traces))
	for i, t := range traces {
		obs = append(obs, rollup.Observation{
			At: t.CreatedAt, Agent: d.words.number(agentWord(t.AgentID, t.AgentName)), Model: d.words.number(modelWord(t.ModelProvider, t.ModelName)),
			Env: d.words.number(t.Environment), Error: t.Status == store.TraceError, Blocked: t.Blocked,
			InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, Cost: int64(t.Cost), Duration: t.Duration,
		})
		d.count(t, now.UnixNano()+int64(i))
	}
	d.minutes = rollup.Minutes(obs)
	return d
}

func emptyDelta() *delta {
	return &delta{words: newWords(), tools: map[toolKey]toolUse{}, fires: map[string]int64{}}
}

// count counts the tools that a trace of a registered agent names, and the policies
// that fired, each once.
func (d *delta) count(t *store.Trace, first int64) {
	calls := t.ToolCalls
	if len(calls) == 0 && t.ToolName != "" {
		calls = []store.ToolCalls{{Tool: t.ToolName, Calls: 1}}
	}
	for _, c := range calls {
		if t.AgentID != "" {
			k := toolKey{t.AgentID, c.Tool}
			d.tools[k] = d.tools[k].add(toolUse{first, t.CreatedAt.UnixNano(), int64(c.Calls)})
		}
	}
	once := map[string]bool{"": true}
	for _, p := range t.PoliciesFired {
		if !once[p.ID] {
			once[p.ID] = true
			d.fires[p.ID]++
		}
	}
}

// oldest and newest return the range of minutes in which the traces were created.
func (d *delta) oldest() int64 {
	return int64(d.minutes[0].Key.Bucket) // entries are sorted
}

func (d *delta) newest() int64 { return int64(d.minutes[len(d.minutes)-1].Key.Bucket) }

// deltaVersion is the first byte of an encoded delta.
const deltaVersion = 1

// encode writes the delta: the version, then counted lists of words, minutes, tools
// and fires. Numbers are varints; strings and partials are prefixed with their length.
func (d *delta) encode() []byte {
	tail := make([]byte, 0, 64*len(d.minutes))
	tail = binary.AppendUvarint(tail, uint64(len(d.minutes)))
	var partial []byte
	for i := range d.minutes {
		k := &d.minutes[i].Key
		for _, n := range [...]uint32{k.Bucket, k.Agent, k.Model, k.Env} {
			tail = binary.AppendUvarint(tail, uint64(n))
		}
		partial = d.minutes[i].Partial.Append(partial[:0])
		tail = binary.AppendUvarint(tail, uint64(len(partial)))
		tail = append(tail, partial...)
	}
	tail = binary.AppendUvarint(tail, uint64(len(d.tools)))
	for k, u := range d.tools {
		for _, n := range [...]uint64{uint64(d.words.number(k.agent)), uint64(d.words.number(k.tool)), uint64(u.first), uint64(u.last), uint64(u.calls)} {
			tail = binary.AppendUvarint(tail, n)
		}
	}
	tail = binary.AppendUvarint(tail, uint64(len(d.fires)))
	for id, n := range d.fires {
		tail = binary.AppendUvarint(binary.AppendUvarint(tail, uint64(d.words.number(id))), uint64(n))
	}
	out := []byte{deltaVersion}
	out = binary.AppendUvarint(out, uint64(len(d.words.list)))
	for _, w := range d.words.list {
		out = append(binary.AppendUvarint(out, uint64(len(w))), w...)
	}
	return append(out, tail...)
}

var errDelta = errors.New("damaged statistics of a batch")

// deltaReader decodes an encoded delta.
type deltaReader struct {
	data []byte
	bad  bool
}

func (r *deltaReader) number() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *deltaReader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.data)) {
		r.bad, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

// addEncoded merges an encoded delta.
func (d *delta) addEncoded(data []byte) error {
	if len(data) == 0 || data[0] != deltaVersion {
		return errDelta
	}
	r := deltaReader{data: data[1:]}
	var list []string
	for n := r.number(); n > 0 && !r.bad; n-- {
		list = append(list, string(r.bytes()))
	}
	word := func() string {
		if n := r.number(); n < uint64(len(list)) {
			return list[n]
		}
		r.bad = true
		return ""
	}
	for n := r.number(); n > 0 && !r.bad; n-- {
		k := rollup.Key{Table: rollup.Minute, Bucket: uint32(r.number()), Agent: d.words.number(word()), Model: d.words.number(word()), Env: d.words.number(word())}
		p, err := rollup.Decode(r.bytes())
		if err != nil {
			return err
		}
		d.minutes = append(d.minutes, rollup.Entry{Key: k, Partial: p})
	}
	for n := r.number(); n > 0 && !r.bad; n-- {
		k := toolKey{word(), word()}
		d.tools[k] = d.tools[k].add(toolUse{int64(r.number()), int64(r.number()), int64(r.number())})
	}
	for n := r.number(); n > 0 && !r.bad; n-- {
		d.fires[word()] += int64(r.number())
	}
	if r.bad || len(r.data) > 0 {
		return errDelta
	}
	return nil
}
