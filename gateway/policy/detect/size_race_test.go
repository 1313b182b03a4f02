//go:build race

package detect

// hostileSize is smaller under the race detector, which slows the test down.
const hostileSize = 1 << 17

// raceEnabled reports whether the race detector is on.
const raceEnabled = true
