package bolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
)

// writeStore makes a store with a tenant and a team of the given name.
func writeStore(t *testing.T, path, team string, opts Options) {
	t.Helper()
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tenant("t").CreateTeam(ctx, store.TeamCreate{Name: team}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// teamOf returns the name of the one team of a store.
func teamOf(t *testing.T, path string) string {
	t.Helper()
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	teams, _, err := s.Tenant("t").ListTeams(ctx, store.Page{})
	if err != nil || len(teams) != 1 {
		t.Fatalf("%d teams, %v", len(teams), err)
	}
	return teams[0].Name
}

func TestRestoreNeverLeavesThePathWithoutAStore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "svc.db")
	writeStore(t, path, "old", Options{})
	writeStore(t, filepath.Join(dir, "backup"), "new", Options{})
	backup, err := os.ReadFile(filepath.Join(dir, "backup"))
	if err != nil {
		t.Fatal(err)
	}
	done, missing := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				missing <- n
				return
			default:
				if _, err := os.Stat(path); err != nil {
					n++
				}
			}
		}
	}()
	var kept string
	for i := range 20 {
		if kept, err = Restore(ctx, bytes.NewReader(backup), path, time.Unix(int64(i), 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	if n := <-missing; n > 0 {
		t.Errorf("%d times there was no store", n)
	}
	if got := teamOf(t, path); got != "new" {
		t.Errorf("the store has team %q after the restore", got)
	}
	if got := teamOf(t, filepath.Join(dir, "svc.db.before-restore-19700101T000000Z")); got != "old" || !strings.HasSuffix(kept, "000019Z") {
		t.Errorf("the kept store has team %q; the last one is %s", got, kept)
	}
}

// TestARestoreEndsApprovals: what a backup has as pending or granted may have been decided and used
// since.
func TestARestoreEndsApprovals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t", Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: store.DigestKey("k")}})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, decision := range []string{"", store.DecisionGrant, store.DecisionDeny} {
		made, err := s.Tenant("t").RequestApproval(ctx, key.ID, store.ApprovalCall{Digest: "digest " + decision, Principal: "key:p", ValidFor: time.Hour, Expires: time.Hour, NotSelf: store.SelfAllowed})
		if err == nil && decision != "" {
			_, err = s.Tenant("t").DecideApproval(ctx, made.ID, store.ApprovalDecision{KeyID: key.ID, Decision: decision})
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[decision] = made.ID
	}
	var backup bytes.Buffer
	_, err = s.Backup(ctx, &backup)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, &backup, path, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for decision, want := range map[string]string{"": store.ApprovalExpired, store.DecisionGrant: store.ApprovalExpired, store.DecisionDeny: store.ApprovalDenied} {
		if got, err := s.Tenant("t").GetApproval(ctx, ids[decision], "", ""); err != nil || got.Status != want {
			t.Errorf("%q is %s after a restore, want %s (%v)", decision, got.Status, want, err)
		}
	}
	_, err = s.Tenant("t").ClaimApproval(ctx, ids[store.DecisionGrant], store.ApprovalClaim{KeyID: key.ID, Nonce: "n", Digest: "digest grant"})
	if store.KindOf(err) != store.Conflict {
		t.Errorf("a claim after a restore: %v", err)
	}
}

// TestARestoreIsRecorded: the store that a restore puts in place has another identity than the
// store that the backup was made of, and knows the time of the backup.
func TestARestoreIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	var before time.Time
	for i := range 3 {
		probed := time.Unix(int64(1000+i), 5).UTC()
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var backup bytes.Buffer
		err = s.SetWatermark(ctx, store.MarkWritten, probed)
		if err == nil {
			_, err = s.Backup(ctx, &backup)
		}
		if err == nil {
			err = s.SetWatermark(ctx, store.MarkWritten, probed.Add(time.Hour)) // lost
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		restored := time.Unix(int64(2000+i), 7).UTC()
		if _, err := Restore(ctx, &backup, path, restored, nil); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(path, Options{}); err != nil {
			t.Fatal(err)
		}
		got, err := store.RestoredOf(ctx, s)
		if err = errors.Join(err, s.Close()); err != nil || got != (store.Restored{At: restored, Before: before, Backup: probed}) {
			t.Errorf("restore %d: %+v, %v", i, got, err)
		}
		before = restored
	}
}

func TestRestoreRefusesBackupsAndKeepsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "old", Options{})
	var fe *FileError
	if _, err := Restore(ctx, strings.NewReader("no store"), path, benchStart, nil); !errors.As(err, &fe) || !strings.Contains(err.Error(), "not usable") {
		t.Errorf("a text: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Restore(stopped, strings.NewReader("no store"), path, benchStart, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 || teamOf(t, path) != "old" {
		t.Errorf("there are %v", left)
	}
}

// A server that is started where a restore was interrupted, or where its result was
// moved away, must not create an empty store with a new first key.
func TestNoStoreBeginsBesideOneThatARestoreKept(t *testing.T) {
	for _, left := range []string{"svc.db.before-restore-20260101T000000Z", "svc.db.restoring"} {
		path := filepath.Join(t.TempDir(), "svc.db")
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), left), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var fe *FileError
		if _, err := Open(path, Options{}); !errors.As(err, &fe) || !strings.Contains(fe.Problem, left) || fe.Advice == "" {
			t.Errorf("%s: %v", left, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a store was made: %v", left, err)
		}
	}
	odd := filepath.Join(t.TempDir(), "a[b]*.db")
	writeStore(t, odd, "old", Options{})
}

func TestAFileThatWasReplacedIsNotOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "old", Options{})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := stillAt(path, f); err != nil {
		t.Error(err)
	}
	writeStore(t, path+".other", "new", Options{})
	if err := os.Rename(path+".other", path); err != nil {
		t.Fatal(err)
	}
	if err := stillAt(path, f); err == nil {
		t.Error("a replaced file is taken for the store")
	}
}

func TestCheckReadsEveryBucket(t *testing.T) {
	for _, b := range tenantBuckets {
		if b.kind == raw {
			continue
		}
		path := filepath.Join(t.TempDir(), "svc.db")
		writeStore(t, path, "team", Options{})
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketData).Bucket([]byte("t")).Bucket([]byte(b.name)).Put([]byte("spoiled"), []byte("{no record"))
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(ctx, path, nil); err == nil || !strings.Contains(err.Error(), b.name) {
			t.Errorf("a spoiled value in %s: %v", b.name, err)
		}
	}
}

func TestCheckMissesNoBucket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{})
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketData).Bucket([]byte("t")).DeleteBucket([]byte(record.AuditEvents))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, path, nil); err == nil || !strings.Contains(err.Error(), record.AuditEvents) {
		t.Errorf("a missing bucket: %v", err)
	}
}

func TestCompactReturnsTheSpaceOfRemovedData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{NoSync: true, Now: newClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	m := newTraceMaker(clockStart.Add(-time.Hour), 100*time.Millisecond, false)
	for range 20 {
		mustIngest(t, s.TracesOf("t"), m.batch(1000))
	}
	cutoff := clockStart.Add(-time.Hour + 1900*time.Second)
	for more := true; more; {
		res, err := s.TracesOf("t").Expire(ctx, store.ExpireBounds{Traces: cutoff})
		if err != nil {
			t.Fatal(err)
		}
		more = res.More
	}
	info, err := s.Info(ctx)
	if err != nil || info.FreeBytes < info.SizeBytes/2 || info.FreeBytes >= info.SizeBytes {
		t.Errorf("%+v, %v: most of the store is free", info, err)
	}
	if _, _, err := Compact(ctx, path, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("an opened store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Compact(stopped, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, was) {
		t.Errorf("a compaction that was stopped changed the store, %v", err)
	}
	before, after, err := Compact(ctx, path, nil)
	if err != nil || before != int64(len(was)) || after > before/3 {
		t.Errorf("%d bytes before, %d after, %v", before, after, err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("there are %v", left)
	}
	again, err := Open(path, Options{NoSync: true, Now: newClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, total, err := again.TracesOf("t").ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); total != 1001 || err != nil { // those of the last 100 seconds and of the cutoff itself
		t.Errorf("%d traces are left, %v", total, err)
	}
	stats, err := again.TracesOf("t").Stats(ctx, store.StatsQuery{From: clockStart.Add(-2 * time.Hour), To: clockStart})
	if err != nil || stats.Summary.Traces != 20_000 {
		t.Errorf("statistics of %d traces, %v", stats.Summary.Traces, err)
	}
	mustIngest(t, again.TracesOf("t"), m.batch(10))
}

// A copy that needs several transactions is complete.
func TestCompactCopiesInSeveralTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	writeStore(t, path, "team", Options{NoSync: true})
	s, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20)
	for i := range 70 {
		if _, err := s.Tenant("t").CreateAgent(ctx, store.AgentCreate{Name: "agent-" + string(rune('A'+i)), ConfigYAML: big}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copied := 0
	if _, _, err := Compact(ctx, path, func(step string, done, total int64) {
		if step == StepCopy {
			copied++
		}
		if done < 0 || total <= 0 {
			t.Errorf("%s: %d of %d bytes", step, done, total)
		}
	}); err != nil || copied < 2 {
		t.Fatalf("%d transactions, %v", copied, err)
	}
	again, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	agents, _, err := again.Tenant("t").ListAgents(ctx, store.AgentFilter{}, store.Page{})
	if err != nil || len(agents) != 70 {
		t.Fatalf("%d agents, %v", len(agents), err)
	}
	for _, a := range agents {
		if got, err := again.Tenant("t").GetAgent(ctx, a.ID); err != nil || got.ConfigYAML != big {
			t.Errorf("agent %s lost its configuration: %d bytes, %v", a.Name, len(got.ConfigYAML), err)
		}
	}
}
