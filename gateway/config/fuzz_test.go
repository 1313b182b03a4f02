package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc/gateway/base/diag"
)

// FuzzParse passes any bytes to the loader. It must neither panic nor hang, must return a file or
// an error, and must render its findings.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "---\n---\n", "a: &a [*a]", "<<: {a: b}", "? [x]\n: y", "listen: !!binary aGk=", "\ufefflisten: a:1",
		"listen: ${X}", "policy: {rules: [{when: {claims: 5}}]}", "upstreams:\n\t- a", "a: |\n  b\n c", "\u2028listen: x",
		"upstreams: [{headers: {\"a.b\": x, 'c[0]': y}}]", "tls:", "x: \"\\0\"", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	} {
		f.Add([]byte(s))
	}
	getenv := func(name string) (string, bool) { return "value of " + name, name != "UNSET" }
	f.Fuzz(func(t *testing.T, data []byte) {
		started := time.Now()
		file, found := Parse("f.yaml", data, getenv)
		if (file == nil) != diag.HasErrors(found) {
			t.Errorf("file %v with findings %v", file, found)
		}
		for _, x := range found {
			if x.Code == "" || x.Message == "" {
				t.Errorf("a finding without a message: %+v", x)
			}
		}
		var out bytes.Buffer
		if err := diag.WriteText(&out, found); err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(out.Bytes(), "\x00\x1b\r") {
			t.Errorf("control characters reach the terminal: %q", out.Bytes())
		}
		if d := time.Since(started); d > 5*time.Second {
			t.Errorf("took %s for %d bytes", d, len(data))
		}
	})
}

// TestHostileFilesAreReadInTime parses large files that are made to be slow, and measures
// processor time, because other tests may run concurrently.
func TestHostileFilesAreReadInTime(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, (maxBytes/4)/len(s)) }
	for _, c := range []struct{ name, text string }{
		{"comments", fill("# x\n")},
		{"comments in a list", "upstreams:\n" + fill("  # x\n  - a\n")},
		{"unknown keys", manyKeys()},
		{"empty list entries", fill("-\n")},
		{"brackets", fill("[")},
		{"braces", fill("{a: ")},
		{"block nesting", fill("- ")},
		{"question marks", fill("? ")},
		{"a long line", fill("x")},
		{"quotes", "a: \"" + fill("\\u0041") + "\""},
		{"wrong list entries", "trusted_proxies: [" + fill("x,") + "]"},
		{"long keys", "upstreams: [{" + fill(strings.Repeat("k", 1000)+": v, ") + "a: b}]"},
		{"anchors", "a: [" + fill("&a x, ") + "]"},
		{"aliases", "a: &a x\nb: [" + fill("*a , ") + "]"},
		{"secrets on one line", "upstreams: [{headers: {" + fill("a: b, ") + "}}]"},
		{"variables", "listen: " + fill("${A}")},
		{"line separators", fill("\u2028")},
		{"tags", fill("!a ")},
		{"documents", fill("---\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := cpu(t)
			f, found := Parse("f.yaml", []byte(c.text), func(string) (string, bool) { return "xy", true })
			if f != nil || len(found) == 0 {
				t.Error("nothing was found")
			}
			var out strings.Builder
			if err := diag.WriteText(&out, found); err != nil {
				t.Fatal(err)
			}
			if d := cpu(t) - started; d > 10*time.Second {
				t.Errorf("took %s", d)
			}
			if out.Len() > maxBytes {
				t.Errorf("%d bytes of findings", out.Len())
			}
		})
	}
}

// cpu returns the processor time that the process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func manyKeys() string {
	var b strings.Builder
	for i := 0; b.Len() < maxBytes/4; i++ {
		b.WriteString("k")
		for n := i; n > 0; n /= 26 {
			b.WriteByte(byte('a' + n%26))
		}
		b.WriteString(":\n")
	}
	return b.String()
}
