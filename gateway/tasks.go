package gateway

import (
	"context"

	"svc/gateway/affinity"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/transport"
)

// taskMap remembers at which upstream a task was made (gateway specification,
// task_affinity). It decides where a request goes, never whether it may: the
// rules have judged it before, and the upstream asks for its own reasons.
type taskMap interface {
	// Learn remembers the upstream of a task. What cannot be remembered is asked
	// about at default_upstream.
	Learn(ctx context.Context, key affinity.Key, upstream string)
	// Upstream returns the upstream of a task; ok is false when it is unknown.
	Upstream(ctx context.Context, key affinity.Key) (upstream string, ok bool)
}

// taskMap makes the map. Replicas share it where they share their rate limits.
func (g *Gateway) taskMap(cfg config.TaskAffinity) taskMap {
	local := affinity.NewMemory(cfg.MaxEntries, cfg.TTL, g.now)
	if g.redis == nil {
		return local
	}
	return affinity.NewShared(local, g.redis, cfg.TTL)
}

// maxListenTasks bounds the tasks of one subscriptions/listen that are looked
// up.
const maxListenTasks = 64

// taskKey names a task of this caller.
func (ex *exchange) taskKey(handle string) affinity.Key {
	return affinity.KeyOf(ex.who.Kind.String(), ex.who.Issuer, ex.who.Value, handle)
}

// followTask finds the upstream of the task that a request asks about; nil when
// it asks about none or nobody knows where it is. A subscription belongs to the
// upstream that has all its tasks, when it asks for nothing else: one stream
// comes from one upstream.
func (ex *exchange) followTask() *transport.Upstream {
	if ex.g.tasks == nil {
		return nil
	}
	switch {
	case mcp.TaskFollowUp(ex.msg.Method):
		return ex.targetOfTask(ex.msg.TaskID)
	case ex.msg.Method == mcp.MethodListen:
		handles, alone := mcp.ListenTasks(&ex.msg)
		if !alone || len(handles) == 0 || len(handles) > maxListenTasks {
			return nil
		}
		found := ex.targetOfTask(handles[0])
		for _, handle := range handles[1:] {
			if ex.targetOfTask(handle) != found {
				return nil
			}
		}
		return found
	}
	return nil
}

// targetOfTask returns the upstream that has a task of this caller, nil when it
// is unknown.
func (ex *exchange) targetOfTask(handle string) *transport.Upstream {
	if handle == "" {
		return nil
	}
	name, ok := ex.g.tasks.Upstream(ex.ctx, ex.taskKey(handle))
	if !ok {
		return nil
	}
	return ex.g.targets[name]
}
