package flow

import (
	"context"
	"net/netip"
)

// Caller is whose labels are remembered: the typed principal, or with scope session the session.
type Caller struct {
	// Key is equal for two callers exactly when they are the same (auth.Principal.AppendKey; with scope
	// session the id of the session where there is one).
	Key string
	// Address is set for callers who are known by their address only, and by no session of theirs.
	Address netip.Addr
}

// Memory remembers the labels of callers across reloads and, with a file in state_dir, across
// restarts; replicas share them in Redis. It is bounded and safe for concurrent use.
type Memory struct{}

// Of returns the labels that a caller has now, in bits of names. When they cannot be known (the memory is
// full of labels that have not ended, or Redis is away and the store does not fail open) it returns every
// label.
func (m *Memory) Of(ctx context.Context, c Caller, names *Names) Labels { return 0 }

// Set adds labels to a caller, or begins their windows anew. It returns after a label that the caller
// did not have is in the file, so that a message that set it may be passed on. An error says that this
// was not possible: the message must be withheld.
func (m *Memory) Set(ctx context.Context, c Caller, l Labels, names *Names) error { return nil }
