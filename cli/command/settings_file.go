package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"
)

// settingsFile decodes a settings file for viper, as strictly as the gateway decodes
// its config: one document, one mapping of known names to single values of the right
// type, each key once.
type settingsFile struct{ to *layers }

// Decoder returns the decoder of a format; there is one.
func (d settingsFile) Decoder(string) (viper.Decoder, error) { return d, nil }

// Decode reads the settings of a file into a map. A problem of one line is added to
// those of the layers; an error is returned if the file as a whole cannot be read.
func (d settingsFile) Decode(data []byte, settings map[string]any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // nothing but comments
	} else if err != nil {
		return fmt.Errorf(": %w", err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New(": the file has more than one document")
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf(":%d: not a list of names and values", root.Line)
	}
	lines := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		origin := fmt.Sprintf("%s:%d: %s", d.to.viper.ConfigFileUsed(), key.Line, key.Value)
		err := checkSetting(d.to.flags, key, value)
		if line, twice := lines[key.Value]; twice && err == nil {
			err = fmt.Errorf("set already in line %d", line)
		}
		if err != nil {
			d.to.problems = append(d.to.problems, fmt.Errorf("%s: %w", origin, err))
			continue
		}
		lines[key.Value] = key.Line
		settings[key.Value] = setting{origin, value.Value}
	}
	return nil
}

// checkSetting rejects unknown keys and values of another type: YAML parsers differ
// on the meaning of 0644, 0x10 and yes.
func checkSetting(flags *pflag.FlagSet, key, value *yaml.Node) error {
	f := flags.Lookup(key.Value)
	if f == nil || slices.Contains(notSettings, f.Name) {
		return unknownSetting(flags, key.Value)
	}
	quoted := value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	switch {
	case value.Kind == yaml.AliasNode || value.Anchor != "" || value.Style&yaml.TaggedStyle != 0:
		return errors.New("anchors, aliases and tags are not supported here")
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
		return fmt.Errorf("%s is not a string; put it in quotes to make it one", value.Value)
	}
	return nil
}

// unknownSetting is the error for an unknown key. Keys are case-sensitive: a key in
// another case is unknown too.
func unknownSetting(flags *pflag.FlagSet, key string) error {
	var known []string
	for _, f := range settingFlags(flags) {
		if strings.EqualFold(f.Name, key) {
			return fmt.Errorf("unknown key %q: keys are case-sensitive, write %q", key, f.Name)
		}
		known = append(known, f.Name)
	}
	if n := Nearest(strings.ToLower(strings.ReplaceAll(key, "_", "-")), known); n != "" {
		return fmt.Errorf("unknown key %q, did you mean %q?", key, n)
	}
	return fmt.Errorf("unknown key %q", key)
}

// isDecimal reports whether text is a plain decimal integer: no leading zeros, no
// separators, no other base.
func isDecimal(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}
