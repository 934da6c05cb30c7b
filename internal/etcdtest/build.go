package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const module = "go.etcd.io/etcd/server/v3"

var build = sync.OnceValues(func() (string, error) {
	version, err := command("list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "edl-test")
	binary := filepath.Join(dir, fmt.Sprintf("etcd-%s-%s", version, runtime.Version()))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Several test binaries may build at the same time: each builds a file of its own, and the last one wins.
	own, err := os.MkdirTemp(dir, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	if _, err := command("build", "-o", filepath.Join(own, "etcd"), module); err != nil {
		return "", err
	}
	return binary, os.Rename(filepath.Join(own, "etcd"), binary)
})

func command(arguments ...string) (string, error) {
	out, err := exec.Command("go", arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// binary returns the server's executable.
func binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
