package refusal

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store/api"
)

// A client learns which approval its call needs, and a model, in words, what to do.
func TestApprovalForClients(t *testing.T) {
	pending := &Approval{ID: "apr_1", RetryAfter: 1500 * time.Millisecond, Similar: []api.ApprovalSimilar{{ID: "apr_2", Differs: []string{"/a", "/b/0"}}, {ID: "apr_3"}}}
	for _, tt := range []struct {
		name       string
		r          *Refusal
		toolErrors bool
		status     int
		retry      string
		want       []string
	}{
		{"required", ApprovalRequired.WithApproval(pending, false), false, 403, "",
			[]string{`"code":-32001`, `"reason":"approval_required"`, `"approval_id":"apr_1","retry_after":2,"similar":[{"approval_id":"apr_2","differs":["/a","/b/0"]},{"approval_id":"apr_3"}]}`}},
		{"required, for a model", ApprovalRequired.WithApproval(pending, false), true, 200, "",
			[]string{`"isError":true`, "approval apr_1", "exactly the same arguments", "at least 2 seconds", "approval apr_2, whose arguments differ at /a, /b/0; approval apr_3"}},
		{"continued", ApprovalRequired.WithApproval(pending, true), true, 200, "", []string{"without requestState"}},
		{"denied", ApprovalDenied.WithApproval(&Approval{ID: "apr_1"}, false), true, 200, "", []string{`"isError":true`, "do without it"}},
		{"too large", &ApprovalTooLarge, true, 200, "", []string{`"isError":true`, "fewer values"}},
		{"limit", ApprovalLimit.WithApproval(&Approval{RetryAfter: time.Minute}, false), true, 429, "60", []string{`"code":-32003`, `"reason":"approval_limit"`, `"retry_after":60`}},
		{"unavailable", ApprovalUnavailable.WithApproval(&Approval{RetryAfter: 2 * time.Second}, false), true, 503, "2", []string{`"code":-32603`, `"reason":"approval_unavailable"`}},
	} {
		a := &Reply{ID: []byte("7"), RequestID: "r1", ToolErrors: tt.toolErrors, Stateless: true}
		body := string(tt.r.AppendBody(nil, a))
		w := httptest.NewRecorder()
		tt.r.For(a).Write(w, []byte(body))
		if w.Code != tt.status || w.Header().Get("Retry-After") != tt.retry {
			t.Errorf("%s: %d, Retry-After %q", tt.name, w.Code, w.Header().Get("Retry-After"))
		}
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s lacks %s", tt.name, body, want)
			}
		}
		if tt.toolErrors && tt.status == 200 && !strings.Contains(body, `"resultType":"complete"`) {
			t.Errorf("%s: %s is no result of 2026-07-28", tt.name, body)
		}
	}
	if ApprovalRequired.Approval != nil || ApprovalRequired.Detail != "" {
		t.Error("the table was changed")
	}
}
