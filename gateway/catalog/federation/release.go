package federation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"svc/gateway/base/files"
	"svc/gateway/catalog"
)

// ErrNotOwned is the error of releasing a name that an upstream does not own.
var ErrNotOwned = errors.New("the upstream does not own this name")

// maxReleases bounds the file of requests, in bytes.
const maxReleases = 1 << 20

// release is one name to release, of every kind.
type release struct {
	Upstream string `json:"upstream"`
	Key      string `json:"key"`
}

// releasesFile contains the names that an operator has released, until a gateway applies them:
// only the gateway writes the owners.
func releasesFile(stateDir string) string {
	return filepath.Join(stateDir, "federation-releases.json")
}

// RequestRelease requests the release of a name, uri or template, as clients see it, that an
// upstream owns. The gateway applies it at its next reload or start. The error is ErrNotOwned if
// the saved owners have another owner.
func RequestRelease(ctx context.Context, stateDir, upstream, key string) error {
	owned, err := catalog.ReadOwned(OwnersFile(stateDir), upstream)
	if err != nil {
		return err
	}
	if !owned[key] {
		return fmt.Errorf("%s/%s: %w", upstream, key, ErrNotOwned)
	}
	path := releasesFile(stateDir)
	unlock, err := files.Lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	list, err := readReleases(path)
	if err != nil {
		return err
	}
	data, err := json.Marshal(append(list, release{upstream, key}))
	if err != nil {
		return err
	}
	if err := files.Replace(path, append(data, '\n')); err != nil {
		return err
	}
	return files.GiveAway(path)
}

func readReleases(path string) (list []release, err error) {
	data, err := files.Read(path, maxReleases)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// releaseTime bounds the wait for a command that writes the file.
const releaseTime = 5 * time.Second

// TakeReleases applies the releases that an operator requested since the last call. On a nil
// Federation it does nothing.
func (f *Federation) TakeReleases() error {
	if f == nil || f.opts.StateDir == "" {
		return nil
	}
	path := releasesFile(f.opts.StateDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	unlock, err := files.Lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	list, err := readReleases(path)
	if err != nil {
		return err
	}
	for _, r := range list {
		n, err := f.owners.Release(r.Upstream, r.Key)
		if err != nil {
			return err
		}
		if n > 0 {
			f.opts.Logger.Info("a name was released", "upstream", r.Upstream, "name", r.Key)
		}
	}
	if err := f.owners.Save(); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	f.merge.Rebuild()
	return nil
}
