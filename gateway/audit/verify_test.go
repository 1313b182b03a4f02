package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// signingKey writes a key pair and returns the path of the private key and the public key as read
// from its file.
func signingKey(t testing.TB) (string, ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	keyFile := write("key", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(public)
	loaded, err := LoadPublicKey(write("pub", "PUBLIC KEY", der, err))
	if err != nil {
		t.Fatal(err)
	}
	return keyFile, loaded
}

func TestVerifyFindsEveryTampering(t *testing.T) {
	keyFile, public := signingKey(t)
	c := testConfig(t)
	c.CheckpointKeyFile = keyFile
	l := mustOpen(t, c, Options{})
	for i := range 5 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := l.Write(context.Background(), sample(5+i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	good, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	v := checkChain(t, c.Path, VerifyOptions{PublicKey: public})
	if v.Signed != 3 || v.LastSigned != 13 || v.Starts != 1 {
		t.Fatalf("%+v", v)
	}
	head := v.Head

	// reforge gives lines a chain of their own, as an attacker without the key can.
	reforge := func(lines []string) []string {
		s := chainWriter{hashed: true, sha: sha256.New()}
		out := make([]string, len(lines))
		for i, line := range lines {
			_, covered, _, _, _ := splitLine([]byte(line))
			body := covered[bytes.IndexByte(covered, ','):]
			out[i] = strings.TrimSuffix(string(s.appendLine(nil, body)), "\n")
		}
		return out
	}
	for _, row := range []struct {
		name   string
		change func(lines []string) []string
		o      VerifyOptions
		want   string
	}{
		{"a changed field", func(l []string) []string {
			l[3] = strings.Replace(l[3], "read_file", "wipe_disk", 1)
			return l
		}, VerifyOptions{}, "line 4 was changed"},
		{"a deleted line", func(l []string) []string { return append(l[:3], l[4:]...) }, VerifyOptions{}, "1 lines are missing before line 5"},
		{"two lines swapped", func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, VerifyOptions{}, "lines were moved"},
		{"a line copied", func(l []string) []string { return append(l[:4], l[3:]...) }, VerifyOptions{}, "lines were moved or copied"},
		{"a foreign line", func(l []string) []string { l[2] = "hello"; return l }, VerifyOptions{}, "not a line of an audit log"},
		{"a hash taken out", func(l []string) []string {
			l[2] = l[2][:len(l[2])-sealedTail] + "}"
			return l
		}, VerifyOptions{}, "line 3 has no hash"},
		{"a changed line with a new hash", func(l []string) []string {
			l[3] = strings.Replace(l[3], "read_file", "wipe_disk", 1)
			l[3] = reforge(l)[3]
			return l
		}, VerifyOptions{}, "line 5 was changed, or one before"},
		{"a changed line and a new chain", func(l []string) []string {
			l[3] = strings.Replace(l[3], "read_file", "wipe_disk", 1)
			return reforge(l)
		}, VerifyOptions{PublicKey: public}, "checkpoint signs another chain"},
		{"a checkpoint without signature", func(l []string) []string {
			at := strings.Index(l[6], `,"key":`)
			l[6] = l[6][:at] + l[6][len(l[6])-sealedTail:]
			return reforge(l)
		}, VerifyOptions{PublicKey: public}, "not signed"},
		{"the end cut off, with a known head", func(l []string) []string { return l[:9] }, VerifyOptions{Heads: []Head{head}}, "the end was cut off"},
		{"older files are gone", func(l []string) []string { return l[2:] }, VerifyOptions{Heads: []Head{{Seq: 1}}}, "older than these files, which begin at line 3"},
		{"another trail in its place", func(l []string) []string {
			l[3] = strings.Replace(l[3], "read_file", "wipe_disk", 1)
			return reforge(l)
		}, VerifyOptions{Heads: []Head{head}}, "differs from the known head"},
		{"a torn end", func(l []string) []string { return append(l, `{"seq":`) }, VerifyOptions{}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			lines := row.change(strings.Split(strings.TrimSuffix(string(good), "\n"), "\n"))
			text := strings.Join(lines, "\n") + "\n"
			if row.want == "" {
				text, row.want = strings.TrimSuffix(text, "\n"), "unfinished line"
			}
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			v, err := verifyPath(context.Background(), path, row.o)
			if err != nil {
				t.Fatal(err)
			}
			if v.OK() || !strings.Contains(fmt.Sprint(v.Problems), row.want) {
				t.Errorf("found %v, want %q", v.Problems, row.want)
			}
		})
	}
}

// A change of any one byte is detected.
func TestVerifyFindsAnyChangedByte(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	for i := range 2 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	good, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		c := newVerifier(VerifyOptions{})
		if err := c.read(context.Background(), "audit.jsonl", bytes.NewReader(bad)); err != nil {
			t.Fatal(err)
		}
		c.finish()
		// No line follows the last hash, but its own line is checked against it.
		if c.v.OK() {
			t.Fatalf("byte %d may be changed from %q to %q", i, good[i], bad[i])
		}
	}
}

func TestVerifyErrs(t *testing.T) {
	if _, err := verifyPath(context.Background(), filepath.Join(t.TempDir(), "none"), VerifyOptions{}); err == nil {
		t.Error("an absent file is verified")
	}
	if _, err := Verify(context.Background(), nil, VerifyOptions{}); err == nil {
		t.Error("no file is verified")
	}
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	mustClose(t, l)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verifyPath(ctx, c.Path, VerifyOptions{}); err != nil && err != context.Canceled {
		t.Error(err)
	}
}

func TestCheckpointsAreWrittenAtIntervals(t *testing.T) {
	c := testConfig(t)
	c.CheckpointInterval = 5 * time.Millisecond // below the minimum of Validate
	l := mustOpen(t, c, Options{})
	if err := l.Write(context.Background(), sample(1)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if lines := readLines(t, c.Path); strings.Contains(lines[len(lines)-1], `"event":"interval"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no checkpoint")
		}
	}
	// No request, so no checkpoint.
	n := len(readLines(t, c.Path))
	time.Sleep(50 * time.Millisecond)
	if got := len(readLines(t, c.Path)); got > n+1 {
		t.Errorf("%d checkpoints about nothing", got-n)
	}
}

func TestCheckpointKeyFileIsChecked(t *testing.T) {
	keyFile, _ := signingKey(t)
	if err := os.Chmod(keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, file, want string }{
		{"readable by others", keyFile, "chmod 600"},
		{"absent", other + "x", "no such file"},
		{"not a key", other, "PEM block"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testConfig(t)
			c.CheckpointKeyFile = row.file
			if _, err := Open(c, Options{}); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestReconfigure(t *testing.T) {
	keyFile, public := signingKey(t)
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 3)

	bad := c
	bad.CheckpointKeyFile = "/nonexistent"
	if err := l.Reconfigure(bad); err == nil {
		t.Error("a missing key file is accepted")
	}
	bad = c
	bad.Path = filepath.Join(c.Path, "below-a-file")
	if err := l.Reconfigure(bad); err == nil {
		t.Error("an impossible path is accepted")
	}
	fill(t, l, 3, 1)

	moved := c
	moved.Path = filepath.Join(t.TempDir(), "other.jsonl")
	moved.CheckpointKeyFile = keyFile
	if err := l.Reconfigure(moved); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 4, 2)
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines != 6 {
		t.Errorf("%d lines in the old file", v.Lines)
	}
	if v := checkChain(t, moved.Path, VerifyOptions{PublicKey: public}); v.Lines != 4 || v.Proven != (Range{7, 10}) || v.Starts != 0 || v.Warned != 0 {
		t.Errorf("%+v in the new file", v)
	}
	v, err := Verify(t.Context(), []Rotated{{Path: c.Path}, {Path: moved.Path}}, VerifyOptions{})
	if err != nil || !v.OK() || v.Warned != 0 || v.Lines != 10 || v.Head.Seq != 10 {
		t.Errorf("both files: %+v %v", v, err)
	}
	// Both locks are released.
	mustOpen(t, c, Options{})
	mustOpen(t, moved, Options{})
}

// The chain goes on in the file of a new audit.path, so that both files verify as one log, with
// their signatures, also after restarts and rotations of the new path. A reload back to the earlier
// path, which has lines, would fork the chain: it is refused with what to do, changes nothing, and
// succeeds when the earlier file was moved away. All files then verify as one log.
func TestANewAuditPathContinuesTheChain(t *testing.T) {
	keyFile, public := signingKey(t)
	c, state := testConfig(t), t.TempDir()
	c.CheckpointKeyFile = keyFile
	l := mustOpen(t, c, Options{StateDir: state})
	fill(t, l, 0, 3)
	moved := c
	moved.Path = filepath.Join(t.TempDir(), "other.jsonl")
	if err := l.Reconfigure(moved); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 3, 2)
	mustClose(t, l)
	l = mustOpen(t, moved, Options{StateDir: state})
	fill(t, l, 5, 1)
	if err := l.Reconfigure(c); err == nil || !strings.Contains(err.Error(), c.Path+", or a rotated file of it, has lines already") {
		t.Fatalf("a path with lines: %v", err)
	}
	fill(t, l, 6, 1)
	first := filepath.Join(t.TempDir(), "first.jsonl")
	if err := os.Rename(c.Path, first); err != nil {
		t.Fatal(err)
	}
	if err := l.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 7, 1)
	mustClose(t, l)
	mustClose(t, mustOpen(t, c, Options{StateDir: state}))
	options := VerifyOptions{PublicKey: public}
	for name, files := range map[string][]Rotated{
		"all": {{Path: first}, {Path: moved.Path}, {Path: c.Path}}, "the first alone": {{Path: first}}, "the second alone": {{Path: moved.Path}}, "the last alone": {{Path: c.Path}},
	} {
		if v, err := Verify(t.Context(), files, options); err != nil || !v.OK() || v.Warned != 0 || !v.Verified() {
			t.Errorf("%s: %+v %v", name, v, err)
		}
	}
	if second := readLines(t, moved.Path)[0]; !strings.HasPrefix(second, `{"seq":6,`) || !strings.Contains(second, `"event":"continue"`) {
		t.Errorf("the new file begins %s", second)
	}
}

// A start with a path that an earlier change of audit.path ended warns that the chain forks: nothing
// but the last line of the file shows it.
func TestAStartWithAnEarlierAuditPathWarns(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 3)
	moved := c
	moved.Path = filepath.Join(t.TempDir(), "other.jsonl")
	if err := l.Reconfigure(moved); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	for path, want := range map[string]bool{c.Path: true, moved.Path: false} {
		var logged bytes.Buffer
		c.Path = path
		mustClose(t, mustOpen(t, c, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}))
		if warned := strings.Contains(logged.String(), "the log went on in another file"); warned != want {
			t.Errorf("%s: %s", path, logged.String())
		}
	}
}

func TestChainOff(t *testing.T) {
	c := testConfig(t)
	c.Chain = false
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 2)
	mustClose(t, l)
	for _, line := range readLines(t, c.Path) {
		if strings.Contains(line, "hash") {
			t.Errorf("%s", line)
		}
	}
	// When the chain is turned on later, it begins there.
	c.Chain = true
	l = mustOpen(t, c, Options{})
	fill(t, l, 2, 2)
	mustClose(t, l)
	v, err := verifyPath(context.Background(), c.Path, VerifyOptions{})
	if err != nil || !v.OK() || v.Unchained != 4 || v.Lines != 8 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A log that was signed with one key and then another verifies with both.
func TestVerifyTakesFormerKeys(t *testing.T) {
	s := newSite(t)
	l := s.open()
	fill(t, l, 0, 2)
	former := s.verify.PublicKey
	s.c.CheckpointKeyFile, s.verify.PublicKey = signingKey(t)
	if err := l.Reconfigure(s.c); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 2, 2)
	mustClose(t, l)
	s.run(4, 1)
	if s.logged.Len() > 0 {
		t.Errorf("after the change: %s", s.logged.String())
	}
	if v, err := verifyPath(context.Background(), s.c.Path, s.verify); err != nil || v.OK() {
		t.Errorf("with the new key alone: %+v, %v", v, err)
	}
	s.verify.FormerKeys = []ed25519.PublicKey{former}
	if v := checkChain(t, s.c.Path, s.verify); v.Proven != (Range{1, 10}) || v.Signed != 5 {
		t.Errorf("with both: %+v", v)
	}
}

// A checkpoint contains the interval and the key of those after it, so a reload that changes
// either writes one.
func TestAChangedIntervalIsSigned(t *testing.T) {
	keyFile, public := signingKey(t)
	c := testConfig(t)
	c.CheckpointKeyFile, c.CheckpointInterval = keyFile, 24*time.Hour
	l := mustOpen(t, c, Options{})
	at := sample(0).Time
	write := func(apart time.Duration) {
		t.Helper()
		for i := range 3 {
			r := sample(i)
			at = at.Add(apart)
			r.Time = at
			if err := l.Write(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(time.Hour)
	for _, interval := range []time.Duration{time.Minute, time.Minute, 12 * time.Hour} {
		c.CheckpointInterval = interval
		if err := l.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		write(interval / 3)
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{PublicKey: public}); v.Signed != 5 {
		t.Errorf("%+v", v)
	}
}

// verifyPath verifies the audit log whose current file is path, with its rotated files.
func verifyPath(ctx context.Context, path string, o VerifyOptions) (*Verification, error) {
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	return Verify(ctx, files, o)
}
