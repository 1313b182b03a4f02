package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// entry is a value of a file. It remembers whether it was read, so that what nobody read can be
// named: a setting of the other program that restricts a server must not vanish unnoticed.
type entry struct {
	path   string
	raw    json.RawMessage
	names  []string // of the members of an object, in their order
	values []*entry // of an object or a list
	list   bool
	read   bool // with everything below it
	opened bool // its members were looked at: those that were not read are named
}

// parseEntry parses a strict JSON document. Objects keep the order of their members.
func parseEntry(raw json.RawMessage) (*entry, error) {
	root := &entry{opened: true}
	return root, root.parse(raw, 0)
}

func (e *entry) parse(raw json.RawMessage, depth int) error {
	e.raw = bytes.TrimSpace(raw)
	switch {
	case depth > maxDepth:
		return errors.New("it is nested too deeply")
	case len(e.raw) > 0 && e.raw[0] == '{':
		names, values, err := membersOf(e.raw)
		if err != nil {
			return err
		}
		e.names = names
		for i := range values {
			child := &entry{path: strings.TrimPrefix(e.path+"."+names[i], ".")}
			if err := child.parse(values[i], depth+1); err != nil {
				return err
			}
			e.values = append(e.values, child)
		}
	case len(e.raw) > 0 && e.raw[0] == '[':
		e.list = true
		var values []json.RawMessage
		if err := json.Unmarshal(e.raw, &values); err != nil {
			return err
		}
		for i := range values {
			child := &entry{path: fmt.Sprintf("%s[%d]", e.path, i)}
			if err := child.parse(values[i], depth+1); err != nil {
				return err
			}
			e.values = append(e.values, child)
		}
	}
	return nil
}

// object reports whether it is an object; nil is none.
func (e *entry) object() bool { return e != nil && len(e.raw) > 0 && e.raw[0] == '{' }

// open returns the values of an object or a list, whose unread members are named from now on.
func (e *entry) open() []*entry {
	if e == nil || e.read {
		return nil
	}
	e.opened = true
	return e.values
}

// get returns a member, nil if there is none. Of members with one name it is the last, as in
// other readers of JSON.
func (e *entry) get(name string) (found *entry) {
	if !e.object() {
		return nil
	}
	e.open()
	for i := range e.names {
		if e.names[i] == name {
			found = e.values[i]
		}
	}
	return found
}

// use returns the whole value as JSON, and counts it as read; null without one.
func (e *entry) use() json.RawMessage {
	if e == nil {
		return json.RawMessage("null")
	}
	e.read = true
	return e.raw
}

// text returns a string, number or boolean; empty for anything else.
func (e *entry) text() string {
	if e == nil || e.object() || e.list {
		return ""
	}
	raw := e.use()
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw) // a number or a boolean
	}
	return text // null is empty
}

// texts returns a list of strings, none for anything else.
func (e *entry) texts() (list []string) {
	if e != nil {
		list, _ = texts(e.use())
	}
	return list
}

// Bounds on what the names of unread members may take.
const (
	maxOutline = 10   // levels below a member
	maxNamed   = 60   // members of one object
	maxUnread  = 500  // objects
	maxLine    = 4000 // bytes of the names in one object
)

// Unread are members of one object in a file that the import did not read.
type Unread struct {
	// At is the position of the object, empty for the file itself.
	At    string
	Names []string
	// Restricts is set if one of them, by its name, restricts who can do what.
	Restricts bool
}

// String returns the position and the names.
func (u Unread) String() string {
	names := strings.Join(u.Names, ", ")
	if len(names) > maxLine {
		names = strings.ToValidUTF8(names[:maxLine], "") + "… and more"
	}
	if u.At == "" {
		return names
	}
	return u.At + ": " + names
}

// restricting matches names of settings that restrict access.
var restricting = regexp.MustCompile(`(?i)auth|polic|allow|den(y|ied)|exclud|disallow|disabled|permission|access|guard|limit|rbac|approv|trust|restrict|block|sandbox|cors`)

// unread returns the members that were not read, objects in the order of the file.
func (e *entry) unread() []Unread {
	var all []Unread
	e.collect(&all)
	if len(all) > maxUnread {
		all = append(all[:maxUnread], Unread{Names: []string{fmt.Sprintf("members of %d more objects", len(all)-maxUnread)}})
	}
	return all
}

func (e *entry) collect(all *[]Unread) {
	here := Unread{At: e.path}
	for i, child := range e.values {
		switch {
		case child.read:
		case child.opened:
		default:
			name := fmt.Sprintf("[%d]", i)
			if !e.list {
				name = e.names[i]
			}
			here.Names = append(here.Names, child.outline(name, maxOutline))
			here.Restricts = here.Restricts || restricting.MatchString(here.Names[len(here.Names)-1])
		}
	}
	if n := len(here.Names); n > maxNamed {
		here.Names = append(here.Names[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(here.Names) > 0 {
		*all = append(*all, here)
	}
	for _, child := range e.values {
		if child.opened && !child.read {
			child.collect(all)
		}
	}
}

// outline returns a name with the names of the members below it.
func (e *entry) outline(name string, levels int) string {
	if levels == 0 {
		return name
	}
	var below []string
	for i, child := range e.values {
		switch {
		case len(below) > maxNamed && e.list:
		case !e.list:
			below = append(below, child.outline(e.names[i], levels-1))
		case child.object(): // the elements of a list are named by their members
			if of := child.outline("", levels); of != "" && !slices.Contains(below, of) {
				below = append(below, of)
			}
		}
	}
	if n := len(below); n > maxNamed {
		below = append(below[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(below) == 0 {
		return name
	}
	return strings.TrimSpace(name + " {" + strings.Join(below, ", ") + "}")
}
