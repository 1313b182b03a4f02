package pins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"svc/gateway/base/files"
)

const (
	fileVersion = 1
	// maxFile bounds a file of pins. The lists of one upstream are at most 64 MiB.
	maxFile = 256 << 20
)

// file is the JSON form. It is indented and sorted by name, so that version control
// shows what an approval changes.
type file struct {
	Version   int                     `json:"version"`
	Upstreams map[string]fileUpstream `json:"upstreams"`
}

// fileUpstream has a time for each set of definitions that was ever pinned.
type fileUpstream struct {
	PinnedAt       time.Time          `json:"pinnedAt,omitzero"`
	Tools          map[string]filePin `json:"tools,omitempty"`
	Prompts        map[string]filePin `json:"prompts,omitempty"`
	Instructions   *filePin           `json:"instructions,omitempty"`
	SkillsPinnedAt time.Time          `json:"skillsPinnedAt,omitzero"`
	Skills         map[string]filePin `json:"skills,omitempty"`
}

type filePin struct {
	SHA256     string          `json:"sha256"`
	Definition json.RawMessage `json:"definition"`
}

// read reads a file of pins. The error for a missing file wraps [fs.ErrNotExist];
// the error for a damaged file names the entry.
func read(path string) (*Pins, error) {
	data, err := files.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%s: data after the end", path)
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("%s has version %d; this release reads version %d", path, f.Version, fileVersion)
	}
	p := &Pins{sets: make(map[set]definitions, 2*len(f.Upstreams))}
	for name, u := range f.Upstreams {
		if err := u.read(name, p); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return p, nil
}

// ReadOrEmpty is read, except that a missing file is empty.
func ReadOrEmpty(path string) (*Pins, error) {
	p, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Pins{}, nil
	}
	return p, err
}

// read adds the pins of one upstream.
func (u *fileUpstream) read(name string, p *Pins) error {
	instructions := map[string]filePin{}
	if u.Instructions != nil {
		instructions[""] = *u.Instructions
	}
	take := func(at time.Time, of Kind, lists map[Kind]map[string]filePin) error {
		approved := map[item]Definition{}
		for kind, list := range lists {
			for own, pin := range list {
				d, err := pin.read(kind, own)
				if err != nil {
					return fmt.Errorf("%s: %w", Subject{name, kind, own}, err)
				}
				approved[item{kind, own}] = d
			}
		}
		if len(approved) > 0 || !at.IsZero() {
			p.sets[setOf(name, of)] = newDefinitions(at, approved)
		}
		return nil
	}
	return errors.Join(
		take(u.PinnedAt, Tool, map[Kind]map[string]filePin{Tool: u.Tools, Prompt: u.Prompts, Instructions: instructions}),
		take(u.SkillsPinnedAt, Skill, map[Kind]map[string]filePin{Skill: u.Skills}))
}

// read checks that the digest of an entry is the digest of its definition, so that
// the definition a person reads in the file is the one that is compared.
func (f *filePin) read(kind Kind, own string) (Definition, error) {
	want, err := parseDigest(f.SHA256)
	if err != nil {
		return Definition{}, err
	}
	var d Definition
	switch kind {
	case Instructions:
		var text string
		if err := json.Unmarshal(f.Definition, &text); err != nil {
			return Definition{}, err
		}
		d = defineInstructions(text)
	case Skill:
		s, err := readSkill(f.Definition)
		if err == nil && s.URI != own {
			err = fmt.Errorf("the definition is that of %s", s.URI)
		}
		if err != nil {
			return Definition{}, err
		}
		d = s.definition()
	default:
		if d, err = Define(f.Definition); err != nil {
			return Definition{}, err
		}
	}
	if d.Digest != want {
		return Definition{}, fmt.Errorf("the definition has the digest %s, not %s; approve it again", d.Digest, f.SHA256)
	}
	return d, nil
}

// Write replaces a file of pins atomically.
func (p *Pins) Write(path string) error {
	f := file{Version: fileVersion, Upstreams: make(map[string]fileUpstream, len(p.sets))}
	for of, u := range p.sets {
		out := f.Upstreams[of.upstream]
		if of.skills {
			out.SkillsPinnedAt, out.Skills = u.at, map[string]filePin{}
		} else {
			out.PinnedAt, out.Tools, out.Prompts = u.at, map[string]filePin{}, map[string]filePin{}
		}
		for it, d := range u.approved {
			pin := filePin{SHA256: d.Digest.String(), Definition: d.JSON}
			switch it.kind {
			case Tool:
				out.Tools[it.name] = pin
			case Prompt:
				out.Prompts[it.name] = pin
			case Instructions:
				out.Instructions = &pin
			case Skill:
				out.Skills[it.name] = pin
			}
		}
		f.Upstreams[of.upstream] = out
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return err
	}
	if text.Len() > maxFile {
		return fmt.Errorf("%s would have %d bytes; the limit of the reader is %d", path, text.Len(), maxFile)
	}
	return files.ReplaceWith(path, []byte(text.String()), func(f *os.File) error {
		// An operator may approve as another user than the gateway's, and the
		// definitions are not secret.
		return errors.Join(f.Chmod(0o644), f.Sync())
	})
}
