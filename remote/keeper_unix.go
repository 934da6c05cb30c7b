//go:build unix

package remote

import (
	"os/exec"
	"syscall"
)

// apart keeps signals of the terminal, and its end, away from a process.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// keepers reports whether this system has what keepers need: sockets that only one user opens, and locks that end with their process.
const keepers = true
