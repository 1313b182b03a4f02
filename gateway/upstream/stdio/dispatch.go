package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"svc/gateway/mcp"
)

// readMessages reads the program's standard output until it ends.
func (p *process) readMessages() {
	in := lines{r: p.child.Stdout, limit: p.t.config.MaxLineBytes}
	for {
		line, err := in.next()
		if errors.Is(err, errLineTooLong) {
			p.kill(fmt.Sprintf("wrote a line of more than %d bytes (max_line_bytes)", p.t.config.MaxLineBytes))
			return
		}
		if err != nil {
			break
		}
		p.receive(bytes.TrimSpace(line))
	}
	p.closedStream("closed its standard output")
}

// receive dispatches one line. Lines that are not messages are logged.
func (p *process) receive(line []byte) {
	if len(line) == 0 {
		return
	}
	line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark before the first message
	var m mcp.Message
	if err := mcp.Scan(line, &m); err != nil {
		// Lone surrogates are replaced, and counted, by the reader of the response: the
		// positions of the parts are the same.
		replaced := bytes.Clone(line)
		if n, err2 := mcp.ScanReplacing(replaced, &m); err2 != nil || n == 0 {
			p.t.notes.skipped(p, line, err)
			var fault *mcp.Error
			if errors.As(err, &fault) && fault.Reason == "invalid_error" {
				p.refuseAnswer(m.ID, line)
			}
			return
		}
		m.Body = line
	}
	switch m.Kind {
	case mcp.Response:
		p.receiveAnswer(&m)
	case mcp.Request:
		p.receiveRequest(&m)
	default:
		p.receiveNotification(&m)
	}
}

// receiveAnswer delivers the response to a call.
func (p *process) receiveAnswer(m *mcp.Message) {
	number, err := strconv.ParseUint(string(m.ID), 10, 64)
	p.started.Store(true)
	p.mu.Lock()
	c, known := p.calls[number]
	late := err == nil && number > 0 && number <= p.next
	delete(p.calls, number)
	p.mu.Unlock()
	switch {
	case err == nil && known:
		c.finish(mcp.Splice(nil, m.Body, mcp.Edit{At: m.Spans.ID, With: c.id}))
		if !c.own && !p.proved.Swap(true) {
			p.t.worked(p.slot.owner)
		}
	case late:
		p.t.notes.debug("a response came after its call had ended", "process", p.number)
	default:
		p.t.notes.foreign(p, m.ID)
	}
}

// refuseAnswer ends a call whose response has an invalid error: the reader of the response refuses
// the line, as that of any upstream.
func (p *process) refuseAnswer(id, line []byte) {
	number, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	c, known := p.calls[number]
	delete(p.calls, number)
	p.mu.Unlock()
	if known {
		c.finish(bytes.Clone(line))
	}
}

// receiveRequest forwards a request of the program to its client if it has exactly one,
// and otherwise rejects it.
func (p *process) receiveRequest(m *mcp.Message) {
	s := p.slot.session
	switch {
	case s == nil && m.Method == mcp.MethodPing:
		p.reply(result(m.ID, "{}"))
		return
	case s == nil:
		p.reply(rejection(m.ID, mcp.CodeMethodNotFound, "several clients use this process, so requests to a client are not possible"))
		return
	}
	id := string(m.ID)
	p.mu.Lock()
	room := len(p.asked) < maxAsked
	if room {
		p.asked[id] = struct{}{}
	}
	p.mu.Unlock()
	if !room || !p.toClient(s, m) {
		p.mu.Lock()
		delete(p.asked, id)
		p.mu.Unlock()
		p.reply(rejection([]byte(id), mcp.CodeInternal, "too many requests wait for the client"))
	}
}

// receiveNotification forwards a notification of the program to the clients that it
// concerns.
func (p *process) receiveNotification(m *mcp.Message) {
	switch {
	case m.Method == mcp.NotificationProgress:
		p.passProgress(m)
	case m.SubscriptionID != "":
		p.passSubscribed(m)
	case p.slot.session != nil:
		switch m.Method {
		case mcp.NotificationToolsChanged, mcp.NotificationResourcesChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourceUpdated:
			p.slot.session.sessionStream.push(bytes.Clone(m.Body))
		default:
			p.toClient(p.slot.session, m)
		}
	default:
		p.passShared(m)
	}
}

// passProgress forwards the progress of a call in the call's response.
func (p *process) passProgress(m *mcp.Message) {
	c := p.callOf(m.Spans.ProgressToken.Of(m.Body))
	if c == nil || len(c.token) == 0 {
		return // the call has ended
	}
	c.push(mcp.Splice(nil, m.Body, mcp.Edit{At: m.Spans.ProgressToken, With: c.token}))
}

// passSubscribed forwards a message of a subscription in the response of the call that
// began it; the subscription's id is the id of that call.
func (p *process) passSubscribed(m *mcp.Message) {
	if c := p.callOf([]byte(m.SubscriptionID)); c != nil {
		c.push(mcp.Splice(nil, m.Body, mcp.Edit{At: m.Spans.SubscriptionID, With: c.id}))
	}
}

// callOf finds a call by its number; nil if there is none.
func (p *process) callOf(text []byte) *call {
	number, err := strconv.ParseUint(string(bytes.Trim(text, `"`)), 10, 64)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[number]
}

// toClient sends a message to the one client of the process: in the response of the call
// that the message belongs to, if that is known, otherwise in the stream of the session.
// It returns false when the limit is exceeded.
func (p *process) toClient(s *session, m *mcp.Message) bool {
	var only, latest *call
	p.mu.Lock()
	pending := 0
	for _, c := range p.calls {
		if c.own {
			continue
		}
		pending++
		if only = c; latest == nil || c.number > latest.number {
			latest = c
		}
	}
	p.mu.Unlock()
	body := bytes.Clone(m.Body)
	switch {
	case pending == 1:
		return only.push(body)
	case pending > 1 && !s.sessionStream.listened():
		return latest.push(body)
	}
	return s.sessionStream.push(body)
}
