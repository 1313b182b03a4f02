package pins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"svc/gateway/mcp"
)

// Kind is the kind of a pinned subject.
type Kind string

// The kinds.
const (
	Tool         Kind = "tool"
	Prompt       Kind = "prompt"
	Instructions Kind = "instructions"
	Skill        Kind = "skill"
)

// Subject identifies something that can be pinned. Name is the upstream's own
// name, or the address of a skill's SKILL.md, compared byte by byte; it is empty for
// instructions.
type Subject struct {
	Upstream string
	Kind     Kind
	Name     string
}

// String is UPSTREAM/NAME for tools, UPSTREAM/prompt:NAME for prompts, UPSTREAM/skill:URI
// for skills, and UPSTREAM/instructions: for instructions. A tool whose name contains a colon
// cannot be confused with a prompt, because tool names have no kind prefix and
// extend to the end.
func (s Subject) String() string {
	switch s.Kind {
	case Tool:
		return s.Upstream + "/" + s.Name
	default:
		return s.Upstream + "/" + string(s.Kind) + ":" + s.Name
	}
}

// Digest is the SHA-256 of a definition.
type Digest [sha256.Size]byte

// String is the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Definition is the part of an item that a model or a client uses, in its
// canonical form.
type Definition struct {
	JSON   []byte
	Digest Digest
}

// ErrNotAnObject is the error of a tool or prompt that is not a JSON object.
var ErrNotAnObject = errors.New("the definition is not a JSON object")

// Define returns the definition of a tool or prompt as its upstream lists it. It
// omits icons, and _meta except for its member ui. raw is one JSON value of a
// scanned message.
func Define(raw []byte) (Definition, error) {
	v, err := mcp.Value(raw)
	if err != nil {
		return Definition{}, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return Definition{}, ErrNotAnObject
	}
	delete(object, "icons")
	if meta, present := object["_meta"]; present {
		delete(object, "_meta")
		if members, ok := meta.(map[string]any); ok {
			if ui, ok := members["ui"]; ok {
				object["_meta"] = map[string]any{"ui": ui}
			}
		}
	}
	return defined(object), nil
}

// defineInstructions returns the definition of an upstream's instructions.
func defineInstructions(text string) Definition { return defined(text) }

func defined(v any) Definition {
	form := mcp.Append(nil, v)
	return Definition{JSON: form, Digest: sha256.Sum256(form)}
}

// parseDigest parses the result of String.
func parseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("%q is not a SHA-256 in hexadecimal", s)
	}
	return Digest(b), nil
}
