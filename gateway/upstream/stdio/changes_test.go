package stdio

import (
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
)

// Of thousands of list_changed per second, few reach the clients: the first one at once, and one
// of each method after the last one arrived.
func TestChangesArePassedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		passed := map[string][]time.Duration{}
		var c changes
		c.pass = func(body []byte) { passed[string(body)] = append(passed[string(body)], time.Since(began)) }
		methods := []string{mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged}
		var last time.Duration
		for range 5000 {
			for _, method := range methods {
				last = time.Since(began)
				c.add(&mcp.Message{Method: method, Body: []byte(method)})
			}
			<-time.After(200 * time.Microsecond)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if at := passed[methods[0]][0]; at != 0 {
			t.Errorf("the first one waits %v", at)
		}
		for _, method := range methods {
			at := passed[method]
			if len(at) < 10 || len(at) > 12 {
				t.Errorf("%s was passed %d times in a second", method, len(at))
			}
			if end := at[len(at)-1]; end < last || end > last+changePause {
				t.Errorf("%s arrived last at %v and was passed last at %v", method, last, end)
			}
		}
		c.add(&mcp.Message{Method: methods[0], Body: []byte("later")})
		if len(passed["later"]) != 1 {
			t.Error("after a quiet time a change waits")
		}
		<-time.After(time.Second)
	})
}
