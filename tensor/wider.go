package tensor

import (
	"encoding/binary"
	"io"
	"math"
)

// Wider returns the type in which EDL holds the elements of files of a type that it does not compute with: float32 for float16, and int32 for int8, uint8 and int16. It
// holds all their values. Of any other type it returns the type itself.
func Wider(d DType) DType {
	switch d {
	case Float16:
		return Float32
	case Int8, UInt8, Int16:
		return Int32
	}
	return d
}

// WidenHalf returns the number that the bits of a Float16 element stand for.
func WidenHalf(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits&0x8000)<<16, uint32(bits>>10)&31, uint32(bits)&0x03ff
	switch {
	case exponent == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case exponent < 31:
		return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
	case fraction != 0:
		fraction |= 0x0200 // quiet
	}
	return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
}

// readWider reads elements of a type that kernels do not know as those of Wider.
func readWider(src *source, dtype DType, dims []int64) (*Tensor, error) {
	if dtype == Float16 {
		return widened(src, dtype, dims, func(b []byte) float32 { return WidenHalf(binary.LittleEndian.Uint16(b)) })
	}
	return widened(src, dtype, dims, func(b []byte) int32 {
		switch dtype {
		case Int8:
			return int32(int8(b[0]))
		case UInt8:
			return int32(b[0])
		}
		return int32(int16(binary.LittleEndian.Uint16(b)))
	})
}

func widened[T int32 | float32](src *source, dtype DType, dims []int64, decode func([]byte) T) (*Tensor, error) {
	total, _ := Count(dims)
	size := dtype.Size()
	buffer := make([]byte, min(blockBytes, total*size))
	var data []T
	for len(data) < total {
		b := buffer[:min(total-len(data), blockBytes/size)*size]
		if got, err := io.ReadFull(src.r, b); err != nil {
			return nil, src.failed(err, int64(got), int64(len(b)), "elements")
		}
		src.offset += int64(len(b))
		for ; len(b) > 0; b = b[size:] {
			data = append(data, decode(b))
		}
	}
	return FromSlice(data, append([]int64{}, dims...)...)
}
