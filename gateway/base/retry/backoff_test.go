package retry

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The pauses between attempts double up to a bound, and start again after an attempt that lasted
// as long as the next pause.
func TestBackoff(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct{ lasted, want []time.Duration }{
		"attempts that fail at once": {
			[]time.Duration{0, 0, 0, 0, 0, 0, 0},
			[]time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s},
		},
		"one that lasted": {
			[]time.Duration{0, 0, 0, 8 * s, 0, 0},
			[]time.Duration{1 * s, 2 * s, 4 * s, 1 * s, 2 * s, 4 * s},
		},
		"one that was too short": {
			[]time.Duration{0, 0, 0, 8*s - 1, 0},
			[]time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s},
		},
		"a long one, after the longest pause": {
			[]time.Duration{0, 0, 0, 0, 0, 0, 30*s - 1, 30 * s, 0},
			[]time.Duration{1 * s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 1 * s, 2 * s},
		},
		"each lasts": {
			[]time.Duration{time.Hour, time.Hour, 2 * s},
			[]time.Duration{1 * s, 1 * s, 1 * s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pauses := Pauses{Min: time.Second, Max: 30 * time.Second}
			var got []time.Duration
			for _, lasted := range tt.lasted {
				got = append(got, pauses.Next(lasted))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 30, 2: 60, 3: 120, 6: 960, 7: 1800, 8: 1800, 1000: 1800} {
		if got := After(failures, 30, 1800); got != want {
			t.Errorf("after %d failures: %d, want %d", failures, got, want)
		}
	}
}

func TestWaitEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Wait(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited for %s, want a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if Wait(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited for %s after the end of the context", time.Since(began)-time.Second)
		}
	})
}
