//go:build !unix

package launch

import (
	"os"
	"os/exec"
)

// ownGroup does nothing where there are no process groups.
func ownGroup(*exec.Cmd) {}

// terminate ends a process at once where it cannot be asked.
func terminate(p *os.Process) error { return p.Kill() }
