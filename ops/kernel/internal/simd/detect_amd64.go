//go:build !purego

package simd

import "golang.org/x/sys/cpu"

func detect() Level {
	switch x := &cpu.X86; {
	case !(x.HasAVX2 && x.HasFMA && x.HasBMI2):
		return None
	case x.HasAVX512F && x.HasAVX512VL:
		return AVX512
	}
	return AVX2
}
