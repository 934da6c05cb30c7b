//go:build !linux

package launch

import "os/exec"

// startWithSlack starts a child. Only Linux has timers with slack.
func startWithSlack(cmd *exec.Cmd) error { return cmd.Start() }
