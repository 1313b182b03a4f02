package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"
)

// notSettings are flags that say what to do now; no file or variable sets them.
var notSettings = []string{"help", "config", "check", "output", "no-color"}

// resolveSettings fills the flags that were not given from SVC_ variables, and
// those that are left from a YAML file: flags override variables, which override
// the file, which overrides defaults. The file may be absent only when nobody named
// it. It is read strictly, and all problems are reported at once.
func resolveSettings(env Env, flags *pflag.FlagSet, defaultPath string) error {
	path, named := configPath(env, flags, defaultPath)
	file, problems, err := readSettings(env, flags, path, named)
	if err != nil {
		return err
	}
	return applySettings(env, flags, file, problems)
}

// resolveEnvironment fills the flags that were not given from SVC_ variables,
// for commands whose file is about something else.
func resolveEnvironment(env Env, flags *pflag.FlagSet) error {
	return applySettings(env, flags, viper.New(), nil)
}

// configPath returns the file that --config or SVC_CONFIG names, else the default;
// named says that somebody named it.
func configPath(env Env, flags *pflag.FlagSet, defaultPath string) (path string, named bool) {
	if f := flags.Lookup("config"); f.Changed {
		return f.Value.String(), true
	}
	if v := env.getenv("SVC_CONFIG"); v != "" {
		return v, true
	}
	return defaultPath, false
}

// fromFile is where a value of the settings file comes from.
type fromFile struct {
	origin string // file:line: key
	value  string
}

// applySettings sets each flag that was not given to what the layers below it say.
// viper holds those layers: a variable overrides the file.
func applySettings(env Env, flags *pflag.FlagSet, file *viper.Viper, problems []error) error {
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings, f.Name) || f.Changed {
			return
		}
		if v := env.getenv(settingName(f.Name)); v != "" {
			file.Set(f.Name, fromFile{settingName(f.Name), v})
		}
		setting, ok := file.Get(f.Name).(fromFile)
		if !ok {
			return
		}
		if err := f.Value.Set(setting.value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", setting.origin, badValue(f, setting.value, err)))
		}
	})
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return usage(errors.Join(problems...), "settings are flags; see '--help' for their names and values")
	}
	return nil
}

// badValue says why a flag does not take a value, in words for people.
func badValue(f *pflag.Flag, value string, err error) error {
	switch f.Value.Type() {
	case "int", "int32", "int64":
		return fmt.Errorf("%q is not a whole number", value)
	case "uint8", "uint16", "uint32", "uint64":
		return fmt.Errorf("%q is not a whole number from 0 on", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is not a duration: write a number with its unit, such as 30s, 12h or 90d", value)
	}
	return fmt.Errorf("%q: %w", value, err)
}

// settingName is the environment variable of a flag.
func settingName(flag string) string {
	return "SVC_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readSettings parses the file as strictly as the gateway's: one document, one
// mapping of known names to single values of the right kind, each once. An absent
// file that nobody named is empty. Problems name the line and are returned beside
// what could be read.
func readSettings(env Env, flags *pflag.FlagSet, path string, named bool) (*viper.Viper, []error, error) {
	v := viper.New()
	data, err := env.readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return v, nil, nil
	}
	if err != nil {
		return nil, nil, usage(fmt.Errorf("read settings: %w", err), "")
	}
	const hint = "the file holds one 'name: value' per line"
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return v, nil, nil // nothing but comments
	} else if err != nil {
		return nil, nil, usage(fmt.Errorf("read settings %s: %w", path, err), hint)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, nil, usage(fmt.Errorf("read settings %s: the file has more than one document", path), hint)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, nil, usage(fmt.Errorf("read settings %s:%d: not a list of names and values", path, root.Line), hint)
	}
	var problems []error
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		origin := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		err := checkSetting(flags, key, value)
		if line, twice := seen[key.Value]; twice && err == nil {
			err = fmt.Errorf("set already in line %d", line)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", origin, err))
			continue
		}
		seen[key.Value] = key.Line
		v.Set(key.Value, fromFile{origin, value.Value})
	}
	return v, problems, nil
}

// checkSetting refuses what is no setting, and values of another kind: YAML readers
// differ on what 0644, 0x10 or yes are.
func checkSetting(flags *pflag.FlagSet, key, value *yaml.Node) error {
	f := flags.Lookup(key.Value)
	if f == nil || slices.Contains(notSettings, f.Name) {
		var known []string
		flags.VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(notSettings, f.Name) {
				known = append(known, f.Name)
			}
		})
		if n := nearest(strings.ToLower(key.Value), known); n != "" {
			return fmt.Errorf("unknown key %q, did you mean %q?", key.Value, n)
		}
		return fmt.Errorf("unknown key %q", key.Value)
	}
	quoted := value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	switch {
	case value.Kind == yaml.AliasNode || value.Anchor != "" || value.Style&yaml.TaggedStyle != 0:
		return errors.New("anchors, aliases and tags are not read here")
	case value.Kind != yaml.ScalarNode:
		return errors.New("must be one value, not a list or a map")
	case value.Tag == "!!null" || value.Value == "":
		return errors.New("has no value; leave the line out for the default")
	}
	switch kind := f.Value.Type(); {
	case kind == "int" && (quoted || !isDecimal(value.Value)):
		return fmt.Errorf("%s is not a whole number in decimal digits", value.Value)
	case kind == "bool" && (quoted || value.Value != "true" && value.Value != "false"):
		return fmt.Errorf("%s is neither true nor false", value.Value)
	case kind == "string" && !quoted && value.Tag != "!!str":
		return fmt.Errorf("%s is not a text; put it in quotes if it is meant", value.Value)
	}
	return nil
}

// isDecimal reports whether text is an integer as people write it: no leading
// zeros, no separators, no other base.
func isDecimal(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// unreadVariables returns the variables that look like settings and that nothing
// reads, each with the setting that was probably meant.
func unreadVariables(env Env, flags *pflag.FlagSet) (lines []string) {
	known := slices.Clone(otherVariables)
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notSettings, f.Name) {
			known = append(known, settingName(f.Name))
		}
	})
	for _, name := range env.variables() {
		if !strings.HasPrefix(name, "SVC_") || slices.Contains(known, name) {
			continue
		}
		line := name
		if n := nearest(name, known); n != "" {
			line += ", did you mean " + n + "?"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// otherVariables are the variables that commands read beside those of flags.
var otherVariables = []string{
	"SVC_CONFIG", "SVC_URL", "SVC_API_KEY", "SVC_API_KEY_FILE", "SVC_BOOTSTRAP_API_KEY", "SVC_HEALTH_URL",
	// What the examples of gateway configurations refer to.
	"SVC_INGEST_KEY", "SVC_FIRST_CLIENT_HASH",
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
