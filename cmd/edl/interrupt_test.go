package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

// edlFile returns a file that is edl when it is started, as are the processes that it starts.
func edlFile(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "edl")
	if os.Link(self, path) == nil {
		return path
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o777)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// endless writes a program and data, and returns the arguments of a run that does not end by itself.
func endless(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	m := layers.NewModel()
	table := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(table, 2))
	optimizer.SGD(0.01).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1), batch[1])))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Save(filepath.Join(dir, "program.pb")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "table.csv"), []byte("1,0,1\n0,1,2\n1,1,3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var diagnostics strings.Builder
	args := []string{"data", "csv", filepath.Join(dir, "table.csv"), "-o", dir, "--no-header", "--label-type", "float32"}
	if code := run(t.Context(), args, strings.NewReader(""), io.Discard, &diagnostics); code != 0 {
		t.Fatal(diagnostics.String())
	}
	return []string{"run", filepath.Join(dir, "program.pb"), "--data", "train=" + filepath.Join(dir, "train-*"), "--passes", "1000000", "--every", "1"}
}

// A run that gets a signal ends with the code of the signal, and with it every process and directory of its cluster.
func TestSignalsEndRuns(t *testing.T) {
	edl := edlFile(t)
	args := endless(t)
	for name, test := range map[string]struct {
		flags  []string
		signal os.Signal
		code   int
		said   string
	}{
		"local interrupted":   {nil, os.Interrupt, 130, "edl: interrupted\n"},
		"local terminated":    {nil, syscall.SIGTERM, 143, "edl: terminated\n"},
		"cluster interrupted": {[]string{"--remote"}, os.Interrupt, 130, "edl: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scratch := t.TempDir()
			var said strings.Builder
			cmd := exec.Command(edl, append(args, test.flags...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+scratch, "XDG_RUNTIME_DIR="+t.TempDir())
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "pass 0  step 0") {
				t.Errorf("first line is %q, %v", line, err)
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, lines)
			var ended *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != test.code {
				t.Errorf("ended with %v, want code %d", err, test.code)
			}
			if got := jobLine.ReplaceAllString(said.String(), ""); got != test.said {
				t.Errorf("said %q, want %q", got, test.said)
			}
			left, err := os.ReadDir(scratch)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
