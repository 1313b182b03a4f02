package mcp

import "slices"

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
	MethodDirectoryRead         = "resources/directory/read"
	MethodSkillsList            = "skills/list"
	MethodSkillsGet             = "skills/get"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodListen                = "subscriptions/listen"
	MethodTasksGet              = "tasks/get"
	MethodTasksUpdate           = "tasks/update"
	MethodTasksCancel           = "tasks/cancel"
	MethodTasksResult           = "tasks/result" // of 2025-11-25, removed in 2026-07-28
	MethodTasksList             = "tasks/list"   // of 2025-11-25, removed in 2026-07-28
	MethodElicit                = "elicitation/create"
	MethodSample                = "sampling/createMessage"
	MethodRootsList             = "roots/list"

	NotificationInitialized  = "notifications/initialized"
	NotificationCancelled    = "notifications/cancelled"
	NotificationProgress     = "notifications/progress"
	NotificationMessage      = "notifications/message"
	NotificationAcknowledged = "notifications/subscriptions/acknowledged"
	NotificationTasks        = "notifications/tasks"
	NotificationTaskStatus   = "notifications/tasks/status" // of 2025-11-25
	NotificationRootsChanged = "notifications/roots/list_changed"

	NotificationToolsChanged        = "notifications/tools/list_changed"
	NotificationResourcesChanged    = "notifications/resources/list_changed"
	NotificationResourceUpdated     = "notifications/resources/updated"
	NotificationPromptsChanged      = "notifications/prompts/list_changed"
	NotificationElicitationComplete = "notifications/elicitation/complete"
)

// Extensions of the protocol, by their names in capabilities.extensions.
const (
	ExtensionTasks  = "io.modelcontextprotocol/tasks"
	ExtensionSkills = "io.modelcontextprotocol/skills"
	ExtensionUI     = "io.modelcontextprotocol/ui"
)

// AppType is the media type of the pages of apps.
const AppType = "text/html;profile=mcp-app"

// HostExtensions are the extensions that the gateway declares as a client, a JSON object: servers
// have other tools for hosts with apps. None of them lets a server send requests.
const HostExtensions = `{"` + ExtensionUI + `":{"mimeTypes":["` + AppType + `"]},"` + ExtensionSkills + `":{}}`

// Values of result.resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)

// Sender is the side that sends requests or notifications of a method.
type Sender uint8

// The senders.
const (
	Either Sender = iota
	Client
	Server
)

// Param is a parameter that identifies the object of a request; the header Mcp-Name
// mirrors it.
type Param uint8

// The parameters.
const (
	noParam Param = iota
	paramName
	paramURI
	paramTaskID
)

// MethodInfo describes a method. All code that treats methods differently uses the one
// table of methods.
type MethodInfo struct {
	Name   string
	Sender Sender
	// Discovery is set for the methods that are allowed under default_action: deny
	// without a rule (gateway specification, Default-deny discovery allowlist).
	Discovery bool
	// Mirrored is the parameter that Mcp-Name mirrors.
	Mirrored Param
	// List is the member of the result that contains the list, and Element the method
	// that requests one element of the list.
	List, Element string
	// ListChanged is set for the notifications that a list has changed.
	ListChanged bool
	// FollowsTask is set for the methods that refer to a task by params.taskId.
	FollowsTask bool
}

var methods = [...]MethodInfo{
	{Name: MethodInitialize, Sender: Client, Discovery: true},
	{Name: MethodPing, Discovery: true},
	{Name: MethodDiscover, Sender: Client, Discovery: true},
	{Name: MethodToolsList, Sender: Client, Discovery: true, List: "tools", Element: MethodToolsCall},
	{Name: MethodToolsCall, Sender: Client, Mirrored: paramName},
	{Name: MethodResourcesList, Sender: Client, Discovery: true, List: "resources", Element: MethodResourcesRead},
	{Name: MethodResourceTemplatesList, Sender: Client, Discovery: true, List: "resourceTemplates", Element: MethodResourcesRead},
	{Name: MethodResourcesRead, Sender: Client, Mirrored: paramURI},
	{Name: MethodResourcesSubscribe, Sender: Client},
	{Name: MethodResourcesUnsubscribe, Sender: Client},
	{Name: MethodDirectoryRead, Sender: Client},
	{Name: MethodSkillsList, Sender: Client},
	{Name: MethodSkillsGet, Sender: Client},
	{Name: MethodPromptsList, Sender: Client, Discovery: true, List: "prompts", Element: MethodPromptsGet},
	{Name: MethodPromptsGet, Sender: Client, Mirrored: paramName},
	{Name: MethodComplete, Sender: Client},
	{Name: MethodSetLevel, Sender: Client},
	{Name: MethodListen, Sender: Client},
	{Name: MethodTasksGet, Mirrored: paramTaskID, FollowsTask: true},
	{Name: MethodTasksUpdate, Mirrored: paramTaskID, FollowsTask: true},
	{Name: MethodTasksCancel, Mirrored: paramTaskID, FollowsTask: true},
	{Name: MethodTasksResult, FollowsTask: true},
	{Name: MethodTasksList, Sender: Client},
	{Name: MethodElicit, Sender: Server},
	{Name: MethodSample, Sender: Server},
	{Name: MethodRootsList, Sender: Server},
	{Name: NotificationInitialized, Sender: Client, Discovery: true},
	{Name: NotificationCancelled, Discovery: true},
	{Name: NotificationProgress},
	{Name: NotificationMessage, Sender: Server},
	{Name: NotificationAcknowledged, Sender: Server},
	{Name: NotificationTasks},
	{Name: NotificationTaskStatus},
	{Name: NotificationRootsChanged, Sender: Client},
	{Name: NotificationToolsChanged, Sender: Server, ListChanged: true},
	{Name: NotificationResourcesChanged, Sender: Server, ListChanged: true},
	{Name: NotificationResourceUpdated, Sender: Server},
	{Name: NotificationPromptsChanged, Sender: Server, ListChanged: true},
	{Name: NotificationElicitationComplete, Sender: Server},
}

// unknownMethod describes all other methods.
var unknownMethod MethodInfo

var methodByName = func() map[string]*MethodInfo {
	byName := make(map[string]*MethodInfo, len(methods))
	for i := range methods {
		byName[methods[i].Name] = &methods[i]
	}
	return byName
}()

// URIMethods are the methods with which a client asks for what has the URI params.uri.
var URIMethods = []string{MethodResourcesRead, MethodResourcesSubscribe, MethodResourcesUnsubscribe, MethodSkillsGet, MethodDirectoryRead}

// Methods returns the table of methods.
func Methods() []MethodInfo { return slices.Clone(methods[:]) }

// MethodOf returns the description of a method, the zero value for an unknown one.
func MethodOf(name string) MethodInfo { return *infoOf(name) }

func infoOf(name string) *MethodInfo {
	if m := methodByName[name]; m != nil {
		return m
	}
	return &unknownMethod
}

// Discovery reports whether a method is allowed under default_action: deny without a
// rule.
func Discovery(method string) bool { return infoOf(method).Discovery }

// TaskFollowUp reports whether a method refers to a task by params.taskId.
func TaskFollowUp(method string) bool { return infoOf(method).FollowsTask }

// intern returns the constant of a known method, so that the result does not keep the
// body alive.
func intern(method string) (string, bool) {
	if method == MethodToolsCall { // the most frequent method
		return MethodToolsCall, true
	}
	m := infoOf(method)
	return m.Name, m != &unknownMethod
}
