package wire

import (
	"encoding/binary"
	"math"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// Scalar is the number of a fetched value. ok is false where it is not exactly one. s is memory that calls share.
func Scalar(s *tensor.Stream, v *job.Value) (_ float64, ok bool) {
	if _, err := s.Parse(v.GetStream(), tensor.Limits{Bytes: int64(len(v.GetStream()))}); err != nil {
		return 0, false
	}
	switch b := s.Data; {
	case s.DType == tensor.Float32 && len(b) == 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case s.DType == tensor.Float64 && len(b) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case s.DType == tensor.Int64 && len(b) == 8:
		return float64(int64(binary.LittleEndian.Uint64(b))), true
	case s.DType == tensor.Int32 && len(b) == 4:
		return float64(int32(binary.LittleEndian.Uint32(b))), true
	}
	return 0, false
}
