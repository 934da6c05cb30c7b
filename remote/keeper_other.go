//go:build !unix

package remote

import "os/exec"

func apart(*exec.Cmd) {}

// keepers reports whether this system has what keepers need: sockets that only one user opens, and locks that end with their process.
const keepers = false
