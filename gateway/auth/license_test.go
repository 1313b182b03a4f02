package auth

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/base/diag"
)

var issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// issuer is a directory with a key pair and a license of 30 days and 7 of grace.
type issuer struct {
	key, pub, license string
	public            ed25519.PublicKey
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	dir := t.TempDir()
	key, pub, err := GenerateKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ReadPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	is := issuer{key: key, pub: pub, license: filepath.Join(dir, "license.jwt"), public: public}
	is.issue(t, issued, 30, 7)
	return is
}

func (is issuer) issue(t *testing.T, now time.Time, days, grace int) *License {
	t.Helper()
	l, err := Issue(Request{KeyFile: is.key, Subject: "acme", Days: days, GraceDays: grace, Out: is.license, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (is issuer) config() LicenseConfig {
	return LicenseConfig{Path: is.license, PublicKeyFile: is.pub}
}

func fixed(now time.Time) func() time.Time { return func() time.Time { return now } }

func (is issuer) open(t *testing.T) *Checker {
	t.Helper()
	c, err := Open(is.config(), nil, fixed(issued))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIssueThenLoad(t *testing.T) {
	is := newIssuer(t)
	got, err := Load(is.license, is.public)
	if err != nil {
		t.Fatal(err)
	}
	want := &License{Issuer: "svc", Subject: "acme", IssuedAt: issued, ExpiresAt: issued.Add(30 * day), GraceDays: 7}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for path, mode := range map[string]os.FileMode{is.license: 0o600, is.key: 0o600, is.pub: 0o644} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, mode)
		}
	}
}

func TestKeysArePEMInPKCS8AndSPKI(t *testing.T) {
	is := newIssuer(t)
	for path, kind := range map[string]string{is.key: "PRIVATE KEY", is.pub: "PUBLIC KEY"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b, rest := pem.Decode(data); b == nil || b.Type != kind || len(rest) > 0 {
			t.Errorf("%s is not one %s block", path, kind)
		}
	}
}

func TestClaimsOfTheToken(t *testing.T) {
	is := newIssuer(t)
	data, err := os.ReadFile(is.license)
	if err != nil {
		t.Fatal(err)
	}
	part, err := base64.RawURLEncoding.DecodeString(strings.Split(string(data), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(part, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"iss": "svc", "sub": "acme", "iat": float64(issued.Unix()),
		"exp": float64(issued.Add(30 * day).Unix()), "grace_days": 7.0}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStates(t *testing.T) {
	l := &License{IssuedAt: issued, ExpiresAt: issued.Add(30 * day), GraceDays: 7}
	for _, c := range []struct {
		name string
		now  time.Time
		want State
	}{
		{"valid when issued", issued, Valid},
		{"valid until exp", issued.Add(30*day - time.Nanosecond), Valid},
		{"in grace at exp", issued.Add(30 * day), Grace},
		{"in grace until exp and grace_days", issued.Add(37*day - time.Nanosecond), Grace},
		{"expired at exp and grace_days", issued.Add(37 * day), Expired},
		{"expired long after", issued.Add(9999 * day), Expired},
		{"clock back an hour", issued.Add(-time.Hour), Valid},
		{"clock back to 1970", time.Unix(0, 0), Valid},
	} {
		if got := l.State(c.now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	l.GraceDays = 0
	if got := l.State(l.ExpiresAt); got != Expired {
		t.Errorf("without grace_days the state at exp is %s", got)
	}
	if l.ClockBehind(issued.Add(-time.Hour)) || !l.ClockBehind(issued.Add(-25*time.Hour)) {
		t.Error("ClockBehind is not a day before iat")
	}
}

// TestStartIsRefused has a case for each license that is fatal at start.
func TestStartIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T, is issuer, cfg *LicenseConfig)
		want   error
		advice string
	}{
		{"missing", func(t *testing.T, is issuer, _ *LicenseConfig) { remove(t, is.license) }, errLicenseMissing, "path"},
		// A path through a file, which no user can open, not even the superuser.
		{"unreadable", func(_ *testing.T, is issuer, cfg *LicenseConfig) { cfg.Path = filepath.Join(is.license, "license.jwt") }, errUnreadable, "own"},
		{"not parsable", func(t *testing.T, is issuer, _ *LicenseConfig) { write(t, is.license, "junk") }, errMalformed, "issue"},
		{"empty", func(t *testing.T, is issuer, _ *LicenseConfig) { write(t, is.license, "") }, errMalformed, "issue"},
		{"too large", func(t *testing.T, is issuer, _ *LicenseConfig) { write(t, is.license, strings.Repeat("x", 1<<20)) }, errMalformed, "issue"},
		{"badly signed", func(t *testing.T, is issuer, _ *LicenseConfig) {
			write(t, is.license, newIssuer(t).sign(t, nil, good()))
		}, errSignature, "public_key_file"},
		{"mode 0644", func(t *testing.T, is issuer, _ *LicenseConfig) { chmod(t, is.license, 0o644) }, errTooOpen, "chmod 600"},
		{"mode 0640", func(t *testing.T, is issuer, _ *LicenseConfig) { chmod(t, is.license, 0o640) }, errTooOpen, "chmod 600"},
		{"mode 0602", func(t *testing.T, is issuer, _ *LicenseConfig) { chmod(t, is.license, 0o602) }, errTooOpen, "chmod 600"},
		{"symbolic link to a file that is too open", func(t *testing.T, is issuer, cfg *LicenseConfig) {
			chmod(t, is.license, 0o644)
			cfg.Path = link(t, is.license)
		}, errTooOpen, "chmod 600"},
		{"dangling symbolic link", func(t *testing.T, is issuer, cfg *LicenseConfig) {
			cfg.Path = link(t, is.license)
			remove(t, is.license)
		}, errLicenseMissing, "path"},
		{"directory", func(t *testing.T, _ issuer, cfg *LicenseConfig) { cfg.Path = t.TempDir() }, errNotRegular, ""},
		{"pipe", func(t *testing.T, is issuer, cfg *LicenseConfig) {
			cfg.Path = is.license + ".pipe"
			if err := syscall.Mkfifo(cfg.Path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, errNotRegular, ""},
		{"public key missing", func(t *testing.T, is issuer, _ *LicenseConfig) { remove(t, is.pub) }, errLicenseMissing, "path"},
		{"public key junk", func(t *testing.T, is issuer, _ *LicenseConfig) { write(t, is.pub, "junk") }, ErrKey, "license keygen"},
		{"no public key at all", func(t *testing.T, _ issuer, cfg *LicenseConfig) { cfg.PublicKeyFile = "" }, ErrNoKey, "svc license init"},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := newIssuer(t)
			cfg := is.config()
			c.spoil(t, is, &cfg)
			checker, err := Open(cfg, nil, fixed(issued))
			var e *Error
			if checker != nil || !errors.Is(err, c.want) || !errors.As(err, &e) {
				t.Fatalf("Open() = %v, %v; want %v", checker, err, c.want)
			}
			if !strings.Contains(e.Advice(), c.advice) {
				t.Errorf("advice %q does not say %q", e.Advice(), c.advice)
			}
			if c.want != ErrNoKey && e.Path == "" {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

func TestStartIsAccepted(t *testing.T) {
	for _, c := range []struct {
		name string
		prep func(t *testing.T, is issuer, cfg *LicenseConfig)
	}{
		{"mode 0600", func(*testing.T, issuer, *LicenseConfig) {}},
		{"mode 0400", func(t *testing.T, is issuer, _ *LicenseConfig) { chmod(t, is.license, 0o400) }},
		{"symbolic link to a private file", func(t *testing.T, is issuer, cfg *LicenseConfig) { cfg.Path = link(t, is.license) }},
		{"expired beyond grace", func(t *testing.T, is issuer, _ *LicenseConfig) { is.issue(t, issued.Add(-400*day), 1, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := newIssuer(t)
			cfg := is.config()
			c.prep(t, is, &cfg)
			if _, err := Open(cfg, nil, fixed(issued)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheBuildsOwnKey(t *testing.T) {
	is := newIssuer(t)
	own, err := os.ReadFile(is.pub)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(LicenseConfig{Path: is.license}, own, fixed(issued)); err != nil {
		t.Errorf("with the build's own key: %v", err)
	}
	if _, err := Open(LicenseConfig{Path: is.license}, []byte("junk"), fixed(issued)); !errors.Is(err, ErrKey) {
		t.Errorf("with a broken key of the build: %v", err)
	}
	other := newIssuer(t)
	if _, err := Open(LicenseConfig{Path: is.license, PublicKeyFile: other.pub}, own, fixed(issued)); !errors.Is(err, errSignature) {
		t.Errorf("license.public_key_file does not override the build's own key: %v", err)
	}
}

func TestFailedReverificationExpiresUntilTheFileIsGood(t *testing.T) {
	is := newIssuer(t)
	c := is.open(t)
	if got := c.State(issued); got != Valid {
		t.Fatalf("state %s", got)
	}
	write(t, is.license, "junk")
	if got := c.State(issued); got != Valid {
		t.Errorf("the state changed before the file was checked: %s", got)
	}
	if err := c.Recheck(); !errors.Is(err, errMalformed) {
		t.Errorf("Recheck() = %v", err)
	}
	if s := c.Status(issued); s.State != Expired || s.Err == nil || s.License != nil {
		t.Errorf("status %+v", s)
	}
	is.issue(t, issued, 30, 7)
	if err := c.Recheck(); err != nil {
		t.Error(err)
	}
	if s := c.Status(issued); s.State != Valid || s.Err != nil {
		t.Errorf("status %+v", s)
	}
}

func TestReplacingAnExpiredLicenseRecovers(t *testing.T) {
	is := newIssuer(t)
	c := is.open(t)
	late := issued.Add(100 * day)
	if got := c.State(late); got != Expired {
		t.Fatalf("state %s", got)
	}
	is.issue(t, late, 30, 7)
	if err := c.Recheck(); err != nil || c.State(late) != Valid {
		t.Errorf("state %s, %v", c.State(late), err)
	}
}

func TestReloadTakesTheNewPath(t *testing.T) {
	is, other := newIssuer(t), newIssuer(t)
	c := is.open(t)
	if err := c.Reload(other.config()); err != nil || c.State(issued) != Valid {
		t.Errorf("state %s, %v", c.State(issued), err)
	}
	remove(t, is.license)
	if err := c.Recheck(); err != nil {
		t.Errorf("the old path is still read: %v", err)
	}
	if err := c.Reload(is.config()); !errors.Is(err, errLicenseMissing) || c.State(issued) != Expired {
		t.Errorf("state %s, %v", c.State(issued), err)
	}
}

func TestHourlyReverification(t *testing.T) {
	is := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		is.issue(t, time.Now(), 1, 1)
		c, err := Open(is.config(), nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan State, 10)
		c.Changed = func(s Status) { seen <- s.State }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()

		<-time.After(23*time.Hour + time.Minute)
		synctest.Wait()
		if len(seen) != 0 {
			t.Errorf("%d changes while nothing changed", len(seen))
		}
		<-time.After(time.Hour) // past exp
		write(t, is.license, "junk")
		<-time.After(2 * time.Hour) // two failed checks
		is.issue(t, time.Now(), 30, 7)
		<-time.After(time.Hour)
		cancel()
		<-done
		close(seen)
		var got []State
		for s := range seen {
			got = append(got, s)
		}
		if d := cmp.Diff([]State{Grace, Expired, Valid}, got); d != "" {
			t.Error(d)
		}
	})
}

func TestStateWhileRechecking(t *testing.T) {
	is := newIssuer(t)
	c := is.open(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			_ = c.Recheck()
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
			if got := c.State(issued); got != Valid {
				t.Fatalf("state %s", got)
			}
		}
	}
}

func TestErrorsNameFileAndAdvice(t *testing.T) {
	err := &Error{Kind: errTooOpen, What: "license", Path: "/l", Detail: "its mode is 0644"}
	want := "license /l: the file is open to others than its owner: its mode is 0644 (chmod 600 /l)"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestConfigRules(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  LicenseConfig
		want int
	}{
		{"path required", LicenseConfig{}, 1},
		{"path absolute", LicenseConfig{Path: "l.jwt"}, 1},
		{"public_key_file absolute", LicenseConfig{Path: "/l", PublicKeyFile: "k"}, 1},
		{"good", LicenseConfig{Path: "/l", PublicKeyFile: "/k"}, 0},
	} {
		r := diag.New()
		c.cfg.Validate(r.Root())
		if got := len(r.Findings()); got != c.want {
			t.Errorf("%s: %d findings, want %d", c.name, got, c.want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// The ends of validity and of the grace period are detected when they come, not with the next
// verification.
func TestExpiryIsNoticedAtOnce(t *testing.T) {
	is := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		is.issue(t, time.Now(), 1, 1)
		c, err := Open(is.config(), nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var at []time.Duration
		c.Changed = func(Status) { at = append(at, time.Since(began)) }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		<-time.After(49 * time.Hour)
		cancel()
		<-done
		if d := cmp.Diff([]time.Duration{24 * time.Hour, 48 * time.Hour}, at); d != "" {
			t.Error(d)
		}
	})
}

// While a license ends soon, Run reports it once a day, also in its grace period, and never after its
// end or long before.
func TestALicenseThatEndsSoonIsReportedDaily(t *testing.T) {
	is := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		is.issue(t, time.Now(), 31, 2)
		c, err := Open(is.config(), nil, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var days []int
		c.Ending = func(Status) { days = append(days, int(time.Since(began).Hours()/24)) }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		<-time.After(36 * 24 * time.Hour)
		cancel()
		<-done
		if len(days) < 29 || len(days) > 31 || days[0] != 3 || days[len(days)-1] != 32 {
			t.Errorf("reported on the days %v", days)
		}
		for i := range days[1:] {
			if days[i] == days[i+1] {
				t.Errorf("twice on day %d", days[i])
			}
		}
	})
}
