package config

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"svc/gateway/base/diag"
)

// parsed decodes a text whose FOLDER is a folder, and returns the value of env and the findings.
func parsed(t *testing.T, dir, text string, o Options) (string, []diag.Finding, *loader) {
	t.Helper()
	l := &loader{name: "t.yaml", files: o.Files, unsetIsInfo: o.UnsetIsInfo, report: diag.New(), getenv: func(string) (string, bool) { return "va", true }}
	var s sample
	root := l.parse([]byte(strings.ReplaceAll(text, "FOLDER", dir)))
	if root == nil {
		t.Fatalf("%s is no YAML: %v", text, l.report.Findings())
	}
	l.decodeAny(root, &s)
	return s.Env, l.report.Findings(), l
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plain": "s3cret", "line": "s3cret\n", "crlf": "s3cret\r\n", "lines": "a\nb\n\n", "cr": "s3cret\r", "with space": "sp",
		"empty": "", "newline": "\n", "nul": "s3cret\x00", "latin": "s3cret\xe9", "ref": "${A}- ${file:/etc/passwd}",
		"full": strings.Repeat("x", 64<<10), "full-line": strings.Repeat("x", 64<<10-1) + "\n", "large": strings.Repeat("x", 64<<10+1), "}": "closed",
	} {
		write(t, filepath.Join(dir, name), text, 0o600)
	}
	write(t, filepath.Join(dir, "open"), "s3cret", 0o644)
	for link, target := range map[string]string{"link": "plain", "loop": "loop", "loop1": "loop2", "loop2": "loop1", "nowhere": "missing"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, tt := range []struct{ value, want, problem string }{
		{"${file:FOLDER/plain}", "s3cret", ""},
		{"${file:FOLDER/line}", "s3cret", ""},
		{"${file:FOLDER/crlf}", "s3cret", ""},
		{"${file:FOLDER/lines}", "a\nb\n", ""},
		{"${file:FOLDER/cr}", "s3cret\r", ""},
		{"${file:FOLDER/with space}", "sp", ""},
		{"${file:FOLDER/link}", "s3cret", ""},
		{"${file:FOLDER/../" + filepath.Base(dir) + "/plain}", "s3cret", ""},
		{"Bearer ${file:FOLDER/line}:${A}:${file:FOLDER/plain}", "Bearer s3cret:va:s3cret", ""},
		{"${file:FOLDER/ref}", "${A}- ${file:/etc/passwd}", ""},
		{"${file:FOLDER/full}", strings.Repeat("x", 64<<10), ""},
		{"${file:FOLDER/full-line}", strings.Repeat("x", 64<<10-1), ""},
		{"${file:FOLDER/open}", "s3cret", `warning secret-file-mode other users of this machine can read or change the file "FOLDER/open": its mode is 0644`},
		{"${file:FOLDER/full}x", "", ""}, // the last part of a value is bounded by the file itself
		{"x${file:FOLDER/full}", "", "error env-too-long with file:FOLDER/full the value is longer than 65536 bytes"},
		{"${file:FOLDER/large}", "", `error secret-file the file "FOLDER/large" has more than 65536 bytes (65537)`},
		{"${file:FOLDER/nul}", "", `error secret-file the file "FOLDER/nul" has 7 bytes, with a NUL character among them`},
		{"${file:FOLDER/latin}", "", `error secret-file the file "FOLDER/latin" has 7 bytes, which are no UTF-8 text`},
		{"${file:FOLDER/empty}", "", `error env-unset the file "FOLDER/empty" is empty`},
		{"${file:FOLDER/newline}", "", `error env-unset the file "FOLDER/newline" is empty`},
		{"${file:FOLDER/missing}", "", `error env-unset the file "FOLDER/missing" cannot be read: no such file or directory`},
		{"${file:FOLDER/nowhere}", "", `error env-unset the file "FOLDER/nowhere" cannot be read: no such file or directory`},
		{"${file:FOLDER/missing:-default}", "", `error env-unset the file "FOLDER/missing:-default" cannot be read: no such file or directory`},
		{"${file:FOLDER/plain/x}", "", `error secret-file the file "FOLDER/plain/x" cannot be read: not a directory`},
		{"${file:FOLDER/loop}", "", `error secret-file the file "FOLDER/loop" cannot be read: too many levels of symbolic links`},
		{"${file:FOLDER/loop1}", "", `error secret-file the file "FOLDER/loop1" cannot be read: too many levels of symbolic links`},
		{"${file:FOLDER/fifo}", "", `error secret-file the file "FOLDER/fifo" is not a regular file`},
		{"${file:FOLDER/socket}", "", `error secret-file the file "FOLDER/socket" is not a regular file`},
		{"${file:FOLDER}", "", `error secret-file the file "FOLDER" is not a regular file`},
		{"${file:/dev/zero}", "", `error secret-file the file "/dev/zero" is not a regular file`},
		{"${file:/proc/self/environ}", "", `error secret-file the file "/proc/self/environ" has `},
		{"${file:FOLDER/}}", "", `error secret-file the file "FOLDER/" is not a regular file`}, // the first } ends the reference
		{"${file:}", "", "error env-syntax "},
		{"${file:relative}", "", "error env-syntax "},
		{"${file:~/x}", "", "error env-syntax "},
		{"${file:${HOME}/x}", "", "error env-syntax "},
		{"${file:/x/${HOME}}", "", "error env-syntax "},
		{"${file:/x\\ny}", "", "error env-syntax "},
		{"${file:FOLDER/plain", "", "error env-syntax "},
		{"${file:/" + strings.Repeat("x", 4096) + "}", "", "error env-syntax "},
	} {
		t.Run(tt.value[:min(len(tt.value), 40)], func(t *testing.T) {
			got, found, _ := parsed(t, dir, `env: "`+tt.value+`"`, Options{Files: true})
			var shown string
			for _, f := range found {
				shown = fmt.Sprint(f.Severity, " ", f.Code, " ", f.Message)
			}
			problem := strings.ReplaceAll(tt.problem, "FOLDER", dir)
			if tt.value == "${file:FOLDER/full}x" {
				tt.want = strings.Repeat("x", 64<<10+1)
			}
			if len(found) > 1 || got != tt.want || !strings.HasPrefix(shown, problem) || problem == "" && shown != "" {
				t.Errorf("%.80q, %q; want %.80q, %q", got, shown, tt.want, problem)
			}
			if strings.Contains(fmt.Sprint(found), "s3cret") {
				t.Errorf("a finding has the secret: %v", found)
			}
		})
	}
	if _, found, _ := parsed(t, dir, `env: "${file:FOLDER/open}"`, Options{Files: true}); found[0].Hint != `run: chmod o= "`+dir+`/open" (of a Kubernetes volume set defaultMode: 0440)` {
		t.Error(found[0].Hint)
	}
	if _, found, _ := parsed(t, dir, `text: "${file:FOLDER/open}"`, Options{Files: true}); len(found) != 1 || found[0].Code != "env-not-expanded" {
		t.Errorf("a field that is not expanded: %v", found)
	}
}

// Without Files no file is opened, and with UnsetIsInfo a missing one is an info; the paths are known.
func TestSecretFilesThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "open"), "s3cret", 0o666)
	for _, tt := range []struct {
		name, path, want string
		o                Options
	}{
		{"not opened", "/open", "info env-unset the file %q is not read by this command, so the value is not checked", Options{}},
		{"not opened, unset is info", "/open", "info env-unset the file %q is not read by this command, so the value is not checked", Options{UnsetIsInfo: true}},
		{"missing", "/missing", "info env-unset the file %q cannot be read: no such file or directory, so the value is not checked", Options{UnsetIsInfo: true, Files: true}},
	} {
		got, found, l := parsed(t, dir, `env: "${file:FOLDER`+tt.path+`}"`, tt.o)
		want := fmt.Sprintf(tt.want, dir+tt.path)
		if got != "" || len(found) != 1 || fmt.Sprint(found[0].Severity, " ", found[0].Code, " ", found[0].Message) != want {
			t.Errorf("%s: %q, %v; want %s", tt.name, got, found, want)
		}
		if !slices.Equal(l.secretPaths, []string{dir + tt.path}) {
			t.Errorf("%s: paths %q", tt.name, l.secretPaths)
		}
	}
}

// Many references to one file read it once and warn once; the different files and the size of all
// values are bounded.
func TestSecretFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "s3cret", 0o644)
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", 64<<10), 0o600)
	list := func(n int, entry func(i int) string) string {
		var b strings.Builder
		b.WriteString("env_list: [")
		for i := range n {
			b.WriteString(entry(i) + ", ")
		}
		return b.String() + "]"
	}
	if _, found, l := parsed(t, dir, list(10_000, func(int) string { return "'${file:FOLDER/a}'" }), Options{Files: true}); len(found) != 1 || len(l.secretPaths) != 1 {
		t.Errorf("%d findings, %d paths", len(found), len(l.secretPaths))
	}
	for i := range maxSecretFiles + 1 {
		if err := os.Symlink("a", filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, found, l := parsed(t, dir, list(maxSecretFiles+1, func(i int) string { return fmt.Sprintf("'${file:FOLDER/%d}'", i) }), Options{Files: true})
	if len(l.secretPaths) != maxSecretFiles || len(found) != 1 || !strings.Contains(found[0].Message, "more than 1000 files") {
		t.Errorf("%d paths, %v", len(l.secretPaths), found)
	}
	_, found, _ = parsed(t, dir, list(257, func(int) string { return "'${file:FOLDER/large}'" }), Options{Files: true})
	if len(found) != 1 || found[0].Code != "env-too-long" || !strings.Contains(found[0].Message, "together") {
		t.Errorf("%v", found)
	}
}

// TestSecretsFromFilesAreInNoFinding puts secrets, long and of several lines, into every expanded
// field of a file whose values are all wrong.
func TestSecretsFromFilesAreInNoFinding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, value := range []string{"s3cr\"et\nvalue", strings.Repeat("s3cr", 40), "http://s3cr:s3cr@\x7fhost", "s3cr\n" + strings.Repeat("s3cr ", 40), "s3cr%zz\ts3crü"} {
		write(t, path, value, 0o600)
		_, found := Parse("svc.yaml", []byte(strings.ReplaceAll(allWrong, "${S}", "${file:"+path+"}")), nil)
		if len(found) < 10 {
			t.Errorf("only %d findings: %v", len(found), found)
		}
		for _, f := range found {
			if shown := f.Message + f.Hint + f.Excerpt; strings.Contains(shown, "s3cr") {
				t.Errorf("%s shows the value: %q", f.Path, shown)
			}
		}
	}
}
