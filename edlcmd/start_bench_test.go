package edlcmd

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkColdStart is the time from the start of a process of edl to the line that reports the first step of recognize_digits, on disk-cached
// files. The command is built as users build it, and the example writes program and data.
func BenchmarkColdStart(b *testing.B) {
	dir := b.TempDir()
	edl, example, digits := filepath.Join(dir, "edl"), filepath.Join(dir, "example"), filepath.Join(dir, "digits")
	execute(b, "go", "build", "-o", edl, "../cmd/edl")
	execute(b, "go", "build", "-o", example, "../examples/recognize_digits")
	execute(b, example, "-out", digits)
	for b.Loop() {
		cmd := exec.Command(edl, "run", filepath.Join(digits, "program.pb"), "--data", "train="+filepath.Join(digits, "train-*"), "--every", "1",
			"--output", "json")
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		b.StopTimer()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, so it fails
		if err != nil {
			b.Fatalf("no step was reported, but %q: %v", line, err)
		}
		b.StartTimer()
	}
}

func execute(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
}
