package diag

import (
	"fmt"
	"strconv"
)

// MaxFindings bounds the findings of one Report, so that a hostile file cannot make the report
// larger than itself. Further findings are only counted.
const MaxFindings = 500

// Report collects the findings of one check. It is not safe for concurrent use.
type Report struct {
	findings []Finding
	dropped  int
}

// New returns an empty report.
func New() *Report { return &Report{} }

// Root returns the cursor at the top of the file.
func (r *Report) Root() At { return At{report: r} }

// Add appends a finding; findings beyond [MaxFindings] are counted.
func (r *Report) Add(f Finding) {
	if len(r.findings) >= MaxFindings {
		r.dropped++
		return
	}
	r.findings = append(r.findings, f)
}

// Full reports whether a further finding would only be counted, so that the caller need not
// format it.
func (r *Report) Full() bool { return len(r.findings) >= MaxFindings }

// Findings returns a copy of the reported findings, in the order of the reports.
func (r *Report) Findings() []Finding {
	out := make([]Finding, len(r.findings), len(r.findings)+1)
	copy(out, r.findings)
	if r.dropped > 0 {
		out = append(out, Finding{
			Code:    "too-many-findings",
			Message: fmt.Sprintf("%d further findings are not shown", r.dropped),
			Hint:    "correct those above and check again",
		})
	}
	return out
}

// Err returns nil, or a [Findings] error when one of the findings is an Error.
func (r *Report) Err() error { return Err(r.Findings()) }

// At is a cursor: the path of the field that is being checked. It is a small value that can be
// copied. The zero At ignores its findings.
//
//	func (c *Config) Validate(at diag.At) {
//		if c.Burst < 1 {
//			at.Field("burst").Hint("use 1 or more").Errorf("range", "burst is %d", c.Burst)
//		}
//	}
type At struct {
	report *Report
	path   string
	hint   string
}

// Field returns the cursor of the named field, or of the named entry of a map.
func (a At) Field(name string) At {
	a.path = Join(a.path, name)
	a.hint = ""
	return a
}

// Index returns the cursor of element i of a list, counted from 0.
func (a At) Index(i int) At {
	a.path += "[" + strconv.Itoa(i) + "]"
	a.hint = ""
	return a
}

// Hint returns the same cursor with a hint for findings reported through it.
func (a At) Hint(format string, args ...any) At {
	a.hint = fmt.Sprintf(format, args...)
	return a
}

// Errorf reports an error about the field.
func (a At) Errorf(code, format string, args ...any) {
	a.add(code, Error, fmt.Sprintf(format, args...))
}

// Warnf reports a warning about the field.
func (a At) Warnf(code, format string, args ...any) {
	a.add(code, Warning, fmt.Sprintf(format, args...))
}

// Infof reports an info about the field.
func (a At) Infof(code, format string, args ...any) {
	a.add(code, Info, fmt.Sprintf(format, args...))
}

// Path returns the path of the field, as findings show it.
func (a At) Path() string { return a.path }

func (a At) add(code string, s Severity, message string) {
	if a.report == nil {
		return
	}
	a.report.Add(Finding{Code: code, Severity: s, Path: a.path, Message: message, Hint: a.hint})
}

// Join returns the path of a field or map entry below path. Names with special characters are in
// brackets and quotes, so that a path is unambiguous.
func Join(path, name string) string {
	if !plain(name) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func plain(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
