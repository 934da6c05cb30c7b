package freememory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheSmallerOfMachineAndGroupsCounts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := write("meminfo", "MemTotal: 9 kB\nMemAvailable:  4 kB\n")
	groups := write("groups", "1:name=x:/a\n0::/outer/inner\n")
	if got := of(meminfo, groups, filepath.Join(dir, "none")); got != 4096 {
		t.Errorf("without limits %d", got)
	}
	write("tree/outer/inner/memory.max", "max\n")
	write("tree/outer/inner/memory.current", "10\n")
	write("tree/outer/memory.max", "1000\n")
	write("tree/outer/memory.current", "900\n")
	if got := of(meminfo, groups, filepath.Join(dir, "tree")); got != 100 {
		t.Errorf("the outer group leaves %d", got)
	}
	write("tree/outer/inner/memory.max", "5\n")
	if got := of(meminfo, groups, filepath.Join(dir, "tree")); got != 1 {
		t.Errorf("a group beyond its limit leaves %d", got)
	}
	if got := of(filepath.Join(dir, "absent"), filepath.Join(dir, "absent"), dir); got != 0 {
		t.Errorf("a system that says nothing has %d", got)
	}
}
