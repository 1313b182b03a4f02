package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"svc/gateway/base/files"
	"svc/gateway/config"
)

// The kinds of results about the machine itself.
const (
	KindClock     = "clock"
	KindFiles     = "files"
	KindDirectory = "directory"
)

const (
	// maxSkew is the clock error up to which tokens, licenses and certificates are
	// validated correctly. Date headers have a resolution of one second, and responses
	// take time.
	maxSkew = 30 * time.Second
	// minFiles is the minimum limit of open files: each client and each stream uses
	// one, and each call a second one for its upstream.
	minFiles = 4096
	// minFree is the minimum free space for the audit log and the state, in bytes.
	minFree = 256 << 20
	// fewFree is the free space below which advice is given, in bytes.
	fewFree = 2 << 30
)

// Machine checks the machine: its clock, compared with the clocks of the servers in
// results, the limit of open files, and the directories.
func Machine(f *config.File, results []ProbeResult, dates []Dated) []ProbeResult {
	for i := range results {
		if !results[i].Date.IsZero() {
			dates = append(dates, Dated{Date: results[i].Date, At: results[i].At})
		}
	}
	list := []ProbeResult{clock(dates), fileLimit(openFiles())}
	named := map[string]string{}
	for _, d := range []struct{ field, path string }{
		{"audit.path", filepath.Dir(f.Audit.Path)},
		{"state_dir", f.StateDirectory()},
	} {
		if named[d.path] == "" {
			named[d.path] = d.field
			list = append(list, directory(d.field, d.path))
		}
	}
	for i := range list {
		list[i].complete()
	}
	return list
}

// Dated is the time of a server's clock and the local time when it was read.
type Dated struct{ Date, At time.Time }

// AskClock returns the time of an HTTP server's Date header, false without one. Any
// response is sufficient.
func AskClock(ctx context.Context, url string, now func() time.Time) (Dated, bool) {
	ctx, cancel := context.WithTimeout(ctx, endpointWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return Dated{}, false
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		return Dated{}, false
	}
	resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	return Dated{Date: date, At: now()}, err == nil
}

// clock compares the local clock with the servers' clocks. The median decides, because
// single servers may have wrong clocks too.
func clock(dates []Dated) ProbeResult {
	r := ProbeResult{Kind: KindClock, Name: "clock", OK: true}
	if len(dates) == 0 {
		r.Advice = "not compared: no server sent a Date header"
		return r
	}
	var skews []time.Duration
	for _, d := range dates {
		skews = append(skews, d.At.Sub(d.Date))
	}
	slices.Sort(skews)
	skew := skews[len(skews)/2]
	if skew.Abs() <= maxSkew {
		return r
	}
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	r.OK = false
	r.Cause = fmt.Sprintf("the clock is %s %s those of the servers", skew.Abs().Round(time.Second), way)
	r.Advice = "set the clock of this machine (timedatectl set-ntp true): tokens, certificates and the license are validated against it"
	return r
}

// fileLimit checks the limit of open files; 0 means that it could not be read.
func fileLimit(limit uint64) ProbeResult {
	r := ProbeResult{Kind: KindFiles, Name: "open files", OK: limit == 0 || limit >= minFiles}
	if !r.OK {
		r.Cause = fmt.Sprintf("a process of this user may open %d files", limit)
		r.Advice = fmt.Sprintf("raise the limit to at least %d (LimitNOFILE=65536 in the unit, ulimit -n in a shell)", minFiles)
	}
	return r
}

// directory checks that this user can create files in a directory, and that it has
// enough free space.
func directory(field, path string) ProbeResult {
	r := ProbeResult{Kind: KindDirectory, Name: field}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && field == "state_dir" { // the gateway creates it
		path = files.ExistingParent(path)
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Cause, r.Advice = "the directory does not exist", "make it for the user of the gateway: install -d -m 0750 -o svc-gateway -g svc-gateway DIRECTORY"
		return r
	case err != nil:
		r.Cause, r.Advice = "the directory cannot be read: "+withoutPath(err), "correct "+field+", or the permissions of the directories above"
		return r
	case !info.IsDir():
		r.Cause, r.Advice = "there is a file in its place", "correct "+field
		return r
	}
	if err := files.TryWrite(path); err != nil {
		r.Cause = "no file can be made in it: " + withoutPath(err)
		r.Advice = "let the user of the gateway write to it, or run the command as that user"
		return r
	}
	switch free, known := files.FreeSpace(path); {
	case !known:
	case free < minFree:
		r.Cause, r.Advice = fmt.Sprintf("it has %d MiB left", free>>20), "free space, or put it on another disk: without space for audit lines the gateway answers 503"
		return r
	case free < fewFree:
		r.Advice = fmt.Sprintf("it has %d MiB left", free>>20)
	}
	r.OK = true
	return r
}

// withoutPath drops the operation and the path of an error.
func withoutPath(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
