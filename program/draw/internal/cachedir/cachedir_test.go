package cachedir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/edl-go/edl/program/draw"
)

// TestMain is also the program that TestEngineCompilesIntoAPrivateDirectory starts: with package draw linked, it only says what TMPDIR is.
func TestMain(m *testing.M) {
	if os.Getenv("SAY_TMPDIR") != "" {
		os.Stdout.WriteString(os.Getenv("TMPDIR"))
		return
	}
	os.Exit(m.Run())
}

func TestEngineCompilesIntoAPrivateDirectory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, withHome := range map[string]bool{"home": true, "no home": false} {
		t.Run(name, func(t *testing.T) {
			home, shared := t.TempDir(), t.TempDir()
			cmd := exec.Command(self)
			cmd.Env = []string{"SAY_TMPDIR=1", "TMPDIR=" + shared}
			if withHome {
				cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CACHE_HOME="+home)
			}
			said, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if string(said) != shared {
				t.Errorf("TMPDIR is %q afterwards, want %q", said, shared)
			}
			if _, err := os.Stat(filepath.Join(shared, "go-graphviz")); err == nil {
				t.Error("the engine used the shared directory")
			}
			found, err := filepath.Glob(filepath.Join(home, "edl", "go-graphviz"))
			if !withHome {
				found, err = filepath.Glob(filepath.Join(shared, "edl-cache-*", "go-graphviz"))
			}
			if err != nil || len(found) != 1 {
				t.Fatalf("private caches: %v, %v", found, err)
			}
			info, err := os.Stat(filepath.Dir(found[0]))
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("others may look into %s: %v, %v", strings.TrimPrefix(found[0], home), info.Mode(), err)
			}
		})
	}
}
