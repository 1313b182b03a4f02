package mcp

// Methods that the gateway knows by name.
const (
	MethodInitialize            = "initialize"
	MethodPing                  = "ping"
	MethodDiscover              = "server/discover"
	MethodToolsList             = "tools/list"
	MethodToolsCall             = "tools/call"
	MethodResourcesList         = "resources/list"
	MethodResourceTemplatesList = "resources/templates/list"
	MethodResourcesRead         = "resources/read"
	MethodResourcesSubscribe    = "resources/subscribe"
	MethodResourcesUnsubscribe  = "resources/unsubscribe"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodListen                = "subscriptions/listen"
	MethodTasksGet              = "tasks/get"
	MethodTasksUpdate           = "tasks/update"
	MethodTasksCancel           = "tasks/cancel"
	MethodTasksResult           = "tasks/result" // of 2025-11-25, gone in 2026-07-28
	MethodElicit                = "elicitation/create"
	MethodSample                = "sampling/createMessage"
	MethodRootsList             = "roots/list"

	NotificationInitialized  = "notifications/initialized"
	NotificationCancelled    = "notifications/cancelled"
	NotificationProgress     = "notifications/progress"
	NotificationMessage      = "notifications/message"
	NotificationAcknowledged = "notifications/subscriptions/acknowledged"
	NotificationTasks        = "notifications/tasks"
	NotificationRootsChanged = "notifications/roots/list_changed"
)

// Values of result.resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)

// Discovery reports whether a method passes under default_action: deny without
// a rule (gateway specification, Default-deny discovery allowlist).
func Discovery(method string) bool {
	switch method {
	case MethodInitialize, MethodPing, MethodDiscover,
		MethodToolsList, MethodResourcesList, MethodResourceTemplatesList, MethodPromptsList,
		NotificationInitialized, NotificationCancelled:
		return true
	}
	return false
}

// intern returns the constant for a method that is known, so that it does not
// keep the body alive.
func intern(method string) (string, bool) {
	switch method {
	case MethodToolsCall:
		return MethodToolsCall, true
	case MethodToolsList:
		return MethodToolsList, true
	case MethodInitialize:
		return MethodInitialize, true
	case MethodPing:
		return MethodPing, true
	case MethodDiscover:
		return MethodDiscover, true
	case MethodResourcesList:
		return MethodResourcesList, true
	case MethodResourcesRead:
		return MethodResourcesRead, true
	case MethodPromptsList:
		return MethodPromptsList, true
	case MethodPromptsGet:
		return MethodPromptsGet, true
	case MethodListen:
		return MethodListen, true
	case NotificationInitialized:
		return NotificationInitialized, true
	case NotificationCancelled:
		return NotificationCancelled, true
	case NotificationProgress:
		return NotificationProgress, true
	case NotificationMessage:
		return NotificationMessage, true
	}
	return "", false
}
