//go:build !amd64 || purego

package simd

var vectors Vectors
