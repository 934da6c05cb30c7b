package launch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

// patience bounds waits that end at once unless something is broken.
const patience = time.Minute

func start(t *testing.T, l launch.Launcher) (launch.Handle, transcript) {
	t.Helper()
	log := newTranscript()
	spec := trainer(1)
	spec.Program = make([]byte, 1<<20) // more than a pipe holds
	h, err := l.Start(t.Context(), spec, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Stop(0) })
	return h, log
}

func TestProcessSucceeds(t *testing.T) {
	h, log := start(t, launched("work"))
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	lines := log.rest()
	slices.Sort(lines)
	if want := []string{"[digits trainer-1] is TRAINER 1 and has 1048576 bytes\n", "no end of line\n"}; !slices.Equal(lines, want) {
		t.Fatalf("log %q, want %q", lines, want)
	}
	if h.Pid() == 0 || h.Pid() == os.Getpid() || h.Node() != "" {
		t.Fatalf("pid %d on node %q", h.Pid(), h.Node())
	}
}

func TestProcessFails(t *testing.T) {
	for _, c := range []struct {
		behaviour string
		kind      fault.Kind
		says      []string
	}{
		{"fail", fault.VerifyFailed, []string{"trainer 1 of job digits", "exit status 3", "out of data"}},
		{"blind", fault.VerifyFailed, []string{"exit status 3", "did not read"}},
		{"fenced", fault.Fenced, []string{"trainer 1 of job digits", "exit status 138"}},
	} {
		t.Run(c.behaviour, func(t *testing.T) {
			h, _ := start(t, launched(c.behaviour))
			expectFault(t, h.Wait(), c.kind, c.says...)
			expectFault(t, h.Wait(), c.kind, c.says...)
		})
	}
}

// A crash of a role is not a mistake of the user: the role may be started again, and the error says how the crash began, not how it ended.
func TestProcessCrashes(t *testing.T) {
	for _, c := range []struct {
		name, behaviour string
		signal          syscall.Signal
		begins          string
	}{
		{"panic", "panic", 0, "panic: assignment to entry in nil map"},
		{"memory", "out of memory", 0, "fatal error: "},
		{"SIGSEGV", "kill itself", syscall.SIGSEGV, "SIGSEGV: segmentation violation"},
		{"SIGABRT", "kill itself", syscall.SIGABRT, "SIGABRT: abort"},
		{"SIGQUIT", "kill itself", syscall.SIGQUIT, "SIGQUIT: quit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := launched(c.behaviour)
			l.Env = append(l.Env, fmt.Sprintf("%s=%d", signalEnv, c.signal))
			h, err := l.Start(t.Context(), trainer(1), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = h.Wait()
			expectFault(t, err, fault.LostMember, "trainer 1 of job digits", "a crash: exit status 2", c.begins)
			if fault.KindOf(err).Permanent() || strings.Contains(err.Error(), "last line") {
				t.Errorf("%v is no error after which a role starts again, or names the end of a stack", err)
			}
		})
	}
}

// A launcher divides the cores of its host among the trainers of a job, unless the user has said how many threads a process has.
func TestProcessGetsItsThreads(t *testing.T) {
	shared := trainer(0)
	shared.Spec = &job.JobSpec{Trainers: int32(runtime.GOMAXPROCS(0)), Pservers: 1}
	run := func() string {
		log := newTranscript()
		h, err := launched("threads").Start(t.Context(), shared, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(log.rest(), "")
	}
	t.Setenv("GOMAXPROCS", "7")
	if said := run(); said != "7\n" {
		t.Errorf("a process of a user who wants 7 threads has %q", said)
	}
	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		t.Fatal(err)
	}
	if said := run(); said != "1\n" {
		t.Errorf("one of as many trainers as there are cores has %q threads, want 1", said)
	}
}

// A role gets what it needs of the environment of its listener: neither other secrets that are there, nor what says who its user is, nor what lets it write its memory when it crashes.
func TestProcessGetsAMinimalEnvironment(t *testing.T) {
	wants := map[string]bool{"AWS_ACCESS_KEY_ID": true, "AZURE_STORAGE_ACCOUNT": true, "GOOGLE_APPLICATION_CREDENTIALS": true, "EDL_ETCD_PASSWORD": true, "HTTPS_PROXY": true, "TMPDIR": true, "GODEBUG": true,
		"EDL_AUTHORITY": false, "EDL_CREDENTIALS": false, "EDL_TOKEN_FILE": false, "OTEL_EXPORTER_OTLP_HEADERS": false, "GITHUB_TOKEN": false, "SSH_AUTH_SOCK": false, "GOTRACEBACK": false, "LD_PRELOAD": false, "MY_AWS_KEY": false}
	t.Setenv("TMPDIR", t.TempDir())
	for name := range wants {
		if os.Getenv(name) == "" {
			t.Setenv(name, "of "+name)
		}
	}
	t.Setenv("GODEBUG", "madvdontneed=1")
	t.Setenv("LD_PRELOAD", "")
	t.Setenv("GOTRACEBACK", "all")
	log := newTranscript()
	h, err := launched("environment").Start(t.Context(), trainer(0), log)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, line := range log.rest() {
		name, _, _ := strings.Cut(line, "=")
		has[name] = true
	}
	for name, want := range wants {
		if has[name] != want {
			t.Errorf("a role has %s: %v, want %v", name, has[name], want)
		}
	}
}

func TestProcessDoesNotStart(t *testing.T) {
	_, err := launch.Processes{Binary: t.TempDir() + "/none"}.Start(t.Context(), trainer(0), nil)
	expectFault(t, err, fault.InvalidArgument, "trainer 0 of job digits")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = launched("work").Start(ctx, trainer(0), nil)
	expectFault(t, err, fault.Canceled)
}

// A parent that is killed with SIGKILL leaves no process behind, not even one that ignores SIGTERM.
func TestNoChildOutlivesItsParent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), behaviourEnv+"=parent", reportEnv+"="+l.Addr().String())
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Process.Kill() }()

	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	pid, err := r.ReadString('\n')
	if err != nil || strings.TrimSpace(pid) == fmt.Sprint(parent.Process.Pid) {
		t.Fatalf("grandchild %q: %v", pid, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	// Only the end of the grandchild closes its connection.
	if rest, err := r.ReadString('\n'); rest != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the grandchild %s lives on: %q, %v", pid, rest, err)
	}
}

func expectFault(t *testing.T, err error, kind fault.Kind, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

// The failure that a child reports becomes the error of its handle, with all fields. It is no part of the log.
func TestProcessTellsItsFailure(t *testing.T) {
	h, log := start(t, launched("explain"))
	err := h.Wait()
	expectFault(t, err, fault.NotFinite, "trainer 1 of job digits", "net.go:7", `"loss"`)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Op != "log" || f.Variable != "loss" || f.Line != "net.go:7" {
		t.Errorf("%+v", f)
	}
	if lines := log.rest(); !slices.Equal(lines, []string{"before\n"}) {
		t.Errorf("log %q", lines)
	}
	h, _ = start(t, launched("explain at length"))
	expectFault(t, h.Wait(), fault.Corrupt, "trainer 1 of job digits", "too much to say")
}

func TestProcessIsKilledByAnother(t *testing.T) {
	h, log := start(t, launched("wait"))
	log.until(t, "ready")
	p, err := os.FindProcess(h.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed", `"ready"`)
}

func TestStopInOrder(t *testing.T) {
	h, log := start(t, launched("orderly"))
	log.until(t, "ready")
	h.Stop(patience)
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	log.until(t, "drained")
	h.Stop(patience) // once more does nothing
}

func TestStopByForce(t *testing.T) {
	h, log := start(t, launched("deaf"))
	log.until(t, "ready")
	h.Stop(time.Millisecond)
	expectFault(t, h.Wait(), fault.Canceled, "signal: killed")
}

// The end of the context that a role was started with ends the role, in order.
func TestContextStopsRoles(t *testing.T) {
	var all nodes
	all.add(t, "a", launch.Goroutines(untilStopped))
	for name, l := range map[string]launch.Launcher{"process": launched("orderly"), "node": &launch.Nodes{Directory: &all}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			log := newTranscript()
			h, err := l.Start(ctx, trainer(1), log)
			if err != nil {
				t.Fatal(err)
			}
			log.until(t, "ready")
			cancel()
			if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			log.until(t, "drained")
		})
	}
}

// A role that was killed counts as lost. The caller of Kill knows that it was intended.
func TestKill(t *testing.T) {
	h, log := start(t, launched("deaf"))
	log.until(t, "ready")
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed")
	h.Kill() // once more does nothing
}

// A child reports its waits on a pipe that its own children do not inherit. The last report stays known after its end.
func TestProcessReportsItsWaits(t *testing.T) {
	var all nodes
	all.add(t, "a", launched("report"))
	for name, l := range map[string]launch.Launcher{"here": launched("report"), "on a node": &launch.Nodes{Directory: &all}} {
		h, log := start(t, l)
		list, changed := h.Waits()
		for len(list) == 0 {
			<-changed
			list, changed = h.Waits()
		}
		if len(list) != 1 || list[0].What != "round 7" || list[0].By[0] != "pserver 1" || list[0].LastError != "false" {
			t.Errorf("%s: %v", name, list)
		}
		log.until(t, "ready")
		h.Kill()
		if list, _ := h.Waits(); len(list) != 1 {
			t.Errorf("%s: after the end %v", name, list)
		}
		if lines := log.rest(); len(lines) > 0 {
			t.Errorf("%s: the log has %q", name, lines)
		}
	}
}

// A child that writes something else to the pipe for reports runs on, and nothing of it is believed.
func TestProcessReportsNonsense(t *testing.T) {
	h, log := start(t, launched("babble"))
	if first := <-log; strings.Contains(first, "ready") { // the two come in any order
		log.until(t, "reports of a role: ")
	} else {
		log.until(t, "ready")
	}
	if list, _ := h.Waits(); len(list) > 0 {
		t.Errorf("it waits for %v", list)
	}
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed")
}
