package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// enumValue is a flag with a fixed set of values; empty means not given.
type enumValue struct {
	value   *string
	allowed []string
}

func (v enumValue) String() string {
	if v.value == nil {
		return ""
	}
	return *v.value
}

func (v enumValue) Type() string { return strings.Join(v.allowed, "|") }

func (v enumValue) Set(s string) error {
	if !slices.Contains(v.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(v.allowed, ", "))
	}
	*v.value = s
	return nil
}

// EnumFlag adds a flag that takes one of the values, and completes them.
func EnumFlag(cmd *cobra.Command, p *string, name string, allowed []string, help string) {
	v := enumValue{p, allowed}
	cmd.Flags().Var(v, name, help)
	if err := cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return v.allowed, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // fails only when the flag is registered twice
	}
}

// OptionalFloat is a flag for an optional number.
type OptionalFloat struct{ Value **float64 }

func (v OptionalFloat) String() string {
	if v.Value == nil || *v.Value == nil {
		return ""
	}
	return strconv.FormatFloat(**v.Value, 'g', -1, 64)
}

func (v OptionalFloat) Type() string { return "number" }

func (v OptionalFloat) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return errors.New("must be a number")
	}
	*v.Value = &f
	return nil
}

// optionalBool is a flag for an optional boolean.
type optionalBool struct{ value **bool }

func (v optionalBool) String() string {
	if v.value == nil || *v.value == nil {
		return ""
	}
	return strconv.FormatBool(**v.value)
}

func (v optionalBool) Type() string { return "bool" }

func (v optionalBool) Set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	*v.value = &b
	return nil
}

// BoolFlag adds a flag that means true when it is given without a value.
func BoolFlag(cmd *cobra.Command, p **bool, name, help string) {
	cmd.Flags().Var(optionalBool{p}, name, help)
	cmd.Flags().Lookup(name).NoOptDefVal = "true"
}

// TimeValue is a flag for a point in time: RFC 3339, a date, or how long ago.
type TimeValue struct {
	Value *time.Time
	Now   func() time.Time
}

func (v TimeValue) String() string {
	if v.Value == nil || v.Value.IsZero() {
		return ""
	}
	return v.Value.Format(time.RFC3339)
}

func (v TimeValue) Type() string { return "time" }

func (v TimeValue) Set(s string) error {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
	}
	if err != nil {
		var ago time.Duration
		if ago, err = ParseDuration(s); err == nil {
			t = v.Now().Add(-ago)
		}
	}
	if err != nil {
		return errors.New("must be a time (2026-10-01T12:00:00Z), a date (2026-10-01) or how long ago (12h, 7d)")
	}
	*v.Value = t.UTC()
	return nil
}

// Changed returns a pointer to the value of a flag that was given, or nil.
func Changed[T any](cmd *cobra.Command, name string, value *T) *T {
	if cmd.Flags().Changed(name) {
		return value
	}
	return nil
}

// AnyChanged rejects an update without any change.
func AnyChanged(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return nil
		}
	}
	return Usagef("give at least one of --"+strings.Join(names, ", --"), "nothing to change")
}
