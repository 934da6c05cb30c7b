package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// A Cgroup is a control group of Linux, version 2, that is delegated to this user and has no process of its own. Each role that is bounded gets a group in it, so that the
// kernel keeps it to its cores and its memory. Source: Documentation/admin-guide/cgroup-v2.rst of Linux.
type Cgroup struct{ dir string }

// groupPrefix begins the names of groups of roles.
const groupPrefix = "edl-"

// cpuPeriod is the time of cpu.max in which a role may use its share, in microseconds.
const cpuPeriod = 100_000

// CheckCgroup tells why OpenCgroup would fail with a folder. It changes nothing.
func CheckCgroup(dir string) error {
	if err := checkControllers(dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.subtree_control"), os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	var procs []byte
	if err == nil {
		procs, err = os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	}
	if n := len(strings.Fields(string(procs))); err == nil && n > 0 {
		err = fmt.Errorf("%d processes are in it", n)
	}
	if err != nil {
		return givesNothing(dir, err)
	}
	return nil
}

// checkControllers checks that a folder is a control group with the controllers that roles need.
func checkControllers(dir string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("no control group of version 2"), fault.Want("a folder below /sys/fs/cgroup with the file cgroup.controllers"), fault.Cause(err))
	}
	for _, controller := range []string{"cpu", "memory"} {
		if !slices.Contains(strings.Fields(string(has)), controller) {
			return fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("controllers: "+strings.TrimSpace(string(has))), fault.Want("cpu and memory among them"),
				fault.Hint("let the group above delegate them: Delegate=yes in a unit of systemd"))
		}
	}
	return nil
}

func givesNothing(dir string, err error) error {
	return fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("a control group that gives its controllers to no other"),
		fault.Want("a group of this user in which no process is"), fault.Cause(err), fault.Hint("with systemd: Delegate=yes and DelegateSubgroup=listener"))
}

// OpenCgroup returns the group of a folder, such as /sys/fs/cgroup/edl.slice/edl.service. Groups of roles that have ended with their keeper are removed.
func OpenCgroup(dir string) (*Cgroup, error) {
	if err := checkControllers(dir); err != nil {
		return nil, err
	}
	if err := set(dir, "cgroup.subtree_control", "+cpu +memory"); err != nil {
		return nil, givesNothing(dir, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, groupPrefix+"*"))
	for _, group := range left {
		_ = os.Remove(group) // refused while a process is in it
	}
	return &Cgroup{dir}, fault.Wrap(fault.InvalidArgument, dir, err)
}

// Dir is the folder of the group.
func (c *Cgroup) Dir() string { return c.dir }

// set writes a file of a group.
func set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}

// A group is that of one role.
type group struct{ dir string }

// add moves the process of a role into a group of its own, with the bounds of the role. It returns nil where there is no group, or no bound.
func (c *Cgroup) add(spec *job.RoleSpec, pid int) (_ *group, err error) {
	bounds := spec.GetBounds()
	if c == nil || bounds == nil {
		return nil, nil
	}
	g := &group{filepath.Join(c.dir, fmt.Sprintf("%s%s.%s.%d", groupPrefix, spec.Job, memberOf(spec).ID(), pid))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fault.File(fault.Unavailable, g.dir, err)
	}
	files := []struct{ name, value string }{{"cgroup.procs", strconv.Itoa(pid)}}
	if n := bounds.GetMillicores(); n > 0 {
		files = append(files, struct{ name, value string }{"cpu.max", fmt.Sprintf("%d %d", n*cpuPeriod/1000, cpuPeriod)})
	}
	if n := bounds.Memory; n > 0 { // all of the group ends, and none of it goes to the swap
		files = append(files, []struct{ name, value string }{{"memory.max", strconv.FormatInt(n, 10)}, {"memory.oom.group", "1"}}...)
		_ = set(g.dir, "memory.swap.max", "0") // missing where the system has no swap
	}
	for _, f := range files {
		if err := set(g.dir, f.name, f.value); err != nil {
			return nil, errors.Join(fault.File(fault.Unavailable, filepath.Join(g.dir, f.name), err), os.Remove(g.dir))
		}
	}
	return g, nil
}

// end removes the group of a role that has ended. It returns how much memory it took at most, if the kernel has ended it because that was too much.
func (g *group) end() (took int64, over bool) {
	if g == nil {
		return 0, false
	}
	events, _ := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	for line := range strings.Lines(string(events)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" && f[1] != "0" {
			over = true
		}
	}
	peak, _ := os.ReadFile(filepath.Join(g.dir, "memory.peak")) // since Linux 5.19
	took, _ = strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64)
	_ = os.Remove(g.dir) // a process that the role has left keeps it, until OpenCgroup
	return took, over
}
