package bolt

import (
	"encoding/binary"
	"strings"
	"sync"

	"svc/store"
	"svc/store/record"
	"svc/store/rollup"
)

// Strings that many traces share are stored once in a dictionary and numbered from 1,
// per kind. The first byte of a key in dict and dict_values is the kind; 0 is the
// number of the empty string. Entries are never changed or removed.
const (
	kindAgent = 'a' // "i" and an agent id, or "n" and the name of an agent without an id
	kindEnv   = 'e' // environment; in statistics with \0 team where the agent has one
	kindModel = 'm' // provider \0 model
	kindTool  = 't' // tool name
	kindName  = 'n' // agent name as it was at ingest

	// Names of statistics: name \0 month. Of each month there are at most store.MaxNames.
	kindStatTool   = 'o'
	kindStatRule   = 'r'
	kindStatClient = 'c'
)

// nameEntry returns the entry of a name of statistics in a month.
func nameEntry(by rollup.Dimension, name, month string) dictEntry {
	if name == "" {
		return dictEntry{kind: kindOf[by]}
	}
	return dictEntry{kindOf[by], name, month}
}

// bounded reports whether the entry is a name of statistics that may be counted as another one.
func (w dictEntry) bounded() bool {
	return (w.kind == kindStatTool || w.kind == kindStatRule || w.kind == kindStatClient) && w.a != "" && w.a != store.OtherName
}

// counter is the counter of the names of the entry's month.
func (w dictEntry) counter() string { return stateNames + string(w.kind) + w.b }

// dictEntry is a string of the dictionary, split into the parts that a trace has, so
// that a lookup in memory builds no string.
type dictEntry struct {
	kind byte
	a, b string
}

func agentWord(id, name string) dictEntry {
	if id != "" {
		return dictEntry{kindAgent, id, ""}
	}
	return dictEntry{kindAgent, "", name}
}

// text returns the entry as it is stored.
func (w dictEntry) text() string {
	switch {
	case w.kind == kindAgent && w.a != "":
		return "i" + w.a
	case w.kind == kindAgent:
		return "n" + w.b
	case w.kind == kindEnv:
		return rollup.EnvWord(w.a, w.b)
	case w.b != "" || w.kind == kindModel && w.a != "":
		return w.a + "\x00" + w.b
	}
	return w.a
}

// splitModel is the inverse of modelString.
func splitModel(s string) (provider, model string) {
	provider, model, _ = strings.Cut(s, "\x00")
	return provider, model
}

func dictKey(w dictEntry) []byte {
	text := w.text()
	return append(append(make([]byte, 0, 1+len(text)), w.kind), text...)
}

func dictValueKey(kind byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, n)
}

// lookup returns the number of an entry.
func (d data) lookup(w dictEntry) (uint32, bool) {
	if w.a == "" && w.b == "" {
		return 0, true
	}
	v := d.in(inDict).Get(dictKey(w))
	if len(v) != 4 {
		if w.bounded() && d.counter(w.counter()) >= store.MaxNames {
			return d.lookup(dictEntry{w.kind, store.OtherName, w.b})
		}
		return 0, false
	}
	return binary.BigEndian.Uint32(v), true
}

// resolveString finds the string of a number, empty when there is none.
func (d data) resolveString(kind byte, n uint32) string {
	if n == 0 {
		return ""
	}
	return string(d.in(inDictValues).Get(dictValueKey(kind, n)))
}

// numberOf finds the number of an entry or assigns one.
func (d data) numberOf(w dictEntry) (uint32, error) {
	if n, ok := d.lookup(w); ok {
		return n, nil
	}
	if w.bounded() {
		if n := d.counter(w.counter()); n >= store.MaxNames {
			w.a = store.OtherName
		} else if err := d.setCounter(w.counter(), n+1); err != nil {
			return 0, err
		}
	}
	values := d.in(inDictValues)
	next := uint32(1)
	c := values.Cursor()
	k, _ := c.Seek([]byte{w.kind + 1})
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if len(k) == 5 && k[0] == w.kind {
		next = binary.BigEndian.Uint32(k[1:]) + 1
	}
	if err := values.Put(dictValueKey(w.kind, next), []byte(w.text())); err != nil {
		return 0, err
	}
	return next, d.in(inDict).Put(dictKey(w), binary.BigEndian.AppendUint32(nil, next))
}

// dictReader resolves numbers within one transaction and caches them.
type dictReader struct {
	d    data
	seen map[uint64]string
}

func (n *dictReader) get(kind byte, ref uint32) string {
	if ref == 0 {
		return ""
	}
	key := uint64(kind)<<32 | uint64(ref)
	s, ok := n.seen[key]
	if !ok {
		s = n.d.resolveString(kind, ref)
		if n.seen == nil {
			n.seen = make(map[uint64]string)
		}
		n.seen[key] = s
	}
	return s
}

// fill sets the fields of a trace that its record stores as numbers.
func (n *dictReader) fill(t *store.Trace, r refs) {
	if s := n.get(kindAgent, r.agent); strings.HasPrefix(s, "i") {
		t.AgentID = s[1:]
	}
	t.AgentName = n.get(kindName, r.name)
	t.Environment = n.get(kindEnv, r.env)
	t.ModelProvider, t.ModelName = splitModel(n.get(kindModel, r.model))
}

// tenantState is the cache of a process for a tenant. Everything in it can be dropped.
type tenantState struct {
	mu       sync.Mutex
	agents   map[dictEntry]agentKnown // agents by their reference in a trace; valid while the counter of changes of agents is agentGen
	agentGen uint64
	dict     map[dictEntry]uint32
	changed  chan struct{} // closed by the next commit of traces
}

// agentKnown is a resolved agent.
type agentKnown struct{ id, name, team string }

// maxRemembered bounds the maps of a tenantState; a map that exceeds it is cleared.
const maxRemembered = 50_000

// state returns the cache of an existing tenant.
func (s *Store) state(id string) *tenantState {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[id]
	if st == nil {
		st = &tenantState{agents: map[dictEntry]agentKnown{}, dict: map[dictEntry]uint32{}, changed: make(chan struct{})}
		s.states[id] = st
	}
	return st
}

// agentsChanged must be called in every write transaction that changes agents: it
// invalidates the cached agents.
func agentsChanged(d data) error {
	return d.setCounter(stateAgentGen, d.counter(stateAgentGen)+1)
}

// nextCommit returns a channel that is closed when traces have been committed after
// the call.
func (st *tenantState) nextCommit() <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.changed
}

// committed wakes streams and caches what the committer resolved.
func (st *tenantState) committed(r *resolver) {
	st.mu.Lock()
	defer st.mu.Unlock()
	close(st.changed)
	st.changed = make(chan struct{})
	r.remember()
}

func (st *tenantState) rememberNumbers(fresh map[dictEntry]uint32) {
	if len(st.dict)+len(fresh) > maxRemembered {
		st.dict = make(map[dictEntry]uint32, len(fresh))
	}
	for k, n := range fresh {
		st.dict[k] = n
	}
}

// resolver finds agents and numbers in the cache and then, if it has one, in a
// transaction. Without a transaction, the state's mu must be held.
type resolver struct {
	st    *tenantState
	d     *data
	gen   uint64                   // value of the counter of changes of agents
	fresh map[dictEntry]uint32     // numbers resolved in the transaction
	known map[dictEntry]agentKnown // agents resolved in the transaction
}

// agentOf finds the agent of a trace; ok is false when it is not found. Names that
// were stored before names were normalized are found by their exact spelling.
func (r *resolver) agentOf(t *store.Trace) (a agentKnown, ok bool, err error) {
	if t.AgentID != "" || t.AgentNameSent == "" {
		return r.agent(t.AgentID, t.AgentName)
	}
	a, ok, err = r.agent("", t.AgentNameSent)
	if err != nil || ok || r.d == nil {
		return a, ok, err
	}
	if a, ok, err = r.agent("", t.AgentName); err == nil && ok {
		r.known[agentWord("", t.AgentNameSent)] = a
	}
	return a, ok, err
}

// agent finds an agent by its id or its name; ok is false when it is not found.
func (r *resolver) agent(id, name string) (a agentKnown, ok bool, err error) {
	w := agentWord(id, name)
	if r.d == nil {
		a, ok = r.st.agents[w]
		return a, ok, nil
	}
	if a, ok := r.known[w]; ok {
		return a, true, nil
	}
	find, by := record.AgentByName, name
	if id != "" {
		find, by = record.AgentByID, id
	}
	found, ok, err := find(recordTx{d: *r.d}, by)
	if err != nil || !ok {
		return agentKnown{}, false, err
	}
	a = agentKnown{id: found.ID, name: found.Name, team: found.TeamID}
	r.known[w] = a
	return a, true, nil
}

// number finds the number of an entry; ok is false when it is not found.
func (r *resolver) number(w dictEntry) (n uint32, ok bool) {
	if w.a == "" && w.b == "" {
		return 0, true
	}
	if r.d == nil {
		n, ok = r.st.dict[w]
		return n, ok
	}
	if n, ok := r.fresh[w]; ok {
		return n, true
	}
	if n, ok = r.d.lookup(w); ok {
		r.fresh[w] = n
	}
	return n, ok
}

// remember caches what a transaction resolved. The state's mu must be held.
func (r *resolver) remember() {
	r.st.rememberNumbers(r.fresh)
	switch {
	case r.gen < r.st.agentGen:
		return // agents from an older transaction are dropped
	case r.gen > r.st.agentGen || len(r.st.agents)+len(r.known) > maxRemembered:
		r.st.agents, r.st.agentGen = make(map[dictEntry]agentKnown, len(r.known)), r.gen
	}
	for w, a := range r.known {
		r.st.agents[w] = a
	}
}
