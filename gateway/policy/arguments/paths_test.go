package arguments

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/policy/match"
)

var update = flag.Bool("update", false, "write testdata/paths.tsv and testdata/hosts.tsv again")

// pathRoot is the directory of path_within in the tests of this file.
const pathRoot = "/srv/data"

// Programs that print how Node and Python interpret each path or file URL of a JSON array: first
// resolved without decoding, then as a URL, then decoded and resolved; null for an error.
const (
	nodePaths = `const values = JSON.parse(require('fs').readFileSync(0)), path = require('path'), url = require('url');
const attempt = (f) => { try { return f(); } catch { return null; } };
const bare = (v) => v.replace(/^file:\/\//i, '');
console.log(JSON.stringify(values.map((v) => [path.resolve('/', bare(v)), /^file:/i.test(v) ? attempt(() => path.resolve(url.fileURLToPath(v))) : null,
  attempt(() => path.resolve('/', decodeURIComponent(bare(v))))])));`
	pythonPaths = `import json, os.path, sys, urllib.parse, urllib.request
def attempt(f):
    try:
        return f()
    except ValueError:
        return None
def bare(v):
    return v[7:] if v[:7].lower() == "file://" else v
print(json.dumps([[os.path.normpath("/" + bare(v)).replace("//", "/"),
    attempt(lambda: os.path.normpath(urllib.request.url2pathname(urllib.parse.urlsplit(v).path)).replace("//", "/")) if v[:5].lower() == "file:" else None,
    attempt(lambda: os.path.normpath("/" + urllib.parse.unquote(bare(v), errors="strict")).replace("//", "/"))] for v in json.load(sys.stdin)]))`
)

// goPaths interprets a path as Go programs do.
func goPaths(v string) (readings []*string) {
	bare := v
	if len(v) >= 7 && strings.EqualFold(v[:7], "file://") {
		bare = v[7:]
		if u, err := url.Parse(v); err == nil {
			readings = append(readings, new(path.Clean("/"+u.Path)))
		}
	}
	readings = append(readings, new(filepath.Clean("/"+bare)))
	if decoded, err := url.PathUnescape(bare); err == nil {
		readings = append(readings, new(path.Clean("/"+decoded)))
	}
	return readings
}

// ask runs a program with values as a JSON array, and returns one result for each.
func ask[T any](t *testing.T, values []string, program string, args ...string) (answers []T) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s", program)
	}
	in, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(values) {
		t.Fatalf("%s: %d answers for %d values, %v", program, len(answers), len(values), err)
	}
	return answers
}

// pieces are the parts of random paths.
var pieces = []string{"/", "/", "/", "..", ".", "srv", "data", "etc", "passwd", "x", "%2e", "%2E%2e", "%2f", "%2F", "%252e%252e", "%252f", "%25252f", "%2500",
	"%64ata", "%73rv", "//", "/../", "/./", "%", "%zz", "\\", "%5c", "~", "C:", "é", "%c3%a9", "%00", "?", "#", " ", "..%2f..%2f", "srv%2fdata%2fa%2fb", "/srv/data/", "/etc/passwd/"}

func randomPath(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString([]string{"/", "/srv/data/", "file:///", "FILE:///srv/data/", "/etc/passwd/"}[r.IntN(5)])
	for range r.IntN(12) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// contradicts reports whether a program whose interpretation of a path is reading contradicts the
// decision: it accesses the inside although the value is outside, or vice versa. A reading that
// differs only in the spelling of names is that of the decoded name.
func contradicts(reading string, in bool) bool {
	if within(pathRoot, reading) == in {
		return false
	}
	decoded, ok := cleanPath(reading)
	return !ok || !sameSteps(reading, decoded) || within(pathRoot, decoded) != in
}

// TestPathsAreThoseOfOtherParsers: if path_within decides about a path, then Node, Python and Go,
// with and without decoding, access the same side of the directory boundary.
func TestPathsAreThoseOfOtherParsers(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 26))
	values := make([]string, 20_000)
	for i := range values {
		values[i] = randomPath(r)
	}
	node, python := ask[[]*string](t, values, "node", "-e", nodePaths), ask[[]*string](t, values, "python3", "-c", pythonPaths)
	decided, inside := 0, 0
	for i, v := range values {
		in, ok := pathWithin(pathRoot, v)
		if !ok {
			continue
		}
		if decided++; in {
			inside++
		}
		for program, readings := range map[string][]*string{"Node": node[i], "Python": python[i], "Go": goPaths(v)} {
			for _, reading := range readings {
				if reading != nil && contradicts(*reading, in) {
					t.Errorf("%q is in %s: %v, %s interprets it as %q", v, pathRoot, in, program, *reading)
				}
			}
		}
	}
	if decided < len(values)/4 || inside < len(values)/50 {
		t.Errorf("%d of %d values were decided, %d inside", decided, len(values), inside)
	}
}

// slowWithin is a plain implementation of path_within: it lists the segments of every order of
// decoding and resolving.
func slowWithin(root, value string) (in, ok bool) {
	bare := value
	if strings.HasPrefix(strings.ToLower(value), "file:") {
		if bare = value[5:]; !strings.HasPrefix(bare, "///") {
			return false, false
		}
		for _, c := range bare {
			if c <= ' ' || c == 0x7f || c == '?' || c == '#' {
				return false, false
			}
		}
		bare = bare[2:]
	}
	if _, clean := cleanPath(value); !clean {
		return false, false // its own table has the values that are no paths
	}
	resolve := func(s string, escaped bool) string {
		var stack []string
		for step := range strings.SplitSeq(s[1:], "/") {
			if plain, err := url.PathUnescape(step); escaped && err == nil && (plain == "." || plain == "..") {
				step = plain
			}
			switch {
			case step == "" && !escaped || step == ".":
			case step == "..":
				stack = stack[:max(0, len(stack)-1)]
			default:
				stack = append(stack, step)
			}
		}
		return "/" + strings.Join(slices.DeleteFunc(stack, func(s string) bool { return s == "" }), "/")
	}
	inside := func(p string) bool {
		return p == root || strings.HasPrefix(p, root+"/")
	}
	var readings []bool
	var read func(s string, left int)
	read = func(s string, left int) {
		readings = append(readings, inside(resolve(s, false)), inside(resolve(s, true)))
		if left == 0 {
			return
		}
		for _, t := range []string{s, resolve(s, false), resolve(s, true)} {
			if decoded := match.Unescape(t); decoded != t {
				read(decoded, left-1)
			}
		}
	}
	read(bare, decodings)
	final := inside(resolve(decodeAll(bare), false))
	if steps(bare) == steps(decodeAll(bare)) && (bare == value || !strings.Contains(bare, "//")) {
		return final, true
	}
	for _, r := range readings {
		if r != final {
			return false, false
		}
	}
	return final, true
}

// steps is a path without its names.
func steps(s string) string {
	parts := strings.Split(s, "/")
	for i, p := range parts {
		if p != "." && p != ".." {
			parts[i] = "n"
		}
	}
	return strings.Join(parts, "/")
}

func FuzzPathWithin(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 7))
	for range 200 {
		f.Add(randomPath(r))
	}
	f.Fuzz(func(t *testing.T, v string) {
		if len(v) > 256 {
			return // the reference takes exponential time
		}
		in, ok := pathWithin(pathRoot, v)
		if slow, clear := slowWithin(pathRoot, v); ok != clear || ok && in != slow {
			t.Errorf("%q: %v %v, the reference has %v %v", v, in, ok, slow, clear)
		}
	})
}

// pathRows are encodings of a few paths and file URLs; testdata/paths.tsv has the interpretation
// of each program.
var pathRows = []string{
	"/srv/data", "/srv/data/", "/srv/data/x", "/srv/data//x", "//srv/data/x", "///srv/data/x", "/srv/./data/x", "/srv/data/.", "/srv/data/..", "/srv/data/../data/x",
	"/srv/data/../../etc/passwd", "/srv/data/...", "/srv/data/..x", "/srv/data/.. /x", "/srv/datax", "/srv/data x", "/SRV/data/x", "/srv/data/x/../../..",
	"/srv/%64ata/x", "/srv/data/%78", "/srv/data/%2e", "/srv/data/%2e%2e", "/srv/data/%2e./x", "/srv/data/.%2E/x", "/srv/data/%2e%2e/%2e%2e/etc/passwd",
	"/srv/data%2fx", "/srv%2fdata%2fx", "/srv/data/..%2f..%2fetc%2fpasswd", "/srv/data/..%2fdata/x", "/srv/data%2f..%2f..%2fetc", "/srv/data/x%2f..", "/srv/data/x%2f../../..",
	"/srv/data/%252e%252e/x", "/srv/data/%252e%252e%252fx", "/srv/data/%25252e%25252e/x", "/srv/data/%2525252e%2525252e/x", "/srv/data/%25%32%65%25%32%65/x",
	"/etc/passwd/%2e%2e/%2e%2e/srv%2fdata%2fa%2fb%2fc%2fd/../../..", "/etc/%2e%2e/srv/data/x", "/etc/passwd%2f..%2f..%2fsrv/data/x", "/x/%2e%2e/a%2fb/../srv/data",
	"/srv/data/100%", "/srv/data/100%25", "/srv/data/%zz", "/srv/data/%2", "/srv/data/%u002e%u002e/x", "/srv/data/%c0%ae%c0%ae/x", "/srv/data/%c3%a9", "/srv/data/é", "/srv/data/e\u0301",
	"/srv/data/%ff", "/srv/data/x%00", "/srv/data/x\x00y", "/srv/data/x%0a", "/srv/data/x\n", "/srv/data/x\t", `/srv/data\..\..\etc`, `\srv\data\x`, "/srv/data/%5c..%5c", "/srv/data/..%5c..%5cetc",
	"srv/data/x", "./srv/data/x", "../srv/data/x", "~/x", "~root/x", "/~/x", "/srv/data/~x", "C:/srv/data/x", `C:\srv\data\x`, "/C:/srv/data", "/c|/srv/data", "", "/", "/.", "/..",
	"file:///srv/data/x", "FILE:///srv/data/x", "File:///srv/data/%78", "file:/srv/data/x", "file:srv/data/x", "file://srv/data/x", "file://localhost/srv/data/x", "file:////srv/data/x",
	"file:///srv/data/../../etc/passwd", "file:///srv/data/%2e%2e/%2e%2e/etc/passwd", "file:///srv/data/..%2f..%2fetc%2fpasswd", "file:///srv/data%2fx", "file:///srv/my%20data/x",
	"file:///srv/data/x?y", "file:///srv/data/x#y", "file:///srv/data/x%3fy", "file:///srv/data/x%23y", "file:///srv/data/ x", "file:///srv/da\tta/x", " file:///srv/data/x", "file:///srv/data/x ",
	`file:\\\srv\data\x`, `file:///srv\data\..\..\etc`, "file:///C:/srv/data/x", "file:///c|/srv/data/x", "file:///srv/data/%252e%252e/x", "file:///srv/data/é", "http:///srv/data/x", "data:/srv/data/x",
}

// show writes an interpretation in one cell.
func show(s *string) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%+q", *s)
}

// curlPath returns the path that curl would request from a server or the file system; it does not
// connect.
func curlPath(ctx context.Context, v string) string {
	if strings.ContainsRune(v, 0) {
		return "-" // cannot be an argument
	}
	dir := "/nonexistent-" + "socket"
	cmd := exec.CommandContext(ctx, "curl", "-q", "-sS", "-o", os.DevNull, "--proto", "=http,https,file", "--globoff", "--unix-socket", dir, "-w", "%{url_effective}", "--", v)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "opened"
	}
	switch cmd.ProcessState.ExitCode() {
	case 1, 3, 6:
		return "no URL"
	case 37:
		return "a file"
	case 7:
		return "a host"
	}
	return fmt.Sprintf("%d %s", cmd.ProcessState.ExitCode(), bytes.TrimSpace(out))
}

// TestPathTable: how path_within, Node, Python, Go and curl interpret encodings of one path, as a
// readable table.
func TestPathTable(t *testing.T) {
	if len(pathRows) < 80 {
		t.Errorf("%d rows", len(pathRows))
	}
	node, python := ask[[]*string](t, pathRows, "node", "-e", nodePaths), ask[[]*string](t, pathRows, "python3", "-c", pythonPaths)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var b strings.Builder
	b.WriteString("value\tpath_within /srv/data\tnode: resolve\tnode: URL\tnode: decode\tpython: normpath\tpython: URL\tpython: unquote\tgo\tcurl\n")
	for i, v := range pathRows {
		in, ok := pathWithin(pathRoot, v)
		decision := map[bool]string{true: "inside", false: "outside"}[in]
		if !ok {
			decision = "wrong type"
		}
		cells := []string{fmt.Sprintf("%+q", v), decision}
		for _, readings := range [][]*string{node[i], python[i]} {
			for _, reading := range readings {
				cells = append(cells, show(reading))
				if ok && reading != nil && contradicts(*reading, in) {
					t.Errorf("%q is %s, and interpreted as %q", v, decision, *reading)
				}
			}
		}
		var goes []string
		for _, reading := range goPaths(v) {
			goes = append(goes, show(reading))
			if ok && contradicts(*reading, in) {
				t.Errorf("%q is %s, and Go interprets it as %q", v, decision, *reading)
			}
		}
		cells = append(cells, strings.Join(goes, " "), curlPath(ctx, v))
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	golden(t, "testdata/paths.tsv", b.String())
}

// golden compares a table with the golden file. Other versions of the programs may give other
// cells; the decisions of this package must not differ.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, kept := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	if len(have) != len(kept) {
		t.Fatalf("%s has %d rows, want %d: go test ./gateway/policy/arguments -run Table -update", file, len(kept), len(have))
	}
	for i := range have {
		a, b := strings.Split(have[i], "\t"), strings.Split(kept[i], "\t")
		if strings.Join(a[:min(2, len(a))], "\t") != strings.Join(b[:min(2, len(b))], "\t") {
			t.Errorf("%s, row %d: %s, want %s", file, i, a[:2], b[:2])
		}
	}
}
