package mcp

// MadeTask returns the handle of the task that a response reports as created
// instead of a result. Under 2026-07-28 that is result.taskId with a resultType of
// task; under 2025-11-25 it is result.task.taskId, in a result without content. ok
// is false for all other messages, and when the handle is not a string or too
// long.
func MadeTask(m *Message) (handle string, ok bool) {
	if m.Kind != Response || m.IsError {
		return "", false
	}
	if m.ResultType != "" || m.Spans.Content.Present() {
		return m.TaskID, m.ResultType == ResultTask && m.TaskID != ""
	}
	at := memberOf(m.Body, memberOf(m.Body, m.Spans.Result, "task"), "taskId")
	handle, ok = stringAt(m.Body, at)
	return handle, ok && handle != "" && len(handle) <= MaxName && plain(handle)
}

// HasOutcome reports whether a message about a task of 2026-07-28, the response to
// tasks/get or notifications/tasks, contains the result of the finished task
// (result.result, or params.result): the result that its tools/call would have
// had.
func HasOutcome(m *Message) bool {
	result, ok := folded(m.Body, taskOf(m), "result")
	return !ok || result.Present()
}

// taskOf returns the span of the task in a message about a task.
func taskOf(m *Message) Span {
	switch {
	case m.Method == NotificationTasks:
		return m.Spans.Params
	case m.Kind == Response && !m.IsError:
		return m.Spans.Result
	}
	return Span{}
}

// ListenTasks returns the handles of the tasks that a subscriptions/listen
// subscribes to (params.notifications.taskIds). alone is set when it subscribes to
// nothing else.
func ListenTasks(m *Message) (handles []string, alone bool) {
	asked := memberOf(m.Body, m.Spans.Params, "notifications")
	if m.Method != MethodListen || !isObject(m.Body, asked) {
		return nil, false
	}
	alone = true
	for it := members(m.Body, asked); it.next(); {
		name, _ := stringAt(m.Body, it.name)
		switch value := string(it.value.Of(m.Body)); {
		case name == "taskIds" && value[0] == '[':
			for e := elements(m.Body, it.value); e.next(); {
				if handle, ok := stringAt(m.Body, e.value); ok {
					handles = append(handles, handle)
				}
			}
		case value == "false", value == "null", value == "[]":
		default:
			alone = false
		}
	}
	return handles, alone
}

// memberOf returns the span of the value of a member of an object; absent when the
// span is not an object or has no such member.
func memberOf(body []byte, object Span, name string) Span {
	if !isObject(body, object) {
		return Span{}
	}
	for it := members(body, object); it.next(); {
		if got, ok := stringAt(body, it.name); ok && got == name {
			return it.value
		}
	}
	return Span{}
}

func isObject(body []byte, at Span) bool { return at.Present() && body[at.Start] == '{' }
