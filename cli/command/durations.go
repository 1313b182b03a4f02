package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// spanValue is a flag for a duration that also takes whole days.
type spanValue time.Duration

func (s *spanValue) String() string {
	d := time.Duration(*s)
	if d > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}

func (s *spanValue) Type() string { return "duration" }

func (s *spanValue) Set(text string) error {
	d, err := ParseSpan(text)
	if err != nil || d < 0 {
		return errors.New("must be a duration such as 30s, 12h or 90d")
	}
	*s = spanValue(d)
	return nil
}

func SpanFlag(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, help string) {
	*p = value
	f.Var((*spanValue)(p), name, help)
}

// ParseSpan reads a duration; besides Go's units it knows whole days, 90d.
func ParseSpan(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > 36500 {
			return 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(s)
}
