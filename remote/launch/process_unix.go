//go:build unix

package launch

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup keeps signals of the terminal away from the child.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// pass gives a file to a child that is not started yet, and returns the number that it has there.
func pass(cmd *exec.Cmd, file *os.File) (number string, err error) {
	const first = 3 // after standard input, output and error
	cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	return strconv.Itoa(first + len(cmd.ExtraFiles) - 1), nil
}

// inherited returns a file that this process was given, and keeps it from the processes that this one starts.
func inherited(number uintptr) *os.File {
	syscall.CloseOnExec(int(number))
	return os.NewFile(number, reportEnv)
}
