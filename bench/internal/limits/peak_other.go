//go:build !amd64 || purego

package limits

func loops() []loop { return nil }
