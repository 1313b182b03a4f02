package config

import "svc/gateway/diag"

// unbuilt lists what the file can ask for and this build does not do. Asking is
// an error: nothing is accepted that is not enforced. A feature that is built
// loses its row.
var unbuilt = []struct {
	path  string
	asked func(*File) bool
}{
	{"tool_search.mode", func(f *File) bool { return f.ToolSearch.Enabled && f.ToolSearch.Mode == ToolSearchSynthesize }},
}

// checkBuilt reports what the file asks for and this build does not do.
func (f *File) checkBuilt(r *diag.Report) {
	for _, u := range unbuilt {
		if u.asked(f) {
			r.Add(diag.Finding{Code: "not-built", Path: u.path,
				Message: "asks for something that this version does not do",
				Hint:    "leave it out: nothing is accepted that would not be enforced"})
		}
	}
}
