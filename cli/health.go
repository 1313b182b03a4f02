package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/process"
	"svc/gateway/base/hostname"
)

// defaultHealthURLs are checked when no URL is given: the addresses at which the
// control plane and the gateway listen in the container image.
var defaultHealthURLs = []string{"http://127.0.0.1:8080", "http://127.0.0.1:8090"}

type healthOptions struct {
	env     process.Env
	ready   bool
	timeout time.Duration
}

func newHealthCmd(env process.Env) *cobra.Command {
	o := healthOptions{env: env}
	cmd := &cobra.Command{
		Use: "health [URL]", SuggestFor: []string{"ping", "ready"},
		Short: "Check whether a running server is healthy",
		Long: `Send a GET to /healthz, or with --ready to /readyz, of a running control plane or
gateway. The exit code is 0 when the response is 200, and 1 otherwise. It is meant
for the health checks of containers whose image has no other program.

The URL is the argument or SVC_HEALTH_URL. Without either, the default addresses of
'svc serve' and 'svc gateway' on this machine are checked, and the result is 0 if one
of them is healthy. A URL with a path is used unchanged. The certificate of a
loopback address is not verified.`,
		Example: `  svc health
  svc health --ready https://svc.example.com`,
		Args: command.AtMostOne("a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var given string
			if len(args) > 0 {
				given = args[0]
			}
			return o.run(cmd.Context(), cmp.Or(given, env.Getenv("SVC_HEALTH_URL")))
		},
	}
	cmd.Flags().BoolVar(&o.ready, "ready", false, "check /readyz (ready for traffic) instead of /healthz (running)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 3*time.Second, "how long to wait for the response")
	return cmd
}

func (o *healthOptions) run(ctx context.Context, given string) error {
	if o.timeout <= 0 {
		return command.Usagef("", "--timeout is %s: it must be positive", o.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	asked := defaultHealthURLs
	if given != "" {
		asked = []string{given}
	}
	var failures []error
	for _, text := range asked {
		u, err := o.endpoint(text)
		if err != nil {
			return command.Usage(err, "as in http://127.0.0.1:8080")
		}
		err = askHealth(ctx, u)
		if err == nil {
			_, err = fmt.Fprintln(o.env.Stdout, u, "is healthy")
			return err
		}
		failures = append(failures, fmt.Errorf("%s is not healthy: %w", u, err))
	}
	return errors.Join(failures...)
}

// endpoint adds the path of the check to a URL without a path.
func (o *healthOptions) endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", text)
	}
	if u.User != nil {
		return nil, errors.New("the URL has a user or a password; health checks need none")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/healthz"
		if o.ready {
			u.Path = "/readyz"
		}
	}
	return u, nil
}

// askHealth sends the request; the error is the reason when the response is not
// 200.
func askHealth(ctx context.Context, u *url.URL) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		// The certificate of a server on loopback is for another name, and the
		// request contains no secrets.
		InsecureSkipVerify: hostname.IsLoopback(u.Hostname()),
	}}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if errors.Is(err, http.ErrSchemeMismatch) {
			return errors.New("it answers without TLS: write http:// in the URL")
		}
		return hostname.WithoutURL(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s%s", resp.Status, hostname.Redirects(resp.StatusCode, resp.Header.Get("Location")))
	}
	return nil
}
