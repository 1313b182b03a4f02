package ui

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// approvalData is what the page of an approval shows.
type approvalData struct {
	*api.ApprovalRecord
	may bool // whether the key of the session may decide, as far as that is known before it does
	// Decide is the decision that is confirmed on the page; empty: none.
	Decide, Note, Problem string
	Own                   string // id of the session's key
}

func (a approvalData) Unseen() bool { return len(a.Arguments) == 0 && a.ArgumentsBytes > 0 }
func (a approvalData) MaxNote() int { return api.MaxMessage }

// Choices are the decisions that can be made now.
func (a approvalData) Choices() []string {
	if !a.may {
		return nil
	}
	return display.Decisions(a.Status)
}

// meanings say what the statuses of an approval do to its call.
var meanings = map[string]string{
	api.ApprovalPending: "Nobody has decided. The call was refused, and nothing waits for it: after a grant it passes once, when it is asked again with the same arguments.",
	api.ApprovalGranted: "The same call passes once, when it is asked again before the grant ends. Until then the grant can be revoked.",
	api.ApprovalDenied:  "The same call is refused.",
	api.ApprovalUsed:    "The call was sent. The same call needs a new approval.",
}

// Means says what the status does to the call.
func (a approvalData) Means() string {
	return cmp.Or(meanings[a.Status], "Nobody decided, or the grant was not used, in time. The same call needs a new approval.")
}

func listApprovals(v *visit) error {
	status := cmp.Or(v.asked("status"), api.ApprovalPending)
	var tabs []link
	for _, s := range append(slices.Clone(api.ApprovalStatuses), "all") {
		tabs = append(tabs, link{"/approvals" + query("status", s), strings.ToUpper(s[:1]) + s[1:], s == status})
	}
	asked := client.ApprovalQuery{Page: client.Page{Limit: api.DefaultLimit, After: v.asked("after")}, Status: status}
	if status == "all" {
		asked.Status = ""
	}
	page, err := v.api.ListApprovals(v.Context(), asked)
	if err != nil {
		return err
	}
	return v.show("approvals", view{"Tabs": tabs, "Status": status, "List": page, "Pages": v.pager(page.Next)})
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
	return approvalData{ApprovalRecord: &r, Own: v.cred.Key.ID, may: v.may("POST", "/api/approvals/{id}/decision")}, err
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
	refused, err := v.wrote(err)
	if refused == nil {
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
