package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/base/diag"
)

// sample has a field of every kind that sections use.
type sample struct {
	Text     string            `yaml:"text"`
	Env      string            `yaml:"env" env:"true"`
	Kind     kind              `yaml:"kind"`
	On       bool              `yaml:"on"`
	Count    int               `yaml:"count"`
	Small    int8              `yaml:"small"`
	Big      int64             `yaml:"big"`
	Ratio    float64           `yaml:"ratio"`
	Wait     time.Duration     `yaml:"wait"`
	At       time.Time         `yaml:"at"`
	Maybe    *string           `yaml:"maybe"`
	MaybeInt *int              `yaml:"maybe_int"`
	List     []string          `yaml:"list"`
	EnvList  []string          `yaml:"env_list" env:"true"`
	Map      map[string]string `yaml:"map"`
	Headers  map[string]string `yaml:"headers" env:"true"`
	Inner    inner             `yaml:"inner"`
	Inners   []inner           `yaml:"inners"`
	ByName   map[string]inner  `yaml:"by_name"`
	Optional *inner            `yaml:"optional"`
	Prefix   netip.Prefix      `yaml:"prefix"`
	Any      any               `yaml:"any"`
	Inlined  `yaml:",inline"`
	Untagged string
}

type (
	kind    string
	Inlined struct {
		Extra string `yaml:"extra"`
	}
	inner struct {
		Size int    `yaml:"size"`
		Name string `yaml:"name"`
		Deep deep   `yaml:"deep"`
	}
	deep struct {
		Level int `yaml:"level"`
	}
)

func (i *inner) SetDefaults() { i.Size = 7 }
func (d *deep) SetDefaults()  { d.Level = 3 }

// read decodes text into a sample, and returns the findings as
// "line:column code path: message (hint)".
func read(t *testing.T, text string, env map[string]string) (*sample, []string) {
	t.Helper()
	l := &loader{name: "f", report: diag.New(), getenv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}
	s := &sample{}
	if root := l.parse([]byte(text)); root != nil {
		l.inspect(root, nil, 1)
		v := reflect.ValueOf(s).Elem()
		setDefaults(v)
		l.decode(root, v, nil, field{})
	}
	fs := l.report.Findings()
	diag.Sort(fs)
	var out []string
	for _, f := range fs {
		s := fmt.Sprintf("%d:%d %s %s: %s", f.Pos.Line, f.Pos.Column, f.Code, f.Path, f.Message)
		if f.Severity == diag.Warning {
			s = "warning " + s
		}
		if f.Hint != "" {
			s += " (" + f.Hint + ")"
		}
		out = append(out, s)
	}
	return s, out
}

func TestEveryKindOfField(t *testing.T) {
	got, found := read(t, `
text: hello
env: ${A}-${B}
kind: k
on: true
count: -12
small: 127
big: 9223372036854775807
ratio: 2.5e-1
wait: 1h30m
at: 2026-01-31T15:04:05+02:00
maybe: ""
maybe_int: 0
list: [a, "b"]
env_list: ["${A}", c]
map: {x-Y.z: v}
headers: {Authorization: "Bearer ${A}"}
inner: {name: n}
inners:
  - name: one
  - size: 1
    deep: {level: 9}
by_name: {a: {name: n}}
optional: {}
prefix: 10.0.0.0/8
any: {x: [1]}
extra: e
`, map[string]string{"A": "va", "B": "vb"})
	if found != nil {
		t.Fatalf("findings: %q", found)
	}
	empty, zero := "", 0
	want := &sample{
		Text: "hello", Env: "va-vb", Kind: "k", On: true, Count: -12, Small: 127, Big: 1<<63 - 1, Ratio: 0.25,
		Wait: 90 * time.Minute, At: time.Date(2026, 1, 31, 13, 4, 5, 0, time.UTC), Maybe: &empty, MaybeInt: &zero,
		List: []string{"a", "b"}, EnvList: []string{"va", "c"}, Map: map[string]string{"x-Y.z": "v"},
		Headers:  map[string]string{"Authorization": "Bearer va"},
		Inner:    inner{Size: 7, Name: "n", Deep: deep{3}},
		Inners:   []inner{{7, "one", deep{3}}, {1, "", deep{9}}},
		ByName:   map[string]inner{"a": {7, "n", deep{3}}},
		Optional: &inner{7, "", deep{3}},
		Prefix:   netip.MustParsePrefix("10.0.0.0/8"),
		Any:      "a mapping",
		Inlined:  Inlined{Extra: "e"},
	}
	opts := cmp.Options{
		cmp.AllowUnexported(sample{}, inner{}, deep{}),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Error(d)
	}
}

func TestAbsentFieldsHaveDefaults(t *testing.T) {
	got, found := read(t, "text: x", nil)
	if found != nil {
		t.Fatal(found)
	}
	if got.Inner.Size != 7 || got.Inner.Deep.Level != 3 {
		t.Errorf("inner = %+v, want the defaults of both levels", got.Inner)
	}
	if got.Maybe != nil || got.Optional != nil || got.List != nil || got.Map != nil {
		t.Errorf("absent fields are set: %+v", got)
	}
}

func TestEmptyListAndMapArePresent(t *testing.T) {
	got, found := read(t, "list: []\nmap: {}\noptional: {}", nil)
	if found != nil {
		t.Fatal(found)
	}
	if got.List == nil || got.Map == nil || got.Optional == nil {
		t.Errorf("an empty value reads like an absent one: %+v", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key with the nearest known one", "txet: x", []string{
			`1:1 unknown-key : unknown key "txet" (did you mean "text"?)`}},
		{"unknown key that differs by dash and case", "Maybe-Int: 1", []string{
			`1:1 unknown-key : unknown key "Maybe-Int" (did you mean "maybe_int"?)`}},
		{"unknown key with nothing near", "inner: {frobnicate: 1}", []string{
			`1:9 unknown-key inner: unknown key "frobnicate" (known keys here: size, name, deep)`}},
		{"unknown keys of list elements", "inners:\n  - name: a\n  - nmae: b", []string{
			`3:5 unknown-key inners[1]: unknown key "nmae" (did you mean "name"?)`}},
		{"fields without a tag are not keys", "Untagged: x", []string{
			`1:1 unknown-key : unknown key "Untagged" (known keys here: text, env, kind, on, count, small, big, ratio, wait, at, maybe, maybe_int, list, env_list, map, headers, inner, inners, by_name, optional, prefix, any, extra)`}},
		{"duplicate key", "text: a\ncount: 1\ntext: b", []string{
			"3:1 duplicate-key text: is given twice, first on line 1 (keep one of them)"}},
		{"duplicate key of a map", "map:\n  a: x\n  \"a\": y", []string{
			"3:3 duplicate-key map.a: is given twice, first on line 2 (keep one of them)"}},
		{"duplicate key below an unknown one", "zzzzzzzz:\n  a: x\n  a: y", []string{
			`1:1 unknown-key : unknown key "zzzzzzzz" (known keys here: text, env, kind, on, count, small, big, ratio, wait, at, maybe, maybe_int, list, env_list, map, headers, inner, inners, by_name, optional, prefix, any, extra)`,
			"3:3 duplicate-key zzzzzzzz.a: is given twice, first on line 2 (keep one of them)"}},
		{"list where text is wanted", "text: [a]", []string{"1:7 wrong-type text: expected text, found a list"}},
		{"mapping where text is wanted", "text: {a: b}", []string{"1:7 wrong-type text: expected text, found a mapping"}},
		{"number where text is wanted", "text: 123", []string{
			`1:7 wrong-type text: expected text, found the number 123 (put it in quotes: "123")`}},
		{"octal-looking text", "text: 0123", []string{
			`1:7 wrong-type text: expected text, found the number 0123 (put it in quotes: "0123")`}},
		{"version-looking text", "text: 1.10", []string{
			`1:7 wrong-type text: expected text, found the number 1.10 (put it in quotes: "1.10")`}},
		{"truth value where text is wanted", "text: true", []string{
			`1:7 wrong-type text: expected text, found the truth value true (put it in quotes: "true")`}},
		{"no value where text is wanted", "text:", []string{
			`1:6 wrong-type text: expected text, found no value (write "" for empty text, or remove the key)`}},
		{"null where text is wanted", "text: ~", []string{
			`1:7 wrong-type text: expected text, found no value (write "" for empty text, or remove the key)`}},
		{"no value where a mapping is wanted", "inner:", []string{
			"1:7 wrong-type inner: expected a mapping, found no value (write {} for an empty mapping, or remove the key)"}},
		{"no value where a list is wanted", "list: null", []string{
			"1:7 wrong-type list: expected a list, found no value (write [] for an empty list, or remove the key)"}},
		{"no value for an optional text", "maybe:", []string{
			`1:7 wrong-type maybe: expected text, found no value (write "" for empty text, or remove the key)`}},
		{"text where a list is wanted", "list: a", []string{
			"1:7 wrong-type list: expected a list, found a text (write one entry per line, each after a dash)"}},
		{"mapping where a list is wanted", "inners: {name: a}", []string{
			"1:9 wrong-type inners: expected a list, found a mapping"}},
		{"list where a mapping is wanted", "inner: [a]", []string{"1:8 wrong-type inner: expected a mapping, found a list"}},
		{"number as a key of a map", "map: {1: x}", []string{
			`1:7 wrong-type map.1: expected text, found the number 1 (put it in quotes: "1")`}},
		{"yes as a truth value", "on: yes", []string{`1:5 wrong-type on: expected true or false, found the text "yes" (write true)`}},
		{"no as a truth value", "on: no", []string{`1:5 wrong-type on: expected true or false, found the text "no" (write false)`}},
		{"off as a truth value", "on: Off", []string{`1:5 wrong-type on: expected true or false, found the text "Off" (write false)`}},
		{"quoted truth value", `on: "true"`, []string{
			`1:5 wrong-type on: expected true or false, found the text "true" (remove the quotes)`}},
		{"one as a truth value", "on: 1", []string{`1:5 wrong-type on: expected true or false, found the number 1 (write true)`}},
		{"text where a number is wanted", "count: many", []string{
			`1:8 wrong-type count: expected a whole number, found the text "many"`}},
		{"quoted number", `count: "5"`, []string{
			`1:8 wrong-type count: expected a whole number, found the text "5" (remove the quotes)`}},
		{"fraction where a whole number is wanted", "count: 1.5", []string{
			"1:8 wrong-type count: expected a whole number, found the number 1.5"}},
		{"octal number", "count: 0123", []string{
			"1:8 wrong-type count: expected a whole number, found the number 0123 (write it in decimal digits, without leading zeros, signs or separators)"}},
		{"hexadecimal number", "count: 0x10", []string{
			"1:8 wrong-type count: expected a whole number, found the number 0x10 (write it in decimal digits, without leading zeros, signs or separators)"}},
		{"number with separators", "big: 1_000", []string{
			"1:6 wrong-type big: expected a whole number, found the number 1_000 (write it in decimal digits, without leading zeros, signs or separators)"}},
		{"sexagesimal number", "count: 1:30", []string{
			`1:8 wrong-type count: expected a whole number, found the text "1:30"`}},
		{"number beyond int8", "small: 128", []string{"1:8 out-of-range small: 128 is too large"}},
		{"number beyond int64", "big: 9223372036854775808", []string{"1:6 out-of-range big: 9223372036854775808 is too large"}},
		{"infinite number", "ratio: .inf", []string{"1:8 wrong-type ratio: expected a number, found the number .inf"}},
		{"not a number", "ratio: .nan", []string{"1:8 wrong-type ratio: expected a number, found the number .nan"}},
		{"number beyond float64", "ratio: 1e999", []string{"1:8 out-of-range ratio: 1e999 is too large"}},
		{"duration without unit", "wait: 30", []string{
			"1:7 wrong-type wait: expected a duration, found the number 30 (write a number and a unit, such as 500ms, 30s, 5m or 24h)"}},
		{"duration in days", "wait: 1d", []string{
			`1:7 wrong-type wait: expected a duration, found the text "1d" (write a number and a unit, such as 500ms, 30s, 5m or 24h)`}},
		{"duration of a list", "wait: [1s]", []string{
			"1:7 wrong-type wait: expected a duration, found a list (write a number and a unit, such as 500ms, 30s, 5m or 24h)"}},
		{"time that is none", "at: soon", []string{
			`1:5 wrong-type at: expected a time, found the text "soon" (write it as 2026-01-31T15:04:05Z, or a date alone for midnight UTC)`}},
		{"time without zone", "at: 2026-01-31 10:00:00", []string{
			"1:5 wrong-type at: expected a time, found the date 2026-01-31 10:00:00 (write it as 2026-01-31T15:04:05Z, or a date alone for midnight UTC)"}},
		{"type that reads itself", "prefix: 10.0.0.0", []string{
			`1:9 wrong-type prefix: netip.ParsePrefix("10.0.0.0"): no '/'`}},
		{"anchor", "text: &a x", []string{
			"1:7 anchor text: anchors are not used in this file (remove it, or quote the value if it is text that starts with &)"}},
		{"alias", "text: &a x\nkind: *a", []string{
			"1:7 anchor text: anchors are not used in this file (remove it, or quote the value if it is text that starts with &)",
			"2:7 alias kind: aliases are not used in this file (write the value out, or quote it if it is text that starts with *)"}},
		{"merge key", "inner:\n  <<: {size: 1}", []string{
			"2:3 merge inner: merge keys (<<) are not used in this file (write the keys out)"}},
		{"quoted merge key is a key", "map: {\"<<\": x}", nil},
		{"tag", "count: !!int \"3\"", []string{
			"1:8 tag count: tags are not used in this file (remove it; quotes make any value text)",
			`1:8 wrong-type count: expected a whole number, found the number 3 (remove the quotes)`}},
		{"tag of its own", "inner: !thing {size: 1}", []string{
			"1:8 tag inner: tags are not used in this file (remove it; quotes make any value text)"}},
		{"key that is a list", "? [a]\n: b", []string{"1:3 key : a key must be plain text"}},
		{"key with an anchor", "&x text: b", []string{"1:1 key : a key with an anchor or a tag (remove it)"}},
		{"long key", "map: {" + strings.Repeat("k", 300) + ": v}", []string{"1:7 key map: a key is longer than 256 bytes"}},
		{"root that is a list", "- a", []string{"1:1 wrong-type : expected a mapping, found a list"}},
		{"root that is text", "hello", []string{"1:1 wrong-type : expected a mapping, found a text"}},
		{"empty file", "", []string{"0:0 empty : the file is empty"}},
		{"only comments", "# a\n\n# b\n", []string{"0:0 empty : the file is empty"}},
		{"only a document mark", "---\n", []string{"0:0 empty : the file is empty"}},
		{"two documents", "text: a\n---\ntext: b\n", []string{
			"2:1 documents : the file holds a second document; a gateway has one"}},
		{"tab indentation", "inner:\n\tsize: 1", []string{
			"2:0 yaml-syntax : found character that cannot start any token (indent with spaces: YAML does not allow tabs there; quote values that start with @, ` or %)"}},
		{"colon in a value", "text: a: b", []string{
			"1:0 yaml-syntax : mapping values are not allowed in this context (check the indentation, and quote values that hold a colon and a space)"}},
		{"a star without quotes", "text: *\n", []string{
			"1:0 yaml-syntax : did not find expected alphabetic or numeric character (a * alone, as in tool_name: \"*\", needs quotes: YAML reads a * without them as an alias)"}},
		{"unclosed quote", "text: \"a\nb: c\n", []string{"3:0 yaml-syntax : found unexpected end of stream"}},
		{"bracket not closed, line of the bracket", "text: a\nlist: [b\nkind: c\n", []string{
			"2:0 yaml-syntax : did not find expected ',' or ']' (check the indentation of this line and the ones above, and that quotes and brackets are closed)"}},
		{"list in a mapping", "text: a\nkind: b\n- c\n", []string{
			"3:0 yaml-syntax : did not find expected key (check the indentation of this line and the ones above, and that quotes and brackets are closed)"}},
		{"value that starts with @", "text: a\nkind: @x\n", []string{
			"2:0 yaml-syntax : found character that cannot start any token (indent with spaces: YAML does not allow tabs there; quote values that start with @, ` or %)"}},
		{"unknown anchor", "text: *a", []string{
			"1:7 yaml-syntax : unknown anchor 'a' referenced (aliases are not used in this file; a value that starts with * needs quotes)"}},
		{"not UTF-8", "text: \"ä\nkind: \xff\"", []string{"2:7 not-utf8 : the file is not UTF-8 text"}},
		{"UTF-16", "\xff\xfet\x00", []string{"1:1 not-utf8 : the file is not UTF-8 text"}},
		{"NUL as an escape", `text: "a\0b"`, []string{"1:7 wrong-type text: must not hold a NUL character"}},
		{"everything at once", "txt: a\ncount: x\non: no\nlist: 3\n", []string{
			`1:1 unknown-key : unknown key "txt" (did you mean "text"?)`,
			`2:8 wrong-type count: expected a whole number, found the text "x"`,
			`3:5 wrong-type on: expected true or false, found the text "no" (write false)`,
			"4:7 wrong-type list: expected a list, found a number (write one entry per line, each after a dash)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := read(t, c.text, nil)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestYAMLTrapsThatReadAsWritten(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{"unquoted revision", "text: 2025-06-18", "2025-06-18"},
		{"unquoted time", "text: 2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		{"no is text where text is wanted", "text: no", "no"},
		{"on is text where text is wanted", "text: on", "on"},
		{"quoted number", `text: "0123"`, "0123"},
		{"colon without space", "text: a:b", "a:b"},
		{"block text", "text: |\n  a\n  b\n", "a\nb\n"},
		{"byte order mark", "\ufefftext: a", "a"},
		{"CRLF", "kind: k\r\ntext: a\r\n", "a"},
		{"escapes", `text: "\u00e4\t"`, "ä\t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, found := read(t, c.text, nil)
			if found != nil || got.Text != c.want {
				t.Errorf("text = %q, findings %q; want %q", got.Text, found, c.want)
			}
		})
	}
}

func TestDurationZeroAndDate(t *testing.T) {
	got, found := read(t, "wait: 0\nat: 2026-01-31\n", nil)
	if found != nil || got.Wait != 0 || !got.At.Equal(time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("wait %s, at %s, findings %q", got.Wait, got.At, found)
	}
}

func TestBounds(t *testing.T) {
	flow := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, c := range []struct {
		name, text, code string
	}{
		{"larger than 1 MiB", "text: " + strings.Repeat("x", maxBytes), "too-large"},
		{"nested too deep, flow", "any: " + flow, "too-deep"},
		{"nested too deep, unknown key", "zzzzzzzz: " + flow, "too-deep"},
		{"nested past the parser", "any: " + strings.Repeat("[", 20000), "yaml-syntax"},
		{"alias bomb", "any: &a [x,x]\ntext: *a\nkind: *a", "alias"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, found := read(t, c.text, nil)
			for _, f := range found {
				if strings.Contains(f, " "+c.code+" ") {
					return
				}
			}
			t.Errorf("no %s in %.300q", c.code, found)
		})
	}
}

func TestDeepestAllowed(t *testing.T) {
	n := maxDepth - 1
	if _, found := read(t, "any: "+strings.Repeat("[", n)+strings.Repeat("]", n), nil); found != nil {
		t.Errorf("%d levels: %q", maxDepth, found)
	}
}

func TestManyMistakesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "k%d: x\n", i)
	}
	_, found := read(t, b.String(), nil)
	if len(found) != diag.MaxFindings+1 {
		t.Errorf("%d findings, want %d and the note", len(found), diag.MaxFindings)
	}
}

// badReference is the text of the finding about a ${ that begins no reference.
const badReference = "a ${ that is not followed by the name of an environment variable, or by file: and a path, and } " +
	"(write ${NAME}, with letters, digits and _ only, or ${file:/PATH}, with an absolute path without } and ${; a value may hold anything)"

func TestEnvironment(t *testing.T) {
	env := map[string]string{"A": "va", "EMPTY": "", "SNEAKY": "x\n- deny: ${A}", "_under9": "u", "NUL": "a\x00b"}
	for _, c := range []struct {
		name, text string
		want       sample
		found      []string
	}{
		{"one variable", "env: ${A}", sample{Env: "va"}, nil},
		{"inside text", "env: a${A}b${A}c", sample{Env: "avabvac"}, nil},
		{"in the values of a map", "headers: {X: 'k ${A}'}", sample{Headers: map[string]string{"X": "k va"}}, nil},
		{"in a list", "env_list: ['${A}']", sample{EnvList: []string{"va"}}, nil},
		{"names with underscore and digit", "env: ${_under9}", sample{Env: "u"}, nil},
		{"a value is neither YAML nor expanded again", "env: ${SNEAKY}", sample{Env: "x\n- deny: ${A}"}, nil},
		{"dollar signs alone stay", "env: $A $$ $argon2id$v=19", sample{Env: "$A $$ $argon2id$v=19"}, nil},
		{"unset", "env: ${UNSET}", sample{}, []string{
			"1:6 env-unset env: the environment variable UNSET is not set or empty (set UNSET in the environment of the gateway)"}},
		{"empty counts as unset", "env: ${EMPTY}", sample{}, []string{
			"1:6 env-unset env: the environment variable EMPTY is not set or empty (set EMPTY in the environment of the gateway)"}},
		{"every unset variable of a value", "env: ${U1} ${U2}", sample{}, []string{
			"1:6 env-unset env: the environment variable U1 is not set or empty (set U1 in the environment of the gateway)",
			"1:6 env-unset env: the environment variable U2 is not set or empty (set U2 in the environment of the gateway)"}},
		{"unset in a header names it", "headers:\n  X-Key: ${UNSET}", sample{Headers: map[string]string{"X-Key": ""}}, []string{
			"2:10 env-unset headers.X-Key: the environment variable UNSET is not set or empty (set UNSET in the environment of the gateway)"}},
		{"nested", "env: ${A${B}}", sample{}, []string{
			"1:6 env-syntax env: " + badReference}},
		{"default value syntax", "env: ${A:-x}", sample{}, []string{
			"1:6 env-syntax env: " + badReference}},
		{"no name", "env: ${}", sample{}, []string{
			"1:6 env-syntax env: " + badReference}},
		{"not closed", "env: ${A", sample{}, []string{
			"1:6 env-syntax env: " + badReference}},
		{"digit first", "env: ${1}", sample{}, []string{
			"1:6 env-syntax env: " + badReference}},
		{"NUL in a value", "env: ${NUL}", sample{}, []string{"1:6 wrong-type env: NUL holds a NUL character"}},
		{"fields that are not expanded say so", "text: ${A}", sample{Text: "${A}"}, []string{
			"warning 1:7 env-not-expanded text: environment variables and files are not expanded in this field; ${A} stays as it is (write the value itself)"}},
		{"other dollar signs in such fields", "text: '${1} ${'", sample{Text: "${1} ${"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, found := read(t, c.text, env)
			want := c.want
			setInner(&want)
			if d := cmp.Diff(c.found, found); d != "" {
				t.Errorf("findings: %s", d)
			}
			opts := cmp.Options{
				cmp.AllowUnexported(sample{}, inner{}, deep{}),
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
			}
			if d := cmp.Diff(&want, got, opts); d != "" {
				t.Error(d)
			}
		})
	}
}

func setInner(s *sample) { s.Inner = inner{Size: 7, Deep: deep{3}} }

func TestEnvironmentValueIsBounded(t *testing.T) {
	_, found := read(t, "env: ${A}", map[string]string{"A": strings.Repeat("x", maxExpanded+1)})
	if len(found) != 1 || !strings.Contains(found[0], "env-too-long") || len(found[0]) > 300 {
		t.Errorf("found %.400q", found)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"requests_per_second", "burst", "enabled", "id"}
	for written, want := range map[string]string{
		"request_per_second": "requests_per_second",
		"requestsPerSecond":  "requests_per_second",
		"brust":              "burst",
		"Burst":              "burst",
		"enable":             "enabled",
		"ids":                "id",
		"x":                  "",
		"frobnicate":         "",
		"":                   "",
	} {
		if got, _ := nearest(written, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", written, got, want)
		}
	}
}
