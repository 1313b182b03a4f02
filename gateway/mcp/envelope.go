package mcp

import "strconv"

// Scan parses the envelope in body into m, in one pass and without allocating, unless a
// known name or value is written with escapes or an object has very many members.
//
// It refuses input that peers could interpret differently: anything that
// is not strict JSON in UTF-8, duplicate member names in one object at any depth, names
// at the levels of the envelope (the top, params, params._meta, result) that differ from
// a known one only by letter case or are __proto__, nesting over [MaxDepth], batches, and messages that
// are not a request, notification or response. The error is then an *[Error]; m contains
// the id as far as it could be read, and otherwise only Body.
func Scan(body []byte, m *Message) error {
	*m = Message{Body: body}
	s := scanner{b: body}
	ok := s.document()
	id, idOK := s.id()
	if idOK {
		m.ID = span(id).Of(body)
	}
	if v := s.slots[fieldID]; v.kind != 0 {
		m.Spans.ID = span(v) // also for a null id, which an error may have
	}
	if !ok {
		return s.fault.at(s.faultAt)
	}
	if s.soft != noFault {
		return s.soft.at(s.softAt)
	}
	if f, at := fill(m, &s.slots); f != noFault {
		*m = Message{Body: body, ID: m.ID}
		return f.at(at)
	}
	return nil
}

// PeekID returns the id of the message that starts with prefix, as far as it can be read;
// nil otherwise. It is for responses that are sent before the body is validated: the
// message may be truncated or invalid.
func PeekID(prefix []byte) []byte {
	s := scanner{b: prefix}
	s.document()
	id, ok := s.id()
	if !ok {
		return nil
	}
	return span(id).Of(prefix)
}

// span returns the position of the value of a slot.
func span(v slot) Span { return Span{Start: int(v.start), End: int(v.end)} }

// id returns the slot of the id if the id can be echoed.
func (s *scanner) id() (slot, bool) {
	v := s.slots[fieldID]
	n := int(v.end - v.start)
	switch v.kind {
	case kindString, kindEscaped:
		return v, n <= MaxID
	case kindInteger: // at the end of the bytes the number may be truncated
		return v, n <= MaxIDDigits && int(v.end) < len(s.b)
	}
	return slot{}, false
}

// fill sets the fields that the scan found, and validates the kind of the message.
func fill(m *Message, slots *[fields]slot) (fault, int) {
	at := func(f field) int { return int(slots[f].start) }
	if v := slots[fieldJSONRPC]; !isString(v) || stringOf(span(v).Of(m.Body), v.kind) != "2.0" {
		return faultVersion, at(fieldJSONRPC)
	}
	method, result, failure := slots[fieldMethod], slots[fieldResult], slots[fieldError]
	n := 0
	for _, v := range [...]slot{method, result, failure} {
		if v.kind != 0 {
			n++
		}
	}
	switch {
	case n == 0:
		return faultNeither, 0
	case n > 1, method.kind == 0 && slots[fieldParams].kind != 0:
		return faultAmbiguous, at(fieldMethod)
	}
	id := slots[fieldID]
	if id.kind != 0 && m.ID == nil && (failure.kind == 0 || id.kind != kindNull) {
		return faultID, at(fieldID)
	}
	m.Spans.Result, m.Spans.Error = span(result), span(failure)
	if f, where := fillMeta(m, slots); f != noFault {
		return f, where
	}
	switch {
	case failure.kind != 0:
		if failure.kind != kindObject {
			return faultError, at(fieldError)
		}
		switch slots[fieldCode].kind {
		case 0, kindInteger, kindFloat:
		default: // some clients read "-32042" as the number, which rules must see
			return faultError, at(fieldCode)
		}
		m.Kind, m.IsError = Response, true
		m.ErrorCode = errorCode(slots[fieldCode], m.Body)
		return noFault, 0
	case result.kind != 0:
		if m.ID == nil {
			return faultIDMissing, 0
		}
		m.Kind = Response
		return fillResult(m, slots)
	}
	m.Kind = Notification
	if m.ID != nil {
		m.Kind = Request
	}
	return fillRequest(m, slots)
}

// errorCode returns the value of a code if it is an integer of 32 bits in any spelling, such
// as -3.2042e4, because clients read a number; 0 otherwise.
func errorCode(v slot, body []byte) int {
	text := alias(span(v).Of(body))
	switch v.kind {
	case kindInteger:
		if code, err := strconv.ParseInt(text, 10, 32); err == nil {
			return int(code)
		}
	case kindFloat:
		if code, err := strconv.ParseFloat(text, 64); err == nil && code == float64(int32(code)) {
			return int(code)
		}
	}
	return 0
}

// isString reports whether a value is a string.
func isString(v slot) bool { return v.kind == kindString || v.kind == kindEscaped }

// text returns the value of a string that is bounded and contains no control characters;
// "" when the member is absent.
func text(m *Message, v slot, limit int) (value string, ok bool) {
	if v.kind == 0 {
		return "", true
	}
	if !isString(v) || int(v.end-v.start)-2 > limit {
		return "", false
	}
	value = stringOf(span(v).Of(m.Body), v.kind)
	return value, plain(value)
}

// fillMeta sets the fields from _meta, of params or of result.
func fillMeta(m *Message, slots *[fields]slot) (fault, int) {
	switch v := slots[fieldMeta]; v.kind {
	case 0, kindNull:
		return noFault, 0
	case kindObject:
		m.Spans.Meta = span(v)
	default:
		return faultMeta, int(v.start)
	}
	m.Spans.ProgressToken = span(slots[fieldMetaProgress])
	if v := slots[fieldMetaSubscription]; v.kind != 0 {
		m.Spans.SubscriptionID = span(v)
		if value, ok := text(m, v, MaxID); ok {
			m.SubscriptionID = value
		} else if v.kind == kindInteger && v.end-v.start <= MaxIDDigits {
			m.SubscriptionID = alias(span(v).Of(m.Body))
		}
	}
	if slots[fieldMethod].kind == 0 {
		return noFault, 0
	}
	v := slots[fieldMetaVersion]
	value, ok := text(m, v, maxRevision)
	if !ok {
		return faultRevision, int(v.start)
	}
	m.ProtocolVersion, m.Spans.ProtocolVersion = value, span(v)
	return noFault, 0
}

// fillRequest sets the fields of a request or notification.
func fillRequest(m *Message, slots *[fields]slot) (fault, int) {
	v := slots[fieldMethod]
	value, ok := text(m, v, maxMethod)
	if !ok || !visible(value) {
		return faultMethod, int(v.start)
	}
	m.Spans.Method = span(v)
	if constant, ok := intern(value); ok {
		m.Method = constant
	} else {
		m.Method = value
	}
	if v := slots[fieldParams]; v.kind != 0 {
		if v.kind != kindObject {
			return faultParams, int(v.start)
		}
		m.Spans.Params = span(v)
	}
	m.Spans.Arguments = span(slots[fieldArguments])
	m.Spans.RequestID = span(slots[fieldRequestID])
	if v := slots[fieldProgress]; v.kind != 0 && m.Method == NotificationProgress {
		m.Spans.ProgressToken = span(v)
	}

	v = slots[fieldName]
	if value, ok := text(m, v, MaxName); ok {
		m.Name, m.HasName, m.Spans.Name = value, v.kind != 0, span(v)
	} else if m.Method == MethodPromptsGet {
		return faultName, int(v.start)
	}
	if m.Method == MethodToolsCall && m.Name == "" {
		return faultToolName, int(v.start)
	}
	v = slots[fieldURI]
	if value, ok := text(m, v, maxURI); ok {
		m.URI, m.Spans.URI = value, span(v)
	} else if infoOf(m.Method).Mirrored == paramURI {
		return faultURI, int(v.start)
	}
	v = slots[fieldTaskID]
	if value, ok := text(m, v, MaxName); ok {
		m.TaskID, m.Spans.TaskID = value, span(v)
	} else if infoOf(m.Method).Mirrored == paramTaskID {
		return faultTaskID, int(v.start)
	}
	if m.Method == MethodInitialize {
		v = slots[fieldVersion]
		value, ok := text(m, v, maxRevision)
		if !ok {
			return faultRevision, int(v.start)
		}
		m.InitializeVersion, m.Spans.InitializeVersion = value, span(v)
	}
	return noFault, 0
}

// fillResult sets the fields of a result. Members with another type than the protocol
// requires are ignored; the client validates them.
func fillResult(m *Message, slots *[fields]slot) (fault, int) {
	if slots[fieldResult].kind != kindObject {
		return noFault, 0
	}
	if v := slots[fieldResultType]; v.kind != 0 {
		m.Spans.ResultType = span(v)
		m.ResultType, _ = text(m, v, MaxName)
	}
	if v := slots[fieldTaskID]; v.kind != 0 {
		m.Spans.TaskID = span(v)
		m.TaskID, _ = text(m, v, MaxName)
	}
	if v := slots[fieldVersion]; isString(v) {
		m.Spans.InitializeVersion = span(v)
		m.InitializeVersion, _ = text(m, v, maxRevision)
	}
	m.Spans.Content = span(slots[fieldContent])
	m.Spans.SupportedVersions = span(slots[fieldSupported])
	m.Spans.CacheScope = span(slots[fieldCacheScope])
	m.ToolError = slots[fieldIsError].kind == kindTrue
	return noFault, 0
}
