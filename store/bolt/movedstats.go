package bolt

import (
	"encoding/binary"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"svc/store/move"
	"svc/store/record"
	"svc/store/rollup"
)

func rollupNames() (names []string) {
	for t := range rollup.NumTables {
		names = append(names, inRollup+t.String())
	}
	return names
}

// rowKey decodes a key that appendRowKey encoded.
func rowKey(t rollup.Table, b []byte) (k rollup.Key, ok bool) {
	be := binary.BigEndian
	switch {
	case t.HasAllDimensions() && len(b) == 16:
		return rollup.Key{Table: t, Bucket: be.Uint32(b), Agent: be.Uint32(b[4:]), Model: be.Uint32(b[8:]), Env: be.Uint32(b[12:])}, true
	case t.HasAllDimensions() || len(b) != 8:
		return k, false
	}
	k = rollup.Key{Table: t, Bucket: be.Uint32(b)}
	switch n := be.Uint32(b[4:]); t {
	case rollup.HourAgent, rollup.DayAgent:
		k.Agent = n
	case rollup.HourModel, rollup.DayModel:
		k.Model = n
	default:
		k.Env = n
	}
	return k, true
}

// exportStatistics exports the tables one after another: the first byte of a cursor
// is the table.
func exportStatistics(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	text, enough := dictReader{d: d}, false
	for t := range rollup.NumTables {
		if len(after) > 0 && after[0] > byte(t) {
			continue
		}
		var behind []byte
		if len(after) > 0 && after[0] == byte(t) {
			behind = after[1:]
		}
		name, env := inRollup+t.String(), max(rollup.Environment, t.Names())
		err := eachRow(d.in(name), name, behind, func(k []byte, v any) (bool, error) {
			key, ok := rowKey(t, k)
			if !ok {
				return false, fmt.Errorf("%w: row %x of %s", errUnreadable, k, t)
			}
			more, err := out(append([]byte{byte(t)}, k...), move.Statistic{Table: t.String(), Bucket: key.Bucket, Agent: []byte(text.get(kindAgent, key.Agent)),
				Model: []byte(text.get(kindModel, key.Model)), Env: []byte(text.value(env, key.Env)), Data: v.(record.Row).Value})
			enough = enough || !more
			return more, err
		})
		if err != nil || enough {
			return err
		}
	}
	return nil
}

func putStatistic(w *filler, s *move.Statistic) error {
	t, err := rollup.TableNamed(s.Table)
	if err != nil {
		return err
	}
	k := rollup.Key{Table: t, Bucket: s.Bucket}
	env := envEntry(string(s.Env))
	if by := t.Names(); by != rollup.None {
		env = nameEntry(by, string(s.Env), t.Level().Start(s.Bucket).Format(monthFormat))
	}
	for _, part := range []struct {
		into *uint32
		word dictEntry
	}{{&k.Agent, agentEntry(string(s.Agent))}, {&k.Model, modelEntry(string(s.Model))}, {&k.Env, env}} {
		var err error
		if *part.into, err = w.number(part.word); err != nil {
			return err
		}
	}
	b := w.in(inRollup + t.String())
	b.FillPercent = 0.9
	return b.Put(appendRowKey(nil, k), s.Data)
}

// agentEntry returns the dictionary entry of an agent as a dimension.
func agentEntry(word string) dictEntry {
	switch {
	case word == "":
		return dictEntry{kind: kindAgent}
	case word[0] == 'i':
		return agentWord(word[1:], "")
	}
	return agentWord("", word[1:])
}

// envEntry returns the dictionary entry of an environment as a dimension.
func envEntry(word string) dictEntry {
	env, team := rollup.SplitEnv(word)
	return dictEntry{kindEnv, env, team}
}

// modelEntry returns the dictionary entry of a model as a dimension.
func modelEntry(word string) dictEntry {
	provider, model := splitModel(word)
	return dictEntry{kindModel, provider, model}
}

func exportTools(_ *bbolt.Tx, d data, _ string, after []byte, out each) error {
	text := dictReader{d: d}
	c := d.in(inTools).Cursor()
	for k, v := seekAfter(c, after); k != nil; k, v = c.Next() {
		if len(k) != 8 {
			return fmt.Errorf("%w: tool %x", errUnreadable, k)
		}
		agent, tool := binary.BigEndian.Uint32(k), binary.BigEndian.Uint32(k[4:])
		if tool == 0 {
			continue // the number of tools
		}
		first, last, n, err := decodeTool(v)
		if err != nil {
			return err
		}
		id, registered := strings.CutPrefix(text.get(kindAgent, agent), "i")
		if !registered {
			continue // a tool that no list contains
		}
		if more, err := out(k, move.Tool{Agent: []byte(id), Tool: []byte(text.get(kindTool, tool)), First: int64(first), Last: int64(last), Calls: int64(n)}); err != nil || !more {
			return err
		}
	}
	return nil
}

func putTool(w *filler, t *move.Tool) error {
	agent, err := w.number(agentWord(string(t.Agent), ""))
	if err != nil {
		return err
	}
	tool, err := w.number(dictEntry{kindTool, string(t.Tool), ""})
	if err != nil {
		return err
	}
	b, counter := w.in(inTools), toolRow(agent, 0)
	if err := b.Put(counter, bytes8(number(b.Get(counter))+1)); err != nil {
		return err
	}
	val := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(t.First)), uint64(t.Last))
	return b.Put(toolRow(agent, tool), binary.AppendUvarint(val, uint64(t.Calls)))
}
