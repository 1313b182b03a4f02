package detect

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"svc/gateway/base/background"
	"svc/gateway/mcp"
)

// Scorer is the name of the score.
const Scorer = "output_schema"

// Limits of schemas, lists and responses of upstreams.
const (
	maxTools   = 2000      // tools with a schema, per upstream
	maxSchema  = 64 << 10  // bytes of one schema
	maxList    = 4 << 20   // bytes of a list of tools
	maxContent = 256 << 10 // bytes of a response that is validated
)

// Schemas are the output schemas of tools, by upstream. It is safe for
// concurrent use; scoring takes no lock.
type Schemas struct {
	seed   maphash.Seed
	scores bool
	known  atomic.Pointer[map[tool]*schema]

	mu   sync.Mutex        // held while known is written
	seen map[string]uint64 // hash of the last list of each upstream
}

type tool struct{ upstream, name string }

type schema struct {
	hash     uint64
	compiled *jsonschema.Schema // nil for a schema that is not used
	// strict also checks formats, as some clients do.
	strict *jsonschema.Schema
}

// New returns an empty collection. It grades answers if scores is set; without it, it only knows
// what they must look like.
func New(scores bool) *Schemas {
	s := &Schemas{seed: maphash.MakeSeed(), scores: scores, seen: map[string]uint64{}}
	s.known.Store(&map[tool]*schema{})
	return s
}

// ShouldLearn reports whether a list of tools may contain new schemas: it has output
// schemas and differs from the list that was learned last. m must have been parsed.
func (s *Schemas) ShouldLearn(upstream string, m *mcp.Message) bool {
	if m.Kind != mcp.Response || m.IsError || len(m.Body) > maxList || !bytes.Contains(m.Body, []byte(`"outputSchema"`)) {
		return false
	}
	hash := maphash.Bytes(s.seed, m.Spans.Result.Of(m.Body))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[upstream] == hash {
		return false
	}
	s.seen[upstream] = hash
	return true
}

// Learn stores the output schemas of a result of tools/list. A tool in the list without a
// schema loses its schema; a tool that is not in the list keeps it, because the list may
// be one page of several.
func (s *Schemas) Learn(upstream string, result []byte) {
	var list struct {
		Tools []struct {
			Name         string          `json:"name"`
			OutputSchema json.RawMessage `json:"outputSchema"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &list) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(*s.known.Load())
	count := 0
	for t := range next {
		if t.upstream == upstream {
			count++
		}
	}
	for _, in := range list.Tools {
		key := tool{upstream, in.Name}
		old := next[key]
		if len(in.OutputSchema) == 0 || len(in.OutputSchema) > maxSchema || len(in.Name) > mcp.MaxName || string(in.OutputSchema) == "null" {
			if old != nil {
				delete(next, key)
				count--
			}
			continue
		}
		hash := maphash.Bytes(s.seed, in.OutputSchema)
		switch {
		case old != nil && old.hash == hash:
			continue
		case old == nil && count >= maxTools:
			continue
		case old == nil:
			count++
		}
		next[key] = &schema{hash: hash, compiled: compile(in.OutputSchema, false), strict: compile(in.OutputSchema, true)}
	}
	s.known.Store(&next)
}

// Grade scores m, the upstream's response to asked, like Score does if asked is a call of
// a tool. It learns the schemas of a list of tools in the background. A nil collection
// does nothing.
func (s *Schemas) Grade(upstream string, asked, m *mcp.Message, later *background.Calls) (score float64, ok bool) {
	if s == nil || asked.Kind != mcp.Request {
		return 0, false
	}
	switch asked.Method {
	case mcp.MethodToolsCall:
		if !s.scores {
			return 0, false
		}
		return s.Score(upstream, asked.Name, m)
	case mcp.MethodToolsList:
		if s.ShouldLearn(upstream, m) {
			result := bytes.Clone(m.Spans.Result.Of(m.Body))
			later.Run(func(context.Context) { s.Learn(upstream, result) })
		}
	}
	return 0, false
}

// Score validates the response of a tool against its output schema: 1 when it is valid, 0
// when it is invalid or missing. ok is false for a response that is not scored: of a tool
// without a usable schema, an error, an incomplete response, or one that is too large. m
// must have been parsed.
func (s *Schemas) Score(upstream, name string, m *mcp.Message) (score float64, ok bool) {
	known := *s.known.Load()
	if len(known) == 0 || m.Kind != mcp.Response || m.IsError || m.ToolError ||
		m.ResultType != "" && m.ResultType != mcp.ResultComplete {
		return 0, false
	}
	sch := known[tool{upstream, name}]
	if sch == nil || sch.compiled == nil {
		return 0, false
	}
	at := mcp.Find(m.Body, m.Spans.Result, "structuredContent")
	if !at.Present() {
		return 0, true
	}
	content := at.Of(m.Body)
	if len(content) > maxContent || !withinBounds(content) {
		return 0, false
	}
	return holds(sch.compiled, content)
}

// holds validates a document. A schema that the library cannot handle gives no score.
func holds(sch *jsonschema.Schema, content []byte) (score float64, ok bool) {
	defer func() {
		if recover() != nil {
			score, ok = 0, false
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return 0, false
	}
	if sch.Validate(doc) != nil {
		return 0, true
	}
	return 1, true
}
