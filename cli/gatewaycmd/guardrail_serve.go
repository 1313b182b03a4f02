package gatewaycmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"svc/cli/command"
	"svc/cli/daemon"
	"svc/cli/process"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/guardrail"
)

// guardrailServe are the flags of 'svc guardrail serve'.
type guardrailServe struct {
	backend, form, model, label, tokenFile, listen string
	from, threshold                                float64
	timeout                                        time.Duration
	places                                         int
	log                                            command.LogOptions
}

func newGuardrailServeCmd(env process.Env) *cobra.Command {
	o := &guardrailServe{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a guardrail that asks a classifier",
		Long: `Serve the webhook of a guardrail: it sends texts of messages to a classifier of
injections that you run, and rejects the messages that the classifier finds.

Only texts whose own score (docs/detectors.md) is at least --from are sent, in
pieces of 4 KiB. With --form classification the backend gets {"inputs": TEXT} and
returns labels with scores, as text-classification servers of Hugging Face do;
with --form chat it is the URL for chat completions of an OpenAI-compatible
server, and the model says yes or no. A message that could not be judged gets
502, so that fail_open of the guardrail decides. Redirects are not followed.`,
		Example: `  svc guardrail serve --backend http://127.0.0.1:8080/predict
  svc guardrail serve --backend http://127.0.0.1:8000/v1/chat/completions --form chat --model your-model`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), env) },
	}
	f := cmd.Flags()
	f.StringVar(&o.backend, "backend", "", "URL of the classifier (required)")
	f.StringVar(&o.form, "form", string(guardrail.Classification), "how the backend is asked: classification or chat")
	f.StringVar(&o.model, "model", "", "model for --form chat")
	f.StringVar(&o.label, "label", "", "label of an injection for --form classification; by default those of published classifiers")
	f.StringVar(&o.tokenFile, "token-file", "", "file with a token that the backend gets as Authorization: Bearer")
	f.StringVar(&o.listen, "listen", "127.0.0.1:9090", "address to listen on")
	f.Float64Var(&o.from, "from", 0.05, "own score from which a text is sent; 0 sends all")
	f.Float64Var(&o.threshold, "threshold", 0.5, "score of the classifier from which a message is rejected")
	f.DurationVar(&o.timeout, "timeout", 4*time.Second, "time for one message")
	f.IntVar(&o.places, "concurrency", 8, "messages that are judged at one time; the backend gets one text of each")
	o.log.AddFlags(cmd)
	_ = cmd.MarkFlagRequired("backend")
	return cmd
}

// classifier returns the classifier of the flags.
func (o *guardrailServe) classifier(env process.Env) (*guardrail.Classifier, error) {
	backend, err := url.Parse(o.backend)
	switch form := guardrail.Form(o.form); {
	case err != nil || backend.Host == "" || backend.Scheme != "http" && backend.Scheme != "https":
		return nil, command.Usagef("for example http://127.0.0.1:8080/predict", "--backend is not an http or https URL")
	case form != guardrail.Classification && form != guardrail.Chat:
		return nil, command.Usagef("use classification or chat", "--form: unknown form %q", o.form)
	case form == guardrail.Chat && o.model == "":
		return nil, command.Usagef("name the model with --model", "--form chat has no model")
	case !(o.from >= 0 && o.from <= 1) || !(o.threshold > 0 && o.threshold <= 1):
		return nil, command.Usagef("--from is from 0 to 1, --threshold above 0 and up to 1", "--from %v, --threshold %v", o.from, o.threshold)
	case o.timeout <= 0 || o.places < 1 || o.places > 1024:
		return nil, command.Usagef("--timeout is above 0, --concurrency from 1 to 1024", "--timeout %s, --concurrency %d", o.timeout, o.places)
	}
	c := &guardrail.Classifier{
		Backend: backend, Form: guardrail.Form(o.form), Model: o.model, Label: o.label, From: o.from, Threshold: o.threshold, Timeout: o.timeout,
		Own: func(text []byte) float64 {
			score, _ := detect.ScoreInjection(text)
			return score
		},
		Places: make(chan struct{}, o.places), Client: guardrail.NewClient(o.places),
	}
	if o.tokenFile != "" {
		token, err := env.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		c.Token = strings.TrimSpace(string(token))
	}
	return c, nil
}

// failureEvery is the least time between two log lines about messages that could not be judged.
const failureEvery = 10 * time.Second

func (o *guardrailServe) run(ctx context.Context, env process.Env) error {
	log, err := o.log.Logger(env)
	if err != nil {
		return err
	}
	c, err := o.classifier(env)
	if err != nil {
		return err
	}
	var last, failed atomic.Int64
	c.Failed = func(err error) {
		n := failed.Add(1)
		now := env.Now().UnixNano()
		if before := last.Load(); now-before >= int64(failureEvery) && last.CompareAndSwap(before, now) {
			failed.Add(-n)
			log.Warn("messages could not be judged: fail_open of the guardrail decides about them", "error", err, "messages", n)
		}
	}
	signals, stop := env.Signals()
	defer stop()
	d := daemon.New(daemon.Options{
		Logger: log, Signals: signals, NotifySocket: env.Getenv("NOTIFY_SOCKET"), Watchdog: env.Watchdog(),
		Reload:  func(context.Context) error { return nil },
		Drain:   func() {},
		Windows: func() (time.Duration, time.Duration) { return 0, o.timeout },
	})
	if _, err := d.Listen("guardrail", o.listen, c, nil); err != nil {
		return errors.Join(command.Failed(err, "the address is --listen"), d.Close())
	}
	return d.Run(ctx)
}
