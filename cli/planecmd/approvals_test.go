package planecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

// A watch shows pending approvals, new ones and changed ones, oldest first; it goes on after
// temporary errors, and ends with permanent ones.
func TestApprovalWatch(t *testing.T) {
	one := func(id, status string) api.ApprovalRecord { return api.ApprovalRecord{ID: id, Status: status} }
	away := &client.Error{Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second}
	gone := &client.Error{Status: http.StatusUnauthorized, Message: "no key"}
	for _, row := range []struct {
		name    string
		answers []any // lists, newest first, and errors
		max     int
		shown   string
		waits   string
		fails   error
	}{
		{"pending ones at first, then changes", []any{
			[]api.ApprovalRecord{one("b", "pending"), one("a", "used")},
			[]api.ApprovalRecord{one("d", "denied"), one("c", "pending"), one("b", "granted"), one("a", "used")},
			[]api.ApprovalRecord{one("d", "denied"), one("c", "expired")}, gone}, 0,
			"b pending, b granted, c pending, d denied, c expired", "[2s 2s 2s]", gone},
		{"away for a while", []any{[]api.ApprovalRecord{}, away, errors.New("reset"), []api.ApprovalRecord{one("a", "pending")}}, 1, "a pending", "[2s 5s 4s]", nil},
		{"away at first", []any{away}, 0, "", "[]", away},
		{"enough", []any{[]api.ApprovalRecord{one("b", "pending"), one("a", "pending")}}, 1, "a pending", "[]", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var shown []string
			waits := []time.Duration{}
			w := &approvalWatch{r: &rest.Connection{Env: process.Env{Stderr: &bytes.Buffer{}}}, max: row.max,
				list: func(context.Context, client.ApprovalQuery) (api.Page[api.ApprovalRecord], error) {
					next := row.answers[0]
					row.answers = row.answers[1:]
					if err, ok := next.(error); ok {
						return api.Page[api.ApprovalRecord]{}, err
					}
					return api.Page[api.ApprovalRecord]{Data: next.([]api.ApprovalRecord)}, nil
				},
				get: func(context.Context, string) (api.ApprovalRecord, error) {
					return api.ApprovalRecord{}, &client.Error{Status: http.StatusNotFound}
				},
				show: func(a api.ApprovalRecord) error { shown = append(shown, a.ID+" "+a.Status); return nil },
				wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }}
			if err := w.run(t.Context()); !errors.Is(err, row.fails) || len(row.answers) > 0 {
				t.Errorf("ends with %v, and %d answers are left; want %v", err, len(row.answers), row.fails)
			}
			if got := strings.Join(shown, ", "); got != row.shown {
				t.Errorf("shown %q, want %q", got, row.shown)
			}
			if got := fmt.Sprint(waits); got != row.waits {
				t.Errorf("waited %s, want %s", got, row.waits)
			}
		})
	}
}

// Nothing from outside reaches a terminal as it is, whatever a gateway has sent.
// Approvals that are not among the newest are followed too.
func TestApprovalWatchReadsAllPages(t *testing.T) {
	status := map[string]string{}
	id := func(i int) string { return fmt.Sprintf("apr_%04d", i) }
	for i := range 1500 {
		status[id(i)] = map[bool]string{true: "used", false: "pending"}[i >= 700]
	}
	var shown []string
	step := 0
	w := &approvalWatch{r: &rest.Connection{Env: process.Env{Stderr: &bytes.Buffer{}}}, max: 702,
		list: func(_ context.Context, q client.ApprovalQuery) (p api.Page[api.ApprovalRecord], err error) {
			for i := 1499; i >= 0; i-- {
				a := api.ApprovalRecord{ID: id(i), Status: status[id(i)]}
				if q.Status != "" && a.Status != q.Status || q.After != "" && a.ID >= q.After {
					continue
				}
				if len(p.Data) == q.Limit {
					p.Next = p.Data[q.Limit-1].ID
					break
				}
				p.Data = append(p.Data, a)
			}
			return p, nil
		},
		get: func(_ context.Context, id string) (api.ApprovalRecord, error) {
			return api.ApprovalRecord{ID: id, Status: status[id]}, nil
		},
		show: func(a api.ApprovalRecord) error { shown = append(shown, a.ID+" "+a.Status); return nil },
		wait: func(context.Context, time.Duration) error {
			step++
			status[id(3)] = []string{"granted", "used"}[step-1]
			return nil
		}}
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown[0] != "apr_0000 pending" || shown[699] != "apr_0699 pending" || fmt.Sprint(shown[700:]) != "[apr_0003 granted apr_0003 used]" {
		t.Errorf("shown %v … %v", shown[0], shown[699:])
	}
}

func TestApprovalTextIsSafe(t *testing.T) {
	hostile := "a\x1b[2J\u202e\u200b\U000e0041\nstatus  used"
	at := time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)
	text := string(approvalText(api.ApprovalRecord{
		ID: "apr_1", Status: api.ApprovalGranted, CreatedAt: at, ExpiresAt: &at, Tool: hostile, Method: hostile, AgentName: hostile, Principal: hostile,
		Client: hostile, Upstream: hostile, Gateway: hostile, SelfCheck: "off", Reasons: []api.ApprovalReason{{RuleID: hostile, Note: hostile}},
		Decisions: []api.ApprovalDecided{{Decision: "grant", Note: hostile, At: at}},
		Arguments: []api.ApprovalArgument{{Pointer: "/" + hostile, Value: hostile, Restored: hostile}},
	}, at.Add(90*time.Minute)))
	for _, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r != '\ufffd' && r != '…') {
			t.Errorf("%U in the text:\n%q", r, text)
		}
	}
	for _, want := range []string{`\u202e\u200b\udb40\udc41`, "\nstatus        granted, unused 1h30m, until 2026-11-02T14:00:00Z\n", "\nselfCheck     off: the caller may decide\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the text:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\nstatus "); n != 1 {
		t.Errorf("%d lines of the status: a value has begun a line of its own:\n%s", n, text)
	}
}
