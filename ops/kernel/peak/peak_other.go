//go:build !amd64 || purego

package peak

// Loops returns the loops that this machine can run: none but on amd64.
func Loops() []Loop { return nil }
