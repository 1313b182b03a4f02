package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roleGateway makes the test binary a process that starts one program and waits, as a gateway
// does.
const roleGateway = "gateway"

func init() {
	roles[roleGateway] = beGateway
	roles[roleCalls] = makeCalls
}

// beGateway starts a program that leaves descendants everywhere, prints the program's output, and
// waits to be killed.
func beGateway() int {
	p, err := Start(shell("/", `
		sleep 1000 &
		setsid sleep 1000 &
		(setsid sh -c 'trap "" TERM HUP; setsid sleep 1000 & sleep 1000' &)
		trap "" TERM
		echo started; cat; sleep 1000`))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
	fmt.Print(line)
	select {}
}

func shell(dir, script string, hidden ...string) Command {
	return Command{Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "MARK=here"}, Dir: dir, Hidden: hidden}
}

// run starts a script and returns its output and its exit.
func run(t *testing.T, c Command) (string, Exit) {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(p.Stderr); len(text) > 0 {
		t.Logf("stderr: %s", text)
	}
	<-p.Gone()
	p.Stdout.Close()
	p.Stderr.Close()
	return string(out), p.Exit()
}

// A program gets its arguments, its environment and three descriptors, and no capabilities.
func TestAProgramHasNothingOfTheGateway(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "hidden")
	secret, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	out, exit := run(t, shell(t.TempDir(), `env | sort; ls /proc/self/fd | tr '\n' ' '; echo; grep -E '^(CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs)' /proc/self/status; exit 3`))
	if exit.Code != 3 || exit.Signal != "" {
		t.Errorf("the exit is %v", exit)
	}
	for _, want := range []string{"MARK=here\n", "0 1 2 3 \n", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "GATEWAY_SECRET") || strings.Contains(out, "GOMAXPROCS") {
		t.Errorf("the environment of the gateway:\n%s", out)
	}
}

// Hidden files cannot be opened, listed, written or replaced; their neighbors can.
func TestHiddenFolders(t *testing.T) {
	if !Here().Landlock {
		t.Skip("the kernel has no Landlock")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/svc/key", "etc/other", "state/x/y", "work/file", "single"} {
		path := filepath.Join(root, name)
		_ = os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte("text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Symlink(filepath.Join(root, "state/x/y"), filepath.Join(root, "work/link"))
	c := shell(filepath.Join(root, "work"), `
		cat ../etc/other; echo; cat file; echo
		cat ../etc/svc/key || echo denied 1
		ls ../state || echo denied 2
		cat link || echo denied 3
		echo x > ../state/x/new || echo denied 4
		cat ../single || echo denied 5
		mv ../state ./stolen || echo denied 6
		mv ../etc/svc ./stolen || echo denied 7
		ln ../single ./copy || echo denied 8
		echo fine > made; cat made; mkdir d; mv made d/; rm -r d; echo ok >/dev/null && cat /proc/self/root`+root+`/single || echo denied 9
	`, filepath.Join(root, "etc/svc"), filepath.Join(root, "state"), filepath.Join(root, "single"))
	out, _ := run(t, c)
	for _, want := range []string{"text of etc/other\n", "text of work/file\n", "fine\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for i := 1; i <= 9; i++ {
		if want := fmt.Sprintf("denied %d\n", i); !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "text of single") || strings.Contains(out, "text of state") || strings.Contains(out, "svc/key") {
		t.Errorf("hidden files were read:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(root, "state/x/new")); err == nil {
		t.Error("a file was written into a hidden folder")
	}
}

// Files that rotation, editors and tools make of a hidden file are hidden at each start by their
// names, also those that appear while the program runs; other neighbors are open.
func TestFilesBesideAHiddenFile(t *testing.T) {
	if !Here().Landlock {
		t.Skip("the kernel has no Landlock")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trail.jsonl", "trail-00000000000000000042.jsonl", ".trail.jsonl.123.tmp", "trail.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text of "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "trail.jsonl.children"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := Start(shell(dir, `
		echo started; read line
		for f in trail.jsonl trail-00000000000000000042.jsonl .trail.jsonl.123.tmp trail-00000000000000000077.jsonl; do
			cat $f; true >$f
		done
		cat trail.py; echo made >trail.jsonl.children/x; cat trail.jsonl.children/x`, filepath.Join(dir, "trail.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout.Close()
	defer p.Stderr.Close()
	out := bufio.NewReader(p.Stdout)
	if line, err := out.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	// The file is rotated, and a new one begins.
	rotated := filepath.Join(dir, "trail-00000000000000000077.jsonl")
	if err := os.Rename(filepath.Join(dir, "trail.jsonl"), rotated); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "trail.jsonl"), []byte("text of the new file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdin.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil || string(rest) != "text of trail.py\nmade\n" {
		t.Errorf("the program read %q, %v", rest, err)
	}
	if text, err := os.ReadFile(rotated); err != nil || string(text) != "text of trail.jsonl\n" {
		t.Errorf("%q, %v", text, err)
	}
	<-p.Gone()
}

// The files that have the content of another one, and those that only begin alike.
func TestBeside(t *testing.T) {
	for file, names := range map[string]string{
		"audit.jsonl": "audit.jsonl audit-00000000000000000001.jsonl audit-00000000000000000001.jsonl.gz audit.jsonl.1 audit.jsonl-20261128 audit-20261128.jsonl " +
			"audit.2026-11-28.jsonl .audit.jsonl.77.tmp .audit.jsonl.swp audit.jsonl~ #audit.jsonl# audit.jsonl.torn audit.jsonl.state",
		"svc.yaml": "svc.yaml.bak svc.yaml.rpmnew .svc.yaml.swp svc-1.yaml",
		"key":      "key key.old key~ .key.1.tmp key-2",
		".env":     ".env .env.local .env~",
	} {
		for name := range strings.FieldsSeq(names) {
			if !Beside(name, file) {
				t.Errorf("%s has the content of %s", name, file)
			}
		}
	}
	for file, names := range map[string]string{
		"audit.jsonl": "audit audit.py audit-tool.jsonl audit2.jsonl auditor.jsonl audit-7.log audit.jsonlx xaudit.jsonl",
		"svc.yaml":    "svc.yml svc.sock svc-gateway.service",
		"key":         "keys key2 monkey keyring",
	} {
		for name := range strings.FieldsSeq(names) {
			if Beside(name, file) {
				t.Errorf("%s has nothing of %s", name, file)
			}
		}
	}
}

// A program writes nothing below /proc and /sys, where files act on other processes; as root it
// could make its gateway the first victim of a lack of memory.
func TestAProgramWritesNothingInProc(t *testing.T) {
	if !Here().Landlock {
		t.Skip("the kernel has no Landlock")
	}
	own := "/proc/" + strconv.Itoa(os.Getpid()) + "/oom_score_adj"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.WriteFile(own, before, 0) }()
	script := `echo 999 >` + own + `; echo 999 >/proc/self/oom_score_adj && echo own; cat /proc/self/comm; head -c 1 /sys/kernel/uevent_seqnum >/dev/null && echo read; echo x >/dev/stdout`
	hidden := []string{t.TempDir()}
	if out, _ := run(t, shell("/", script, hidden...)); out != "cat\nread\nx\n" {
		t.Errorf("the program printed %q", out)
	}
	if after, err := os.ReadFile(own); err != nil || string(after) != string(before) {
		t.Errorf("the score of this process is %q, was %q, %v", after, before, err)
	}
	c := shell("/", `echo 999 >/proc/self/oom_score_adj && echo own`, hidden...)
	c.UserNamespaces = true // its maps of users are in /proc
	if out, _ := run(t, c); out != "own\n" {
		t.Errorf("with user namespaces the program printed %q", out)
	}
}

// A program can neither signal this process or its helper, nor read their memory.
func TestAProgramCannotReachItsHelper(t *testing.T) {
	if !Here().Landlock {
		t.Skip("the kernel has no Landlock")
	}
	if err := Harden(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	out, exit := run(t, shell("/", `
		kill -0 `+pid+` && echo gateway signaled
		kill -9 $PPID && echo helper killed
		for p in `+pid+` $PPID; do
			cat /proc/$p/environ && echo environment of $p
			head -c 1 /proc/$p/mem && echo memory of $p
			cat /proc/$p/fd/3 && echo descriptor of $p
			ls /proc/$p/root/ && echo root of $p
		done
		exit 0`, t.TempDir()))
	if out != "" || exit.Code != 0 {
		t.Errorf("%q, %v", out, exit)
	}
}

// A program that cannot be started is an error with the cause.
func TestAProgramThatCannotStart(t *testing.T) {
	for name, tt := range map[string]struct {
		command Command
		want    string
	}{
		"unknown":        {Command{Args: []string{"no-such-program"}, Env: []string{"PATH=/bin"}, Dir: "/"}, "no-such-program: not found in PATH"},
		"no path":        {Command{Args: []string{"sh"}, Dir: "/"}, "sh: not found in PATH"},
		"missing":        {Command{Args: []string{"/no/such"}, Dir: "/"}, "/no/such: no such file"},
		"no program":     {Command{Args: []string{"/etc/passwd"}, Dir: "/"}, "/etc/passwd: permission denied"},
		"no working dir": {shell("/no/such/dir", ""), "working directory /no/such/dir: no such file"},
	} {
		p, err := Start(tt.command)
		if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if p != nil {
			p.Kill()
		}
	}
}

// End closes the input first, and leaves no descendant.
func TestEndOfAProgram(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		least, most  time.Duration
		want         string
	}{
		{"reads its input", `echo ready; cat; exit 4`, 0, 20 * time.Second, "exit status 4"},
		{"waits for SIGTERM", `echo ready; trap 'exit 5' TERM; sleep 1000 & wait`, 2 * time.Second, 20 * time.Second, "exit status 5"},
		{"ignores SIGTERM", `trap "" TERM; setsid sleep 1000 & echo ready; sleep 1000; sleep 1000`, 5 * time.Second, 20 * time.Second, "ended by SIGKILL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Start(shell("/", tt.script))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stdout.Close()
			defer p.Stderr.Close()
			if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			p.End()
			if took := time.Since(begun); took < tt.least || took > tt.most {
				t.Errorf("it took %v", took)
			}
			if got := p.Exit().String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The descendants that a program leaves end when it has ended.
func TestDescendantsEndWithTheirProgram(t *testing.T) {
	p, err := Start(shell("/", `(setsid sh -c 'trap "" TERM; echo $$; sleep 1000; sleep 1000' &); read line; exit 0`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stderr.Close()
	defer p.Stdout.Close()
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	if !runs(pid) {
		t.Fatalf("no process %d", pid)
	}
	p.Stdin.Close()
	<-p.Gone()
	if runs(pid) {
		t.Errorf("%d still runs", pid)
	}
}

// However the gateway is killed, no process that it started runs on. They end within 2 s on a quiet
// machine; the bound is what a busy one needs.
func TestNothingOutlivesAKilledGateway(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		mark := fmt.Sprintf("%d.%d", os.Getpid(), time.Now().UnixNano())
		cmd := exec.Command("/proc/self/exe", HelperArg, roleGateway)
		cmd.Env = append(os.Environ(), "MARK="+mark)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
			t.Fatalf("%q, %v", line, err)
		}
		all := below(t, cmd.Process.Pid)
		if len(all) < 5 {
			t.Fatalf("only %d descendants", len(all))
		}
		_ = cmd.Process.Kill()
		killed := time.Now()
		_ = cmd.Wait()
		for tick := time.Tick(5 * time.Millisecond); len(all) > 0; {
			if !runs(all[0]) {
				all = all[1:]
				continue
			}
			if time.Since(killed) > 20*time.Second {
				t.Fatalf("%v still run", all)
			}
			<-tick
		}
	}
}

// runs reports whether a process has not ended. A zombie has ended and still exists.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// below returns the descendants of a process.
func below(t *testing.T, root int) (all []int) {
	t.Helper()
	names, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, e := range names {
		if pid := childNumber(e.Name()); pid > 0 {
			children[parentOf(e.Name())] = append(children[parentOf(e.Name())], pid)
		}
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		next = append(next, children[next[0]]...)
		all = append(all, children[next[0]]...)
	}
	return all
}

// A program under another account has only the rights of that account.
func TestAnotherAccount(t *testing.T) {
	if !Here().Accounts {
		t.Skip("needs the right to change accounts")
	}
	const nobody = 65534
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := shell("/", `id -u; id -G; cat `+dir+`/own; trap "" TERM; echo ready; sleep 1000; sleep 1000`, dir)
	c.Account = &Account{UID: nobody, GID: nobody}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout.Close()
	defer p.Stderr.Close()
	out := bufio.NewReader(p.Stdout)
	var text string
	for !strings.HasSuffix(text, "ready\n") {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		text += line
	}
	if text != "65534\n65534\nready\n" {
		t.Errorf("%q", text)
	}
	p.Kill()
	<-p.Gone()
	if p.Exit().Signal != "SIGKILL" {
		t.Error(p.Exit())
	}
}
