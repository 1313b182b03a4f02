//go:build race

package detect

// hostileSize is smaller under the race detector, which makes all of it slow.
const hostileSize = 1 << 17

// raceEnabled tells whether the race detector is in the binary.
const raceEnabled = true
