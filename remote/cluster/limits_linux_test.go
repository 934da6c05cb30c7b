package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the machine refuses to etcd is an error with its reason and a remedy. It neither ends the process nor panics.
func TestEmbedWithinLimits(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string][]string{
		"ulimit -n 150":     {"a limit of 150 open files", "at least 200", "ulimit -n 1024"},
		"ulimit -n 199":     {"a limit of 199 open files"},
		"ulimit -n 200":     {"<nil>"},
		"ulimit -f 2000":    {"DIR", "WAL", "file too large", "ulimit -f"},
		"ulimit -v 3000000": {"DIR", "failed to open database", "cannot allocate memory", "ulimit -v"},
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "etcd")
			c := exec.CommandContext(t.Context(), "sh", "-c", limit+` && exec "$0"`, os.Args[0])
			c.Env = append(os.Environ(), embedEnv+"="+dir)
			out, err := c.CombinedOutput()
			said, ok := strings.CutPrefix(string(out), "ended: ")
			if err != nil || !ok || strings.Count(said, "\n") != 1 {
				t.Fatalf("%v, and it says %s", err, out)
			}
			for _, text := range want {
				if text = strings.ReplaceAll(text, "DIR", dir); !strings.Contains(said, text) {
					t.Errorf("%q, want %q", said, text)
				}
			}
		})
	}
}
