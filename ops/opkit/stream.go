package opkit

import "github.com/edl-go/edl/ops"

// StreamAt derives the random stream of a step from that of a variable, with the finalizer of SplitMix64.
func StreamAt(name uint64, step *ops.Step) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := name + step.Iteration*golden
	for _, v := range [...]uint64{step.Round, step.Lane} {
		h += (v + 1) * golden
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
