package multiplex

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"svc/gateway/affinity"
	"svc/gateway/auth"
	"svc/gateway/session"
	"svc/gateway/transport"
)

// maxSessions bounds the client sessions whose upstream sessions are remembered.
const maxSessions = 65_536

// StateOptions say where what is known of sessions and tasks is kept.
type StateOptions struct {
	// Dir is where ended sessions are written down.
	Dir string
	// MaxTasks and TaskTTL bound the tasks that are remembered.
	MaxTasks int
	TaskTTL  time.Duration
	Now      func() time.Time
	// Replicas is what the replicas share; nil keeps everything in this process.
	Replicas *Replicas
}

// Replicas are the stores that replicas of a gateway share.
type Replicas struct {
	Sessions session.Store
	Tasks    affinity.Store
}

// Open returns sessions with their state: shared by replicas where they share
// anything, else in this process, with what ended written down.
func Open(opts Options, state StateOptions) *Sessions {
	s := New(opts)
	if s.Several() {
		local := affinity.NewMemory(state.MaxTasks, state.TaskTTL, state.Now)
		s.tasks = &affinity.Tasks{Map: local}
		if state.Replicas != nil {
			s.tasks.Map = affinity.NewShared(local, state.Replicas.Tasks, state.TaskTTL)
		}
		s.inFlight = NewInFlight(state.Now)
	}
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

// Close closes the state. It is called after the last request; s may be nil.
func (s *Sessions) Close() error {
	if s == nil {
		return nil
	}
	if c, ok := s.State.Upstream.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// LearnTask remembers that an upstream made a task, before its caller can know of it.
// With one upstream there is nothing to remember, nor without a task.
func (s *Sessions) LearnTask(ctx context.Context, who *auth.Principal, task string, up *transport.Upstream) {
	if s.tasks != nil && task != "" {
		s.tasks.Learn(ctx, who, task, up.Name)
	}
}

// TaskUpstream returns the upstream that made a task of a caller, empty when it is not
// known.
func (s *Sessions) TaskUpstream(ctx context.Context, who *auth.Principal, task string) string {
	if s.tasks == nil {
		return ""
	}
	return s.tasks.At(ctx, who, task)
}
