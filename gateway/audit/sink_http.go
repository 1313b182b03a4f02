package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"svc/gateway/base/hostname"
)

// httpSink posts lines as application/x-ndjson.
type httpSink struct {
	cfg    SinkConfig
	client *http.Client
}

func newHTTPSink(cfg SinkConfig) *httpSink {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1,
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
	return &httpSink{cfg: cfg, client: &http.Client{
		Transport: transport,
		// A redirect is not followed, because the headers with their secrets would be
		// sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (s *httpSink) deliver(ctx context.Context, lines [][]byte) error {
	var body []byte
	for _, line := range lines {
		body = append(append(body, s.cfg.form(line)...), '\n')
	}
	status, _, err := s.post(ctx, "application/x-ndjson", body)
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		// About the lines, so that sending them again is of no use. Other answers are about the receiver or
		// its credentials, which somebody will mend.
		return &rejectedError{uint64(len(lines)), err.Error(), true}
	}
	return err
}

// post sends a body and returns the status, 0 without a response, and the start of the response. Any
// status but 2xx is an error.
func (s *httpSink) post(ctx context.Context, contentType string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return 0, nil, hostname.WithoutURL(err)
	}
	for name, value := range s.cfg.Headers {
		req.Header.Set(name, value)
	}
	if contentType == otlpType || req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, hostname.WithoutURL(err)
	}
	defer res.Body.Close()
	answer, _ = io.ReadAll(io.LimitReader(res.Body, 64<<10)) // the status is what counts
	if res.StatusCode/100 != 2 {
		err = fmt.Errorf("answered %d%s", res.StatusCode, hostname.Redirects(res.StatusCode, res.Header.Get("Location")))
	}
	return res.StatusCode, answer, err
}

func (s *httpSink) close() { s.client.CloseIdleConnections() }
