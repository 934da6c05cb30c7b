package rounds

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/edl-go/edl/fault"
)

// Usage is what a process and all its descendants have used since they started.
type Usage struct {
	CPU       time.Duration // user and system
	Switches  int64         // context switches, voluntary and not, of the threads that are there
	Processes int
	Resident  int64 // bytes; memory that processes share counts for each
	Peak      int64 // bytes: the sum of the peaks of all processes
}

// clockTick is the unit of times in /proc on Linux.
const clockTick = 10 * time.Millisecond

// UsageOf reads the usage of a process and its descendants from procfs, which is "/proc" on Linux. Processes that end meanwhile are left out.
func UsageOf(procfs string, pid int) (Usage, error) {
	folders, err := filepath.Glob(filepath.Join(procfs, "[0-9]*"))
	if err != nil {
		return Usage{}, err
	}
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, folder := range folders {
		stat, err := os.ReadFile(filepath.Join(folder, "stat"))
		if err != nil {
			continue // it has ended
		}
		s, err := parseStat(stat)
		if err != nil {
			return Usage{}, err
		}
		parents[s.pid], times[s.pid] = s.parent, s.cpu
	}
	if _, found := times[pid]; !found {
		return Usage{}, fault.E(fault.NotFound, fault.At(procfs), fault.Gotf("no process %d", pid), fault.Want("the proc file system of Linux"))
	}
	var u Usage
	for p := range parents {
		if !descends(parents, p, pid) {
			continue
		}
		u.Processes++
		u.CPU += times[p]
		status, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(p), "status"))
		if err == nil {
			u.Resident += 1024 * statusField(status, "VmRSS:")
			u.Peak += 1024 * statusField(status, "VmHWM:")
		}
		threads, err := filepath.Glob(filepath.Join(procfs, strconv.Itoa(p), "task", "[0-9]*", "status"))
		if err != nil {
			return Usage{}, err
		}
		for _, thread := range threads {
			if status, err := os.ReadFile(thread); err == nil {
				u.Switches += statusField(status, "\nvoluntary_ctxt_switches:") + statusField(status, "\nnonvoluntary_ctxt_switches:")
			}
		}
	}
	return u, nil
}

// descends reports whether p is the process root or one of its descendants.
func descends(parents map[int]int, p, root int) bool {
	for range len(parents) + 1 { // pids that are used again could form a ring
		if p == root {
			return true
		}
		parent, found := parents[p]
		if !found {
			return false
		}
		p = parent
	}
	return false
}

// A stat is what is used of /proc/PID/stat.
type stat struct {
	pid, parent int
	cpu         time.Duration
}

// parseStat reads /proc/PID/stat. The second field is the name of the program in parentheses, which may hold anything.
func parseStat(line []byte) (s stat, err error) {
	open, closed := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || closed < open {
		return s, fmt.Errorf("no name in the process status %.80q", line)
	}
	if _, err := fmt.Sscan(string(line[:open]), &s.pid); err != nil {
		return s, fmt.Errorf("no pid in the process status %.80q: %w", line, err)
	}
	fields := bytes.Fields(line[closed+1:])
	const parent, user, system = 1, 11, 12 // after the name
	if len(fields) <= system {
		return s, fmt.Errorf("%d fields in the process status %.80q", len(fields), line)
	}
	var ticks [2]int64
	for i, text := range [][]byte{fields[user], fields[system]} {
		if ticks[i], err = strconv.ParseInt(string(text), 10, 64); err != nil {
			return s, fmt.Errorf("no time in the process status %.80q: %w", line, err)
		}
	}
	s.cpu = time.Duration(ticks[0]+ticks[1]) * clockTick
	s.parent, err = strconv.Atoi(string(fields[parent]))
	return s, err
}

// statusField returns a number in /proc/PID/status; 0 if it is not there, as for a process that has ended.
func statusField(status []byte, name string) int64 {
	_, rest, found := bytes.Cut(status, []byte(name))
	if !found {
		return 0
	}
	var n int64
	if _, err := fmt.Sscan(string(bytes.TrimSpace(rest[:min(len(rest), 40)])), &n); err != nil {
		return 0
	}
	return n
}
