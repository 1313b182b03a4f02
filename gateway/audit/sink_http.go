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
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return hostname.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	for name, value := range s.cfg.Headers {
		req.Header.Set(name, value)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return hostname.WithoutURL(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	switch code := res.StatusCode; code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		// About the lines, so that sending them again is of no use. Other answers are about the receiver or
		// its credentials, which somebody will mend.
		return &rejectedError{uint64(len(lines)), fmt.Sprintf("answered %d", code), true}
	default:
		if code/100 != 2 {
			return fmt.Errorf("answered %d%s", code, hostname.Redirects(code, res.Header.Get("Location")))
		}
	}
	return nil
}

func (s *httpSink) close() { s.client.CloseIdleConnections() }
