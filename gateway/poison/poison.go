// Package poison overwrites memory that is returned to a pool, in programs built
// with the race detector, so that tests detect references to released memory: no
// request, response or audit line may contain a part of another one. In other
// builds it does nothing.
package poison
