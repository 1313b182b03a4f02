package cli

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"svc/gateway/upstream/stdio"
)

var update = flag.Bool("update", false, "rewrite the expected output inside the scripts")

// TestMain makes svc a program for the scripts: the test binary runs svc when it is started
// under that name.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; stdio.IsHelper(args) { // starts the programs of upstreams
		syscall.Exit(stdio.Help(args))
	}
	testscript.Main(m, map[string]func(){
		"svc": func() { os.Exit(Main(Process(Build{Version: "0.0.0-test"}), os.Args[1:])) },
	})
}

// TestScripts runs the files of testdata/script. Each has a command line, its input, its
// expected output and its exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[processKey{}] = map[string]*runningSvc{}
			// With the race detector each process would sleep for a second before it exits.
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			// Files that svc keeps for a user, such as contexts, are in the script's own
			// directory.
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": cmdExitCode,
			"free":     cmdFree,
			"start":    cmdStart,
			"stop":     cmdStop,
			"field":    cmdField,
			"mode":     cmdMode,
			"fill":     cmdFill,
			"replace":  cmdReplace,
			"post":     cmdPost,
			"follow":   cmdFollow,
			"await":    cmdAwait,
			"finish":   cmdFinish,
		},
	})
}

// cmdExitCode runs a program and compares its exit code: exitcode 2 svc bogus.
func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if want := args[0]; fmt.Sprint(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// cmdFree sets a variable to a loopback address on which nothing listens.
func cmdFree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: free VARIABLE")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], ln.Addr().String())
	ts.Check(ln.Close())
}

// cmdStart starts svc in the background and waits until a URL responds: start NAME URL ARGS...
// Its output goes to NAME.out and NAME.err; stop NAME ends it, and so does the end of the
// script.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start NAME URL ARGS...")
	}
	name, url := args[0], args[1]
	program, err := exec.LookPath("svc")
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "GORACE", "NO_COLOR", "SVC_BOOTSTRAP_API_KEY", "IDP_WEBHOOK_SECRET", "SVC_RATE_LIMIT"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for suffix, to := range map[string]*io.Writer{".out": &cmd.Stdout, ".err": &cmd.Stderr} {
		f, err := os.Create(ts.MkAbs(name + suffix))
		ts.Check(err)
		ts.Defer(func() { f.Close() })
		*to = f
	}
	ts.Check(cmd.Start())
	p := &runningSvc{cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	ts.Defer(func() { p.end() })
	processes(ts)[name] = p
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			data, _ := os.ReadFile(ts.MkAbs(name + ".err"))
			ts.Fatalf("%s does not answer at %s\n%s", name, url, data)
		}
	}
}

// cmdStop sends SIGINT and expects exit code 0.
func cmdStop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || processes(ts)[args[0]] == nil {
		ts.Fatalf("usage: stop NAME")
	}
	if err := processes(ts)[args[0]].end(); err != nil {
		data, _ := os.ReadFile(ts.MkAbs(args[0] + ".err"))
		ts.Fatalf("%s: %v\n%s", args[0], err, data)
	}
}

// cmdField sets a variable to a member of a JSON file: field VARIABLE FILE
// data.0.id
func cmdField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: field VARIABLE FILE PATH")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &v))
	for name := range strings.SplitSeq(args[2], ".") {
		var i int
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(at) {
				ts.Fatalf("no element %s in %v", name, at)
			}
			v = at[i]
		}
	}
	if v == nil {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// cmdMode compares the permissions of a file: mode 600 FILE.
func cmdMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	fi, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", fi.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// cmdFill replaces $NAME in a file by the variables of the script.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill FILE")
	}
	filled := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(filled), 0o600))
}

// cmdReplace replaces a text in a file: replace FILE OLD NEW.
func cmdReplace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	replaced := strings.ReplaceAll(ts.ReadFile(args[0]), args[1], args[2])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(replaced), 0o600))
}

// cmdPost sends a JSON body, with the key of SVC_API_KEY if it is set, and accepts any
// response: post URL BODY.
func cmdPost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: post URL BODY")
	}
	r, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	if key := ts.Getenv("SVC_API_KEY"); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	ts.Check(err)
	ts.Check(resp.Body.Close())
}

// cmdFollow starts svc in the background, with the variables of the script, and waits until a
// line of its standard error contains a text: follow NAME TEXT ARGS... Its output goes to
// NAME.out.
func cmdFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: follow NAME TEXT ARGS...")
	}
	program, err := exec.LookPath("svc")
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "SVC_URL="+ts.Getenv("SVC_URL"), "SVC_API_KEY="+ts.Getenv("SVC_API_KEY"), "GORACE="+ts.Getenv("GORACE"))
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	ts.Defer(func() { out.Close() })
	cmd.Stdout = out
	errs, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p := &runningSvc{cmd: cmd, done: make(chan error, 1), lines: make(chan string, 1000)}
	go func() {
		for scan := bufio.NewScanner(errs); scan.Scan(); {
			p.lines <- scan.Text()
		}
		close(p.lines)
		p.done <- cmd.Wait()
	}()
	ts.Defer(func() { p.end() })
	processes(ts)[args[0]] = p
	p.await(ts, args[1])
}

// cmdAwait waits until a later line of the standard error of a svc that follow started
// contains a text: await NAME TEXT.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || processes(ts)[args[0]] == nil {
		ts.Fatalf("usage: await NAME TEXT")
	}
	processes(ts)[args[0]].await(ts, args[1])
}

// cmdFinish waits until a svc in the background exits by itself with code 0: finish NAME.
func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || processes(ts)[args[0]] == nil {
		ts.Fatalf("usage: finish NAME")
	}
	p := processes(ts)[args[0]]
	select {
	case err := <-p.done:
		p.ended = true
		ts.Check(err)
	case <-time.After(20 * time.Second):
		ts.Fatalf("%s has not ended", args[0])
	}
}

// await waits for a line of standard error.
func (p *runningSvc) await(ts *testscript.TestScript, text string) {
	late := time.After(20 * time.Second)
	for seen := ""; ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				ts.Fatalf("it ended without %q:\n%s", text, seen)
			}
			if seen += line + "\n"; strings.Contains(line, text) {
				return
			}
		case <-late:
			ts.Fatalf("no %q in 20 s:\n%s", text, seen)
		}
	}
}

// runningSvc is a svc in the background.
type runningSvc struct {
	cmd   *exec.Cmd
	done  chan error
	lines chan string // lines of standard error, when follow started it
	ended bool
	err   error
}

func (p *runningSvc) end() error {
	if p.ended {
		return p.err
	}
	p.ended = true
	p.cmd.Process.Signal(os.Interrupt)
	select {
	case p.err = <-p.done:
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		p.err = fmt.Errorf("did not end within 20 s of SIGINT")
		<-p.done
	}
	return p.err
}

// processKey is the key of a script's processes.
type processKey struct{}

func processes(ts *testscript.TestScript) map[string]*runningSvc {
	return ts.Value(processKey{}).(map[string]*runningSvc)
}
