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
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("answered %d%s", res.StatusCode, hostname.Redirects(res.StatusCode, res.Header.Get("Location")))
	}
	return nil
}

func (s *httpSink) close() { s.client.CloseIdleConnections() }
