package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svc/server/client"
)

// defaultURL is where 'svc serve' and 'svc dev' listen.
const defaultURL = "http://127.0.0.1:8080"

// remote says which control plane a command asks, and with which key.
type remote struct {
	env     Env
	url     string
	key     string
	keyFile string
	timeout time.Duration
}

// addFlags adds the flags to a group, for all of its commands.
func (r *remote) addFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&r.url, "url", "", "control plane, or SVC_URL (default "+defaultURL+")")
	f.StringVar(&r.keyFile, "api-key-file", "", `file with the API key, "-" for standard input, or SVC_API_KEY_FILE`)
	f.StringVar(&r.key, "api-key", "", "API key; SVC_API_KEY keeps it out of the process list")
	f.DurationVar(&r.timeout, "timeout", client.DefaultTimeout, "how long one request may take")
}

// client builds the client: flags before the environment.
func (r *remote) client() (*client.Client, error) {
	base := cmp.Or(r.url, r.env.getenv("SVC_URL"), defaultURL)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("write it like "+defaultURL, "--url or SVC_URL: %q is not the URL of a control plane", base)
	}
	key, err := r.apiKey()
	if err != nil {
		return nil, err
	}
	return client.New(base, key, client.WithTimeout(r.timeout), client.WithUserAgent("svc/"+r.env.Build.version().Version)), nil
}

func (r *remote) apiKey() (string, error) {
	if r.key != "" {
		return r.key, nil
	}
	path := r.keyFile
	if path == "" {
		if key := r.env.getenv("SVC_API_KEY"); key != "" {
			return key, nil
		}
		path = r.env.getenv("SVC_API_KEY_FILE")
	}
	if path == "" {
		return "", usagef("set SVC_API_KEY, or give --api-key-file FILE", "no API key")
	}
	data, err := r.env.readFile(path)
	if err != nil {
		return "", usage(fmt.Errorf("read the API key: %w", err), "")
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", usagef("", "%s holds no API key", path)
	}
	return key, nil
}

// explain turns an error of the client into one with details and advice.
func (r *remote) explain(err error) error {
	if err == nil {
		return nil
	}
	var answer *client.Error
	if errors.As(err, &answer) {
		return r.explainAnswer(answer)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(errors.New("the control plane did not answer in time"), "raise --timeout, or look at its log")
	}
	base := cmp.Or(r.url, r.env.getenv("SVC_URL"), defaultURL)
	var dns *net.DNSError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failed(fmt.Errorf("nothing answers at %s", base), "start 'svc serve', or name another control plane with --url or SVC_URL")
	case errors.As(err, &dns):
		return failed(fmt.Errorf("the host of %s is not known", base), "check --url or SVC_URL")
	case errors.As(err, &unknownCA):
		return failed(fmt.Errorf("the certificate of %s is not signed by an authority that this machine trusts", base), "set SSL_CERT_FILE to its CA")
	}
	return err
}

func (r *remote) explainAnswer(answer *client.Error) error {
	message := answer.Message
	if answer.Status >= 500 && answer.RequestID != "" {
		message += " (request " + answer.RequestID + ")"
	}
	err := withDetails(errors.New(message), answer.Details)
	switch answer.Status {
	case http.StatusUnauthorized:
		return failed(err, "check the API key: SVC_API_KEY, --api-key-file or --api-key")
	case http.StatusForbidden:
		return failed(err, "use a key that may do this; 'api' keys without a team may do everything")
	case http.StatusTooManyRequests:
		if answer.RetryAfter > 0 {
			return failed(err, fmt.Sprintf("try again in %s", answer.RetryAfter))
		}
	}
	return err
}
