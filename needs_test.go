package edl_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestNeeds says what all other tests need, before they fail for want of it: go test ./... runs this package first.
func TestNeeds(t *testing.T) {
	t.Run("loopback", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("the tests run servers on 127.0.0.1, and no port can be opened there: %v", err)
		}
		l.Close()
	})
	t.Run("processes", func(t *testing.T) {
		if out, err := exec.Command(os.Args[0], "-test.run", "^$").CombinedOutput(); err != nil {
			t.Fatalf("the tests start processes from %s, and that fails (is the file system mounted noexec?): %v\n%s", os.TempDir(), err, out)
		}
	})
	t.Run("go", func(t *testing.T) {
		if _, err := exec.LookPath("go"); err != nil {
			t.Fatalf("the tests build commands and modules, and there is no go command on the path: %v", err)
		}
	})
	t.Run("disk", func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "room"))
		if err == nil {
			_, err = f.Write(make([]byte, 64<<20))
		}
		if err != nil {
			t.Fatalf("the tests write some hundred MB to %s, and 64 MB do not fit (set TMPDIR): %v", os.TempDir(), err)
		}
		f.Close()
	})
	t.Run("data", func(t *testing.T) {
		folder := os.Getenv("EDL_TESTDATA")
		if folder == "" {
			t.Log("EDL_TESTDATA is not set: tests on real datasets and real Fluid models skip")
			return
		}
		if _, err := os.Stat(filepath.Join(folder, "models")); err != nil {
			t.Fatalf("EDL_TESTDATA names a folder without models: %v", err)
		}
	})
	t.Logf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}
