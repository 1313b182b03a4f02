package mcp

// MadeTask returns the handle of the task that an answer says was made in the
// place of a result. Under 2026-07-28 that is result.taskId beside a resultType
// of task; under 2025-11-25 it is result.task.taskId, in a result that has no
// content. ok is false for every other message, and where the handle is no
// string or too long to be one.
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

// HasOutcome reports whether a message that tells of a task of 2026-07-28, the
// answer to tasks/get or notifications/tasks, holds the result that the task ended
// with: what its tools/call would have been answered (result.result, or
// params.result).
func HasOutcome(m *Message) bool {
	result, ok := folded(m.Body, taskOf(m), "result")
	return !ok || result.Present()
}

// taskOf returns where a task is in the message that tells of it.
func taskOf(m *Message) Span {
	switch {
	case m.Method == NotificationTasks:
		return m.Spans.Params
	case m.Kind == Response && !m.IsError:
		return m.Spans.Result
	}
	return Span{}
}

// ListenTasks returns the handles of the tasks that a subscriptions/listen asks
// about (params.notifications.taskIds). alone is set when it asks about nothing
// else.
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

// memberOf returns where the value of a member of an object is; absent when
// the span is no object or has no such member.
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
