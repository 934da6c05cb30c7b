package thisbuild

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// A process names its build by the version and, on systems with ELF, the begin of the build id that "go tool buildid" prints.
func TestName(t *testing.T) {
	if name := Name(); !regexp.MustCompile(`^\S+( \([-_A-Za-z0-9]{8}\))?$`).MatchString(name) {
		t.Errorf("the name of this build is %q", name)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if id := idOf(self); runtime.GOOS == "linux" && (id == "" || !strings.Contains(Name(), id)) {
		t.Errorf("the id of this build is %q, and its name %q", id, Name())
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{other, filepath.Join(t.TempDir(), "nothing")} {
		if id := idOf(path); id != "" {
			t.Errorf("%s has the id %q", path, id)
		}
	}
}
