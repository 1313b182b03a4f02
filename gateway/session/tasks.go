package session

import (
	"context"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// Map stores upstreams by key: [TaskMemory], or [SharedTasks].
type Map interface {
	// Learn stores the upstream of a task. Requests about a task that cannot be stored go to
	// default_upstream.
	Learn(ctx context.Context, key Key, upstream string)
	// Upstream returns the upstream of a task; ok is false when it is unknown.
	Upstream(ctx context.Context, key Key) (upstream string, ok bool)
}

// Tasks finds the upstreams of tasks (gateway specification, task_affinity). It decides where a
// request goes, never whether it is allowed: the rules have been applied before, and the upstream
// does its own authorization.
type Tasks struct{ Map Map }

// MaxListenTasks bounds the tasks of one subscriptions/listen that are looked up.
const MaxListenTasks = 64

// Learn stores the upstream of a caller's task.
func (t *Tasks) Learn(ctx context.Context, who *auth.Principal, handle, upstream string) {
	t.Map.Learn(ctx, taskKey(who, handle), upstream)
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
		return t.At(ctx, who, m.TaskID)
	case m.Method == mcp.MethodListen:
		handles, alone := mcp.ListenTasks(m)
		if !alone || len(handles) == 0 || len(handles) > MaxListenTasks {
			return ""
		}
		found := t.At(ctx, who, handles[0])
		for _, handle := range handles[1:] {
			if t.At(ctx, who, handle) != found {
				return ""
			}
		}
		return found
	}
	return ""
}

// At returns the upstream of a caller's task, empty when it is unknown.
func (t *Tasks) At(ctx context.Context, who *auth.Principal, handle string) string {
	if handle == "" {
		return ""
	}
	name, _ := t.Map.Upstream(ctx, taskKey(who, handle))
	return name
}
