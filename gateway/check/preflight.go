package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/base/files"
	"svc/gateway/catalog/pins"
	"svc/gateway/config"
	"svc/gateway/upstream"
	"svc/gateway/upstream/credentials"
	"svc/gateway/upstream/targets"
)

// PreflightOptions are the dependencies and settings of the check.
type PreflightOptions struct {
	// LicenseKey is the public key of the build in PEM, for a license section
	// without a key.
	LicenseKey []byte
	// Now returns the current time.
	Now func() time.Time
	// Local omits the servers: no connection is opened. A missing directory is a
	// warning, because systemd creates the directories of a unit when it starts.
	Local bool
	// Timeout bounds one connection attempt; 0 is 3 s.
	Timeout time.Duration
}

// The codes of findings.
const (
	codeLicense     = "license"
	codeFile        = "file"
	codeCertificate = "certificate"
	codeUnreachable = "unreachable"
	codeProgram     = "program"
)

// Check returns the findings, with the paths of the fields that they concern. It
// takes at most about one connection timeout for every sixteen servers.
func Check(ctx context.Context, f *config.File, o PreflightOptions) []diag.Finding {
	report := diag.New()
	root := report.Root()
	checkLicense(root.Field("license"), f.License, o)
	if f.TLS != nil {
		at := root.Field("tls")
		pair(at, f.TLS.CertFile, f.TLS.KeyFile, o.Now())
		authority(at.Field("client_ca"), f.TLS.ClientCA)
	}
	for i := range f.Upstreams {
		u, at := &f.Upstreams[i], root.Field("upstreams").Index(i).Field("tls")
		authority(at.Field("ca_file"), u.TLS.CAFile)
		pair(at, u.TLS.CertFile, u.TLS.KeyFile, o.Now())
		u.Credentials.TokenClients(root.Field("upstreams").Index(i).Field("credentials"), func(at diag.At, t *upstream.TokenClient) {
			if _, err := credentials.ReadClientKey(t); err != nil {
				at.Field("client_key_file").Hint("it holds a private key in PEM, readable by the user of the gateway alone").Errorf(codeFile, "%v", err)
			}
		})
		if u.IsProcess() {
			program(root.Field("upstreams").Index(i), f, i)
		}
	}
	for i := range f.Guardrails {
		g, at := &f.Guardrails[i], root.Field("guardrails").Index(i).Field("tls")
		if g.TLS.Enabled {
			authority(at.Field("ca_file"), g.TLS.CAFile)
			pair(at, g.TLS.CertFile, g.TLS.KeyFile, o.Now())
		}
	}
	authority(root.Field("rate_limit_store").Field("tls").Field("ca_file"), f.RateLimitStore.TLS.CAFile)
	auditFile(root.Field("audit").Field("path"), f.Audit.Path, o)
	stateDirectory(root.Field("state_dir"), f, o)
	pinned(root, f)
	private(root.Field("audit").Field("checkpoint_key_file"), f.Audit.CheckpointKeyFile)
	if f.Sessions.KeyFile != "" {
		if _, err := os.Stat(f.Sessions.KeyFile); errors.Is(err, fs.ErrNotExist) {
			checkDirectory(root.Field("sessions").Field("key_file"), filepath.Dir(f.Sessions.KeyFile), o)
		} else {
			private(root.Field("sessions").Field("key_file"), f.Sessions.KeyFile)
		}
	}
	for i, path := range f.Sessions.PreviousKeyFiles {
		private(root.Field("sessions").Field("previous_key_files").Index(i), path)
	}
	if !o.Local {
		checkServers(ctx, root, f, o)
	}
	return report.Findings()
}

func checkLicense(at diag.At, cfg auth.LicenseConfig, o PreflightOptions) {
	c, err := auth.Open(cfg, o.LicenseKey, o.Now)
	if err != nil {
		field, hint, text := "path", "", err.Error()
		var e *auth.Error
		if errors.As(err, &e) {
			hint = e.Advice()
			text = e.Kind.Error()
			if e.Detail != "" {
				text += ": " + e.Detail
			}
			if errors.Is(err, auth.ErrKey) || errors.Is(err, auth.ErrNoKey) || e.Path != "" && e.Path == cfg.PublicKeyFile {
				field = "public_key_file"
			}
		}
		at.Field(field).Hint("%s", hint).Errorf(codeLicense, "%s", text)
		return
	}
	now := o.Now()
	s := c.Status(now)
	ends := s.License.GraceEnds()
	left := fmt.Sprintf("the license works for %d more days, until %s (with %d days of grace)",
		int(ends.Sub(now).Hours()/24), ends.UTC().Format(time.DateOnly), s.License.GraceDays)
	switch s.State {
	case auth.Expired:
		at.Field("path").Hint("put a new one in place and send SIGHUP").
			Warnf(codeLicense, "the license expired and its grace is over: /readyz would answer 503")
	case auth.Grace:
		at.Field("path").Hint("put a new one in place and send SIGHUP").
			Warnf(codeLicense, "the license expired; its grace ends on %s", ends.UTC().Format(time.DateOnly))
	case auth.Valid:
		if s.EndsSoon(now) {
			at.Field("path").Hint("put a new one in place and send SIGHUP").Warnf(codeLicense, "%s", left)
		} else {
			at.Field("path").Infof(codeLicense, "%s", left)
		}
	}
}

// maxFile bounds the bytes read from a file.
const maxFile = 4 << 20

// read reads a file and reports problems with it.
func read(at diag.At, path string) ([]byte, bool) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file")
		}
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxFile))
	}
	if err != nil {
		at.Hint("put the file there, or correct the path").Errorf(codeFile, "cannot be read: %v", cause(err))
		return nil, false
	}
	return data, true
}

// cause removes the operation and the path from an error.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// pair checks a certificate with its key; nothing is reported if neither is
// configured.
func pair(at diag.At, certFile, keyFile string, now time.Time) {
	if certFile == "" || keyFile == "" {
		return
	}
	cert, ok := read(at.Field("cert_file"), certFile)
	key, ok2 := read(at.Field("key_file"), keyFile)
	if !ok || !ok2 {
		return
	}
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		at.Field("cert_file").Hint("both are PEM, and belong to each other").Errorf(codeCertificate, "cannot be used with key_file: %v", err)
		return
	}
	leaf, err := x509.ParseCertificate(p.Certificate[0])
	switch {
	case err != nil:
	case now.After(leaf.NotAfter):
		at.Field("cert_file").Hint("renew it").Warnf(codeCertificate, "the certificate expired on %s", leaf.NotAfter.UTC().Format(time.DateOnly))
	case now.Before(leaf.NotBefore):
		at.Field("cert_file").Warnf(codeCertificate, "the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.DateOnly))
	}
}

// authority checks a bundle of certificates.
func authority(at diag.At, path string) {
	if path == "" {
		return
	}
	if data, ok := read(at, path); ok && !x509.NewCertPool().AppendCertsFromPEM(data) {
		what := "holds no certificate"
		if b, _ := pem.Decode(data); b == nil {
			what = "is not a PEM file"
		}
		at.Hint("it must hold at least one CERTIFICATE block").Errorf(codeCertificate, "%s", what)
	}
}

// private checks the permissions of a file that others must not read.
func private(at diag.At, path string) {
	if path == "" {
		return
	}
	if _, ok := read(at, path); !ok {
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		at.Hint("chmod 600").Errorf(codeFile, "others may read it: its mode is %04o", info.Mode().Perm())
	}
}

// program checks the program of an upstream on this machine.
func program(at diag.At, f *config.File, i int) {
	field, err, warning := targets.Check(f.Targets(), i)
	switch {
	case err != nil:
		at.Field(field).Errorf(codeProgram, "%v", err)
	case warning != nil:
		at.Field(field).Hint("the gateway may have another PATH and other rights than you").Warnf(codeProgram, "%v", warning)
	}
	for _, in := range targets.HiddenArguments(f.Targets(), i) {
		at.Field("command").Hint("keep the configuration, the audit file and state_dir in folders of their own").
			Warnf(codeProgram, "the program cannot open its files in %s: the gateway keeps private files there and hides the folder", in)
	}
}

// auditFile checks that lines can be appended to the audit file, and that it can be rotated.
func auditFile(at diag.At, path string, o PreflightOptions) {
	checkDirectory(at, filepath.Dir(path), o)
	switch info, err := os.Stat(path); {
	case err != nil: // made at the start
	case info.IsDir():
		at.Hint("name a file").Errorf(codeFile, "it is a directory")
	case info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			at.Hint("give it to the user of the gateway, or run the command as that user").Errorf(codeFile, "the file cannot be written: %v", cause(err))
			return
		}
		f.Close()
	}
}

// pinned checks the file of approved definitions, without which the gateway does not start.
func pinned(root diag.At, f *config.File) {
	settings := f.Pinning()
	err := settings.Check()
	if err == nil {
		return
	}
	at := root.Field("state_dir")
	if _, given := settings.Path(); given {
		at = root.Field("pins")
	}
	var unread *fs.PathError
	switch {
	case errors.Is(err, pins.ErrNoPins):
		at.Errorf(codeFile, "%v", pins.ErrNoPins)
	case errors.As(err, &unread):
		at.Hint("let the user of the gateway read it").Errorf(codeFile, "the file of pins cannot be read: %v", unread.Err)
	default:
		at.Hint("'svc tools list' shows the reason; restore the file, or write it again with 'svc tools approve --all'").Errorf(codeFile, "the file of pins cannot be used")
	}
}

// stateDirectory checks that state can be written. The gateway creates the directory if it is
// missing.
func stateDirectory(at diag.At, f *config.File, o PreflightOptions) {
	dir := f.StateDirectory()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if filepath.Dir(dir) == filepath.Dir(f.Audit.Path) || files.TryWrite(files.ExistingParent(dir)) == nil {
			return
		}
	}
	checkDirectory(at, dir, o)
}

// checkDirectory checks that files can be created in a directory.
func checkDirectory(at diag.At, dir string, o PreflightOptions) {
	info, err := os.Stat(dir)
	missing, closed := "make the directory, or correct the path", "let the user of the gateway write to the directory, or run the command as that user"
	if !filepath.IsAbs(dir) { // as the default of audit.path
		missing = "name an absolute path; this one is relative to the folder that the gateway is started in"
		closed = missing
	}
	switch {
	case o.Local && errors.Is(err, fs.ErrNotExist):
		at.Hint("the packaged unit makes /var/log/svc-gateway and /var/lib/svc-gateway at its start; make any other").
			Warnf(codeFile, "the directory does not exist yet")
	case err != nil:
		at.Hint("%s", missing).Errorf(codeFile, "the directory: %v", cause(err))
	case !info.IsDir():
		at.Errorf(codeFile, "there is a file in place of the directory")
	default:
		if err := files.TryWrite(dir); err != nil {
			at.Hint("%s", closed).
				Errorf(codeFile, "no file can be made in the directory: %v", cause(err))
		}
	}
}
