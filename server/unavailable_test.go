package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/store"
)

// TestUnavailableStoreIsLoggedOnce: while the store fails, requests do not write one ERROR line
// for each; other faults of the server still do.
func TestUnavailableStoreIsLoggedOnce(t *testing.T) {
	for _, c := range []struct {
		err   error
		lines int
	}{{fmt.Errorf("commit: %w", store.ErrUnavailable), 1}, {fmt.Errorf("a defect"), 50}} {
		var out bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 50 {
			r := httptest.NewRequest(http.MethodGet, "/api/agents", nil)
			s.fail(&call{server: s, Request: r.WithContext(context.Background()), w: &Writer{ResponseWriter: httptest.NewRecorder()}, id: "r"}, c.err)
		}
		if n := strings.Count(out.String(), "level=ERROR"); n != c.lines {
			t.Errorf("%v: %d lines, want %d:\n%s", c.err, n, c.lines, &out)
		}
	}
}
