package pins

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func define(t *testing.T, raw string) Definition {
	t.Helper()
	d, err := Define([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const searchTool = `{"name":"search","description":"Finds things","inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":10}}}}`

// What changes a definition and what does not change it.
func TestWhatCountsAsAChange(t *testing.T) {
	pinned := define(t, searchTool)
	for _, row := range []struct {
		name, raw string
		same      bool
	}{
		{"order of members and white space", `{ "inputSchema":{"properties":{"n":{"maximum":10,"type":"integer"}},"type":"object"}, "description":"Finds things", "name":"search" }`, true},
		{"spelling of a string", strings.Replace(searchTool, "Finds", `\u0046inds`, 1), true},
		{"spelling of a number", strings.Replace(searchTool, "10", "1.0e1", 1), true},
		{"icons", strings.Replace(searchTool, `{"name"`, `{"icons":[{"src":"https://example.com/i.png"}],"name"`, 1), true},
		{"_meta of the upstream", strings.Replace(searchTool, `{"name"`, `{"_meta":{"build":7},"name"`, 1), true},
		{"_meta that is no object", strings.Replace(searchTool, `{"name"`, `{"_meta":7,"name"`, 1), true},
		{"_meta.ui", strings.Replace(searchTool, `{"name"`, `{"_meta":{"ui":{"resourceUri":"ui://x"}},"name"`, 1), false},
		{"a letter of another case", strings.Replace(searchTool, "Finds", "finds", 1), false},
		{"a zero-width letter", strings.Replace(searchTool, "Finds", "Fi\u200bnds", 1), false},
		{"a letter that looks the same", strings.Replace(searchTool, "Finds", "Fіnds", 1), false},
		{"another normalization form", strings.Replace(searchTool, "Finds", "Fi\u0301nds", 1), false},
		{"a bound of the schema", strings.Replace(searchTool, "10", "11", 1), false},
		{"a number beyond a float's precision", strings.Replace(searchTool, "10", "10.00000000000000000001", 1), false},
		{"a number that became a string", strings.Replace(searchTool, "10", `"10"`, 1), false},
		{"a member that was null", strings.Replace(searchTool, `{"name"`, `{"title":null,"name"`, 1), false},
		{"a member of another case", strings.Replace(searchTool, `{"name"`, `{"Icons":[],"name"`, 1), false},
		{"an annotation", strings.Replace(searchTool, `{"name"`, `{"annotations":{"readOnlyHint":true},"name"`, 1), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := define(t, row.raw).Digest == pinned.Digest; got != row.same {
				t.Errorf("the same: %t", got)
			}
		})
	}
	for _, raw := range []string{`[]`, `"search"`, `7`, `null`} {
		if _, err := Define([]byte(raw)); !errors.Is(err, ErrNotAnObject) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestStatus(t *testing.T) {
	at := time.Date(2026, 5, 1, 10, 0, 0, 5, time.UTC)
	search := Subject{"crm", Tool, "search"}
	none := &Pins{}
	if none.Has("crm", Tool) || none.Status(search, define(t, searchTool).Digest) != New {
		t.Error("without pins everything is new, and no upstream is pinned")
	}
	p := none.With("crm", Tool, at, Pin{search, define(t, searchTool)}, Pin{Subject{"web", Tool, "x"}, define(t, searchTool)})
	other := define(t, strings.Replace(searchTool, "Finds", "Deletes", 1)).Digest
	for _, row := range []struct {
		s    Subject
		d    Digest
		want Status
	}{
		{search, define(t, searchTool).Digest, Approved},
		{search, other, Changed},
		{Subject{"crm", Tool, "Search"}, define(t, searchTool).Digest, New},
		{Subject{"crm", Tool, "sea\u200brch"}, define(t, searchTool).Digest, New},
		{Subject{"crm", Prompt, "search"}, define(t, searchTool).Digest, New},
		{Subject{"web", Tool, "x"}, define(t, searchTool).Digest, New},
		{Subject{"crm", Instructions, ""}, defineInstructions("").Digest, New},
	} {
		if got := p.Status(row.s, row.d); got != row.want {
			t.Errorf("%s: %s, want %s", row.s, got, row.want)
		}
	}
	if p.Has("web", Tool) || p.Has("crm", Skill) {
		t.Error("a pin of another upstream was taken")
	}
	if empty := none.With("web", Tool, at); !empty.Has("web", Tool) {
		t.Error("an upstream that lists nothing is pinned too")
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pins.json")
	if _, err := read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if p, err := ReadOrEmpty(path); err != nil || p.Has("crm", Tool) {
		t.Errorf("no file: %v", err)
	}
	at := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	p := (&Pins{}).With("crm", Tool, at,
		Pin{Subject{"crm", Tool, "search"}, define(t, searchTool)},
		Pin{Subject{"crm", Tool, "ht<m>l\u2028"}, define(t, `{"name":"ht<m>l\u2028"}`)},
		Pin{Subject{"crm", Prompt, "p"}, define(t, `{"name":"p"}`)},
		Pin{Subject{"crm", Instructions, ""}, defineInstructions("Be <kind>.\u2028")}).With("empty", Tool, at)
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v: the gateway may run as another user than the operator", info.Mode(), err)
	}
	back, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back, cmp.AllowUnexported(Pins{}, set{}, definitions{}, item{}), cmp.Comparer(func(a, b func() *skillIndex) bool { return true })); diff != "" {
		t.Error(diff)
	}
	if n := len(back.Subjects("crm")); n != 4 {
		t.Errorf("%d subjects", n)
	}
	first, _ := os.ReadFile(path)
	if err := back.Write(path); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(first) {
		t.Errorf("the same pins have another text:\n%s\n%s", first, again)
	}
	for name, edit := range map[string][2]string{
		"a definition that was edited": {"Finds things", "Finds all"},
		"a digest that is none":        {`"sha256": "`, `"sha256": "z`},
		"another version":              {`"version": 1`, `"version": 2`},
		"an unknown member":            {`"version": 1`, `"version": 1, "versoin": 1`},
		"text behind the end":          {"\n}\n", "\n}{}\n"},
		"a definition that is none":    {`"Be <kind>.`, `7, "x": "`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(string(first), edit[0], edit[1], 1)
			if text == string(first) {
				t.Fatal("nothing was replaced")
			}
			bad := filepath.Join(t.TempDir(), "pins.json")
			if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(bad); err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	for _, row := range []struct {
		name, older, newer string
		want               []Change
	}{
		{"nothing", searchTool, searchTool, nil},
		{"a word", `{"description":"Reads one file.\nNo more."}`, `{"description":"Reads every file.\nNo more."}`,
			[]Change{{Pointer: "/description", Old: `"Reads one file.\nNo more."`, New: `"Reads every file.\nNo more."`, Words: "Reads [-one-]{+every+} file.\nNo more."}}},
		{"words that come and go", `{"d":"a b c d"}`, `{"d":"b c x d y"}`,
			[]Change{{Pointer: "/d", Old: `"a b c d"`, New: `"b c x d y"`, Words: "[-a -]b c {+x +}d{+ y+}"}}},
		{"a letter that cannot be seen", `{"d":"a"}`, `{"d":"a\u200b\u202e\u001b"}`,
			[]Change{{Pointer: "/d", Old: `"a"`, New: "\"a\u200b\u202e\\u001b\"", Words: `a{+\u200b\u202e\x1b+}`}}},
		{"members and elements", `{"a":{"x~/y":1},"l":[1,2],"gone":true,"t":"1"}`, `{"a":{"x~/y":2},"l":[1,3,4],"new":null,"t":1}`,
			[]Change{
				{Pointer: "/a/x~0~1y", Old: "1", New: "2"}, {Pointer: "/gone", Old: "true"},
				{Pointer: "/l/1", Old: "2", New: "3"}, {Pointer: "/l/2", New: "4"},
				{Pointer: "/new", New: "null"}, {Pointer: "/t", Old: `"1"`, New: "1"},
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := Diff(define(t, row.older), define(t, row.newer))
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Long texts and many changes are compared in bounded time and memory.
func TestDiffIsBounded(t *testing.T) {
	a, b := strings.Repeat("a b ", 100_000), strings.Repeat("c d ", 100_000)
	got := Diff(defineInstructions("x "+a+" z"), defineInstructions("x "+b+" z"))
	if len(got) != 1 || !strings.HasPrefix(got[0].Words, "x [-a b") || !strings.HasSuffix(got[0].Words, " z") {
		t.Errorf("%d changes", len(got))
	}
	many := define(t, `{"l":[`+strings.Repeat("1,", 5000)+`1]}`)
	if got := Diff(many, define(t, `{"l":[]}`)); len(got) != maxChanges {
		t.Errorf("%d changes", len(got))
	}
}
