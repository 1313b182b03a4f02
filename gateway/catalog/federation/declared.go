package federation

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"sync"

	"svc/gateway/base/files"
	"svc/gateway/catalog"
)

// Bounds on the stored capabilities.
const (
	maxDeclared     = 64 << 10 // of one upstream; more is not saved for a restart
	maxDeclaredFile = 64 << 20
	declaredVersion = 1
)

// passed are the capabilities of the federation that upstreams provide: the union of their
// declarations.
var passed = []string{"tasks", "extensions", "experimental"}

// members are the capabilities that upstreams provide, by name.
type members map[string]json.RawMessage

// declarations stores the last declaration of each upstream, also while it is down and over a
// restart, so that clients that connect meanwhile get the capabilities that they will be able to
// use. It is safe for concurrent use.
type declarations struct {
	path    string
	digests map[string]string // of the identities, by upstream

	mu         sync.Mutex
	byUpstream map[string]members
	changed    bool
}

// declarationsFile is the form on disk.
type declarationsFile struct {
	Version   int                             `json:"version"`
	Upstreams map[string]declaredFileUpstream `json:"upstreams"`
}

type declaredFileUpstream struct {
	Digest       string  `json:"digest"`
	Capabilities members `json:"capabilities"`
}

// capabilitiesFile returns the file of the upstreams' capabilities.
func capabilitiesFile(stateDir string) string {
	return filepath.Join(stateDir, "federation-capabilities.json")
}

// openDeclarations reads the saved declarations; an empty directory keeps them in memory. Those
// of upstreams whose settings have changed are dropped. Without a readable file, no declaration
// is known until the upstreams respond.
func openDeclarations(stateDir string, identities []catalog.Identity) (*declarations, error) {
	d := &declarations{digests: map[string]string{}, byUpstream: map[string]members{}}
	for _, id := range identities {
		d.digests[id.Upstream] = id.Digest
	}
	if stateDir == "" {
		return d, nil
	}
	d.path = capabilitiesFile(stateDir)
	var file declarationsFile
	if found, err := files.ReadJSON(d.path, maxDeclaredFile, &file, &file.Version, declaredVersion); !found {
		return d, err
	}
	for upstream, u := range file.Upstreams {
		if digest, known := d.digests[upstream]; known && digest == u.Digest {
			d.byUpstream[upstream] = u.Capabilities
		}
	}
	return d, nil
}

// note stores the declaration of an upstream, a JSON object or nothing.
func (d *declarations) note(upstream string, capabilities json.RawMessage) {
	var all members
	_ = json.Unmarshal(capabilities, &all) // any other value declares nothing
	kept := members{}
	for _, name := range passed {
		if value, ok := all[name]; ok {
			kept[name] = bytes.Clone(value)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.byUpstream[upstream]
	d.changed = d.changed || !known || !sameMembers(before, kept)
	d.byUpstream[upstream] = kept
}

func sameMembers(a, b members) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(value, other) {
			return false
		}
	}
	return true
}

// of returns the last declaration of an upstream.
func (d *declarations) of(upstream string) members {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byUpstream[upstream]
}

// save writes the file if a declaration has changed.
func (d *declarations) save() error {
	if d.path == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.changed {
		return nil
	}
	file := declarationsFile{Version: declaredVersion, Upstreams: map[string]declaredFileUpstream{}}
	for upstream, kept := range d.byUpstream {
		size := 0
		for _, value := range kept {
			size += len(value)
		}
		if size <= maxDeclared {
			file.Upstreams[upstream] = declaredFileUpstream{Digest: d.digests[upstream], Capabilities: kept}
		}
	}
	data, err := json.Marshal(file)
	if err == nil {
		err = files.Replace(d.path, append(data, '\n'))
	}
	d.changed = err != nil
	return err
}
