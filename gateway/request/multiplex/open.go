package multiplex

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"svc/gateway/auth"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// maxSessions bounds the client sessions whose upstream sessions are stored.
const maxSessions = 65_536

// StateOptions configure where the state of sessions and tasks is stored.
type StateOptions struct {
	// Dir is the directory of the file of ended sessions.
	Dir string
	// MaxTasks and TaskTTL bound the stored tasks.
	MaxTasks int
	TaskTTL  time.Duration
	Now      func() time.Time
	// Replicas are the stores shared by replicas; nil keeps all state in this process.
	Replicas *Replicas
}

// Replicas are the stores that replicas of a gateway share.
type Replicas struct {
	Sessions session.Store
	Tasks    session.TaskStore
}

// Open returns sessions with their state: in the shared stores if there are any,
// otherwise in this process, with ended sessions written to a file.
func Open(opts Options, state StateOptions) *Sessions {
	s := New(opts)
	local := session.NewTaskMemory(state.MaxTasks, state.TaskTTL, state.Now)
	s.tasks = &session.Tasks{Map: local}
	if state.Replicas != nil {
		s.tasks.Map = session.NewSharedTasks(local, state.Replicas.Tasks, state.TaskTTL)
	}
	s.inFlight, s.questions = NewInFlight(state.Now), NewInFlight(state.Now)
	s.pending.now, s.pending.began = state.Now, state.Now()
	if state.Replicas != nil {
		shared := session.NewShared(maxSessions, state.Replicas.Sessions, opts.Sealer, s.Discard)
		s.State, s.Replicated = session.State{Upstream: shared, Settings: shared}, true
		return s
	}
	durable, err := session.OpenDurable(filepath.Join(state.Dir, "sessions.ended"), maxSessions, s.Discard, opts.Logger)
	if err == nil {
		s.State = session.State{Upstream: durable, Settings: durable}
		return s
	}
	opts.Logger.Warn("sessions that clients end are forgotten at a restart: their handles could be used again", "error", err)
	memory := session.NewMemory(maxSessions, s.Discard)
	s.State = session.State{Upstream: memory, Settings: memory}
	return s
}

// Close closes the state. It must be called after the last request; s may be nil.
func (s *Sessions) Close() error {
	if s == nil {
		return nil
	}
	if c, ok := s.State.Upstream.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// LearnTask stores which upstream created a task, before its caller learns the task's
// handle, and by which tool if data flow looks at that; tool is empty otherwise. It does nothing
// without a task, and with one upstream if there is no tool.
func (s *Sessions) LearnTask(ctx context.Context, who *auth.Principal, task string, up *upstream.Upstream, tool string) {
	if task != "" && up != nil && (s.Several() || tool != "") {
		s.tasks.Learn(ctx, who, task, up.Name, tool)
	}
}

// Task returns the origin of a task of a caller, zero when it is not known.
func (s *Sessions) Task(ctx context.Context, who *auth.Principal, task string) session.Origin {
	return s.tasks.At(ctx, who, task)
}

// TaskUpstream returns the upstream that created a task of a caller, empty when it is
// not known.
func (s *Sessions) TaskUpstream(ctx context.Context, who *auth.Principal, task string) string {
	if !s.Several() {
		return ""
	}
	return s.tasks.At(ctx, who, task).Upstream
}
