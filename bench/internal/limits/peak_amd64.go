//go:build amd64 && !purego

package limits

import "golang.org/x/sys/cpu"

// fmaAVX2 does rounds of 12 fused multiply-adds of 8 lanes, none of which waits for another of its round. 12 covers the latency of an
// FMA times the units that a core has.
//
//go:noescape
func fmaAVX2(rounds int)

// fmaAVX512 is fmaAVX2 with 16 lanes.
//
//go:noescape
func fmaAVX512(rounds int)

func loops() []loop {
	var all []loop
	if cpu.X86.HasFMA && cpu.X86.HasAVX2 {
		all = append(all, loop{"AVX2", 12 * 8 * 2, fmaAVX2})
	}
	if cpu.X86.HasAVX512F {
		all = append(all, loop{"AVX-512", 12 * 16 * 2, fmaAVX512})
	}
	return all
}
