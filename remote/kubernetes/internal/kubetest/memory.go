//go:build linux

package kubetest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// watchMemory ends a container that takes more memory than its limit, as the kernel does for a kubelet. It reports whether it did, when ctx has ended.
func (p *pod) watchMemory(ctx context.Context, limit int64) (over bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return over
		}
		if !over && limit > 0 && memoryOf(p.process.Pid) > limit {
			over = true
			_ = syscall.Kill(-p.process.Pid, syscall.SIGKILL)
		}
	}
}

// memoryOf is how many bytes a process has for itself, with those that it has started.
func memoryOf(pid int) (bytes int64) {
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if f := strings.Fields(string(b)); len(f) > 2 { // pages: all, resident, shared
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			bytes = (resident - shared) * int64(os.Getpagesize())
		}
	}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name())) // none of a process that has ended
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				bytes += memoryOf(n)
			}
		}
	}
	return bytes
}
