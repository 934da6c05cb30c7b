//go:build !unix

package cluster

// fileLimit knows no limit here.
func fileLimit() (n uint64, ok bool) { return 0, false }
