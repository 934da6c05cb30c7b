package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

// bounded is a trainer that may take so many thousandths of cores and so much memory.
func bounded(millicores, memory int64) *job.RoleSpec {
	spec := trainer(1)
	spec.Spec = &job.JobSpec{Trainers: 1, Pservers: 1}
	spec.Bounds = &job.Needs{Memory: memory}
	if millicores > 0 {
		spec.Bounds.Millicores = &millicores
	}
	return spec
}

// The runtime of a child process knows what it may take, also where the user has said something else for the listener.
func TestProcessKnowsItsBounds(t *testing.T) {
	run := func(spec *job.RoleSpec) string {
		log := newTranscript()
		h, err := launched("bounds").Start(t.Context(), spec, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(log.rest(), "")
	}
	t.Setenv("GOMAXPROCS", "7")
	t.Setenv("GOMEMLIMIT", "off")
	for _, c := range []struct {
		spec *job.RoleSpec
		want string
	}{
		{bounded(2500, 1<<30), "3 966367620\n"},
		{bounded(9000, 0), "7 off\n"},
		{trainer(1), "7 off\n"},
	} {
		if got := run(c.spec); got != c.want {
			t.Errorf("bounds %v: threads and memory %q, want %q", c.spec.Bounds, got, c.want)
		}
	}
}

// A role that takes more memory than it may is ended, and its error, which no other start mends, has the figures.
func TestProcessTakesTooMuch(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is not known on this system")
	}
	h, err := launched("hog").Start(t.Context(), bounded(0, 200<<20), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = h.Wait()
	expectFault(t, err, fault.TooLarge, "trainer 1 of job digits: ", " MiB of memory, want at most 200.0 MiB, with which it was admitted", "--trainer-mib")
	if !fault.KindOf(err).Permanent() {
		t.Errorf("%v does not end the job", err)
	}
}

// fakeGroup is a folder in place of a control group: what is written there has no effect.
func fakeGroup(t *testing.T, controllers string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(controllers), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A role that is bounded is in a group of its own. If the kernel ends it there for want of memory, its error says so.
func TestProcessIsInItsGroup(t *testing.T) {
	dir := fakeGroup(t, "cpuset cpu io memory pids\n")
	if err := os.Mkdir(filepath.Join(dir, "edl-of-a-dead-keeper"), 0o700); err != nil {
		t.Fatal(err)
	}
	group, err := launch.OpenCgroup(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, log := launched("wait"), newTranscript()
	l.Cgroup = group
	h, err := l.Start(t.Context(), bounded(500, 1<<30), log)
	if err != nil {
		t.Fatal(err)
	}
	log.until(t, "ready")
	groups, _ := filepath.Glob(filepath.Join(dir, "edl-*"))
	if len(groups) != 1 || filepath.Base(groups[0]) != fmt.Sprintf("edl-digits.trainer-1.%d", h.Pid()) {
		t.Fatalf("groups %q of the process %d", groups, h.Pid())
	}
	for file, want := range map[string]string{"../cgroup.subtree_control": "+cpu +memory", "cgroup.procs": fmt.Sprint(h.Pid()), "cpu.max": "50000 100000", "memory.max": "1073741824",
		"memory.oom.group": "1", "memory.swap.max": "0"} {
		if b, err := os.ReadFile(filepath.Join(groups[0], file)); string(b) != want {
			t.Errorf("%s has %q, %v; want %q", file, b, err, want)
		}
	}
	for file, says := range map[string]string{"memory.events": "low 0\nmax 31\noom 1\noom_kill 1\n", "memory.peak": "1073741824\n"} {
		if err := os.WriteFile(filepath.Join(groups[0], file), []byte(says), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.Kill()
	expectFault(t, h.Wait(), fault.TooLarge, "trainer 1 of job digits: ", "got more than 1024.0 MiB of memory, want at most 1024.0 MiB")
}

func TestWhatIsNoControlGroup(t *testing.T) {
	for dir, says := range map[string]string{
		t.TempDir():                 "cgroup.controllers",
		fakeGroup(t, "cpuset cpu"):  "memory",
		fakeGroup(t, "memory pids"): "Delegate=yes",
	} {
		_, err := launch.OpenCgroup(dir)
		expectFault(t, err, fault.InvalidArgument, dir, says)
		expectFault(t, launch.CheckCgroup(dir), fault.InvalidArgument, dir, says)
	}
	whole := fakeGroup(t, "cpu memory")
	expectFault(t, launch.CheckCgroup(whole), fault.InvalidArgument, whole, "cgroup.subtree_control")
	group, err := launch.OpenCgroup(whole)
	if err != nil || group.Dir() != whole {
		t.Fatal(group, err)
	}
	for procs, says := range map[string]string{"": "", "1\n22\n": "2 processes are in it"} {
		if err := os.WriteFile(filepath.Join(whole, "cgroup.procs"), []byte(procs), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := launch.CheckCgroup(whole); says != "" {
			expectFault(t, err, fault.InvalidArgument, whole, says, "DelegateSubgroup")
		} else if err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(whole); err != nil {
		t.Fatal(err)
	}
	l := launched("wait")
	l.Cgroup = group
	_, err = l.Start(t.Context(), bounded(1000, 0), nil)
	expectFault(t, err, fault.NotFound, "edl-digits.trainer-1")
}
