package daemon

import (
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// http11Required is the answer to a client that speaks HTTP/2 without TLS and without an upgrade
// (prior knowledge): an empty SETTINGS frame, and GOAWAY with the code HTTP_1_1_REQUIRED (RFC 9113,
// 7), whose debug data clients log.
var http11Required = func() string {
	const why = "HTTP/2 needs TLS here; use HTTP/1.1, or https"
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	return settings + "\x00\x00" + string(rune(8+len(why))) + "\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x0d" + why
}()

// prefaceTime bounds the wait for a client to close its connection after the answer.
const prefaceTime = time.Second

// answerPreface answers the preface of HTTP/2, which net/http gives a handler as the request
// PRI *, in HTTP/2: in HTTP/1.1 the client would only see its connection reset. It logs the cause at
// most once a minute.
func answerPreface(next http.Handler, log *slog.Logger, now func() time.Time) http.Handler {
	var logged atomic.Int64 // Unix seconds
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "PRI" || r.ProtoMajor != 2 {
			next.ServeHTTP(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		defer conn.Close()
		if at, last := now().Unix(), logged.Load(); at-last >= 60 && logged.CompareAndSwap(last, at) {
			log.Warn("a client speaks HTTP/2 without TLS, which is not supported", "remote", r.RemoteAddr, "fix", "let it, or the proxy in front, use HTTP/1.1, or set up TLS")
		}
		_ = conn.SetDeadline(now().Add(prefaceTime)) // it is open
		if _, err := io.WriteString(conn, http11Required); err != nil {
			return
		}
		// What the client has sent is read, because closing a connection with unread data resets it,
		// and the client may lose the answer.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
	})
}
