package session

import (
	"context"
	"strings"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// Origin is where something comes from that a later message refers to: a task, a question of a server
// or a request in flight. It is the call that made it.
type Origin struct {
	Upstream string
	// Method, Tool and URI are those of the call, as its client sent them. Each is empty where it is not
	// known or the call has none.
	Method, Tool, URI string
}

// maxPart bounds what is remembered of a call, in bytes: a longer part counts as not known.
const maxPart = 1 << 10

// Detach returns a copy whose strings share no memory with the message of the call, and are bounded.
func (o Origin) Detach() Origin {
	for _, part := range []*string{&o.Method, &o.Tool, &o.URI} {
		if len(*part) > maxPart {
			*part = ""
		}
		*part = strings.Clone(*part)
	}
	return o
}

// text returns the origin of a task for a store: the upstream, and after a line feed the tool if it is
// known. Names of upstreams have no line feed.
func (o Origin) text() string {
	if o.Tool == "" {
		return o.Upstream
	}
	return o.Upstream + "\n" + o.Tool
}

// originOf parses the result of text.
func originOf(text string) (o Origin) {
	o.Upstream, o.Tool, _ = strings.Cut(text, "\n")
	return o.ofTask()
}

// ofTask returns the origin of a task: only calls of tools make tasks with a tool.
func (o Origin) ofTask() Origin {
	if o.Method = ""; o.Tool != "" {
		o.Method = mcp.MethodToolsCall
	}
	return o
}

// Map stores origins by key: [TaskMemory], or [SharedTasks].
type Map interface {
	// Learn stores the origin of a task. Requests about a task that cannot be stored go to
	// default_upstream.
	Learn(ctx context.Context, key Key, o Origin)
	// Origin returns the origin of a task; ok is false when it is unknown.
	Origin(ctx context.Context, key Key) (o Origin, ok bool)
}

// Tasks finds the upstreams of tasks (gateway specification, task_affinity). It decides where a
// request goes, never whether it is allowed: the rules have been applied before, and the upstream
// does its own authorization.
type Tasks struct{ Map Map }

// MaxListenTasks bounds the tasks of one subscriptions/listen that are looked up.
const MaxListenTasks = 64

// Learn stores the upstream of a caller's task, and the tool that made it, as its client names it; empty
// where that is not known.
func (t *Tasks) Learn(ctx context.Context, who *auth.Principal, handle, upstream, tool string) {
	t.Map.Learn(ctx, taskKey(who, handle), Origin{Upstream: upstream, Tool: strings.Clone(tool)}.ofTask())
}

// taskKey returns the key of a caller's task.
func taskKey(who *auth.Principal, handle string) Key {
	return KeyOf(who.Kind.String(), who.Issuer, who.Value, handle)
}

// Of returns the upstream of the task that a request is about; empty when it is about none or its
// upstream is not known. A subscription is routed to the upstream that has all its tasks, if it
// subscribes to nothing else: one stream comes from one upstream.
func (t *Tasks) Of(ctx context.Context, who *auth.Principal, m *mcp.Message) (upstream string) {
	switch {
	case mcp.TaskFollowUp(m.Method):
		return t.At(ctx, who, m.TaskID).Upstream
	case m.Method == mcp.MethodListen:
		handles, alone := mcp.ListenTasks(m)
		if !alone || len(handles) == 0 || len(handles) > MaxListenTasks {
			return ""
		}
		found := t.At(ctx, who, handles[0]).Upstream
		for _, handle := range handles[1:] {
			if t.At(ctx, who, handle).Upstream != found {
				return ""
			}
		}
		return found
	}
	return ""
}

// At returns the origin of a caller's task, zero when it is unknown.
func (t *Tasks) At(ctx context.Context, who *auth.Principal, handle string) (o Origin) {
	if handle != "" {
		o, _ = t.Map.Origin(ctx, taskKey(who, handle))
	}
	return o
}
