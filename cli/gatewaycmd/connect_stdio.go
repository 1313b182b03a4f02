package gatewaycmd

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"svc/cli/bridge"
	"svc/cli/command"
	"svc/cli/process"
)

// runStdio serves one client on standard input and output.
func (o *connectOptions) runStdio(ctx context.Context, env process.Env) error {
	path := expandHome(env, o.keyFile)
	key, err := o.readKey(env, path)
	if err != nil {
		return err
	}
	if key == "" {
		fmt.Fprintf(env.Stderr, "svc connect: no key: give --key-file, or set %s\n", o.keyEnv)
	}
	signals, stop := env.Signals()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return bridge.Run(ctx, bridge.Options{
		URL:     o.url,
		Key:     func() (string, error) { return o.readKey(env, path) },
		In:      env.Stdin,
		Out:     env.Stdout,
		Log:     env.Stderr,
		Version: env.Build.Info().Version,
	})
}

// readKey reads the key from a file that only its owner may read, or without a file
// from the variable; empty when neither exists.
func (o *connectOptions) readKey(env process.Env, path string) (string, error) {
	if path == "" {
		return checkKey(env.Getenv(o.keyEnv), o.keyEnv)
	}
	mode, ok := env.Mode(path)
	switch {
	case !ok && o.keyFile == "":
		return checkKey(env.Getenv(o.keyEnv), o.keyEnv) // only the default path, where the file may not exist
	case !ok:
		return "", command.Usagef("put the key of this client there (mode 0600); 'svc keygen' makes keys", "the key file %s cannot be read", path)
	case mode&0o077 != 0 && runtime.GOOS != "windows":
		return "", command.Usagef("chmod 600 "+path, "others may read the key file %s: its mode is %04o", path, mode)
	}
	data, err := env.ReadFile(path)
	if err != nil {
		return "", command.Usage(err, "see the permissions of the file")
	}
	return checkKey(strings.TrimSpace(string(data)), path)
}

// checkKey rejects a key that cannot be in a header field. The error does not contain
// the key.
func checkKey(key, from string) (string, error) {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\'' || r == '"' || r == '\\' }) {
		return "", command.Usagef("it holds the key alone, on one line, without quotes", "%s holds no key", from)
	}
	if strings.HasPrefix(key, "svc_api_") || strings.HasPrefix(key, "svc_ingest_") {
		return "", command.Usagef("a gateway takes keys of 'svc keygen' (svc_gw_…)", "%s has a key of the control plane", from)
	}
	return key, nil
}
