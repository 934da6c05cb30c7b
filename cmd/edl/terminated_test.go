package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/rpc"
)

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
	select {
	case line := <-out.line:
		return line
	case <-time.After(patience):
		t.Fatalf("%v prints nothing", cmd.Args)
		return ""
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
