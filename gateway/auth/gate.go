package auth

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds on verifications under way.
const (
	// memoryBudgetKiB bounds the memory of the argon2id computations that run
	// at one time, but that one always may run.
	memoryBudgetKiB = 20 << 10
	// maxPlaces is how many verifications may run or wait.
	maxPlaces = 16
	// maxPlacesPerID is how many of those may be for one key id, so that a flood
	// against one id leaves room for the first use of another's key.
	maxPlacesPerID = 3
)

// gate bounds verifications: how many wait (beyond that they are refused at
// once), how many processors compute, and how much memory they use. Waiting is
// first come, first served.
type gate struct {
	cores  int64 // processors that may compute at one time
	unit   int64 // KiB of the budget that stand for one processor
	budget *semaphore.Weighted

	mu     sync.Mutex
	places int
	perID  map[string]int
}

// newGate returns a gate for a process with so many processors: half of them
// may compute, and at least one.
func newGate(processors int) *gate {
	cores := int64(max(1, processors/2))
	unit := max(memoryBudgetKiB/cores, 1)
	return &gate{
		cores: cores, unit: unit,
		budget: semaphore.NewWeighted(cores * unit),
		perID:  make(map[string]int),
	}
}

// enter takes a place in the queue, or returns false when the queue, or id's
// share of it, is full. A place that was taken must be left.
func (g *gate) enter(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places >= maxPlaces || g.perID[id] >= maxPlacesPerID {
		return false
	}
	g.places++
	g.perID[id]++
	return true
}

// leave gives the place back.
func (g *gate) leave(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places--
	if g.perID[id]--; g.perID[id] == 0 {
		delete(g.perID, id)
	}
}

// matches checks text against a hash when its turn comes. The caller has a
// place, so the wait is bounded by what stands before it.
func (g *gate) matches(h phc, text string) bool {
	lanes := min(int64(h.Threads), g.cores)
	weight := min(max(lanes*g.unit, int64(h.MemoryKiB)), g.cores*g.unit)
	// The error is that of the context alone, and this one never ends: whoever
	// waits for the same key must not suffer from the first caller's leaving.
	if err := g.budget.Acquire(context.Background(), weight); err != nil {
		return false
	}
	defer g.budget.Release(weight)
	return h.matches(text)
}
