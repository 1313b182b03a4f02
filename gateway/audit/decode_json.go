package audit

// decoder parses JSON from one line. Every step moves forward and nesting is bounded, so
// that the time is linear in the input.
type decoder struct {
	in string
	at int
}

const maxDepth = 16

func (d *decoder) space() {
	for d.at < len(d.in) && (d.in[d.at] == ' ' || d.in[d.at] == '\n' || d.in[d.at] == '\r' || d.in[d.at] == '\t') {
		d.at++
	}
}

// take consumes c after optional white space; the log writes no white space.
func (d *decoder) take(c byte) bool {
	if d.at < len(d.in) && d.in[d.at] > ' ' {
		if d.in[d.at] != c {
			return false
		}
		d.at++
		return true
	}
	if d.space(); d.at < len(d.in) && d.in[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder) object(member func(name string) error) error {
	if !d.take('{') {
		return errNotRecord
	}
	if d.take('}') {
		return nil
	}
	for {
		name, err := d.str()
		if err != nil {
			return err
		}
		if !d.take(':') {
			return errNotRecord
		}
		if err := member(name); err != nil {
			return err
		}
		switch {
		case d.take(','):
		case d.take('}'):
			return nil
		default:
			return errNotRecord
		}
	}
}

func (d *decoder) array(element func() error) error {
	if !d.take('[') {
		return errNotRecord
	}
	if d.take(']') {
		return nil
	}
	for n := 0; ; n++ {
		if n >= maxList {
			return errNotRecord
		}
		if err := element(); err != nil {
			return err
		}
		switch {
		case d.take(','):
		case d.take(']'):
			return nil
		default:
			return errNotRecord
		}
	}
}

// skip skips a value of any type.
func (d *decoder) skip(depth int) error {
	if depth > maxDepth {
		return errNotRecord
	}
	d.space()
	if d.at >= len(d.in) {
		return errNotRecord
	}
	switch d.in[d.at] {
	case '{':
		return d.object(func(string) error { return d.skip(depth + 1) })
	case '[':
		return d.array(func() error { return d.skip(depth + 1) })
	case '"':
		_, err := d.str()
		return err
	case 't', 'f':
		_, err := d.boolean()
		return err
	case 'n':
		if end := d.at + len("null"); end <= len(d.in) && d.in[d.at:end] == "null" {
			d.at = end
			return nil
		}
		return errNotRecord
	}
	var f float64
	return d.float(&f)
}
