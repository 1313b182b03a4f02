package api

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounded is a list whose length is bounded during decoding. The shortest
// entry, {}, takes three bytes on the wire and up to several hundred in
// memory, so a check of the decoded list would be too late. B is the type
// that has the bound.
type Bounded[T any, B Bound] []T

// Bound is the largest number of entries of a Bounded list.
type Bound interface{ Max() int }

// The bounds of lists; see MaxEntities, MaxFired, MaxSpans, MaxTraceBatch, MaxDocuments, MaxFormerNames
// and MaxWarnAt.
type (
	entityBound struct{}
	labelBound  struct{}
	firedBound  struct{}
	spanBound   struct{}
	batchBound  struct{}
	docBound    struct{}
	formerBound struct{}
	scopeBound  struct{}
	warnBound   struct{}
)

// Max returns the bound.
func (entityBound) Max() int { return MaxEntities }
func (labelBound) Max() int  { return MaxLabels }

// Max returns the bound.
func (firedBound) Max() int { return MaxFired }

// Max returns the bound.
func (spanBound) Max() int { return MaxSpans }

// Max returns the bound.
func (batchBound) Max() int { return MaxTraceBatch }

// Max returns the bound.
func (docBound) Max() int { return MaxDocuments }

// Max returns the bound.
func (formerBound) Max() int { return MaxFormerNames }

// Max returns the bound.
func (warnBound) Max() int { return MaxWarnAt }

// Max returns a bound that is higher than the number of scopes, so that the check of the
// decoded list can name scopes that are unknown or listed twice.
func (scopeBound) Max() int { return 4 * len(TeamScopes) }

// TraceList is the list of traces in a batch.
type TraceList = Bounded[TraceInput, batchBound]

// TooManyError reports a list that has more entries than its bound allows.
type TooManyError struct{ Max int }

func (e *TooManyError) Error() string { return fmt.Sprintf("must have at most %d entries", e.Max) }

var errNotList = errors.New("must be an array")

// UnmarshalJSONFrom reads an array. At the first entry beyond the bound it
// returns a TooManyError and reads no further. A null leaves the list nil.
func (l *Bounded[T, B]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' {
		*l = nil
		_, err := d.ReadToken()
		return err
	}
	if d.PeekKind() != '[' {
		return errNotList
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var b B
	bound, list := b.Max(), (*l)[:0]
	for d.PeekKind() != ']' {
		if len(list) == bound {
			return &TooManyError{bound}
		}
		var zero T
		list = append(list, zero)
		if err := json.UnmarshalDecode(d, &list[len(list)-1]); err != nil {
			return err
		}
	}
	if list == nil {
		list = []T{}
	}
	*l = list
	_, err := d.ReadToken()
	return err
}
