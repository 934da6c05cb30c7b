//go:build unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal away from the child.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
