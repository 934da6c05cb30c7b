//go:build !linux

package edlcmd

// processLimits are not known on this system.
func processLimits() []processLimit { return nil }
