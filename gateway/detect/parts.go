package detect

// maxJoint bounds what stands between two strings to either side of the plus sign.
const maxJoint = 40

// stringJoint returns how many bytes around the plus sign at i join two strings: the
// quotation marks and spaces before and behind it. 0 is none.
func stringJoint(t []byte, i int) int {
	from, to := i-1, i+1
	for from > 0 && (t[from] == ' ' || t[from] == '\n') && i-from < maxJoint {
		from--
	}
	for to < len(t)-1 && (t[to] == ' ' || t[to] == '\n') && to-i < maxJoint {
		to++
	}
	if from < 0 || to >= len(t) || t[from] != t[to] || t[from] != '"' && t[from] != '\'' {
		return 0
	}
	return to - from + 1
}

// unjoin puts strings together that a program puts together: "ig" + "nore".
func unjoin(t []byte) []byte {
	out, joint := make([]byte, 0, len(t)), 0 // where the last joint ended
	for i := 0; i < len(t); {
		if t[i] == '+' && i > joint {
			from := i - 1
			for from > joint && t[from] != '"' && t[from] != '\'' && i-from < maxJoint {
				from--
			}
			if n := stringJoint(t, i); n > 0 && from >= joint {
				out = out[:len(out)-(i-from)]
				i = from + n
				joint = i
				continue
			}
		}
		out = append(out, t[i])
		i++
	}
	return out
}
