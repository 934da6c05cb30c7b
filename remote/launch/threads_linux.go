package launch

import (
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// timerSlack is by how many nanoseconds the system may delay a timer of a role, to save wake-ups. The monitor of the Go runtime wakes every 20
// microseconds while a process works, which was half of all context switches of a round; with this slack it wakes every 4 ms. Nothing in a role
// measures less: reports gather for 20 ms, and a lease lasts seconds. A goroutine that waits for a disk may keep its thread from others for 8 ms.
const timerSlack = 4_000_000

// startWithSlack starts a child whose timers have timerSlack. The child inherits it from the thread that starts it, and hands it on to all of its own.
func startWithSlack(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if have, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(have), 0, 0, 0) }() // it succeeded before
	}
	return cmd.Start()
}
