package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

func deletePrefix(b *bbolt.Bucket, prefix []byte) error {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// maxTools bounds the tools stored per agent, because tool names come from outside.
const maxTools = 1000

// A tool is stored as three numbers: the time of its first and of its last call,
// nanoseconds, and a varint count. Its id depends only on properties that never
// change. The key with tool 0 holds how many tools the agent has.

func toolRow(agent, tool uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 0, 8), agent), tool)
}

// countTool adds calls to a tool of an agent.
func countTool(tools *bbolt.Bucket, rows cursorGetter, agent, tool uint32, calls toolCalls, now time.Time) error {
	key := toolRow(agent, tool)
	first, last, n := uint64(now.UnixNano()), uint64(calls.last), calls.n
	if old := rows.get(key); old != nil {
		oldFirst, oldLast, oldN, err := decodeTool(old)
		if err != nil {
			return err
		}
		first, last, n = oldFirst, max(last, oldLast), n+oldN
	} else {
		counter := toolRow(agent, 0)
		known := number(tools.Get(counter))
		if known >= maxTools {
			return nil
		}
		if err := tools.Put(counter, bytes8(known+1)); err != nil {
			return err
		}
	}
	val := make([]byte, 0, 24)
	val = binary.BigEndian.AppendUint64(val, first)
	val = binary.BigEndian.AppendUint64(val, last)
	return tools.Put(key, binary.AppendUvarint(val, n))
}

func decodeTool(b []byte) (first, last, n uint64, err error) {
	if len(b) > 16 {
		var size int
		if n, size = binary.Uvarint(b[16:]); size > 0 {
			return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), n, nil
		}
	}
	return 0, 0, 0, errors.New("damaged tool")
}

// ListTools returns the tools of an agent, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	list = []store.AgentTool{}
	type row struct {
		store.AgentTool
		first uint64
		tool  uint32
	}
	var rows []row
	err = t.view(ctx, func(d data) error {
		agent, known := d.lookup(agentWord(agentID, ""))
		if !known {
			return nil
		}
		text := dictReader{d: d}
		prefix := toolRow(agent, 0)[:4]
		c := d.in(inTools).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			tool := binary.BigEndian.Uint32(k[4:])
			if tool == 0 {
				continue
			}
			first, last, n, err := decodeTool(v)
			if err != nil {
				return err
			}
			name := text.get(kindTool, tool)
			rows = append(rows, row{store.AgentTool{ID: store.ToolID(agentID, name), AgentID: agentID, ToolName: name,
				CallCount: int64(n), LastCalledAt: timeOf(last)}, first, tool})
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(b.tool, a.tool)) })
		total = len(rows)
		from, to := page.Bounds(total)
		for _, r := range rows[from:to] {
			list = append(list, r.AgentTool)
		}
		return nil
	})
	return list, total, err
}
