package config

// nearest returns the known name with the smallest edit distance, if at most a third of
// its letters differ.
func nearest(written string, known []string) (string, bool) {
	if len(written) > 64 {
		return "", false
	}
	best, name := len(written), ""
	for _, k := range known {
		if d := distance(fold(written), fold(k)); d < best && d <= max(1, max(len(k), len(written))/3) {
			best, name = d, k
		}
	}
	return name, name != ""
}

// fold normalizes common variants: case, and - for _.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '-' || c == ' ':
			b[i] = '_'
		}
	}
	return string(b)
}

// distance counts the insertions, deletions, replacements and swaps of neighbors that
// turn a into b.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
