package arguments

// Outcome is the result of a condition for a request's arguments.
type Outcome uint8

// The outcomes, in the order of precedence.
const (
	// Fails: some entry does not hold.
	Fails Outcome = iota
	// Missing: an argument is absent, or there is no value under a *, and no entry fails.
	Missing
	// WrongType: an argument is of a type that its matcher does not take, or ambiguous, and no
	// entry fails.
	WrongType
	// Holds: all entries hold.
	Holds
	// TooMuch: the arguments exceed the bounds of the work for one message. The call must be
	// denied, whatever the action of the rule.
	TooMuch
)

// and combines the outcomes of two conditions that must both hold.
func (o Outcome) and(p Outcome) Outcome { return min(o, p) }

// not swaps Holds and Fails, and keeps the other outcomes.
func (o Outcome) not() Outcome {
	switch o {
	case Holds:
		return Fails
	case Fails:
		return Holds
	}
	return o
}
