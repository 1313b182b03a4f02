package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// pace is the time between the lines of signedTrail, half of its checkpoint
// interval.
const pace = 500 * time.Millisecond

// signedTrail writes a signed log in which each third request is denied, and returns its lines.
func signedTrail(t testing.TB, keyFile string, first, requests int) []string {
	t.Helper()
	c := testConfig(t)
	c.CheckpointKeyFile, c.CheckpointInterval = keyFile, 2*pace
	var now atomic.Int64
	now.Store(sample(0).Time.UnixNano())
	l := mustOpen(t, c, Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	for i := range requests {
		r := sample(first + i)
		r.Time = time.Unix(0, now.Add(int64(pace))).Add(-r.Duration)
		if i%3 == 2 {
			r.Action = "deny"
		}
		if err := l.Write(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	return readLines(t, c.Path)
}

// reforge gives lines numbers and a chain of their own from a line on, as an attacker without the
// key can.
func reforge(lines []string, from int) []string {
	s := chainWriter{hashed: true, sha: sha256.New(), seq: uint64(from)}
	if from > 0 {
		_, _, s.prev, _, _ = splitLine([]byte(lines[from-1]))
	}
	out := append([]string(nil), lines[:from]...)
	for _, line := range lines[from:] {
		_, covered, _, _, _ := splitLine([]byte(line))
		body := bytes.TrimSuffix(covered[bytes.IndexByte(covered, ','):], []byte("}"))
		out = append(out, strings.TrimSuffix(string(s.appendLine(nil, body)), "\n"))
	}
	return out
}

// without returns the lines that contain none of the texts.
func without(lines []string, texts ...string) []string {
	var kept []string
next:
	for _, line := range lines {
		for _, text := range texts {
			if strings.Contains(line, text) {
				continue next
			}
		}
		kept = append(kept, line)
	}
	return kept
}

// replaced replaces a text in one line, which must contain it.
func replaced(t *testing.T, lines []string, at int, from, to string) []string {
	t.Helper()
	if !strings.Contains(lines[at], from) {
		t.Fatalf("no %s in %s", from, lines[at])
	}
	lines[at] = strings.Replace(lines[at], from, to, 1)
	return lines
}

// verifyLines verifies lines as a file.
func verifyLines(t testing.TB, lines []string, o VerifyOptions) *Verification {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := verifyPath(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	aCheckpoint = `"kind":"checkpoint"`
	aDeny       = `"action":"deny"`
)

// An attacker with the file and without the key cannot make another file that verifies.
func TestAForgedTrailDoesNotVerifyWithAKey(t *testing.T) {
	keyFile, public := signingKey(t)
	genuine := signedTrail(t, keyFile, 0, 24)
	other := signedTrail(t, keyFile, 500, 30)
	v := verifyLines(t, genuine, VerifyOptions{PublicKey: public})
	last := len(genuine)
	if !v.OK() || v.Proven != (Range{1, uint64(last)}) || v.UnprovenFound != 0 || v.Signed < 8 {
		t.Fatalf("the genuine trail: %+v", v)
	}
	var checkpoints []int
	for i, line := range genuine {
		if strings.Contains(line, aCheckpoint) {
			checkpoints = append(checkpoints, i)
		}
	}
	for _, row := range []struct {
		name  string
		forge func(l []string) []string
		want  string
	}{
		{"denies and checkpoints removed, a new chain", func(l []string) []string {
			return reforge(without(l, aCheckpoint, aDeny), 0)
		}, "no checkpoint has a good signature"},
		{"hashes removed, denies made allows", func(l []string) []string {
			for i := range l {
				l[i] = strings.Replace(l[i][:len(l[i])-sealedTail]+"}", aDeny, `"action":"allow"`, 1)
			}
			return l
		}, "line 1 has no hash"},
		{"all after the first checkpoint rewritten without checkpoints", func(l []string) []string {
			return reforge(append(l[:1:1], without(l[1:], aCheckpoint, aDeny)...), 1)
		}, "have no signed checkpoint between them"},
		{"the first line deleted, the next altered under its hash", func(l []string) []string {
			return replaced(t, l[1:], 0, "read_file", "wipe_disk")
		}, "the files begin at line 2, which is not a signed checkpoint"},
		{"signatures removed", func(l []string) []string {
			for _, i := range checkpoints {
				at := strings.Index(l[i], `,"key":`)
				l[i] = l[i][:at] + l[i][len(l[i])-sealedTail:]
			}
			return reforge(l, 0)
		}, "the checkpoint is not signed"},
		{"one checkpoint removed, a new chain after it", func(l []string) []string {
			return reforge(append(l[:checkpoints[3]:checkpoints[3]], l[checkpoints[3]+1:]...), checkpoints[3])
		}, "not good for the key"},
		{"the event of the last checkpoint changed", func(l []string) []string {
			return reforge(replaced(t, l, last-1, `"event":"stop"`, `"event":"interval"`), last-1)
		}, "not good for the key"},
		{"a longer interval, and no checkpoint after", func(l []string) []string {
			l = replaced(t, l, 0, `"interval_ms":1000`, `"interval_ms":86400000`)
			return reforge(append(l[:1:1], without(l[1:], aCheckpoint, aDeny)...), 0)
		}, "not good for the key"},
		{"checkpoints without a count", func(l []string) []string {
			for _, i := range checkpoints {
				at := strings.Index(l[i], `,"checkpoint":`)
				l[i] = l[i][:at] + l[i][strings.Index(l[i], `,"key":`):]
			}
			return reforge(l, 0)
		}, "not good for the key"},
		{"rewritten after a checkpoint in the middle", func(l []string) []string {
			at := checkpoints[4] + 1
			return reforge(append(l[:at:at], without(l[at:], aCheckpoint, aDeny)...), at)
		}, "have no signed checkpoint between them"},
		{"checkpoints made requests", func(l []string) []string {
			for _, i := range checkpoints[1:] {
				l = replaced(t, l, i, aCheckpoint, `"kind":"request"`)
			}
			return reforge(l, 0)
		}, "have no signed checkpoint between them"},
		{"the end of another trail with the same key", func(l []string) []string {
			return append(l[:checkpoints[4]:checkpoints[4]], other[checkpoints[4]:]...)
		}, "was changed, or one before it"},
		{"a checkpoint of another trail in place of the same one", func(l []string) []string {
			l[last-1] = other[last-1]
			return l
		}, "was changed, or one before it"},
		{"a checkpoint copied to the end", func(l []string) []string {
			return append(l, l[checkpoints[2]])
		}, "moved or copied"},
		{"times that go back", func(l []string) []string {
			return reforge(append(l, replaced(t, []string{l[1]}, 0, "2026-11-20T12", "2026-11-20T11")[0],
				l[2]), last)
		}, "have no signed checkpoint between them"},
		{"a time that cannot be read", func(l []string) []string {
			return reforge(append(l, replaced(t, []string{l[1]}, 0, "2026-11-20", "2026-99-20")[0]), last)
		}, "has no time that can be read"},
	} {
		t.Run(row.name, func(t *testing.T) {
			forged := row.forge(append([]string(nil), genuine...))
			v := verifyLines(t, forged, VerifyOptions{PublicKey: public})
			if v.OK() || v.Verified() || !strings.Contains(fmt.Sprint(v.Problems), row.want) {
				t.Errorf("found %v, want %q", v.Problems, row.want)
			}
			if v.Proven.Last > 0 && (v.Proven.First == 0 || v.Proven.First > v.Proven.Last) {
				t.Errorf("proven %v", v.Proven)
			}
		})
	}
}

// A removed signed checkpoint leaves a gap in the counts, also where the chain is consistent.
func TestAMissingCheckpointLeavesAGap(t *testing.T) {
	keyFile, public := signingKey(t)
	c := testConfig(t)
	c.CheckpointKeyFile = keyFile
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 2)
	// The chain state of a gateway that continued a log without its checkpoints.
	if err := l.submit(item{do: func() error { l.writer.chain.count += 2; return nil }}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	v, err := verifyPath(context.Background(), c.Path, VerifyOptions{PublicKey: public})
	if err != nil || v.Found != 1 || !strings.Contains(v.Problems[0].Message, "2 signed checkpoints are missing before line 4") {
		t.Errorf("%+v, %v", v, err)
	}
	if v.Proven != (Range{1, 1}) {
		t.Errorf("proven %v", v.Proven)
	}
}

// Lines after the last signature are reported as unproven, and a log whose beginning was cut away
// at a checkpoint, which is a problem, is proven from this checkpoint on.
func TestProvenBeginsAtTheFirstAnchoredLine(t *testing.T) {
	keyFile, public := signingKey(t)
	genuine := signedTrail(t, keyFile, 0, 9)
	at := 0
	for i, line := range genuine[1:] {
		if strings.Contains(line, aCheckpoint) {
			at = i + 1
			break
		}
	}
	v := verifyLines(t, genuine[at:len(genuine)-1], VerifyOptions{PublicKey: public})
	if v.Found != 2 || v.Proven.First != uint64(at)+1 || v.Proven.Last != v.LastSigned || v.LastSigned >= v.Head.Seq {
		t.Errorf("%+v", v)
	}
	if len(v.Unproven) != 1 || v.Unproven[0].Range != (Range{v.LastSigned + 1, v.Head.Seq}) {
		t.Errorf("unproven: %+v", v.Unproven)
	}
	// A known line proves the lines that the signatures do not cover.
	v = verifyLines(t, genuine[at:len(genuine)-1], VerifyOptions{PublicKey: public, Heads: []Head{v.Head}})
	if v.Found != 2 || len(v.Unproven) != 0 || v.KnownProven != (Range{uint64(at) + 1, v.Head.Seq}) {
		t.Errorf("with the head: %+v", v)
	}
}

// Without a key and without a known line nothing is verified, also with an unbroken chain.
func TestWithoutAKeyNothingIsVerified(t *testing.T) {
	keyFile, public := signingKey(t)
	genuine := signedTrail(t, keyFile, 0, 5)
	v := verifyLines(t, genuine, VerifyOptions{})
	if !v.OK() || v.Verified() || v.Proven.Last != 0 || v.Signed != 0 {
		t.Errorf("without a key: %+v", v)
	}
	if known := verifyLines(t, genuine, VerifyOptions{Heads: []Head{v.Head}}); !known.Verified() || known.KnownProven != (Range{1, v.Head.Seq}) {
		t.Errorf("with a known line: %+v", known)
	}
	if v := verifyLines(t, genuine, VerifyOptions{PublicKey: public}); !v.Verified() {
		t.Errorf("with the key: %+v", v)
	}
}

// Lines after a signature are unproven, and no error while they span at most two of its
// intervals: the next checkpoint may be late, and not missing.
func TestLinesWithoutASignatureSpanAtMostTwoIntervals(t *testing.T) {
	keyFile, public := signingKey(t)
	first := signedTrail(t, keyFile, 0, 1)[:1] // a checkpoint with the interval 2*pace
	for span, ok := range map[time.Duration]bool{4 * pace: true, 4*pace + time.Millisecond: false, -4 * pace: true, -4*pace - time.Millisecond: false} {
		s := chainWriter{hashed: true, sha: sha256.New(), seq: 1}
		_, _, s.prev, _, _ = splitLine([]byte(first[0]))
		lines := first[:1:1]
		for i, at := range []time.Duration{0, span} {
			r := sample(i)
			r.Time, r.Duration = sample(0).Time.Add(at), 0
			lines = append(lines, strings.TrimSuffix(string(s.appendLine(nil, r.appendBody(nil))), "\n"))
		}
		if v := verifyLines(t, lines, VerifyOptions{PublicKey: public}); v.OK() != ok || v.Proven != (Range{1, 1}) {
			t.Errorf("lines %v apart: %+v", span, v)
		}
	}
}

// A checkpoint is written between any two lines that are further apart than the interval,
// whatever the clock and the disk do.
func TestACheckpointIsDueBeforeALineOfAnotherTime(t *testing.T) {
	keyFile, public := signingKey(t)
	c := testConfig(t)
	c.CheckpointKeyFile = keyFile
	l := mustOpen(t, c, Options{})
	start := sample(0).Time
	for i, at := range []time.Duration{0, time.Minute, 61 * time.Second, 100 * time.Second, -time.Hour, -time.Hour + time.Second, 100 * time.Second} {
		r := sample(i)
		r.Time = start.Add(at)
		if err := l.Write(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	v := checkChain(t, c.Path, VerifyOptions{PublicKey: public})
	// start, before 61s, before the hour back, before the hour on, stop.
	if v.Signed != 5 || v.Proven != (Range{1, 12}) {
		t.Errorf("%+v", v)
	}
	for u := (unsigned{began: 1, bytes: maxUnsigned}); !u.due(1, time.Minute); {
		t.Fatal("no checkpoint is due however many bytes follow the last one")
	}
}
