package pins

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/upstream"
)

// entryOf returns the entry of a skill with files.
func entryOf(dir, members string, files ...string) string {
	list := []string{}
	for i, f := range append([]string{"SKILL.md"}, files...) {
		list = append(list, fmt.Sprintf(`{"uri":"%s/%s","digest":"sha256:%064x","size":%d}`, dir, f, i, i))
	}
	name := dir[strings.LastIndexByte(dir, '/')+1:]
	return fmt.Sprintf(`{"uri":"%s/SKILL.md","frontmatter":{"name":%q,"description":"D"%s},"resources":[%s]}`, dir, name, members, strings.Join(list, ","))
}

func defineSkill(t *testing.T, raw string) Pin {
	t.Helper()
	pin, err := DefineListed("docs", Skill, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// What changes the definition of a skill and what does not change it.
func TestWhatCountsAsAChangeOfASkill(t *testing.T) {
	entry := entryOf("skill://a", `,"n":10`, "x", "y")
	pinned := defineSkill(t, entry)
	swapped := strings.Replace(strings.Replace(strings.Replace(entry, "/x", "/z", 1), "/y", "/x", 1), "/z", "/y", 1)
	for _, row := range []struct {
		name, raw string
		same      bool
	}{
		{"spelling of a number", strings.Replace(entry, "10}", "1.0e1}", 1), true},
		{"another member of the entry", strings.Replace(entry, `{"uri"`, `{"_meta":{"a":1},"uri"`, 1), true},
		{"a member of the frontmatter", strings.Replace(entry, `"n":10`, `"n":11`, 1), false},
		{"a description", strings.Replace(entry, `"D"`, `"d"`, 1), false},
		{"a digest", strings.Replace(entry, "02", "03", 1), false},
		{"a size", strings.Replace(entry, `"size":2`, `"size":3`, 1), false},
		{"two files that changed places", swapped, false},
		{"a file less", entryOf("skill://a", `,"n":10`, "x"), false},
		{"no digests", entry[:strings.Index(entry, "[")] + `"dynamic"}`, false},
	} {
		if got := defineSkill(t, row.raw).Definition.Digest == pinned.Definition.Digest; got != row.same {
			t.Errorf("%s: the same: %t", row.name, got)
		}
	}
	reordered := `{"resources":[` + entry[strings.Index(entry, `{"uri":"skill://a/y"`):len(entry)-2] + "," + entry[strings.Index(entry, `{"uri":"skill://a/SKILL.md","digest"`):strings.Index(entry, `,{"uri":"skill://a/y"`)] +
		`],"frontmatter":{"n":10,"description":"D","name":"a"},"uri":"skill://a/SKILL.md"}`
	if defineSkill(t, reordered).Definition.Digest != pinned.Definition.Digest {
		t.Error("the order of members and files counts")
	}
	for _, raw := range []string{`[]`, `{}`, `7`, strings.Replace(entry, "skill://a/x", "skill://b/x", 1), strings.Replace(entry, "sha256:", "", 1), strings.Replace(entry, `"resources"`, `"files"`, 1)} {
		if _, err := DefineListed("docs", Skill, []byte(raw)); err == nil {
			t.Errorf("%s is read as a skill", raw)
		}
	}
}

// The sets of an upstream are pinned separately, and a file of pins keeps both.
func TestFileWithSkills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pins.json")
	at := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	a, d := defineSkill(t, entryOf("skill://a", "", "x")), defineSkill(t, `{"uri":"skill://d/SKILL.md","frontmatter":{"name":"d","description":"D"},"resources":"dynamic"}`)
	if a.Dynamic() || !d.Dynamic() {
		t.Error("which skill has no digests")
	}
	p := new(Pins).With("docs", Skill, at, a, d, Pin{Subject{"docs", Tool, "t"}, define(t, searchTool)}).With("empty", Skill, at)
	if p.Has("docs", Tool) || len(p.Subjects("docs")) != 2 {
		t.Error("a tool was approved with the skills")
	}
	p = p.With("docs", Tool, at.Add(time.Hour), Pin{Subject{"docs", Tool, "t"}, define(t, searchTool)})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back, cmp.AllowUnexported(Pins{}, set{}, definitions{}, item{}), cmp.Comparer(func(a, b func() *skillIndex) bool { return true })); diff != "" {
		t.Error(diff)
	}
	if !back.Has("empty", Skill) || back.Has("empty", Tool) {
		t.Error("an upstream without skills is pinned too")
	}
}

// An address is found below the directory of a skill in every spelling that a server may read as one there.
func TestWhereAnAddressStands(t *testing.T) {
	entry := func(dir string, files ...string) Pin { return defineSkill(t, entryOf(dir, "", files...)) }
	p := new(Pins).With("docs", Skill, time.Now(), entry("skill://acme/a", "x", "in/SKILL.md"), entry("skill://acme/a/in"), entry("github://o/r/g"),
		defineSkill(t, `{"uri":"skill://d/SKILL.md","frontmatter":{"name":"d","description":"D"},"resources":"dynamic"}`))
	u := newGuarded(&upstream.Config{Name: "docs", PinSkills: upstream.PinBlock}, nil)
	u.own = map[Subject]Digest{{"docs", Skill, "github://o/r/new/SKILL.md"}: {}}
	for address, want := range map[string]standing{
		"skill://acme/a/SKILL.md":     named,
		"skill://acme/a/in/SKILL.md":  named,
		"skill://acme/a/in/x":         withheld,
		"skill://acme/a/X":            withheld,
		"skill://acme/a/%78":          withheld,
		"skill://acme/a/./x":          withheld,
		"skill://acme/b/../a/x":       withheld,
		"skill://acme/b/%2e%2e/a/x":   withheld,
		"skill://acme//a/x":           withheld,
		"skill://d/today.md":          dynamic,
		"skill://d/../acme/a/evil":    withheld,
		"skill://d/%252e%252e/a":      withheld,
		"skill:d/today.md":            dynamic,
		"skill://other/SKILL.md":      withheld,
		"sk\till://other/SKILL.md":    withheld,
		"SKILL://other/SKILL.md":      withheld,
		"github://o/r/g/SKILL.md":     named,
		"github://O/r/g/skill.md":     withheld,
		"github://me@o:22/r/g/x":      withheld,
		`github://o\r\g\x`:            withheld,
		"github://o/r/g/SKILL.md?v=2": withheld,
		"github://o/r/g":              withheld,
		"github://o/r/ground/x":       outside,
		"github://o/r/new/x":          withheld,
		"github://o/r/README.md":      outside,
		"file:///notes.txt":           outside,
		"":                            outside,
		strings.Repeat("a/", 32_000):  outside,
	} {
		if got, _ := u.stands(p, nil, address); got != want {
			t.Errorf("%.60q: %d, want %d", address, got, want)
		}
	}
	if _, files := u.stands(p, nil, "skill://acme/a/in/SKILL.md"); len(files) != 2 || files[0].Size == files[1].Size {
		t.Errorf("a file of a nested skill is compared with both: %v", files)
	}
	for dir, want := range map[string]bool{"skill://acme": true, "skill://acme/a": true, "skill://acme/a/": true, "skill://acme/a/in": true, "skill://ac": false, "skill://acme/b": false, "skill://d": true} {
		if got := p.skillsOf("docs").isAbove(dir); got != want {
			t.Errorf("%s: %t", dir, got)
		}
	}
}

func TestDiffSkills(t *testing.T) {
	older := defineSkill(t, entryOf("skill://a", `,"n":1`, "same", "changed", "removed")).Definition
	text := strings.Replace(entryOf("skill://a", `,"n":2`, "same", "changed", "added"), `"size":2`, `"size":9`, 1)
	newer := defineSkill(t, text).Definition
	changes, files := DiffSkills(older, newer)
	if diff := cmp.Diff([]Change{{Pointer: "/frontmatter/n", Old: "1", New: "2"}}, changes); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %t %t", f.URI, f.Old != nil, f.New != nil))
	}
	if diff := cmp.Diff([]string{"skill://a/added false true", "skill://a/changed true true", "skill://a/removed true false"}, got); diff != "" {
		t.Error(diff)
	}
	if changes, files := DiffSkills(Definition{}, newer); len(changes) != 1 || changes[0].Pointer != "/frontmatter" || len(files) != 4 {
		t.Errorf("a new skill: %v, %d files", changes, len(files))
	}
	dynamic := defineSkill(t, text[:strings.Index(text, "[")]+`"dynamic"}`).Definition
	if changes, files := DiffSkills(newer, dynamic); len(changes) != 1 || changes[0].New != `"dynamic"` || len(files) != 4 {
		t.Errorf("no digests any more: %v, %d files", changes, len(files))
	}
}
