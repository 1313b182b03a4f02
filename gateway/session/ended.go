package session

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"svc/gateway/base/files"
)

const (
	// maxEnded is the number of ended sessions that are remembered across restarts. The file
	// contains at most twice as many.
	maxEnded = 16_384
	// idText is the length of a session id in the file, without the line end.
	idText = 22
)

// Durable is a Memory whose ended sessions stay ended after a restart: a client's handle is
// sealed with a key that outlives the process, so without this an ended handle could begin
// new upstream sessions. Open sessions are not saved: they are opened again. It must be
// closed.
type Durable struct {
	*Memory
	path string
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	file   *os.File   // nil when the file cannot be written
	lines  int
	closed bool
}

var (
	_ UpstreamSessions = (*Durable)(nil)
	_ ClientSettings   = (*Durable)(nil)
)

// OpenDurable returns a Memory that contains the ended sessions of a file; a missing file is
// created. See NewMemory for max and evicted.
func OpenDurable(path string, max int, evicted func(open map[string]UpstreamSession), log *slog.Logger) (*Durable, error) {
	d := &Durable{Memory: NewMemory(max, evicted), path: path, log: log}
	ids, err := d.compact()
	if err != nil {
		return nil, fmt.Errorf("ended sessions: %w", err)
	}
	for _, id := range ids {
		d.Memory.End(context.Background(), id)
	}
	return d, nil
}

// End implements UpstreamSessions. If the end cannot be written, the session is still ended
// until the next start.
func (d *Durable) End(ctx context.Context, id ID) map[string]UpstreamSession {
	open := d.Memory.End(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.append(id); err != nil {
		d.log.Warn("the end of a session was not saved: after a restart its client could use it again", "file", d.path, "error", err)
	}
	return open
}

// append writes a line. The caller holds mu.
func (d *Durable) append(id ID) error {
	if d.closed {
		return fs.ErrClosed
	}
	if d.file == nil || d.lines >= 2*maxEnded {
		if _, err := d.compact(); err != nil {
			return err
		}
	}
	if _, err := d.file.Write(line(id)); err != nil {
		// A part of the line may have been written: the next append writes a new file.
		_ = d.file.Close()
		d.file = nil
		return err
	}
	d.lines++
	return nil
}

// compact reads the file, rewrites its newest lines, and opens it for appending. Invalid
// lines, as after a truncated write, are dropped.
func (d *Durable) compact() ([]ID, error) {
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, err
	}
	ids, err := readEnded(d.path)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(ids)*(idText+1))
	for _, id := range ids {
		text = append(text, line(id)...)
	}
	if err := files.Replace(d.path, text); err != nil {
		return nil, err
	}
	if d.file, err = os.OpenFile(d.path, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, err
	}
	d.lines = len(ids)
	return ids, nil
}

// readEnded returns the newest ids of a file; none when there is no file.
func readEnded(path string) ([]ID, error) {
	text, err := files.Read(path, 4*maxEnded*(idText+1))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []ID
	for l := range bytes.Lines(text) {
		var id ID
		raw, err := base64.RawURLEncoding.Strict().DecodeString(string(bytes.TrimSuffix(l, []byte("\n"))))
		if err == nil && len(raw) == len(id) {
			copy(id[:], raw)
			ids = append(ids, id)
		}
	}
	return ids[max(0, len(ids)-maxEnded):], nil
}

// line is the line of a session.
func line(id ID) []byte {
	return append(base64.RawURLEncoding.AppendEncode(nil, id[:]), '\n')
}

// Close closes the file. Later ends of sessions are kept in memory only.
func (d *Durable) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}
