package rest

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

	"svc/cli/command"
	"svc/cli/output"
	"svc/cli/process"
	"svc/server/client"
)

// DefaultURL is where 'svc serve' and 'svc dev' listen.
const DefaultURL = "http://127.0.0.1:8080"

// Connection is the control plane that a command talks to, and the key.
type Connection struct {
	Env     process.Env
	URL     string
	key     string
	keyFile string
	Timeout time.Duration
}

// AddFlags adds the flags to a group, for all of its commands.
func (r *Connection) AddFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&r.URL, "url", "", "control plane, or SVC_URL (default "+DefaultURL+")")
	f.StringVar(&r.keyFile, "api-key-file", "", `file with the API key, "-" for standard input, or SVC_API_KEY_FILE`)
	f.StringVar(&r.key, "api-key", "", "API key; SVC_API_KEY keeps it out of the process list")
	f.DurationVar(&r.Timeout, "timeout", client.DefaultTimeout, "how long one request may take")
}

// Client builds the client: flags before the environment.
func (r *Connection) Client() (*client.Client, error) {
	base := cmp.Or(r.URL, r.Env.Getenv("SVC_URL"), DefaultURL)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, command.Usagef("write it like "+DefaultURL, "--url or SVC_URL: %q is not the URL of a control plane", base)
	}
	key, err := r.apiKey()
	if err != nil {
		return nil, err
	}
	return client.New(base, key, client.WithTimeout(r.Timeout), client.WithUserAgent("svc/"+r.Env.Build.Info().Version)), nil
}

func (r *Connection) apiKey() (string, error) {
	if r.key != "" {
		return r.key, nil
	}
	path := r.keyFile
	if path == "" {
		if key := r.Env.Getenv("SVC_API_KEY"); key != "" {
			return key, nil
		}
		path = r.Env.Getenv("SVC_API_KEY_FILE")
	}
	if path == "" {
		return "", command.Usagef("set SVC_API_KEY, or give --api-key-file FILE", "no API key")
	}
	data, err := r.Env.ReadFile(path)
	if err != nil {
		return "", command.Usage(fmt.Errorf("read the API key: %w", err), "")
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", command.Usagef("", "%s holds no API key", path)
	}
	return key, nil
}

// Explain turns an error of the client into one with details and advice.
func (r *Connection) Explain(err error) error {
	if err == nil {
		return nil
	}
	var answer *client.Error
	if errors.As(err, &answer) {
		return r.explainAnswer(answer)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return command.Failed(errors.New("the control plane did not answer in time"), "raise --timeout, or look at its log")
	}
	base := cmp.Or(r.URL, r.Env.Getenv("SVC_URL"), DefaultURL)
	var dns *net.DNSError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return command.Failed(fmt.Errorf("nothing answers at %s", base), "start 'svc serve', or name another control plane with --url or SVC_URL")
	case errors.As(err, &dns):
		return command.Failed(fmt.Errorf("the host of %s is not known", base), "check --url or SVC_URL")
	case errors.As(err, &unknownCA):
		return command.Failed(fmt.Errorf("the certificate of %s is not signed by an authority that this machine trusts", base), "set SSL_CERT_FILE to its CA")
	}
	return err
}

func (r *Connection) explainAnswer(answer *client.Error) error {
	message := answer.Message
	if answer.Status >= 500 && answer.RequestID != "" {
		message += " (request " + answer.RequestID + ")"
	}
	err := command.WithDetails(errors.New(message), answer.Details)
	switch answer.Status {
	case http.StatusUnauthorized:
		return command.Failed(err, "check the API key: SVC_API_KEY, --api-key-file or --api-key")
	case http.StatusForbidden:
		return command.Failed(err, "use a key that may do this; 'api' keys without a team may do everything")
	case http.StatusTooManyRequests:
		if answer.RetryAfter > 0 {
			return command.Failed(err, fmt.Sprintf("try again in %s", answer.RetryAfter))
		}
	}
	return err
}

// Note writes a line about what was done to standard error; id is made harmless.
func (r *Connection) Note(format, id string) {
	fmt.Fprintf(r.Env.Stderr, format+"\n", output.Clean(id))
}
