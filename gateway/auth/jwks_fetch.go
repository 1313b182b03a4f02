package auth

import (
	"context"
	"errors"
	"fmt"
)

// ErrKeySet is the error of a document that cannot be used as a key set.
var ErrKeySet = errors.New("not a usable key set")

// FetchKeys fetches the key set at url as the verification of tokens does, and returns
// the number of its usable keys. It changes nothing.
func (o *OAuth) FetchKeys(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	body, err := fetch(ctx, newIssuerKeys(o, url).client, url, maxSetBytes)
	if err != nil {
		return 0, err
	}
	set, err := parseKeySet(body)
	if errors.Is(err, errNoKeys) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%w: it %w", ErrKeySet, err)
	}
	return len(set.keys), nil
}
