package federation

import (
	"encoding/json"
	"net/http"

	"svc/gateway/catalog"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// unknown responds to a request for an item that does not exist as a server with that feature
// does, because clients interpret a missing method as a server without the feature. It returns
// nil for all other requests.
func (a *answer) unknown() *upstream.Response {
	e := a.noRoute()
	switch a.m.Method {
	case mcp.MethodResourcesRead:
	case mcp.MethodSkillsGet:
		e.Detail = "no server has a skill of this URI"
	case mcp.MethodDirectoryRead:
		e.Detail = "no server has a directory of this URI"
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		if a.modern {
			return a.refuse(&refusal.NoRoute, a.m.Method+": the revision does not have the method")
		}
	case mcp.MethodPromptsGet:
		e.Detail = "no server has a prompt of this name"
	case mcp.MethodComplete:
		e.Detail = "no server has what the argument to complete belongs to"
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
		if !a.offersTasks() || a.modern && a.m.Method == mcp.MethodTasksResult {
			return a.refuse(&refusal.NoRoute, a.m.Method+": no server has tasks in the client's revision")
		}
		e.Detail = "no server has a task of this id"
		if a.modern && !a.declaresTasks() {
			e.Code, e.Detail = mcp.CodeMissingCapability, "the client does not declare the extension "+mcp.ExtensionTasks
			e.More = []byte(`,"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}`)
		}
	default:
		return nil
	}
	err := a.addressError()
	if e.Detail == "" {
		e.Detail = "no server has a resource of this URI"
		e.More = mcp.AppendString([]byte(`,"uri":`), a.m.URI)
		if err == nil && !a.modern && !a.caller.HasSession { // in a session as servers of the official SDKs respond
			e.Code = mcp.CodeResourceNotFound
		}
	}
	if err != nil {
		e.Detail = err.Error()
	}
	return a.absent(&e)
}

// noRoute is the error of a request for what no server has.
func (a *answer) noRoute() mcp.ErrorBody {
	return mcp.ErrorBody{ID: a.m.ID, Code: mcp.CodeInvalidParams, Message: refusal.NoRoute.Message, Reason: refusal.NoRoute.Reason, RequestID: a.requestID}
}

// absent responds with the error of a request for what no server has.
func (a *answer) absent(e *mcp.ErrorBody) *upstream.Response {
	status := http.StatusOK // in revisions with sessions a 404 ends the session
	switch {
	case a.modern && e.Code == mcp.CodeMethodNotFound:
		status = http.StatusNotFound
	case a.modern:
		status = http.StatusBadRequest
	}
	resp := upstream.Message(status, mcp.AppendErrorBody(nil, e))
	resp.Refused = &upstream.Refused{Kind: refusal.NoRoute.Kind, Cause: a.m.Method + ": " + e.Detail}
	return resp
}

// addressError returns the error of a skill:// or ui:// address that no upstream of the caller's view has;
// nil for other requests.
func (a *answer) addressError() error {
	kind, visible, _, _ := asks(a.m)
	owner, ours, err := a.names.AddressOwner(kind, visible)
	if ours && err == nil && a.Addresses() != nil && !catalog.ViewOf(a.caller).Shows(kind, owner, visible) {
		err = catalog.NoUpstream(visible)
	}
	return err
}

// offersTasks reports whether an upstream of the caller's view has tasks in the client's
// generation, according to its last declaration.
func (a *answer) offersTasks() bool {
	for _, fd := range a.feeds {
		if !catalog.ViewOf(a.caller).Has(fd.Name) {
			continue
		}
		declared := a.declared.of(fd.Name)
		var extensions map[string]json.RawMessage
		if !a.modern && declared["tasks"] != nil || a.modern && json.Unmarshal(declared["extensions"], &extensions) == nil && extensions[mcp.ExtensionTasks] != nil {
			return true
		}
	}
	return false
}

// declaresTasks reports whether the client declares the tasks extension.
func (a *answer) declaresTasks() bool {
	_, settings := a.extension(mcp.ExtensionTasks)
	return settings.Present()
}
