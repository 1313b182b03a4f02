package targets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc/gateway/upstream/stdio"
)

// The folder of a program for another account is changed by descriptor: what that account puts in
// its place, a link or a folder of somebody else, gets neither its mode nor its owner.
func TestTheFolderOfAnAccountIsNotReplaced(t *testing.T) {
	if !stdio.Here().Accounts || os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := tempDir(t)
	victim := filepath.Join(dir, "victim")
	if err := os.Mkdir(victim, 0o755); err != nil {
		t.Fatal(err)
	}
	account := &stdio.Account{UID: 65534, GID: 65534}
	p := &programs{folder: filepath.Join(dir, "children")}
	home, err := p.home("a", account)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home, home + "/tmp"} {
		if info, err := os.Lstat(path); err != nil || !isOwner(info, 65534) || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	// The account opens its folder for others, so that the gateway looks at it again.
	for what, prepare := range map[string]func() error{
		"is not a folder":            func() error { return os.Symlink(victim, home+"/tmp") },
		"belongs to another account": func() error { return errors.Join(os.Mkdir(home+"/tmp", 0o755), os.Chown(home+"/tmp", 65533, 65533)) },
	} {
		if err := errors.Join(os.RemoveAll(home+"/tmp"), prepare(), os.Chmod(home, 0o755)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.home("a", account); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
	if info, err := os.Lstat(victim); err != nil || !isOwner(info, 0) || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder of somebody else: %v, %v", info, err)
	}
}

// What is opened is what was looked at: a folder that a link replaces in between is refused.
func TestAFolderThatALinkReplaces(t *testing.T) {
	dir := tempDir(t)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(os.Mkdir(dir+"/victim", 0o755), os.Symlink("victim", dir+"/home")); err != nil {
		t.Fatal(err)
	}
	if _, err := ownFolder(root, "home", nil); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Error(err)
	}
	if info, err := os.Lstat(dir + "/victim"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}
