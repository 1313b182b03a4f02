package stdio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limitNames are the names of the resource limits of the kernel, by number.
var limitNames = [...]string{
	"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime",
}

// Limits are the resource limits of this process at one time. Any process of the same user can
// change them. It is not safe for concurrent use.
type Limits struct {
	at [len(limitNames)]unix.Rlimit
}

// ReadLimits returns the limits that this process has now.
func ReadLimits() *Limits {
	l := new(Limits)
	for i := range l.at {
		if unix.Prlimit(0, i, nil, &l.at[i]) != nil {
			l.at[i] = unix.Rlimit{} // no limit of this kernel: nothing is below it
		}
	}
	return l
}

// Restore raises the limits that were lowered since they were read, and describes each of them.
// A limit that was raised stays: this protects the process, and hinders nobody who gives it more.
func (l *Limits) Restore() (lowered []string) {
	for i := range l.at {
		was := &l.at[i]
		var is unix.Rlimit
		if unix.Prlimit(0, i, nil, &is) != nil || is.Cur >= was.Cur && is.Max >= was.Max {
			continue
		}
		want := unix.Rlimit{Cur: max(is.Cur, was.Cur), Max: max(is.Max, was.Max)}
		text := fmt.Sprintf("%s: %s, was %s", limitNames[i], pair(is), pair(*was))
		if unix.Prlimit(0, i, &want, nil) != nil { // only a process with CAP_SYS_RESOURCE can raise the hard limit
			want = unix.Rlimit{Cur: min(want.Cur, is.Max), Max: is.Max}
			text += "; the hard limit stays until a restart"
			if err := unix.Prlimit(0, i, &want, nil); err != nil {
				text += ", and the soft limit too: " + err.Error()
			}
			*was = want // reported once
		}
		lowered = append(lowered, text)
	}
	return lowered
}

// pair describes the soft and the hard limit.
func pair(r unix.Rlimit) string { return value(r.Cur) + "/" + value(r.Max) }

func value(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
