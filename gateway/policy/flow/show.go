package flow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/gateway/base/retry"
)

// Held are the labels of a caller.
type Held struct {
	// Principal is kind:value, as in key:alice; for a session its digest, for addresses a network.
	Principal string `json:"principal"`
	// Issuer is the issuer of the token, of an oauth principal.
	Issuer string `json:"issuer,omitempty"`
	// Labels are sorted by their names.
	Labels []HeldLabel `json:"labels"`
}

// HeldLabel is a label of a caller.
type HeldLabel struct {
	Name string `json:"name"`
	// Ends is when the label ends if no message sets it again; it may end a 64th of the window before. It is
	// zero for one that was cleared.
	Ends time.Time `json:"ends,omitzero"`
}

// kinds are the kinds of principals, by the digit that their keys begin with (auth.Kind).
var kinds = [...]string{"ip", "key", "oauth"}

// principalOf returns what an id stands for.
func principalOf(id string) (principal, issuer string) {
	switch {
	case id == lostCaller:
		return "*", ""
	case strings.HasPrefix(id, addressMark):
		return "ip:" + id[1:], ""
	case strings.HasPrefix(id, sessionMark):
		return "session:" + id[1:], ""
	}
	if kind := int(id[0]) - '0'; 0 <= kind && kind < len(kinds) {
		length, rest, _ := strings.Cut(id[1:], ":")
		if n, err := strconv.Atoi(length); err == nil && 0 <= n && n <= len(rest) {
			return kinds[kind] + ":" + rest[n:], rest[:n]
		}
	}
	return id, ""
}

// idsOf returns the ids that a principal, written as kind:value or as its value, can have.
func idsOf(principal, issuer string) []string {
	var ids []string
	add := func(c Caller) { ids = append(ids, string(c.appendID(nil))) }
	kind, value, typed := strings.Cut(principal, ":")
	for i, k := range kinds {
		v := value
		if !typed || kind != k {
			if typed && (slices.Contains(kinds[:], kind) || kind == "session") {
				continue
			}
			v = principal
		}
		of := ""
		switch k {
		case "ip":
			if a, err := netip.ParseAddr(v); err == nil {
				add(Caller{Address: a})
				if a.Unmap().Is6() { // its network, where that has become one caller
					ids = append(ids, string(appendNetwork(nil, a, 48)))
				}
			}
			continue
		case "oauth":
			of = issuer
		}
		add(Caller{Key: string(rune('0'+i)) + strconv.Itoa(len(of)) + ":" + of + v})
	}
	if kind == "session" && typed {
		add(Caller{Key: value, Session: true})
	}
	return ids
}

// isPrincipal reports whether an id is that of a principal, written as kind:value or as its value.
func isPrincipal(id, principal string) bool {
	p, issuer := principalOf(id)
	_, value, _ := strings.Cut(p, ":")
	return principal == p || principal == value || slices.Contains(idsOf(principal, issuer), id)
}

func heldOf(e *entry) Held {
	var h Held
	h.Principal, h.Issuer = principalOf(e.Caller)
	for _, name := range e.Labels {
		h.Labels = append(h.Labels, HeldLabel{Name: name})
	}
	return h
}

// Show returns the labels in the file in state_dir that have not ended: of the callers with a principal,
// written as kind:value or as its value, or of all callers for none. Labels that were set in the last second
// again may end later.
func Show(stateDir, principal string, window time.Duration, now time.Time) ([]Held, error) {
	f, err := os.Open(filepath.Join(stateDir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	callers := map[string]map[string]int64{}
	_, _, err = readLines(f, func(e *entry) {
		switch {
		case e.Done != "" && len(e.Only) == 0:
			delete(callers, e.Caller)
		case e.Done != "":
			maps.DeleteFunc(callers[e.Caller], func(name string, _ int64) bool { return slices.Contains(e.Only, name) })
		case e.Clear != "" || principal != "" && !isPrincipal(e.Caller, principal):
		default:
			if callers[e.Caller] == nil {
				if len(callers) >= MaxCallers+MaxAddresses {
					return
				}
				callers[e.Caller] = map[string]int64{}
			}
			for _, name := range e.Labels {
				if namePattern.MatchString(name) && (len(callers[e.Caller]) < 4*MaxNames) {
					callers[e.Caller][name] = max(callers[e.Caller][name], min(e.At, now.UnixMilli()))
				}
			}
		}
	})
	var list []Held
	for _, id := range slices.Sorted(maps.Keys(callers)) {
		h := heldOf(&entry{Caller: id})
		for _, name := range slices.Sorted(maps.Keys(callers[id])) {
			if ends := time.UnixMilli(callers[id][name]).Add(window); ends.After(now) {
				h.Labels = append(h.Labels, HeldLabel{Name: name, Ends: ends})
			}
		}
		if len(h.Labels) > 0 {
			list = append(list, h)
		}
	}
	return list, err
}

// ShowShared returns the labels of a principal in the store that replicas share. issuer is that of the
// configuration.
func ShowShared(ctx context.Context, store Store, principal, issuer string, names *Names, window time.Duration, now time.Time) ([]Held, error) {
	var list []Held
	for _, id := range idsOf(principal, issuer) {
		ages, _, _, err := store.Labels(ctx, id, names.List())
		if err != nil {
			return nil, err
		}
		h := heldOf(&entry{Caller: id})
		for i, age := range ages {
			if age < window {
				h.Labels = append(h.Labels, HeldLabel{Name: names.List()[i], Ends: now.Add(window - max(age, 0))})
			}
		}
		if len(h.Labels) > 0 {
			list = append(list, h)
		}
	}
	return list, nil
}

// ErrNotTaken says that no gateway has taken a request to clear labels. The next start of one does.
var ErrNotTaken = errors.New("no running gateway has taken the request: it is done when a gateway with this state_dir runs")

// Clear asks the gateway with a state_dir to clear labels of a principal, written as kind:value or as its value, in
// the process, the file and the store: those of only, or all for none. It waits for that until ctx ends, and
// returns the labels that were cleared. issuer is that of the configuration.
func Clear(ctx context.Context, stateDir, principal, issuer string, only ...string) ([]Held, error) {
	j := journal{path: filepath.Join(stateDir, fileName)}
	defer j.close()
	ids := idsOf(principal, issuer)
	waits := map[string]bool{}
	var cleared []Held
	var failed error
	seen := func(e *entry) {
		switch {
		case len(waits) == 0 && e.Labels != nil && len(ids) < MaxCallers && isPrincipal(e.Caller, principal) && !slices.Contains(ids, e.Caller):
			ids = append(ids, e.Caller)
		case waits[e.Done]:
			delete(waits, e.Done)
			if len(e.Labels) > 0 {
				cleared = append(cleared, heldOf(e))
			}
			if e.Error != "" {
				failed = errors.Join(failed, errors.New(e.Error))
			}
		}
	}
	_, err := j.locked(ctx, true, seen, func() error {
		var requests []entry
		for _, id := range ids {
			r := entry{At: time.Now().UnixMilli(), Caller: id, Only: only, Clear: rand.Text()}
			requests, waits[r.Clear] = append(requests, r), true
		}
		return j.add(requests...)
	})
	if err != nil {
		return nil, fmt.Errorf("labels of callers: %w", err)
	}
	for len(waits) > 0 {
		if !retry.Wait(ctx, 50*time.Millisecond) {
			return cleared, errors.Join(failed, ErrNotTaken)
		}
		if _, err := j.locked(ctx, false, seen, func() error { return nil }); err != nil && ctx.Err() == nil {
			return cleared, fmt.Errorf("labels of callers: %w", err)
		}
	}
	return cleared, failed
}
