package measure

import (
	"bytes"
	"fmt"
	"os"
)

// PeakMemory returns the most bytes that this process has had resident. The kernel's VmHWM is taken, not getrusage's ru_maxrss, which
// a child inherits from the process that started it. Linux only.
func PeakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
	var kilobytes int64
	if _, err := fmt.Sscanf(string(rest), "%d kB", &kilobytes); !found || err != nil {
		return 0, fmt.Errorf("no VmHWM in /proc/self/status")
	}
	return kilobytes << 10, nil
}
