package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"svc/cli/process"
)

// notSettings are flags about one run of a command; no file or variable sets them.
var notSettings = []string{"help", "config", "check", "output", "no-color"}

// ResolveSettings fills the flags that were not given from SVC_ variables and a YAML
// file. Flags override environment variables, which override the settings file, which
// overrides defaults. The file may be absent only if it is the default one. All
// problems are reported at once.
func ResolveSettings(env process.Env, flags *pflag.FlagSet, defaultPath string) error {
	l := newLayers(flags)
	path, named := ConfigPath(env, flags, defaultPath)
	if err := l.readFile(env, path, named); err != nil {
		return err
	}
	return l.apply(env)
}

// ResolveEnvironment fills the flags that were not given from SVC_ variables,
// for commands whose file is not a settings file.
func ResolveEnvironment(env process.Env, flags *pflag.FlagSet) error {
	return newLayers(flags).apply(env)
}

// ConfigPath returns the file that --config or SVC_CONFIG names, else the default.
// The second result reports whether the user named a file.
func ConfigPath(env process.Env, flags *pflag.FlagSet, defaultPath string) (path string, named bool) {
	if f := flags.Lookup("config"); f.Changed {
		return f.Value.String(), true
	}
	if v := env.Getenv("SVC_CONFIG"); v != "" {
		return v, true
	}
	return defaultPath, false
}

// layers are the sources of the settings of one command. viper decides which source
// a value is taken from; the file is decoded by [settingsFile], which rejects a key
// before viper folds its case.
type layers struct {
	viper    *viper.Viper
	flags    *pflag.FlagSet
	problems []error
}

// setting is a value of the environment or of the file. The flag parses the text, so
// a value means the same in every layer.
type setting struct {
	origin string // the variable, or file:line: key
	text   string
}

func newLayers(flags *pflag.FlagSet) *layers {
	l := &layers{flags: flags}
	l.viper = viper.NewWithOptions(viper.WithDecoderRegistry(settingsFile{l}))
	l.viper.SetConfigType("yaml")
	for _, f := range settingFlags(flags) {
		// An error is returned for a nil flag only.
		_ = l.viper.BindPFlag(f.Name, f)
	}
	return l
}

// settingFlags returns the flags that variables and files can set.
func settingFlags(flags *pflag.FlagSet) (list []*pflag.Flag) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notSettings, f.Name) {
			list = append(list, f)
		}
	})
	return list
}

// readFile adds the settings file. An absent file that the user did not name is empty.
func (l *layers) readFile(env process.Env, path string, named bool) error {
	data, err := env.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return Usage(fmt.Errorf("read settings: %w", err), "")
	}
	l.viper.SetConfigFile(path)
	var malformed viper.ConfigParseError
	if err := l.viper.ReadConfig(bytes.NewReader(data)); errors.As(err, &malformed) {
		return Usage(fmt.Errorf("read settings %s%w", path, malformed.Unwrap()), "the file has one 'name: value' per line")
	} else if err != nil {
		return fmt.Errorf("read settings %s: %w", path, err)
	}
	return nil
}

// apply sets each flag for which a variable or the file has the value that takes
// precedence, and reports the problems of all layers.
func (l *layers) apply(env process.Env) error {
	// viper can read the variables of the process only. Variables may also be
	// credentials of the systemd unit, so they are merged over the file here.
	variables := map[string]any{}
	for _, f := range settingFlags(l.flags) {
		if v := env.Getenv(SettingName(f.Name)); v != "" {
			variables[f.Name] = setting{SettingName(f.Name), v}
		}
	}
	if err := l.viper.MergeConfigMap(variables); err != nil {
		return err
	}
	for _, f := range settingFlags(l.flags) {
		s, ok := l.viper.Get(f.Name).(setting)
		if !ok {
			continue // the flag was given, or the default holds
		}
		if err := f.Value.Set(s.text); err != nil {
			l.problems = append(l.problems, fmt.Errorf("%s: %w", s.origin, badValue(f, s.text, err)))
		}
	}
	if len(l.problems) > 0 {
		slices.SortFunc(l.problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return Usage(errors.Join(l.problems...), "settings are flags; see '--help' for their names and values")
	}
	return nil
}

// badValue explains for people why a flag rejects a value.
func badValue(f *pflag.Flag, value string, err error) error {
	if f.Name == "log-level" { // the error is one of log/slog
		return fmt.Errorf("%q is not a level: use debug, info, warn or error", value)
	}
	switch f.Value.Type() {
	case "int", "int32", "int64":
		return fmt.Errorf("%q is not a whole number", value)
	case "uint8", "uint16", "uint32", "uint64":
		return fmt.Errorf("%q is not a whole number of at least 0", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is not a duration: write a number with its unit, such as 30s, 12h or 90d", value)
	}
	return fmt.Errorf("%q: %w", value, err)
}

// SettingName is the environment variable of a flag.
func SettingName(flag string) string {
	return "SVC_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// UnreadVariables returns the variables that look like settings and that no command
// reads, each with the setting that was probably meant.
func UnreadVariables(env process.Env, flags *pflag.FlagSet) (lines []string) {
	known := slices.Clone(otherVariables)
	for _, f := range settingFlags(flags) {
		known = append(known, SettingName(f.Name))
	}
	for _, name := range env.Variables() {
		upper := strings.ToUpper(name)
		if !strings.HasPrefix(upper, "SVC_") || slices.Contains(known, name) {
			continue
		}
		line := name
		if n := Nearest(upper, known); n != "" {
			line += ", did you mean " + n + "?"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// otherVariables are the variables that commands read beside those of flags.
var otherVariables = []string{
	"SVC_CONFIG", "SVC_URL", "SVC_API_KEY", "SVC_API_KEY_FILE", "SVC_CONTEXT", "SVC_BOOTSTRAP_API_KEY", "SVC_HEALTH_URL",
	// What the examples of gateway configurations refer to.
	"SVC_INGEST_KEY", "SVC_FIRST_CLIENT_HASH", "SVC_GATEWAY_URL", "SVC_GATEWAY_KEY",
}
