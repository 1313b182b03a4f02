package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// notSettings are flags that say what to do now; no file or variable sets them.
var notSettings = []string{"help", "config", "check", "output"}

// resolveSettings fills the flags that were not given from SVC_ variables, and
// those that are left from a YAML file: flag > environment > file > default.
// The file may be absent only when nobody named it. It is read strictly:
// unknown keys and values that do not fit are errors, all reported at once.
func resolveSettings(env Env, flags *pflag.FlagSet, defaultPath string) error {
	path, named := defaultPath, false
	if f := flags.Lookup("config"); f.Changed {
		path, named = f.Value.String(), true
	} else if v := env.getenv("SVC_CONFIG"); v != "" {
		path, named = v, true
	}
	file, err := readSettings(env, path, named)
	if err != nil {
		return err
	}
	return applySettings(env, flags, file, path)
}

// resolveEnvironment fills the flags that were not given from SVC_ variables,
// for commands whose file is about something else.
func resolveEnvironment(env Env, flags *pflag.FlagSet) error {
	return applySettings(env, flags, viper.New(), "")
}

func applySettings(env Env, flags *pflag.FlagSet, file *viper.Viper, path string) error {
	var known []string
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings, f.Name) {
			return
		}
		known = append(known, f.Name)
		if f.Changed {
			return
		}
		origin, value := settingName(f.Name), env.getenv(settingName(f.Name))
		if value == "" && file.IsSet(f.Name) {
			origin = path + ": " + f.Name
			var err error
			if value, err = scalar(file.Get(f.Name)); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", origin, err))
				return
			}
		}
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %q: %w", origin, value, err))
		}
	})
	for _, key := range file.AllKeys() {
		if slices.Contains(known, key) {
			continue
		}
		problem := fmt.Errorf("%s: unknown key %q", path, key)
		if n := nearest(key, known); n != "" {
			problem = fmt.Errorf("%w, did you mean %q?", problem, n)
		}
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return usage(errors.Join(problems...), "settings are flags; see '--help' for their names and values")
	}
	return nil
}

// settingName is the environment variable of a flag.
func settingName(flag string) string {
	return "SVC_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readSettings parses the file; an absent one that nobody named is empty.
func readSettings(env Env, path string, named bool) (*viper.Viper, error) {
	v := viper.New()
	data, err := env.readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return v, nil
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read settings: %w", err), "")
	}
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(data)); err != nil {
		return nil, usage(fmt.Errorf("read settings %s: %w", path, errors.Unwrap(err)), "the file holds one 'name: value' per line")
	}
	return v, nil
}

// scalar turns a YAML value into the text that a flag would be given.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return "", errors.New("must be one value, not a list or a map")
}

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
	d, err := parseSpan(text)
	if err != nil || d < 0 {
		return errors.New("must be a duration such as 30s, 12h or 90d")
	}
	*s = spanValue(d)
	return nil
}

func spanFlag(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, help string) {
	*p = value
	f.Var((*spanValue)(p), name, help)
}
