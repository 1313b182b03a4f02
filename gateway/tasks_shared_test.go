//go:build unix

package gateway

import (
	"testing"

	"svc/gateway/ratelimit/redistest"
)

// With Redis as the rate-limit store a task that was created through one replica is routed by
// every other, and by a restarted one; while the store is down only the first replica routes it.
func TestReplicasFollowEachOthersTasks(t *testing.T) {
	server := redistest.Start(t)
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	text := rules(twoUpstreams(first.URL, second.URL), taskRules) + inRedis(server.URL(), "operation_timeout: 5s, fail_open: true")
	one := newRig(t, text)
	other := newRig(t, text) // has other API keys, with the same principals
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
