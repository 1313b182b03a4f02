package audit

import "fmt"

// HeadOf returns the last whole line of the trail whose current file is path,
// also while it is written; the zero Head when there is none. A trail without a
// chain has a zero Hash.
func HeadOf(path string) (Head, error) {
	files, err := trail(path)
	if err != nil || len(files) == 0 {
		return Head{}, err
	}
	newest := files[len(files)-1]
	f, err := newest.open()
	if err != nil {
		return Head{}, fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Head{}, err
	}
	end, err := lastLine(f, info.Size())
	if err != nil {
		return Head{}, fmt.Errorf("%s: %w", newest.Path, err)
	}
	return Head{Seq: end.seq, Hash: end.hash}, nil
}
