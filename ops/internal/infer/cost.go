package infer

import "github.com/edl-go/edl/ops"

// Size returns the product of extents for a cost estimate: an open extent counts as 1 and the product saturates.
func Size(dims []int64) int64 {
	const most = 1 << 44 // so that no estimate of an op overflows
	n := int64(1)
	for _, d := range dims {
		switch {
		case d < 0:
		case d > 0 && n > most/d:
			return most
		default:
			n *= d
		}
	}
	return n
}

// Bytes returns the bytes of all inputs and outputs.
func Bytes(s *ops.Shapes) int64 {
	total := int64(0)
	for slot := range s.Op().Inputs {
		total += bytesOf(s.Ins(slot))
	}
	for slot := range s.Op().Outputs {
		total += bytesOf(s.Outs(slot))
	}
	return total
}

func bytesOf(metas []ops.Meta) int64 {
	total := int64(0)
	for _, m := range metas {
		if m.DType.Size() > 0 && m.Kind != 0 {
			total += Size(m.Dims) * int64(m.DType.Size())
		}
	}
	return total
}

// PerElement is the cost of an op that spends a number of operations on each element of its largest input or output.
func PerElement(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		largest := int64(0)
		for slot := range s.Op().Inputs {
			for _, m := range s.Ins(slot) {
				largest = max(largest, Size(m.Dims))
			}
		}
		for slot := range s.Op().Outputs {
			for _, m := range s.Outs(slot) {
				largest = max(largest, Size(m.Dims))
			}
		}
		return ops.Cost{Flops: flops * largest, Bytes: Bytes(s)}
	}
}
