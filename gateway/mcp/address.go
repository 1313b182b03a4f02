package mcp

import "maps"

// shape describes where the parts of a value are by which the protocol addresses. What no shape
// names is free content, also under the names of members that address elsewhere.
type shape struct {
	address  bool   // the value itself, a string or a number
	meta     bool   // the value itself, an object
	members  shapes // of an object, by name
	values   *shape // of all members of an object
	elements *shape // of an array
	variant  string // the member whose value selects one of variants
	variants shapes
}

type shapes = map[string]*shape

// address is a part of a message by which the protocol addresses.
type address struct {
	name string // of the member
	at   Span
}

// Addresses returns the parts of a message of a server by which the protocol addresses: names,
// URIs, ids, cursors and states at the places that the schema gives to them, and every _meta there.
// asked is the method of the request that a response answers; empty if that is not known, then the
// places of all methods count. Structured content, arguments, schemas, log data and members that the
// protocol does not define are none of them. The message must have been scanned.
func Addresses(m *Message, asked string) []Span {
	list := addressesOf(m, asked)
	spans := make([]Span, len(list))
	for i := range list {
		spans[i] = list[i].at
	}
	return spans
}

// URIs returns the places in a message of a server where the URI or template of a resource stands, in
// their order: those of [Addresses], and in the _meta there the page of an app. asked is that of
// Addresses.
func URIs(m *Message, asked string) (spans []Span) {
	for _, a := range addressesOf(m, asked) {
		switch a.name {
		case "uri", "uriTemplate", "resourceSubscriptions":
			spans = append(spans, a.at)
		case "_meta":
			spans = AppendPages(spans, m.Body, a.at)
		}
	}
	return spans
}

// AppendPages appends the places in a _meta where the URI of the page of an app stands, in their order:
// ui.resourceUri and the older ui/resourceUri and openai/outputTemplate. The body must have been scanned.
func AppendPages(spans []Span, body []byte, meta Span) []Span {
	if !meta.Present() || body[meta.Start] != '{' {
		return spans
	}
	for it := Members(body, meta); it.Next(); {
		at := it.Value()
		switch string(it.Name()) {
		case "ui":
			at = Find(body, at, "resourceUri")
		case "ui/resourceUri", "openai/outputTemplate":
		default:
			continue
		}
		if at.Present() {
			spans = append(spans, at)
		}
	}
	return spans
}

func addressesOf(m *Message, asked string) []address {
	in, at := paramShapes[m.Method], m.Spans.Params
	switch {
	case m.Kind == Response && m.IsError:
		in, at = errorShapes[string(Find(m.Body, m.Spans.Error, "code").Of(m.Body))], m.Spans.Error
	case m.Kind == Response && asked == "":
		in, at = anyResult, m.Spans.Result
	case m.Kind == Response:
		in, at = resultShapes[asked], m.Spans.Result
		if in == nil {
			in = plainResult
		}
	case in == nil:
		in = plainParams
	}
	return in.collect(m.Body, at, "", nil)
}

// collect appends the addresses in a value, which is that of a member of this name. The depth of a
// scanned body is bounded.
func (in *shape) collect(body []byte, at Span, name string, list []address) []address {
	if in == nil || !at.Present() {
		return list
	}
	switch first := body[at.Start]; {
	case first == '{' && in.meta, first != '{' && first != '[' && in.address:
		return append(list, address{name, at})
	case first == '[' && in.elements != nil:
		for it := elements(body, at); it.next(); {
			list = in.elements.collect(body, it.value, name, list)
		}
	case first == '{':
		if in.variant != "" {
			kind, _ := stringAt(body, Find(body, at, in.variant))
			if in = in.variants[kind]; in == nil {
				return list
			}
		}
		for it := members(body, at); it.next(); {
			member, _ := stringAt(body, it.name)
			inner := in.values
			if s := in.members[member]; s != nil {
				inner = s
			}
			list = inner.collect(body, it.value, member, list)
		}
	}
	return list
}

// object returns the shape of an object that has a _meta, members that address, and members with
// addresses in them.
func object(members shapes, addresses ...string) *shape {
	s := &shape{members: shapes{"_meta": {meta: true}}}
	for _, name := range addresses {
		s.members[name] = oneAddress
	}
	maps.Copy(s.members, members)
	return s
}

// result returns the shape of a result.
func result(members shapes, addresses ...string) *shape {
	s := object(members, append(addresses, "requestState")...)
	s.members["inputRequests"] = &shape{values: question}
	return s
}

func listOf(element *shape) *shape { return &shape{elements: element} }

var (
	oneAddress = &shape{address: true}
	icons      = listOf(&shape{members: shapes{"src": oneAddress}})
	nameOnly   = &shape{members: shapes{"name": oneAddress}}
	taskOnly   = &shape{members: shapes{"taskId": oneAddress}}

	toolShape     = object(shapes{"icons": icons}, "name")
	resourceShape = object(shapes{"icons": icons}, "uri", "name")
	templateShape = object(shapes{"icons": icons}, "uriTemplate", "name")
	promptShape   = object(shapes{"icons": icons, "arguments": listOf(nameOnly)}, "name")
	contentsShape = object(nil, "uri")

	blockTypes = func() shapes {
		types := shapes{
			"text": object(nil), "image": object(nil), "audio": object(nil),
			"resource_link": resourceShape,
			"resource":      object(shapes{"resource": contentsShape}),
			"tool_use":      object(nil, "id", "name"),
		}
		types["tool_result"] = object(shapes{"content": listOf(&shape{variant: "type", variants: types})}, "toolUseId")
		return types
	}()
	block         = &shape{variant: "type", variants: blockTypes}
	blocks        = listOf(block)
	promptMessage = &shape{members: shapes{"content": blockOrBlocks}}
	// The content of a message of sampling is a block or several; some clients read prompts like that.
	sampledMessage = object(shapes{"content": blockOrBlocks})
	blockOrBlocks  = &shape{variant: "type", variants: blockTypes, elements: block}

	elicitation = &shape{variant: "mode", variants: shapes{
		"": object(nil), "form": object(nil), "url": object(nil, "elicitationId", "url"),
	}}
	sampling = object(shapes{"messages": listOf(sampledMessage), "tools": listOf(toolShape)})
	// question is an element of inputRequests.
	question = &shape{variant: "method", variants: shapes{
		MethodElicit:    {members: shapes{"params": elicitation}},
		MethodSample:    {members: shapes{"params": sampling}},
		MethodRootsList: {members: shapes{"params": object(nil)}},
	}}

	// plainParams and plainResult are those of methods without addresses of their own.
	plainParams, plainResult = object(nil), result(nil)

	paramShapes = shapes{
		MethodElicit:                    elicitation,
		MethodSample:                    sampling,
		MethodTasksGet:                  object(nil, "taskId"),
		MethodTasksCancel:               object(nil, "taskId"),
		MethodTasksResult:               object(nil, "taskId"),
		NotificationCancelled:           object(nil, "requestId"),
		NotificationProgress:            object(nil, "progressToken"),
		NotificationResourceUpdated:     object(nil, "uri"),
		NotificationTasks:               object(shapes{"inputRequests": {values: question}, "result": result(shapes{"content": blocks})}, "taskId"),
		NotificationTaskStatus:          object(nil, "taskId"),
		NotificationElicitationComplete: object(nil, "elicitationId"),
		NotificationAcknowledged: object(shapes{"notifications": {members: shapes{
			"resourceSubscriptions": listOf(oneAddress), "taskIds": listOf(oneAddress)}}}),
	}
	resultShapes = shapes{
		MethodInitialize:            result(shapes{"serverInfo": {members: shapes{"name": oneAddress, "websiteUrl": oneAddress, "icons": icons}}}),
		MethodToolsList:             result(shapes{"tools": listOf(toolShape)}, "nextCursor"),
		MethodToolsCall:             result(shapes{"content": blocks, "task": taskOnly}, "taskId"),
		MethodResourcesList:         result(shapes{"resources": listOf(resourceShape)}, "nextCursor"),
		MethodResourceTemplatesList: result(shapes{"resourceTemplates": listOf(templateShape)}, "nextCursor"),
		MethodResourcesRead:         result(shapes{"contents": listOf(contentsShape)}),
		MethodPromptsList:           result(shapes{"prompts": listOf(promptShape)}, "nextCursor"),
		MethodPromptsGet:            result(shapes{"messages": listOf(promptMessage)}),
		MethodTasksGet:              result(shapes{"result": result(shapes{"content": blocks})}, "taskId"),
		MethodTasksCancel:           result(nil, "taskId"),
		MethodTasksResult:           result(shapes{"content": blocks}),
		MethodTasksList:             result(shapes{"tasks": listOf(taskOnly)}, "nextCursor"),
	}
	// anyResult is the result of a request that is not known.
	anyResult = func() *shape {
		s := result(nil)
		for _, one := range resultShapes {
			maps.Copy(s.members, one.members)
		}
		return s
	}()

	// errorShapes has the codes of a resource that is not found, of both protocol generations, and
	// of an error that asks a question.
	errorShapes = shapes{
		"-32002": {members: shapes{"data": {members: shapes{"uri": oneAddress}}}},
		"-32602": {members: shapes{"data": {members: shapes{"uri": oneAddress}}}},
		"-32042": {members: shapes{"data": {members: shapes{"elicitations": listOf(elicitation)}}}},
	}
)
