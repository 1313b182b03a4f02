package display

// Level says how good a value is. Screens have a color for each, and the page a class of its style sheet.
type Level string

// The levels. Plain has no color.
const (
	Plain Level = ""
	Good  Level = "good"
	Warn  Level = "warn"
	Bad   Level = "bad"
	Dim   Level = "dim"
	// Block is for what was blocked, which is no failure.
	Block Level = "block"
)

// Word is a value in words with its level.
type Word struct {
	Text  string
	Level Level
}
