//go:build !amd64 || purego

package crc32c

func folds() bool { return false }

func fold(uint32, []byte) uint32 { panic("crc32c: no instructions to fold with") }
