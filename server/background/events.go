package background

import (
	"context"
	"encoding/json"
	"time"

	"svc/store"
)

// noteSLA queues messages about a target that is missed, or met again. Without data its state stays.
func noteSLA(ctx context.Context, t store.Tenant, target *store.SLATarget, s *Assessment) error {
	return t.NotifyOnce(ctx, store.Subject{Kind: "slaTarget", ID: target.ID}, func(mark string) (string, []store.Event) {
		switch {
		case s.Status == stateBreached && mark != stateBreached:
			return stateBreached, []store.Event{store.SLAEvent(store.EventSLABreached, target, s.P99Ms, s.ErrorRate)}
		case mark == stateBreached && (s.Status == stateHealthy || s.Status == stateAtRisk):
			return "", []store.Event{store.SLAEvent(store.EventSLARecovered, target, s.P99Ms, s.ErrorRate)}
		}
		return mark, nil
	})
}

// fired is what was said last about a policy.
type fired struct {
	Count int64 // of the policy, in all
	At    int64 // Unix time of the last message; 0: there was none
}

// firedEvery is the least time between two messages about a policy; passes are a minute apart, and
// some a little less.
const firedEvery = time.Minute - time.Second

// notePolicies queues messages about policies that fired since the last ones. Counts are compared,
// so that traces cost nothing, wherever they are stored.
func (e *Evaluator) notePolicies(ctx context.Context, t store.Tenant, now time.Time) error {
	list, _, err := t.ListPolicies(ctx, store.PolicyFilter{}, store.Page{})
	if err != nil || len(list) == 0 {
		return err
	}
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	counts, err := e.Traces.TracesOf(t.ID()).PolicyFires(ctx, ids)
	if err != nil {
		return err
	}
	return t.NotifyOnce(ctx, store.Subject{Kind: "policies"}, func(mark string) (string, []store.Event) {
		last, next := map[string]fired{}, make(map[string]fired, len(list))
		first := json.Unmarshal([]byte(mark), &last) != nil // nothing is known of the time before
		var events []store.Event
		for i := range list {
			p := &list[i]
			f, n := last[p.ID], counts[p.ID]
			switch due := now.Unix()-f.At >= int64(firedEvery/time.Second); {
			case first || n < f.Count: // also after a restore of the traces
				f.Count = n
			case n > f.Count && due:
				events = append(events, store.PolicyFiredEvent(p, n-f.Count))
				f = fired{n, now.Unix()}
			}
			next[p.ID] = f
		}
		text, _ := json.Marshal(next) // plain values only: never fails
		return string(text), events
	})
}
