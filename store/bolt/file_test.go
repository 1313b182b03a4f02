package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// makeFile makes a store of some traces and returns its bytes and the ids.
func makeFile(t testing.TB) ([]byte, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{NoSync: true, Now: newClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	tn := s.tenant("t")
	m := newTraceMaker(clockStart.Add(-time.Hour), time.Second, false)
	var ids []string
	for range 4 {
		batch := m.batch(500)
		for i := range batch {
			ids = append(ids, batch[i].ID)
		}
		mustIngest(t, tn, batch)
	}
	if res, err := tn.Expire(ctx, store.ExpireBounds{Traces: clockStart.Add(-50 * time.Minute)}); err != nil || res.Traces == 0 {
		t.Fatalf("trim: %+v, %v", res, err) // free pages exist
	}
	ids = ids[600:]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw, ids
}

// exercise opens a file and reads and writes everything. It must return; it may
// return an error.
func exercise(t testing.TB, raw []byte, ids []string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "svc.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{NoSync: true, Now: newClock().Now})
	if err != nil {
		return err
	}
	ctx, tn := context.Background(), s.tenant("t")
	now := clockStart
	var errs []error
	for _, id := range []string{ids[0], ids[len(ids)/2], ids[len(ids)-1]} {
		tr, err := tn.GetTrace(ctx, id)
		if err == nil && tr.ID != id {
			t.Errorf("asked for %s and got %s", id, tr.ID)
		}
		errs = append(errs, err)
	}
	_, _, err = tn.ListTraces(ctx, store.TraceFilter{Status: store.TraceError}, store.Page{Limit: 50})
	errs = append(errs, err)
	_, err = tn.Stats(ctx, store.StatsQuery{From: now.Add(-2 * time.Hour), To: now, GroupBy: store.GroupByAgent})
	errs = append(errs, err)
	_, _, err = tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	errs = append(errs, err)
	_, err = tn.Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: "new", AgentName: "agent-000", Status: store.TraceSuccess}}})
	errs = append(errs, err)
	_, err = tn.CreateTeam(ctx, store.TeamCreate{Name: "team"})
	errs = append(errs, err)
	_, err = s.Backup(ctx, &bytes.Buffer{})
	errs = append(errs, err, s.Close())
	return errors.Join(errs...)
}

// TestDamagedFile opens truncated, zeroed and bit-flipped files: the result is
// correct, or an error with advice. The process must not crash.
func TestDamagedFile(t *testing.T) {
	raw, ids := makeFile(t)
	if err := exercise(t, raw, ids); err != nil {
		t.Fatalf("the file as it was: %v", err)
	}
	page := os.Getpagesize()
	zeroed := func(from, to int) []byte {
		b := bytes.Clone(raw)
		clear(b[from:to])
		return b
	}
	refused := map[string][]byte{
		"empty":             {},
		"one byte":          raw[:1],
		"half a page":       raw[:page/2],
		"one page":          raw[:page],
		"two pages":         raw[:2*page],
		"one tenth":         raw[:len(raw)/10],
		"half":              raw[:len(raw)/2],
		"both metas zeroed": zeroed(0, 2*page),
		"all zeroed":        zeroed(0, len(raw)),
		"text":              []byte(strings.Repeat("this is a text, not a store\n", 1000)),
		"sqlite":            append([]byte("SQLite format 3\x00"), make([]byte, 8192)...),
	}
	for name, b := range refused {
		t.Run("refused/"+name, func(t *testing.T) {
			err := exercise(t, b, ids)
			var fe *FileError
			if !errors.As(err, &fe) || fe.Advice == "" || !strings.Contains(err.Error(), fe.Path) {
				t.Fatalf("got %v, want a FileError with advice", err)
			}
			foreign := name == "text" || name == "sqlite"
			if got := fe.Advice == adviceForeign; got != foreign {
				t.Errorf("advice %q", fe.Advice)
			}
		})
	}
	t.Run("one meta is enough", func(t *testing.T) {
		for i := range 2 {
			if err := exercise(t, zeroed(i*page, (i+1)*page), ids); err != nil {
				t.Errorf("meta %d zeroed: %v", i, err)
			}
		}
	})
	survived, failed := 0, 0
	try := func(b []byte) {
		if err := exercise(t, b, ids); err != nil {
			failed++
		} else {
			survived++
		}
	}
	step := len(raw) / page / 30
	for p := 2; p < len(raw)/page; p += max(step, 1) {
		try(zeroed(p*page, (p+1)*page))
		for _, at := range []int{p * page, p*page + 8, p*page + 12, p*page + 17, p*page + 25, p*page + page/2} {
			b := bytes.Clone(raw)
			b[at] ^= 0x41
			try(b)
		}
		try(raw[:p*page+100])
	}
	t.Logf("%d damaged files were refused or gave an error, in %d the damage was not met", failed, survived)
	if failed == 0 {
		t.Error("no damage was noticed")
	}
}

// TestFlippedFreelist damages the pages that bbolt reads while it opens.
func TestFlippedFreelist(t *testing.T) {
	raw, ids := makeFile(t)
	f := bytes.NewReader(raw)
	m, problem := readMetas(f, int64(len(raw)))
	if problem != "" || m.freelist == noFreelist {
		t.Fatalf("no free list: %q", problem)
	}
	for _, id := range []uint64{m.freelist, m.root} {
		for at := range 40 {
			b := bytes.Clone(raw)
			b[int(id)*int(m.pageSize)+at] ^= 0xff
			_ = exercise(t, b, ids) // must return
		}
	}
}

func TestForeignAndNewerFile(t *testing.T) {
	write := func(fn func(tx *bbolt.Tx) error) string {
		path := filepath.Join(t.TempDir(), "svc.db")
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
		db.Close()
		return path
	}
	for name, path := range map[string]string{
		"not a control plane store": write(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("mine")); return err }),
		"newer version": write(func(tx *bbolt.Tx) error {
			return errors.Join(initialize(tx), setSchema(tx, 99))
		}),
		"before the first release": write(func(tx *bbolt.Tx) error {
			return errors.Join(initialize(tx), setSchema(tx, 10), tx.Bucket(bucketMeta).Put(keyFormat, []byte("svc control plane store")))
		}),
		"written by a build from before the first release": write(func(tx *bbolt.Tx) error {
			return errors.Join(initialize(tx), setSchema(tx, 1), tx.Bucket(bucketMeta).Put(keyFormat, []byte("svc store")))
		}),
	} {
		_, err := Open(path, Options{})
		var fe *FileError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second}); err != nil {
			t.Errorf("%s: a refused file stays locked: %v", name, err)
		} else {
			db.Close()
		}
	}
}

func TestSecondProcess(t *testing.T) {
	s := openTemp(t, Options{})
	began := time.Now()
	_, err := Open(s.path, Options{})
	if took := time.Since(began); !errors.Is(err, ErrInUse) || took > 2*time.Second {
		t.Errorf("second open: %v after %v", err, took)
	}
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("message %v", err)
	}
}

// TestLeasesEndWithTheirProcess: a killed process held a lease for hours. The next
// process on the file, which has exclusive access, gets the lease at once.
func TestLeasesEndWithTheirProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	for _, holder := range []string{"killed", "next"} {
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.AcquireLease(context.Background(), "work", holder, time.Hour); err != nil || !ok {
			t.Errorf("%s: %v, %v", holder, ok, err)
		}
		if _, ok, err := s.AcquireLease(context.Background(), "work", "another", time.Hour); err != nil || ok {
			t.Errorf("another beside %s: %v, %v", holder, ok, err)
		}
		if err := s.Close(); err != nil { // it releases nothing
			t.Fatal(err)
		}
	}
}

// TestBackup copies a store while it is written, and opens the copy.
func TestBackup(t *testing.T) {
	s, tn := benchStore(t)
	m := newTraceMaker(benchStart, time.Second, false)
	mustIngest(t, tn, m.batch(1000))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				mustIngest(t, tn, m.batch(10))
			}
		}
	}()
	var copied bytes.Buffer
	n, err := s.Backup(context.Background(), &copied)
	close(stop)
	<-done
	if err != nil || n != int64(copied.Len()) {
		t.Fatalf("backup %d bytes, %v", n, err)
	}
	path := filepath.Join(t.TempDir(), "restored.db")
	if kept, err := Restore(ctx, bytes.NewReader(copied.Bytes()), path, benchStart, nil); kept != "" || err != nil {
		t.Fatalf("kept %q, %v", kept, err)
	}
	again, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	checkRecount(t, again, "t")
	if _, err := Restore(ctx, bytes.NewReader(copied.Bytes()), path, benchStart, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("restore in the place of an opened store: %v", err)
	}
	cut := copied.Bytes()[:copied.Len()/2]
	var fe *FileError
	if _, err := Restore(ctx, bytes.NewReader(cut), path+"2", benchStart, nil); !errors.As(err, &fe) {
		t.Errorf("restore of half a backup: %v", err)
	}
	if left, err := filepath.Glob(path + "2*"); len(left) != 0 || err != nil {
		t.Errorf("a refused restore left %v, %v", left, err)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Backup(stopped, &copied); !errors.Is(err, context.Canceled) {
		t.Errorf("backup with an ended context: %v", err)
	}
}

// TestCheck reads files that were damaged in the middle, which opening them does
// not detect. A file that Check accepts reads back as it was written.
func TestCheck(t *testing.T) {
	raw, ids := makeFile(t)
	check := func(b []byte) error {
		path := filepath.Join(t.TempDir(), "svc.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Check(context.Background(), path, nil)
		return err
	}
	if err := check(raw); err != nil {
		t.Fatalf("the file as it was: %v", err)
	}
	page := os.Getpagesize()
	missed := 0
	for p := 2; p < len(raw)/page; p += max(len(raw)/page/40, 1) {
		b := bytes.Clone(raw)
		clear(b[p*page : (p+1)*page])
		err := check(b)
		var fe *FileError
		switch {
		case err != nil && (!errors.As(err, &fe) || fe.Advice == ""):
			t.Errorf("page %d zeroed: %v, want a FileError with advice", p, err)
		case err == nil: // then the damaged page was free
			missed++
			if err := exercise(t, b, ids); err != nil {
				t.Errorf("page %d zeroed and not noticed: %v", p, err)
			}
		}
	}
	if missed > 20 {
		t.Errorf("%d of 40 damaged pages were not noticed", missed)
	}
	for what, text := range map[string]string{"a record": `"Name":"agent-000"`, "a tenant": `"RedactionKey":`} {
		b := bytes.ReplaceAll(raw, []byte(text), []byte("!"+text[1:])) // free pages contain older copies
		if err := check(b); err == nil || !strings.Contains(err.Error(), "damaged record") {
			t.Errorf("%s spoiled: %v", what, err)
		}
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	path := filepath.Join(t.TempDir(), "svc.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(stopped, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// FuzzPreflight runs the checks of a file on arbitrary bytes with corrected meta
// checksums.
func FuzzPreflight(f *testing.F) {
	raw, _ := makeFile(f)
	f.Add(raw[:4*os.Getpagesize()], false)
	f.Add(raw[:4*os.Getpagesize()], true)
	f.Add([]byte("text"), false)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend && len(b) > pageHeaderSize+metaSize {
			p := b[pageHeaderSize:]
			sum := fnv.New64a()
			sum.Write(p[:metaSize-8])
			binary.LittleEndian.PutUint64(p[56:], sum.Sum64())
		}
		_ = inspect(bytes.NewReader(b), int64(len(b)), "f")
	})
}

// TestMissingBucket: a tenant without one of its buckets is refused when the file is opened, by name.
func TestMissingBucket(t *testing.T) {
	for _, name := range []string{"approval_calls", "webhook_queues", inTraces} {
		path := filepath.Join(t.TempDir(), "svc.db")
		s, err := Open(path, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: "t", Name: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := s.update(t.Context(), func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketData).Bucket([]byte("t")).DeleteBucket([]byte(name))
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var damage *FileError
		if s, err := Open(path, Options{NoSync: true}); !errors.As(err, &damage) || !strings.Contains(err.Error(), "tenant t has no bucket "+name) || damage.Advice == "" {
			t.Errorf("%v, %v", s, err)
		}
	}
}
