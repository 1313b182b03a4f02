//go:build !race

package auth

// raceEnabled tells that the race detector multiplies memory.
const raceEnabled = false
