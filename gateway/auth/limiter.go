package auth

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds of the verifications in flight (decision AUD6).
const (
	// memoryBudgetKiB bounds the memory of concurrent argon2id computations; one
	// computation may always run.
	memoryBudgetKiB = 20 << 10
	// maxSlots is the number of verifications that may run or wait (decision AUD5).
	maxSlots = 16
	// maxSlotsPerID is the number of slots for one key id, so that a flood with one id
	// leaves slots for the first use of another key.
	maxSlotsPerID = 3
)

// limiter bounds verifications: how many wait (further ones are rejected at once), how
// many processors compute, and how much memory they use. Waiting is first come, first
// served.
type limiter struct {
	cores  int64 // processors that may compute at one time
	unit   int64 // KiB of the budget that count as one processor
	budget *semaphore.Weighted

	mu    sync.Mutex
	slots int
	perID map[string]int
}

// newLimiter returns a limiter for a number of processors: half of them may compute, and
// at least one.
func newLimiter(processors int) *limiter {
	cores := int64(max(1, processors/2))
	unit := max(memoryBudgetKiB/cores, 1)
	return &limiter{
		cores: cores, unit: unit,
		budget: semaphore.NewWeighted(cores * unit),
		perID:  make(map[string]int),
	}
}

// acquire takes a slot of the queue. It returns false when the queue, or the share of id,
// is full. The caller must release the slot.
func (g *limiter) acquire(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slots >= maxSlots || g.perID[id] >= maxSlotsPerID {
		return false
	}
	g.slots++
	g.perID[id]++
	return true
}

// release releases a slot.
func (g *limiter) release(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots--
	if g.perID[id]--; g.perID[id] == 0 {
		delete(g.perID, id)
	}
}

// matches checks text against a hash when its turn comes. The caller holds a slot, so the
// wait is bounded by the verifications before it.
func (g *limiter) matches(h phc, text string) bool {
	lanes := min(int64(h.Threads), g.cores)
	weight := min(max(lanes*g.unit, int64(h.MemoryKiB)), g.cores*g.unit)
	// The only possible error is that of the context, and this context never ends: others
	// that wait for the same key must not fail when the first caller disconnects
	// (decision AUD12).
	if err := g.budget.Acquire(context.Background(), weight); err != nil {
		return false
	}
	defer g.budget.Release(weight)
	return h.matches(text)
}
