// Package poison overwrites memory that goes back to a pool, in programs that were
// built with the race detector, so that whatever still refers to it shows in tests:
// no request, answer or audit line may hold a part of another one. In other builds
// it does nothing.
package poison
