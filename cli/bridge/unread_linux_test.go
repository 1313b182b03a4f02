package bridge

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client reads a notification separately from the response after it, although the
// endpoint sends both at once and the client is slow. Otherwise the official clients would
// drop the notification.
func TestANotificationIsReadBeforeTheAnswer(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`
	const result = `{"jsonrpc":"2.0","id":7,"result":{}}`
	s := httptest.NewServer(http.HandlerFunc(answer(200, "text/event-stream", "data: "+progress+"\n\ndata: "+progress+"\n\ndata: "+result+"\n\n")))
	defer s.Close()
	for name, pair := range map[string]func() (r, w *os.File, err error){"a pipe": os.Pipe, "a socket": socketPair} {
		t.Run(name, func(t *testing.T) {
			r, w, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			ended := make(chan error, 1)
			go func() {
				ended <- Run(t.Context(), Options{
					URL: s.URL, In: strings.NewReader(ping), Out: w, Log: new(strings.Builder), Key: func() (string, error) { return "", nil },
				})
			}()
			for n := 0; n == 0; n, _ = unread(w) {
				<-time.After(time.Millisecond)
			}
			<-time.After(20 * time.Millisecond) // the client is busy
			first := make([]byte, 1<<10)
			n, err := r.Read(first)
			if got := string(first[:n]); err != nil || strings.Contains(got, `"result"`) || !strings.Contains(got, "progress") {
				t.Errorf("the first read: %q, %v", got, err)
			}
			rest := string(first[:n])
			for !strings.Contains(rest, result+"\n") {
				n, err := r.Read(first)
				if err != nil {
					t.Fatalf("%q, %v", rest, err)
				}
				rest += string(first[:n])
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that does not read delays the bridge only for a bounded time, and there is no
// wait when the bridge cannot find out what was read.
func TestWaitForAClientIsBounded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, known := unread(file); known {
		t.Error("a file has a reader")
	}
	if _, known := unread(new(strings.Builder)); known {
		t.Error("a builder has a reader")
	}
	began := time.Now()
	for _, l := range []*lines{{w: w}, {w: file}, {w: new(strings.Builder)}} {
		l.awaitRead(t.Context())
	}
	if took := time.Since(began); took < readTimeout || took > 20*readTimeout {
		t.Errorf("it took %s", took)
	}
}

func socketPair() (r, w *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w"), nil
}
