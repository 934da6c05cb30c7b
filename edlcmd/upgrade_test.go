package edlcmd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An upgrade to a build with other ops mixes no builds: roles of a job that runs start again from the build that it has begun with, and the next job is of the next build, while the keeper is of the
// first one. A job that was suspended goes on with the next build. It does not matter whether this takes the place of the file or has one of its own. Roles refuse jobs with other ops, so each job tells of which build its roles are.
func TestUpgradeMixesNoBuilds(t *testing.T) {
	next := filepath.Join(t.TempDir(), "edl")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", next, "./cmd/edl")
	build.Dir = filepath.Join("..", "examples", "custom_op")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, inPlace := range map[string]bool{"in the place of the file": true, "in a file of its own": false} {
		t.Run(name, func(t *testing.T) { upgradeWhileJobRuns(t, next, inPlace) })
	}
}

func upgradeWhileJobRuns(t *testing.T, next string, inPlace bool) {
	c := &struckCluster{t: t, edl: edlFile(t), dir: t.TempDir(), client: &bytes.Buffer{}}
	c.env = append(os.Environ(), "EDL_AUTHORITY="+filepath.Join(t.TempDir(), "authority.pem"), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir())
	growingJob(t, c.dir)
	c.add("taker")
	p := c.parts[0]
	c.start(p)()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), c.edl, append(args, "--trainers", "2", "--pservers", "2")...)
		cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, c.client
		return cmd
	}
	addFile(t, c.dir, 0)
	run, steps := command("run", "program.pb", "--data", "train=grows/train-*", "--follow", "train", "--save", "model", "--every", "1", "--name", "first", "--remote="+p.address), newToldSteps()
	run.Stdout = steps
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	steps.await(t, stepsOfFile-1, c)
	edl := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), c.edl, args...)
		cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, c.client
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("edl %v: %v: %s %s", args, err, out, c)
		}
	}
	edl("submit", "program.pb", "--data", "train=grows/train-*", "--follow", "train", "--save", "held", "--name", "held", "--trainers", "2", "--pservers", "2", "--listener", p.address)
	c.roleOf("held", "trainer-0")
	edl("jobs", "suspend", "held", "--listener", p.address)

	if inPlace {
		c.upgrade(next)
	} else {
		c.edl = next
	}
	c.signal(syscall.SIGTERM, p.cmd.Process.Pid)
	_ = p.cmd.Wait()
	c.start(p)()
	trainer := c.roleOf("first", "trainer-0")
	c.signal(syscall.SIGKILL, trainer)
	addFile(t, c.dir, 1)
	steps.await(t, 2*stepsOfFile-1, c)
	if again := c.roleOf("first", "trainer-0"); again == trainer {
		t.Errorf("trainer 0 is still process %d", again)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.roleOf("first", "trainer-0"))); err != nil || string(name) != "edl\n" {
		t.Errorf("the name of a role is %q, %v", name, err)
	}
	second := command("run", "program.pb", "--data", "train=all/train-*", "--save", "reference", "--name", "second", "--remote="+p.address)
	if err := second.Run(); err != nil {
		t.Fatalf("the job of the next build: %v: %s", err, c)
	}
	var said bytes.Buffer
	scale := exec.CommandContext(t.Context(), c.edl, "scale", "first", "--pservers", "3", "--listener", p.address)
	scale.Dir, scale.Env, scale.Stderr = c.dir, c.env, &said
	if err := scale.Run(); err == nil || !strings.Contains(said.String(), "another number of pservers of a job that the build") {
		t.Errorf("edl scale: %v: %s", err, &said)
	}
	edl("jobs", "resume", "held", "--listener", p.address)
	built, err := os.Stat(next)
	if err != nil {
		t.Fatal(err)
	}
	for job, isNext := range map[string]bool{"first": false, "held": true} {
		runs, err := os.Stat(fmt.Sprintf("/proc/%d/exe", c.roleOf(job, "trainer-0")))
		if err != nil || (runs.Size() == built.Size()) != isNext {
			t.Errorf("trainer 0 of the job %s is of the next build: %v, %v; want %v", job, !isNext, err, isNext)
		}
	}
	addFile(t, c.dir, 2)
	if err := os.WriteFile(filepath.Join(c.dir, "grows", "_END"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, run); code != 0 {
		t.Fatalf("the run has ended with %d: %s", code, c)
	}
	steps.check(t)
	edl("attach", "held", "--listener", p.address)
	for _, model := range []string{"model", "held"} {
		sameFiles(t, filepath.Join(c.dir, model), filepath.Join(c.dir, "reference"))
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, p.cmd); code != 130 {
		t.Errorf("the listener has ended with %d: %s", code, p.said)
	}
}

// roleOf waits for the process of a role of a job.
func (c *struckCluster) roleOf(job, role string) (found int) {
	c.t.Helper()
	c.until(role+" of the job "+job, func() bool {
		for _, pid := range c.processes() {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && bytes.HasSuffix(b, []byte("\x00"+job+"\x00"+role+"\x00")) {
				found = pid
				return true
			}
		}
		return false
	})
	return found
}
