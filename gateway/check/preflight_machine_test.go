package check

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestClockIsComparedWithServers(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	off := func(list ...time.Duration) (dates []Dated) {
		for _, d := range list {
			dates = append(dates, Dated{Date: at, At: at.Add(d)})
		}
		return dates
	}
	for _, tt := range []struct {
		name  string
		dates []Dated
		ok    bool
		says  string
	}{
		{"none", nil, true, ""},
		{"right", off(time.Second), true, ""},
		{"one server is wrong", off(time.Hour, 0, time.Second), true, ""},
		{"ahead", off(time.Hour, time.Hour+time.Second), false, "1h0m1s ahead"},
		{"behind", off(-time.Minute), false, "1m0s behind"},
	} {
		if r := clock(tt.dates); r.OK != tt.ok || !strings.Contains(r.Cause, tt.says) || !r.OK && r.Advice == "" {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

// The clock of a server is read from any response, including an error.
func TestAskClock(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	now := time.Now()
	if d, ok := AskClock(t.Context(), s.URL, func() time.Time { return now }); !ok || d.At != now || now.Sub(d.Date).Abs() > time.Minute {
		t.Errorf("%+v, %v", d, ok)
	}
	s.Close()
	if _, ok := AskClock(t.Context(), s.URL, time.Now); ok {
		t.Error("a server that is gone stated its time")
	}
}

func TestOpenFiles(t *testing.T) {
	for limit, ok := range map[uint64]bool{0: true, 1024: false, 65536: true} {
		if r := fileLimit(limit); r.OK != ok || ok != (r.Cause == "") {
			t.Errorf("%d: %+v", limit, r)
		}
	}
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	file := filepath.Join(dir, "file")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		field, path string
		cause       string // empty for a working directory
	}{
		{"audit.path", dir, ""},
		{"audit.path", filepath.Join(dir, "no"), "does not exist"},
		{"state_dir", filepath.Join(dir, "no", "state"), ""},
		{"audit.path", file, "a file in its place"},
		{"audit.path", closed, "permission denied"},
	} {
		if tt.path == closed && os.Geteuid() == 0 {
			continue // root may write everywhere
		}
		r := directory(tt.field, tt.path)
		if r.OK != (tt.cause == "") || !strings.Contains(r.Cause, tt.cause) || !r.OK && r.Advice == "" {
			t.Errorf("%s %s: %+v", tt.field, tt.path, r)
		}
		if strings.Contains(r.Cause, dir) {
			t.Errorf("%s: the path is repeated: %s", tt.path, r.Cause)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
