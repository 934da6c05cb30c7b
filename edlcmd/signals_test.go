package edlcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/rpc"
	"google.golang.org/protobuf/encoding/protojson"
)

// edlFile returns a file that is edl when it is started, as are the processes that it starts. They keep their state in a folder of the test.
func edlFile(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
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

// A run with --save that gets a signal ends after its step, and the next one goes on there.
func TestSignalsSaveTheState(t *testing.T) {
	edl, args, model := edlFile(t), endless(t), filepath.Join(t.TempDir(), "model")
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), edl, append(args, "--save", model)...)
	cmd.Stderr = &said
	if line := firstLine(t, cmd); !strings.HasPrefix(line, "pass 0  step 0") {
		t.Fatalf("first line %q, %s", line, &said)
	}
	var diagnostics strings.Builder
	for _, second := range [][]string{{"--save", model}, {"--export", model, "--export-fetch", "fc_0.tmp_1"}} { // while the first one trains
		if code := run(t.Context(), append(args, second...), strings.NewReader(""), io.Discard, &diagnostics); code != 2 || !strings.Contains(diagnostics.String(), model+": invalid argument: got a directory that another") {
			t.Errorf("a second run has ended with %d: %s", code, &diagnostics)
		}
		diagnostics.Reset()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd); code != 143 || !strings.Contains(said.String(), " steps is in "+model) || !strings.HasSuffix(said.String(), "\nedl: terminated\n") {
		t.Errorf("ended with %d: %s", code, &said)
	}
	progress, _, err := executor.ReadProgress(model)
	if err != nil || progress.Steps == 0 || !strings.Contains(said.String(), fmt.Sprintf("after %d steps", progress.Steps)) {
		t.Errorf("the state is that after %d steps, %v: %s", progress.Steps, err, &said)
	}
	next := exec.CommandContext(t.Context(), edl, append(args, "--params", model)...)
	next.Stderr = &bytes.Buffer{}
	if line, want := firstLine(t, next), fmt.Sprintf("step %d ", progress.Steps); !strings.Contains(line, want) {
		t.Errorf("goes on with %q, want %q", line, want)
	}
	_ = next.Process.Signal(syscall.SIGTERM)
	exitCode(t, next)
}

// A listener that is terminated ends its jobs in order, and leaves no process behind.
func TestTerminatedListenerEndsItsRoles(t *testing.T) {
	edl := edlFile(t)
	args := endless(t)
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir())
	command := func(said *bytes.Buffer, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), edl, args...)
		cmd.Env, cmd.Stderr = env, said
		return cmd
	}
	var listenerSaid, runSaid bytes.Buffer
	listener := command(&listenerSaid, "listen", "--addr", "127.0.0.1:0", "--quiet")
	address, _ := strings.CutPrefix(firstLine(t, listener), "listening on ")
	run := command(&runSaid, append(args, "--remote="+address)...)
	if line := firstLine(t, run); !strings.HasPrefix(line, "pass 0  step 0") {
		t.Fatalf("first line %q, %s", line, &runSaid)
	}
	pids := processes(t, command(&bytes.Buffer{}, "jobs", "show", "--output", "json"))
	if len(pids) != 5 {
		t.Errorf("processes %v, want those of 5 roles", pids)
	}
	if err := listener.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, said := exitCode(t, listener), listenerSaid.String(); code != 143 || said != "edl: terminated\n" {
		t.Errorf("the listener has ended with %d: %s", code, said)
	}
	if code, said := exitCode(t, run), runSaid.String(); code != 130 || !strings.Contains(said, "stopped with its listener") {
		t.Errorf("the run has ended with %d: %s", code, said)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// firstLine starts a command and returns the first line that it prints; the rest is thrown away. The process ends with the test.
func firstLine(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	return startForLine(t, cmd)()
}

// startForLine starts a process, and returns what waits for the first line that it prints.
func startForLine(t *testing.T, cmd *exec.Cmd) func() string {
	t.Helper()
	out := &firstLineOf{line: make(chan string, 1)}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return func() string {
		t.Helper()
		select {
		case line := <-out.line:
			return line
		case <-time.After(patience):
			t.Fatalf("%v prints nothing", cmd.Args)
			return ""
		}
	}
}

// firstLineOf takes what a process prints.
type firstLineOf struct {
	text []byte
	line chan string // gets the first line
	told bool
}

func (w *firstLineOf) Write(b []byte) (int, error) {
	if !w.told {
		w.text = append(w.text, b...)
		if line, _, ok := bytes.Cut(w.text, []byte("\n")); ok {
			w.told = true
			w.line <- string(line)
		}
	}
	return len(b), nil
}

// exitCode waits for the end of a process.
func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	err := cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// processes returns those of the roles of a job, which cmd shows.
func processes(t *testing.T, cmd *exec.Cmd) (pids []int) {
	t.Helper()
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	var shown struct{ Job json.RawMessage }
	if err := json.Unmarshal(b, &shown); err != nil {
		t.Fatal(err)
	}
	d := &rpc.JobDetails{}
	if err := protojson.Unmarshal(shown.Job, d); err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Status.Roles {
		pids = append(pids, int(r.Pid))
	}
	return pids
}
