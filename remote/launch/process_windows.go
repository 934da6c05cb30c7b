package launch

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup does nothing where there are no process groups.
func ownGroup(*exec.Cmd) {}

// terminate ends a process at once where it cannot be asked.
func terminate(p *os.Process) error { return p.Kill() }

// pass gives a file to a child that is not started yet, and returns the number that it has there.
func pass(cmd *exec.Cmd, file *os.File) (number string, err error) {
	handle := syscall.Handle(file.Fd())
	if err := syscall.SetHandleInformation(handle, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT); err != nil {
		return "", err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{AdditionalInheritedHandles: []syscall.Handle{handle}}
	return strconv.FormatUint(uint64(handle), 10), nil
}

// inherited returns a file that this process was given, and keeps it from the processes that this one starts.
func inherited(number uintptr) *os.File {
	_ = syscall.SetHandleInformation(syscall.Handle(number), syscall.HANDLE_FLAG_INHERIT, 0) // fails only for what is no handle, as Stat says then
	return os.NewFile(number, reportEnv)
}
