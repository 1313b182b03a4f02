package process

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// versionInfo is the output of 'svc version'.
type versionInfo struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Date      string `json:"date,omitempty"`
	Modified  bool   `json:"modified,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

// Info combines the values of the release build with those that the Go tool
// recorded, so that 'go install' and 'go build' have a version too.
func (b Build) Info() versionInfo {
	v := versionInfo{
		Version:   b.Version,
		Commit:    b.Commit,
		Date:      b.Date,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && v.Commit == "":
			v.Commit = s.Value
		case s.Key == "vcs.time" && v.Date == "":
			v.Date = s.Value
		case s.Key == "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if v.Version == "" {
		v.Version = strings.TrimSuffix(info.Main.Version, "+incompatible")
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	return v
}

// String is the form for one line of a log or a header.
func (v versionInfo) String() string {
	s := "svc " + v.Version
	if v.Commit != "" {
		s += " " + v.Commit[:min(12, len(v.Commit))]
	}
	if v.Date != "" {
		s += " " + v.Date
	}
	return s + " " + v.GoVersion + " " + v.Platform
}
