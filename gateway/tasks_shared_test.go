//go:build unix

package gateway

import (
	"testing"

	"svc/gateway/ratelimit/redistest"
)

// Where the rate-limit store is Redis a task that one replica saw made is
// followed by every other, and by one that was restarted; while the store is down
// the one that saw it still follows it.
func TestReplicasFollowEachOthersTasks(t *testing.T) {
	server := redistest.Start(t)
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	text := rules(twoUpstreams(first.URL, second.URL), taskRules) + inRedis(server.URL(), "operation_timeout: 5s, fail_open: true")
	one := newRig(t, text)
	other := newRig(t, text) // its keys are others, its principals the same
	one.makeTask("t1")
	follows := func(name string, r *rig) {
		t.Helper()
		before := second.asked("tasks/get", "t1")
		if r.askTask("tasks/get", "t1"); second.asked("tasks/get", "t1") != before+1 {
			t.Errorf("%s did not follow the task", name)
		}
	}
	follows("the replica that saw it", one)
	follows("another replica", other)
	follows("a restarted replica", restart(t, other))
	server.Kill()
	follows("the replica that saw it, while the store is down,", one)
}
