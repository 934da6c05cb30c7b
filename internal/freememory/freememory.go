// Package freememory says how much memory a process can still take: of its machine, and of the control group that it runs in.
package freememory

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bytes returns how many bytes are free, 0 if the system does not say. On Linux it is what the kernel calls available, or what the memory limit of
// the control group (version 2) leaves, whichever is less.
func Bytes() int64 { return of("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup") }

func of(meminfo, membership, groups string) int64 {
	free := available(meminfo)
	group, ok := groupOf(membership)
	if !ok {
		return free
	}
	for dir := filepath.Join("/", group); ; dir = filepath.Dir(dir) {
		limit, limited := number(filepath.Join(groups, dir, "memory.max"))
		used, known := number(filepath.Join(groups, dir, "memory.current"))
		if left := max(limit-used, 1); limited && known && (free == 0 || left < free) {
			free = left
		}
		if dir == "/" {
			return free
		}
	}
}

// available reads the line MemAvailable, which counts KiB.
func available(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 53); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// groupOf returns the control group of version 2 that a process is in.
func groupOf(path string) (string, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return group, true
		}
	}
	return "", false
}

// number reads a file of one number. The word max is none.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
