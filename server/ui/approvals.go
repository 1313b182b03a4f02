package ui

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// statusTab is one of several lists on a page.
type statusTab struct {
	Path, Title string
	Here        bool
}

// approvalsData is what the list of approvals shows.
type approvalsData struct {
	Tabs          []statusTab
	All           bool // whether approvals of all statuses are listed
	Rows          []approvalData
	Total         int
	First, Next   string // links to other pages of the list
	EmptyExplains bool
}

// approvalData is what is shown of an approval: a row of the list, or its own page.
type approvalData struct {
	*api.ApprovalRecord
	now time.Time
	// May reports whether the key of the session may decide, as far as that is known before it does, and Traces whether
	// it may see traces.
	May, Traces bool
	// Decide is the decision that is confirmed on the page; empty: none.
	Decide, Note, Problem string
	Own                   string // id of the session's key
}

func (a approvalData) Why() []display.Reason { return display.Reasons(a.ApprovalRecord) }
func (a approvalData) State() display.Word   { return display.ApprovalState(a.Status) }
func (a approvalData) Age() string           { return display.ApprovalAge(a.ApprovalRecord, a.now) }
func (a approvalData) Check() string         { return display.SelfCheck(a.SelfCheck) }
func (a approvalData) Size() string          { return display.ArgumentsSize(a.ApprovalRecord) }
func (a approvalData) Unseen() bool          { return len(a.Arguments) == 0 && a.ArgumentsBytes > 0 }
func (a approvalData) MaxNote() int          { return api.MaxMessage }

// Choices are the decisions that can be made now.
func (a approvalData) Choices() []string {
	if !a.May {
		return nil
	}
	return display.Decisions(a.Status)
}

// Ends returns in how long the status ends by itself.
func (a approvalData) Ends() string {
	if a.ExpiresAt == nil {
		return ""
	}
	return display.Span(a.ExpiresAt.Sub(a.now))
}

// Means says what a status does to the call.
func (a approvalData) Means() string {
	switch a.Status {
	case api.ApprovalPending:
		return "Nobody has decided. The call was refused, and nothing waits for it: after a grant it passes once, when it is asked again with the same arguments."
	case api.ApprovalGranted:
		return "The same call passes once, when it is asked again before the grant ends. Until then the grant can be revoked."
	case api.ApprovalDenied:
		return "The same call is refused."
	case api.ApprovalUsed:
		return "The call was sent. The same call needs a new approval."
	}
	return "Nobody decided, or the grant was not used, in time. The same call needs a new approval."
}

func init() { functions["argumentNotes"] = display.ArgumentNotes }

func listApprovals(v *visit) error {
	q := v.URL.Query()
	all := append(slices.Clone(api.ApprovalStatuses), "all")
	status := q.Get("status")
	if status == "" {
		status = api.ApprovalPending
	}
	d := approvalsData{All: status == "all"}
	for _, s := range all {
		d.Tabs = append(d.Tabs, statusTab{"/approvals" + query("status", s), strings.ToUpper(s[:1]) + s[1:], s == status})
	}
	asked := client.ApprovalQuery{Page: client.Page{Limit: api.DefaultLimit, After: q.Get("after")}, Status: status}
	if d.All {
		asked.Status = ""
	}
	page, err := v.api.ListApprovals(v.Context(), asked)
	if err != nil {
		return err
	}
	for i := range page.Data {
		d.Rows = append(d.Rows, approvalData{ApprovalRecord: &page.Data[i], now: v.now})
	}
	d.Total, d.First, d.Next = page.Total, v.firstPage(), v.pageAfter(page.Next)
	d.EmptyExplains = len(d.Rows) == 0 && asked.Status == api.ApprovalPending
	return v.show("approvals", d)
}

// pageAfter returns the link to the next page of a list of the API; empty: this is the last one.
func (v *visit) pageAfter(cursor string) string {
	if cursor == "" {
		return ""
	}
	q := v.URL.Query()
	q.Set("after", cursor)
	return v.URL.EscapedPath() + "?" + q.Encode()
}

// firstPage returns the link to the first page of a list; empty: this is it.
func (v *visit) firstPage() string {
	q := v.URL.Query()
	if q.Get("after") == "" {
		return ""
	}
	q.Del("after")
	return v.URL.EscapedPath() + "?" + q.Encode()
}

// showApproval shows an approval. A decision takes two steps: its link leads to this page again, which then has the
// whole call and behind it the form. So nobody decides about a call that the page has not just shown, and a second
// click on the same place decides nothing.
func showApproval(v *visit) error {
	a, err := v.approval()
	if err != nil {
		return err
	}
	q := v.URL.Query()
	switch a.Decide = q.Get("decide"); {
	case a.Decide == "":
	case !slices.Contains(a.Choices(), a.Decide):
		a.Decide, a.Problem = "", "This is not possible any more: the approval is "+a.Status+"."
	case q.Get("version") != strconv.Itoa(a.Version):
		a.Problem = changedApproval
	}
	return v.show("approval", a)
}

// changedApproval is said when an approval is not what the person has read.
const changedApproval = "The approval has changed since you read it: it has other reasons or terms now. Read it again before you decide."

// approval reads the approval of the path.
func (v *visit) approval() (approvalData, error) {
	r, err := v.api.GetApproval(v.Context(), v.PathValue("id"))
	return approvalData{ApprovalRecord: &r, now: v.now, Own: v.cred.Key.ID,
		May: v.may("POST", "/api/approvals/{id}/decision"), Traces: v.may("GET", "/api/traces")}, err
}

// decideApproval makes a decision about the version that the form was made for.
func decideApproval(v *visit) error {
	in := api.ApprovalDecision{Decision: v.PostFormValue("decision"), Note: strings.TrimSpace(v.PostFormValue("note"))}
	var err error
	if in.Version, err = strconv.Atoi(v.PostFormValue("version")); err != nil || in.Version < 1 || in.Decision == "grant" && v.PostFormValue("read") == "" {
		err = &client.Error{Status: http.StatusBadRequest, Message: "confirm that you have read the call"}
	} else {
		_, err = v.api.DecideApproval(v.Context(), v.PathValue("id"), in)
	}
	var refused *client.Error
	switch {
	case err == nil:
		http.Redirect(v.w, v.Request, path("approvals", v.PathValue("id")), http.StatusSeeOther)
		return nil
	case !errors.As(err, &refused) || refused.Status >= 500 || refused.Status == http.StatusNotFound:
		return err
	}
	a, gone := v.approval()
	if gone != nil {
		return gone
	}
	a.Problem = "Nothing was decided: " + refused.Error() + "."
	if advice := display.DecisionAdvice(refused.Message); advice != "" {
		a.Problem = "Nothing was decided: " + refused.Message + ". What to do: " + advice + "."
	}
	if refused.Status == http.StatusConflict && a.Version != in.Version {
		a.Problem = changedApproval
	}
	if a.Note = in.Note; refused.Status != http.StatusForbidden && slices.Contains(a.Choices(), in.Decision) {
		a.Decide = in.Decision
	}
	return v.page.send(v.w, v, refused.Status, "approval", v.at.title, a)
}
