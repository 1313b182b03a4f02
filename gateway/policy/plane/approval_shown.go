package plane

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/store/api"
)

// Bounds of what an approver reads.
const (
	maxShown       = 64       // values
	maxShownNames  = 16 << 10 // bytes of all pointers
	maxShownText   = 4096     // characters of all values
	leastShown     = maxShownText / maxShown
	maxSought      = 16 << 20 // bytes that are searched for values that were put back and redacted
	maxShownPut    = 16 << 10 // bytes of all values that were put back, with what is between them
	maxShownTarget = 4096     // bytes of the name of a tool or a URI
)

// ShowText returns a name or URI in a form that is safe to show: characters that are not visible are
// escapes as in JSON, and so is a backslash, so that different texts are shown differently.
func ShowText(s string) string {
	quoted := mcp.EscapeInvisible(mcp.AppendString(nil, s))
	return string(quoted[1 : len(quoted)-1])
}

// Show sets what an approver reads of the arguments of a call; none sends the size alone. It is false
// for a call that cannot be shown. restored, which may be nil, is what put values into the call.
func (a *Approvals) Show(to *api.ApprovalRequest, m *mcp.Message, restored *Restoring, none bool) bool {
	shown := shownMembers(m)
	for _, part := range shown {
		to.ArgumentsBytes += part.at.End - part.at.Start
	}
	if len(to.Tool) > maxShownTarget {
		return false
	}
	if none {
		to.Truncated = to.ArgumentsBytes > 0
		return true
	}
	l := leaves{body: m.Body}
	for _, part := range shown {
		if !l.add(part.at, part.pointer) {
			return false
		}
	}
	texts, put, complete := make([]shownText, len(l.values)), restored.values(m), 0
	for i, v := range l.values {
		texts[i] = newShownText(v.Of(m.Body), put[v])
		if complete += texts[i].complete; complete > maxShownPut {
			return false
		}
	}
	longest := shareOf(texts)
	for i, v := range l.values {
		arg := api.ApprovalArgument{Pointer: l.pointers[i], Tag: a.tag(v.Of(m.Body)), Restored: strings.Join(texts[i].entities, ",")}
		if arg.Value, arg.Omitted = texts[i].cut(longest); arg.Omitted > 0 {
			to.Truncated = true
		}
		to.Arguments = append(to.Arguments, arg)
	}
	return true
}

// shownMember is a member of the parameters that an approver reads, and the pointer of its value.
type shownMember struct {
	at      mcp.Span
	pointer string
}

// shownMembers returns the arguments of a call, and every other parameter that is part of the approved
// call (see [mcp.CallForm]) and that no other member of the request for approval shows: an upstream may
// act on it. Their pointers begin with params, those of arguments with a slash.
func shownMembers(m *mcp.Message) (list []shownMember) {
	target := "name"
	if m.Method == mcp.MethodResourcesRead {
		target = "uri"
	}
	if !m.Spans.Params.Present() || m.Body[m.Spans.Params.Start] != '{' {
		return nil
	}
	for items := mcp.Members(m.Body, m.Spans.Params); items.Next(); {
		switch name := string(items.Name()); name {
		case target, "_meta", "inputResponses", "requestState":
		case "arguments":
			list = append(list, shownMember{items.Value(), ""})
		default:
			list = append(list, shownMember{items.Value(), "params/" + ShowText(pointerEscapes.Replace(name))})
		}
	}
	return list
}

// tag returns the tag of a value; empty if it cannot be read, which no scanned message has.
func (a *Approvals) tag(raw []byte) string {
	form, err := mcp.JSON(raw)
	if err != nil || a == nil {
		return ""
	}
	tag := sum(a.tags, string(form))
	return hex.EncodeToString(tag[:4])
}

// leaves are the values of arguments that contain no others, with their pointers.
type leaves struct {
	body     []byte
	values   []mcp.Span
	pointers []string
	names    int
}

// add adds the values at a span; false when there are too many, or their names are too long.
func (l *leaves) add(at mcp.Span, pointer string) bool {
	var items mcp.Items
	switch l.body[at.Start] {
	case '{':
		items = mcp.Members(l.body, at)
	case '[':
		items = mcp.Elements(l.body, at)
	default:
		return l.leaf(at, pointer)
	}
	empty := true
	for i := 0; items.Next(); i++ {
		name := strconv.Itoa(i)
		if l.body[at.Start] == '{' {
			name = memberName(string(items.Name()))
		}
		if len(pointer)+len(name) >= maxShownNames || !l.add(items.Value(), pointer+"/"+name) {
			return false
		}
		empty = false
	}
	return !empty || pointer == "" && l.body[at.Start] == '{' || l.leaf(at, pointer)
}

// memberName returns the name of a member as a part of a pointer. One that looks like an index of an
// array is in quotation marks, which are escapes in other names.
func memberName(name string) string {
	name = ShowText(pointerEscapes.Replace(name))
	if name != "" && strings.Trim(name, "0123456789") == "" {
		return `"` + name + `"`
	}
	return name
}

func (l *leaves) leaf(at mcp.Span, pointer string) bool {
	l.names += len(pointer)
	l.values, l.pointers = append(l.values, at), append(l.pointers, pointer)
	return len(l.values) <= maxShown && l.names <= maxShownNames
}

// shownText is the JSON text of a value with escapes: units that are not cut, such as \n. Values that
// were put back are parts of their own, which are never cut.
type shownText struct {
	parts    []shownPart
	length   int // in characters of the text
	complete int // bytes of the values that were put back, with what is between them
	entities []string
}

// shownPart is a part of a text. Of a very long one, which is cut anyway, it has the beginning and the
// end.
type shownPart struct {
	text    string
	length  int  // in characters of the text
	skipped int  // characters of the value that the text does not have
	put     bool // a value that was put back
}

func newShownText(raw []byte, put []putValue) (s shownText) {
	add := func(value string, put bool) {
		part := shownPart{put: put}
		if len(value) > 2*maxShownText && !put {
			if n := utf8.RuneCountInString(value); n > 2*maxShownText {
				head, tail := 0, len(value)
				for range maxShownText {
					_, size := utf8.DecodeRuneInString(value[head:])
					head += size
					_, size = utf8.DecodeLastRuneInString(value[:tail])
					tail -= size
				}
				value, part.skipped = value[:head]+value[tail:], n-2*maxShownText
			}
		}
		part.text = strings.Clone(value)
		if raw[0] == '"' {
			part.text = ShowText(value)
		}
		part.length = utf8.RuneCountInString(part.text)
		s.parts, s.length = append(s.parts, part), s.length+part.length
	}
	rest, sought := mcp.TextAlias(raw), 0
	for _, p := range put {
		at := strings.Index(rest, p.value)
		if at < 0 || p.value == "" { // it was redacted
			sought += len(rest)
			at = -1
		}
		if sought > maxSought || s.complete > maxShownPut {
			s.complete = maxShownPut + 1
			break
		}
		if at < 0 {
			continue
		}
		add(rest[:at], false)
		add(rest[at:at+len(p.value)], true)
		s.complete += len(s.parts[len(s.parts)-1].text) + len("…")
		if rest = rest[at+len(p.value):]; !slices.Contains(s.entities, p.entity) {
			s.entities = append(s.entities, p.entity)
		}
	}
	add(rest, false)
	if raw[0] == '"' {
		first, last := &s.parts[0], &s.parts[len(s.parts)-1]
		first.text = `"` + first.text
		last.text += `"`
		first.length++
		last.length++
		s.length += 2
	}
	return s
}

// shareOf returns the length to which the longest texts are cut, so that all have room.
func shareOf(texts []shownText) int {
	lengths := make([]int, len(texts))
	for i := range texts {
		lengths[i] = texts[i].length
	}
	slices.Sort(lengths)
	left := maxShownText
	for i, n := range lengths {
		if share := left / (len(lengths) - i); n > share {
			return max(share, leastShown)
		}
		left -= n
	}
	return maxShownText
}

// cut returns the text, in at most longest characters besides the values that were put back, and the
// number of characters of the value that were left out.
func (s *shownText) cut(longest int) (string, int) {
	free, omitted := 0, 0 // parts that can be cut and are not yet written
	if s.length > longest {
		for i := range s.parts {
			if p := &s.parts[i]; !p.put {
				free++
			}
		}
	}
	var b strings.Builder
	for i := range s.parts {
		p, most := &s.parts[i], s.length
		if p.put {
			b.WriteString(p.text)
			continue
		}
		if free > 0 {
			most = longest / free
			free--
		}
		part, n := p.cut(most)
		b.WriteString(part)
		longest, omitted = max(longest-utf8.RuneCountInString(part), 0), omitted+n
	}
	return b.String(), omitted
}

// cut returns the text in at most longest characters, with an ellipsis in its middle where it is longer,
// and the number of characters of the value that were left out.
func (s *shownPart) cut(longest int) (string, int) {
	if s.length <= longest && s.skipped == 0 {
		return s.text, 0
	}
	var starts []int // of units
	for i := 0; i < len(s.text); i += unitSize(s.text[i:]) {
		starts = append(starts, i)
	}
	head, tail := 0, len(starts)
	for room := longest / 2; head < tail; head++ { // the ellipsis counts for the beginning
		if room -= s.chars(starts, head); room < 1 {
			break
		}
	}
	for room := longest - longest/2; tail > head; tail-- {
		if room -= s.chars(starts, tail-1); room < 0 {
			break
		}
	}
	end := len(s.text)
	if tail < len(starts) {
		end = starts[tail]
	}
	return s.text[:starts[head]] + "…" + s.text[end:], s.skipped + tail - head
}

// chars returns the number of characters of a unit.
func (s *shownPart) chars(starts []int, i int) int {
	end := len(s.text)
	if i+1 < len(starts) {
		end = starts[i+1]
	}
	return utf8.RuneCountInString(s.text[starts[i]:end])
}

// unitSize returns the size of the character or escape with which a text begins.
func unitSize(s string) int {
	switch {
	case s[0] != '\\' || len(s) < 2:
		_, n := utf8.DecodeRuneInString(s)
		return n
	case s[1] != 'u' || len(s) < 6:
		return 2
	case len(s) >= 12 && (s[2] == 'd' || s[2] == 'D') && strings.ContainsRune("89abAB", rune(s[3])) && s[6:8] == `\u`:
		return 12
	}
	return 6
}
