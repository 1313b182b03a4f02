package plane

import (
	"bytes"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
)

// form is how a value is written that a token should replace. The later ones are for values that
// the output schema of a tool restricts: clients check structured content against it.
type form uint8

const (
	asTokens  form = iota
	asMask         // letters and digits are asterisks
	asShape        // letters are x, digits 0: for lengths and patterns
	asExample      // a value of the same kind that belongs to nobody: for formats
	asGiven        // a value that the schema names
	forms
)

// maskNumber returns a number without a finding: of as many digits as value at first, then 0 and 1.
func (w *rewriter) maskNumber(f form, value []byte) []byte {
	switch f {
	case asMask:
		n := 0
		for _, c := range value {
			if c >= '0' && c <= '9' {
				n++
			}
		}
		long := append([]byte{'1'}, bytes.Repeat([]byte{'0'}, max(n-1, 0))...)
		if scanner := w.set.sides[w.phase].scanner; scanner == nil || len(scanner.Scan(nil, "", long)) == 0 {
			return long
		}
		return []byte{'0'}
	case asShape:
		return []byte{'0'}
	}
	return []byte{'1'}
}

// of returns a value in a form that cannot be put back.
func (f form) of(entity string, value []byte) []byte {
	if f == asMask {
		return detect.Redact(nil, value, []detect.Match{{Entity: detect.Entity(entity), End: len(value)}}, detect.Mask, nil)
	}
	if f == asExample {
		switch detect.Entity(entity) {
		case detect.Email:
			return []byte("masked@masked.invalid")
		case detect.IPAddress:
			if slices.Contains(value, ':') {
				return []byte("::")
			}
			return []byte("0.0.0.0")
		}
	}
	shape := slices.Clone(value)
	for i, c := range shape {
		switch {
		case c >= '0' && c <= '9':
			shape[i] = '0'
		case c >= 'a' && c <= 'z', c >= 0x80:
			shape[i] = 'x'
		case c >= 'A' && c <= 'Z':
			shape[i] = 'X'
		}
	}
	return shape
}

// structured is the structured content of the answer to a tool call.
func structured(m *mcp.Message) mcp.Span {
	return mcp.Find(m.Body, m.Spans.Result, "structuredContent")
}

// fits reports whether a number can be replaced: in structured content, where a token is wanted. It
// becomes a string there, unless the output schema of the tool wants a number.
func (w *rewriter) fits(in *Input, f *finding) bool {
	p := w.by.entities[f.matches[0].Entity]
	return f.text.Kind == mcp.TextNumber && p != nil && p.strategy == tokenStrategy && within(f.text.At, []mcp.Span{structured(in.Message)})
}

// fit changes the edits inside of structured content to a form that the output schema of the tool
// takes. Content that did not fit before is left to its upstream.
func (w *rewriter) fit(in *Input, edits []edit) error {
	body, at := in.Message.Body, structured(in.Message)
	first := slices.IndexFunc(edits, func(e edit) bool { return within(e.f.text.At, []mcp.Span{at}) })
	if first < 0 {
		return nil
	}
	inside := edits[first:]
	if end := slices.IndexFunc(inside, func(e edit) bool { return e.f.text.At.Start >= at.End }); end >= 0 {
		inside = inside[:end]
	}
	var paths [][]string // of the edits, once they are needed
	for range forms {
		content, from := []byte(nil), at.Start
		for i := range inside {
			e := &inside[i]
			content = append(append(content, body[from:e.f.text.At.Start]...), e.with...)
			from = e.f.text.At.End
		}
		misfits, known := in.Tokens.Misfits(append(content, body[from:at.End]...))
		if !known || len(misfits) == 0 {
			return nil
		}
		if paths == nil {
			if before, _ := in.Tokens.Misfits(at.Of(body)); len(before) > 0 {
				return nil
			}
			for i := range inside {
				paths = append(paths, nil)
				paths[i] = pathTo(body, at, inside[i].f.text.At)
			}
		}
		if !w.reform(inside, paths, misfits) {
			break
		}
	}
	return errUnredactable
}

// reform gives the edits that do not fit their next form, and reports whether there was one.
func (w *rewriter) reform(edits []edit, paths [][]string, misfits []detect.Misfit) (changed bool) {
	for i := range edits {
		e := &edits[i]
		n := slices.IndexFunc(misfits, func(x detect.Misfit) bool {
			return len(x.Path) <= len(paths[i]) && slices.Equal(x.Path, paths[i][:len(x.Path)])
		})
		if n < 0 || e.form >= asGiven {
			continue
		}
		e.form++
		if given := misfits[n].Instead; given != nil && len(misfits[n].Path) == len(paths[i]) {
			e.form, e.with = asGiven, given
		} else if e.form == asGiven {
			continue
		} else if e.f.text.Kind == mcp.TextNumber {
			e.with = w.maskNumber(e.form, e.f.value)
		} else {
			text, _ := w.rewrite(e.f, e.form)
			e.with = mcp.AppendString(nil, string(text))
		}
		changed = true
	}
	return changed
}
