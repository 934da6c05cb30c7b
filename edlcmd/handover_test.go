package edlcmd

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/etcdtest"
)

// Further flags of handovers, beside those of TestListenerIsKilled.
var (
	handoverPause = flag.Duration("handovers.pause", 0, "the longest time for which processes are stopped; 0: none is, as that takes time")
	handoverNext  = flag.String("handovers.next", "", "another build of edl, which takes the place of a listener that is upgraded; default: a copy of the same")
)

// Listeners and listeners of nodes that are killed, terminated, stopped or replaced by another build while a job runs cost the job nothing: each step is told once, and the model has the bits of
// an undisturbed run. A seed chooses what is struck, when and how. Every third seed has one listener, one has a second listener that waits, and one has a listener and two nodes.
func TestHandover(t *testing.T) {
	edl := edlFile(t)
	reference := t.TempDir()
	growingJob(t, reference)
	cmd := exec.CommandContext(t.Context(), edl, "run", "program.pb", "--data", "train=all/train-*", "--save", "model", "--remote", "--trainers", "2", "--pservers", "2")
	cmd.Dir = reference
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range cmp.Or(*handovers, 2) { // a second listener, and nodes
		seed := *handoverSeed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { handOver(t, seed, filepath.Join(reference, "model")) })
	}
}

// A keeper that is killed takes the roles of its jobs along, and nothing is left of them. The listener and the client say so and end, and the next listener goes on with the job from its checkpoint.
func TestKeeperIsKilled(t *testing.T) {
	c := &struckCluster{t: t, edl: edlFile(t), dir: t.TempDir()}
	c.env = append(os.Environ(), "EDL_AUTHORITY="+filepath.Join(t.TempDir(), "authority.pem"), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir())
	growingJob(t, c.dir)
	c.add("taker")
	p := c.parts[0]
	c.start(p)()
	command := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd, said := exec.CommandContext(t.Context(), c.edl, args...), &bytes.Buffer{}
		cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, said
		return cmd, said
	}
	addFile(t, c.dir, 0)
	run, said := command("run", "program.pb", "--data", "train=grows/train-*", "--follow", "train", "--save", "model", "--every", "1", "--name", "kept", "--trainers", "2", "--pservers", "2",
		"--checkpoint-every", "10r", "--remote="+p.address)
	steps := newToldSteps()
	run.Stdout = steps
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	steps.await(t, stepsOfFile-1, said)
	c.until("a checkpoint", func() bool {
		made, err := filepath.Glob(filepath.Join(p.folder, "jobs", "kept", "checkpoints", "*", "manifest"))
		return err == nil && len(made) > 0
	})
	c.signal(syscall.SIGKILL, c.keeperOf(p))
	if code := exitCode(t, p.cmd); code == 0 || !strings.Contains(p.said.String(), "keeper of "+p.folder) {
		t.Errorf("the listener has ended with %d: %s", code, p.said)
	}
	c.start(p)()
	if code := exitCode(t, run); code == 0 || !strings.Contains(said.String(), "jobs resume JOB") {
		t.Errorf("the run has ended with %d: %s", code, said)
	}
	c.until("the end of all roles", func() bool { return len(c.processes()) == 2 }) // the listener, and its keeper
	for file := 1; file < filesOfJob; file++ {
		addFile(t, c.dir, file)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "grows", "_END"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	resume, said := command("jobs", "resume", "kept", "--listener", p.address)
	if err := resume.Run(); err != nil {
		t.Fatalf("edl jobs resume: %v: %s", err, said)
	}
	c.until("the end of the job", func() bool {
		list, _ := command("jobs", "--state", "succeeded", "--listener", p.address)
		out, err := list.Output()
		return err == nil && bytes.Contains(out, []byte("kept"))
	})
	reference, said := command("run", "program.pb", "--data", "train=all/train-*", "--save", "reference", "--remote", "--trainers", "2", "--pservers", "2")
	if err := reference.Run(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	sameFiles(t, filepath.Join(c.dir, "model"), filepath.Join(c.dir, "reference"))
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

// A job that keeps its state for its caller outlives its listener, however that goes: the client waits for the next one, and the model is that of an undisturbed job.
func TestKeptStateOutlivesItsListener(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			c := &struckCluster{t: t, edl: edlFile(t), dir: t.TempDir(), client: &bytes.Buffer{}}
			c.env = append(os.Environ(), "EDL_AUTHORITY="+filepath.Join(t.TempDir(), "authority.pem"), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir())
			growingJob(t, c.dir)
			c.add("taker")
			p := c.parts[0]
			c.start(p)()
			command := func(args ...string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), c.edl, args...)
				cmd.Dir, cmd.Env, cmd.Stderr = c.dir, c.env, c.client
				return cmd
			}
			train := func(data, params, save string, more ...string) *exec.Cmd {
				args := []string{"run", "program.pb", "--data", "train=" + data + "/train-*", "--save", save, "--every", "1"}
				if params != "" {
					args = append(args, "--params", params, "--from-start", "--trainers", "2", "--pservers", "2")
				}
				return command(append(args, more...)...)
			}
			for _, cmd := range []*exec.Cmd{train("all", "", "first"), train("all", "first", "reference", "--remote")} {
				if err := cmd.Run(); err != nil {
					t.Fatalf("%v: %s", err, c)
				}
			}
			addFile(t, c.dir, 0)
			run := train("grows", "first", "model", "--follow", "train", "--name", "kept", "--remote="+p.address)
			steps := newToldSteps()
			run.Stdout = steps
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			steps.await(t, stepsOfFile-1, c)
			c.signal(signal, p.cmd.Process.Pid)
			_ = p.cmd.Wait()
			c.start(p)()
			for file := 1; file < filesOfJob; file++ {
				addFile(t, c.dir, file)
			}
			if err := os.WriteFile(filepath.Join(c.dir, "grows", "_END"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(t, run); code != 0 {
				t.Fatalf("the run has ended with %d: %s", code, c)
			}
			sameFiles(t, filepath.Join(c.dir, "model"), filepath.Join(c.dir, "reference"))
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait()
		})
	}
}

// A struckCluster is the listeners of a job, and what they need.
type struckCluster struct {
	t        *testing.T
	edl      string // path of the binary, which an upgrade replaces
	dir      string
	env      []string          // the last one is TMPDIR, which tells processes of the test from all others
	etcd     *etcdtest.Cluster // nil: the listener has its own
	random   *rand.Rand
	client   *bytes.Buffer // what the client of the job has said
	parts    []*struckPart
	waiting  bool // another listener waits for the end of the first
	returned int  // how often the first listener was another one
	lost     bool // all roles of a node were lost
}

// A struckPart is one listener.
type struckPart struct {
	address, folder string
	args            []string
	cmd             *exec.Cmd
	said            *bytes.Buffer
	earlier         string // what those before it have said
}

func handOver(t *testing.T, seed uint64, want string) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := &struckCluster{t: t, edl: edlFile(t), dir: t.TempDir(), random: random, waiting: seed%3 == 1}
	scratch := t.TempDir()
	c.env = append(os.Environ(), "EDL_AUTHORITY="+filepath.Join(t.TempDir(), "authority.pem"), "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+scratch)
	growingJob(t, c.dir)
	c.begin(seed%3 == 2)
	run := exec.CommandContext(t.Context(), c.edl, "run", "program.pb", "--data", "train=grows/train-*", "--follow", "train", "--save", "model", "--every", "1", "--trainers", "2",
		"--pservers", "2", "--remote="+c.parts[0].address)
	steps, said := newToldSteps(), &bytes.Buffer{}
	c.client = said
	run.Dir, run.Env, run.Stdout, run.Stderr = c.dir, c.env, steps, said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	for file := range filesOfJob {
		addFile(t, c.dir, file)
		steps.await(t, file*stepsOfFile+1+random.IntN(stepsOfFile-1), c)
		if file < filesOfJob-1 {
			c.strike()
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "grows", "_END"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, run); code != 0 {
		t.Fatalf("the run has ended with %d: %s\n%s", code, said, c)
	}
	if n := strings.Count(said.String(), "is there again"); n < c.returned {
		t.Errorf("the run says %d times that its listener is there again, want %d: %s", n, c.returned, said)
	}
	if !c.lost { // else the job may have gone back to a checkpoint
		steps.check(t)
	}
	sameFiles(t, filepath.Join(c.dir, "model"), want)
	if t.Failed() {
		t.Log(c)
	}
	for _, p := range c.parts {
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := exitCode(t, p.cmd); code != 130 {
			t.Errorf("the listener at %s has ended with %d: %s", p.address, code, p.said)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// add names a listener.
func (c *struckCluster) add(name string, args ...string) {
	address, err := freeAddress()
	if err != nil {
		c.t.Fatal(err)
	}
	p := &struckPart{address: address, folder: filepath.Join(c.dir, name)}
	p.args = append([]string{"listen", "--addr", address, "--data-dir", p.folder}, args...)
	c.parts = append(c.parts, p)
	c.t.Cleanup(func() { dismissKeeper(c.t, p.folder) })
}

// begin starts one listener, or with spread one that starts roles on two nodes, and these nodes.
func (c *struckCluster) begin(spread bool) {
	if spread {
		c.etcd = etcdtest.Start(c.t, 1, etcdtest.Options{})
		at := "--etcd=" + strings.Join(c.etcd.Endpoints(), ",")
		c.add("taker", "--spread", at)
		c.add("left", "--node", "left", at)
		c.add("right", "--node", "right", at)
	} else {
		c.add("taker")
	}
	for i := range c.parts { // nodes first, so that roles have somewhere to start
		c.start(c.parts[len(c.parts)-1-i])()
	}
}

// start starts a listener, and returns what waits until it listens.
func (c *struckCluster) start(p *struckPart, more ...string) (ready func()) {
	if p.said != nil {
		p.earlier += p.said.String()
	}
	p.said = &bytes.Buffer{}
	p.cmd = exec.CommandContext(context.WithoutCancel(c.t.Context()), c.edl, append(p.args, more...)...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = c.dir, c.env, p.said
	first := startForLine(c.t, p.cmd)
	return func() {
		c.t.Helper()
		if line := first(); line != "listening on "+p.address {
			c.t.Fatalf("a listener says %q, %s", line, p.said)
		}
	}
}

// strike does something to one listener, or to all processes.
func (c *struckCluster) strike() {
	p := c.parts[c.random.IntN(len(c.parts))]
	ways := []string{"kill", "terminate", "upgrade", "stop", "sleep", "lose"}
	way := ways[c.random.IntN(len(ways))]
	if *handoverPause == 0 && (way == "stop" || way == "sleep") || way == "lose" && (c.etcd == nil || p == c.parts[0]) {
		way = ways[c.random.IntN(3)]
	}
	pause := time.Duration(c.random.Int64N(int64(*handoverPause) + 1))
	c.t.Logf("%s %s", way, strings.Join(p.args, " "))
	switch way {
	case "stop":
		c.signal(syscall.SIGSTOP, p.cmd.Process.Pid)
		time.Sleep(pause) // which passes for the others
		c.signal(syscall.SIGCONT, p.cmd.Process.Pid)
		return
	case "sleep": // of the whole machine
		all := c.processes()
		if c.etcd != nil {
			c.etcd.Pause(0)
		}
		c.signal(syscall.SIGSTOP, all...)
		time.Sleep(pause)
		c.signal(syscall.SIGCONT, all...)
		if c.etcd != nil {
			c.etcd.Resume(0)
		}
		return
	}
	if p == c.parts[0] {
		c.returned++
	}
	gone := p.cmd
	ready := func() {}
	if c.waiting {
		ready = c.start(p, "--wait")
	}
	switch way {
	case "kill":
		c.signal(syscall.SIGKILL, gone.Process.Pid)
	case "lose": // the listener ends with its keeper
		c.lost = true
		c.signal(syscall.SIGKILL, c.keeperOf(p))
	default:
		c.signal(syscall.SIGTERM, gone.Process.Pid)
	}
	_ = gone.Wait()
	if way == "upgrade" {
		next := *handoverNext
		if next == "" {
			next = edlFile(c.t)
		}
		c.upgrade(next)
	}
	if !c.waiting {
		ready = c.start(p)
	}
	ready()
}

// upgrade puts another build in the place of the binary.
func (c *struckCluster) upgrade(next string) {
	from, err := os.Open(next)
	if err != nil {
		c.t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(c.edl+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o777)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err == nil {
		err = to.Close()
	}
	if err == nil {
		err = os.Rename(c.edl+".new", c.edl)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// until waits until something is so.
func (c *struckCluster) until(what string, ok func() bool) {
	c.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for limit := time.After(patience); !ok(); {
		select {
		case <-look.C:
		case <-limit:
			c.t.Fatalf("%v without %s\n%s", patience, what, c)
		}
	}
}

// keeperOf is the process of the keeper of a listener.
func (c *struckCluster) keeperOf(p *struckPart) int {
	c.t.Helper()
	for _, pid := range c.processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(b, []byte("\x00keeper\x00")) && bytes.Contains(b, []byte(p.folder)) {
			return pid
		}
	}
	c.t.Fatalf("the listener at %s has no keeper: %s", p.address, p.said)
	return 0
}

// processes are those of listeners, keepers and roles: all that have the last variable of the environment of the cluster, which roles get, too.
func (c *struckCluster) processes() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(b, []byte(c.env[len(c.env)-1])) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal to processes, of which some may have ended.
func (c *struckCluster) signal(s syscall.Signal, pids ...int) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
			c.t.Fatal(err)
		}
	}
}

// String is what the client and the listeners have said, and what they say of the job now.
func (c *struckCluster) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the client: %s\n", c.client)
	for _, p := range c.parts {
		fmt.Fprintf(&b, "the listener at %s: %s%s\n", p.address, p.earlier, p.said)
	}
	for _, args := range [][]string{{"jobs", "show"}, {"why"}, {"logs"}} {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		cmd := exec.CommandContext(ctx, c.edl, append(args, "--listener", c.parts[0].address)...)
		cmd.Dir, cmd.Env = c.dir, c.env
		out, err := cmd.CombinedOutput()
		cancel()
		fmt.Fprintf(&b, "edl %s: %v\n%s\n", strings.Join(args, " "), err, out)
	}
	return b.String()
}
