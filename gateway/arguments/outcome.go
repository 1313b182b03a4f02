package arguments

// Outcome is what a condition says of a request's arguments.
type Outcome uint8

// The outcomes.
const (
	// Fails: some entry does not hold.
	Fails Outcome = iota
	// Missing: an argument is not there, or nothing is under a *, and nothing else fails.
	Missing
	// WrongType: an argument is of a type that its matcher does not take, or ambiguous,
	// and nothing else fails.
	WrongType
	// Holds: all entries hold.
	Holds
	// TooMuch: the arguments are beyond the bounds of what is examined. The call must be
	// denied, whatever the action of the rule.
	TooMuch
)

// and joins the outcomes of two conditions that must both hold.
func (o Outcome) and(p Outcome) Outcome { return min(o, p) }

// not inverts what holds and what does not.
func (o Outcome) not() Outcome {
	switch o {
	case Holds:
		return Fails
	case Fails:
		return Holds
	}
	return o
}
