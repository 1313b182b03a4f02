package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/store/api"
)

// fakeKeeper stores heads in memory.
type fakeKeeper struct {
	mu    sync.Mutex
	heads []api.AuditHeadReport
	fail  error
	tries int
}

func (k *fakeKeeper) ReportAuditHead(ctx context.Context, h api.AuditHeadReport) (api.AuditHead, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tries++
	if err := errors.Join(k.fail, ctx.Err()); err != nil {
		return api.AuditHead{}, err
	}
	if wrong := h.Validate(); len(wrong) > 0 {
		return api.AuditHead{}, statusError(400)
	}
	k.heads = append(k.heads, h)
	return api.AuditHead{AuditHeadReport: h}, nil
}

func (k *fakeKeeper) kept() []api.AuditHeadReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]api.AuditHeadReport(nil), k.heads...)
}

// The last line of the log is reported: only changed heads, and the last one when
// the gateway stops; verification against that head detects a truncated log.
func TestAuditHeadsReachTheControlPlane(t *testing.T) {
	var c Config
	c.SetDefaults()
	c.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := Open(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func() {
		if err := log.Write(context.Background(), &Record{Action: "allow", Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	keeper := &fakeKeeper{}
	h, err := NewHeadReporter(HeadOptions{Gateway: "gateway-1", Log: log, Sink: keeper, Interval: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	write()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	until(t, "the first head", func() bool { return len(keeper.kept()) == 1 })
	time.Sleep(30 * time.Millisecond)
	if n := len(keeper.kept()); n != 1 {
		t.Errorf("the same head was reported %d times", n)
	}
	keeper.mu.Lock()
	keeper.fail = errors.New("no answer")
	keeper.mu.Unlock()
	write()
	until(t, "a report that fails", func() bool { keeper.mu.Lock(); defer keeper.mu.Unlock(); return keeper.tries > 2 })
	keeper.mu.Lock()
	keeper.fail = nil
	keeper.mu.Unlock()
	until(t, "the second head", func() bool { return len(keeper.kept()) == 2 })
	stop()
	<-done
	write()
	last, cancel := context.WithCancel(context.Background())
	cancel() // Run reports once more after its context has ended
	h.Run(last)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	heads := keeper.kept()
	if len(heads) != 3 || heads[2].Seq != 4 || heads[2].Gateway != "gateway-1" || len(heads[2].Trail) != 8 {
		t.Fatalf("heads: %+v", heads)
	}
	sum, err := ParseHash(heads[2].Hash)
	if err != nil {
		t.Fatal(err)
	}
	known := VerifyOptions{Heads: []Head{{Seq: uint64(heads[2].Seq), Hash: sum}}}
	if v, err := verifyPath(context.Background(), c.Path, known); err != nil || !v.OK() {
		t.Fatalf("the whole trail: %v, %v", v, err)
	}
	text, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(c.Path, []byte(strings.Join(lines[:3], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := verifyPath(context.Background(), c.Path, known); err != nil || v.OK() {
		t.Errorf("a trail that was cut back passes: %+v, %v", v, err)
	}
}

// Without a chain, or without a file, nothing is reported.
func TestNoAuditHeadWithoutAChain(t *testing.T) {
	var c Config
	c.SetDefaults()
	c.Path, c.Chain = filepath.Join(t.TempDir(), "audit.jsonl"), false
	log, err := Open(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	keeper := &fakeKeeper{}
	h, err := NewHeadReporter(HeadOptions{Log: log, Sink: keeper})
	if err != nil {
		t.Fatal(err)
	}
	h.report(context.Background())
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	h.report(context.Background()) // a closed log has nothing to report
	if keeper.tries != 0 {
		t.Errorf("%d reports", keeper.tries)
	}
}

// A reported head states the oldest line of the log (oldest_line), as the signed head in state_dir and
// the checkpoints do, and its signature covers it: the control plane shows which lines rotation removed.
func TestAReportedHeadHasTheOldestLine(t *testing.T) {
	key := filepath.Join(t.TempDir(), "checkpoint.key")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	var c Config
	c.SetDefaults()
	c.Path, c.CheckpointKeyFile, c.MaxBackups = filepath.Join(t.TempDir(), "audit.jsonl"), key, 1
	log, err := Open(c, Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	keeper := &fakeKeeper{}
	h, err := NewHeadReporter(HeadOptions{Gateway: "gateway-1", Log: log, Sink: keeper})
	if err != nil {
		t.Fatal(err)
	}
	report := func() api.AuditHeadReport {
		t.Helper()
		if err := log.Write(t.Context(), &Record{Action: "allow", Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
		h.report(t.Context())
		heads := keeper.kept()
		return heads[len(heads)-1]
	}
	if first := report(); first.OldestLine != 1 {
		t.Errorf("the first report: %+v", first)
	}
	if err := log.submit(item{do: func() error { log.writer.oldest = 2; return nil }}); err != nil { // as rotation does
		t.Fatal(err)
	}
	second := report()
	changed := second
	changed.OldestLine = 1
	if second.OldestLine != 2 || len(second.Validate()) > 0 || len(changed.Validate()) == 0 {
		t.Errorf("after rotation: %+v, %v; with another oldest line: %v", second, second.Validate(), changed.Validate())
	}
}

// A gateway that signs its checkpoints signs the heads, and reports the lines
// that it wrote itself, even if the file was modified.
func TestAuditHeadsAreSignedAndNotReadFromTheFile(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var c Config
	c.SetDefaults()
	c.Path, c.CheckpointKeyFile = filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "key")
	if err := os.WriteFile(c.CheckpointKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := Open(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Write(context.Background(), &Record{Action: "allow", Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	head, err := headOf(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(c.Path, 0); err != nil {
		t.Fatal(err)
	}
	keeper := &fakeKeeper{}
	h, err := NewHeadReporter(HeadOptions{Gateway: "g", Log: log, Sink: keeper})
	if err != nil {
		t.Fatal(err)
	}
	h.report(context.Background())
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	heads := keeper.kept() // which the keeper has validated, signature and all
	if len(heads) != 1 || heads[0].Seq != 2 || heads[0].Hash != head.Hash.String() ||
		heads[0].PublicKey != base64.StdEncoding.EncodeToString(public) || heads[0].Signature == "" {
		t.Errorf("heads: %+v", heads)
	}
}

// headOf returns the chain head of the audit log whose current file is path, also while
// the file is written; the zero Head when the log has no line. Without a chain the Hash
// is zero.
func headOf(path string) (Head, error) {
	files, err := trail(path)
	if err != nil || len(files) == 0 {
		return Head{}, err
	}
	newest := files[len(files)-1]
	f, err := newest.open()
	if err != nil {
		return Head{}, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Head{}, err
	}
	end, err := lastLine(f, info.Size())
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", newest.Path, err)
	}
	return Head{Seq: end.seq, Hash: end.hash}, nil
}
