package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationValue is a duration flag that also accepts whole days.
type durationValue time.Duration

func (s *durationValue) String() string {
	d := time.Duration(*s)
	if d > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}

func (s *durationValue) Type() string { return "duration" }

func (s *durationValue) Set(text string) error {
	d, err := ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("must be a duration such as 30s, 12h or 90d")
	}
	*s = durationValue(d)
	return nil
}

func DurationFlag(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, help string) {
	*p = value
	f.Var((*durationValue)(p), name, help)
}

// ParseDuration parses a duration; besides Go's units it accepts whole days,
// such as 90d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > 36500 {
			return 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}
