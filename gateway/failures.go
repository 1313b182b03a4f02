package gateway

import (
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"svc/gateway/failures"
	"svc/gateway/refusal"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// maxRefusedBody is how much of a refused answer the log shows, in bytes.
const maxRefusedBody = 200

// failureOf describes a failure of an upstream during this request.
func (ex *exchange) failureOf(t *transport.Upstream, cause upstream.Cause) *failures.Failure {
	return &failures.Failure{
		Upstream: t.Name, URL: t.Transport.Address(), Code: cause.Code, Cause: cause.Text, RequestID: ex.rec.RequestID,
	}
}

// refuseResponse reports an answer of the upstream that is not passed on, and
// returns the refusal that takes its place. read is what was read of its body,
// nil when nothing was.
func (ex *exchange) refuseResponse(refused *refusal.Refusal, resp *upstream.Response, read []byte, cause upstream.Cause) *refusal.Refusal {
	fail := ex.failureOf(ex.up, cause)
	fail.Status = resp.Status
	if ex.g.failures.First(fail) {
		if read == nil {
			read = beginningOf(resp)
		}
		fail.Body = upstream.Printable(read, maxRefusedBody)
		ex.g.failures.Write(fail)
	}
	return refused
}

// refuseContent refuses an answer for its status or its Content-Type.
func (ex *exchange) refuseContent(refused *refusal.Refusal, resp *upstream.Response, read []byte) *refusal.Refusal {
	media := resp.MediaType()
	cause := upstream.Cause{Code: "status_" + strconv.Itoa(resp.Status), Text: "answered status " + strconv.Itoa(resp.Status)}
	if resp.Status < 300 {
		cause.Code = "content_type"
		if media == "" || resp.ContentLength == 0 {
			cause.Text += " without a message"
		}
	}
	if media != "" {
		cause.Text += ", " + upstream.Printable(media, 100)
	}
	return ex.refuseResponse(refused, resp, read, cause)
}

// refusedBodyWait bounds the wait for the beginning of a refused answer.
const refusedBodyWait = 250 * time.Millisecond

// beginningOf reads the beginning of an answer that is not passed on, for the
// log. The body cannot be read any further afterwards.
func beginningOf(resp *upstream.Response) []byte {
	stop := time.AfterFunc(refusedBodyWait, func() { resp.Body.Close() })
	defer stop.Stop()
	b := make([]byte, maxRefusedBody+utf8.UTFMax)
	n, _ := io.ReadFull(resp.Body, b) // what came until then is worth showing
	return b[:n]
}

// invalidMessage says why JSON is not the message that an answer must be.
func invalidMessage(err error) upstream.Cause {
	text := "answered JSON that is no JSON-RPC response"
	if err != nil {
		text += ": " + upstream.Printable(err.Error(), maxRefusedBody)
	}
	return upstream.Cause{Code: "invalid_message", Text: text}
}
