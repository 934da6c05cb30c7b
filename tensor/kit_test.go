package tensor

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Bytes that Fluid writes for small tensors.
const (
	goldenPlain = "00000000 0000000000000000 00000000 06000000 080510021003 0000803f 00000040 00004040 00008040 0000a040 0000c040"
	goldenLoD   = "00000000 0100000000000000 1800000000000000 0000000000000000 0200000000000000 0300000000000000" +
		"00000000 06000000 080510031001 0000803f0000004000004040"
	goldenLoDLast = "00000000 06000000 080510031001 0000803f0000004000004040" +
		"0100000000000000 1800000000000000 0000000000000000 0200000000000000 0300000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t testing.TB, x *Tensor, err error) *Tensor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func equal(a, b *Tensor) bool {
	return bytes.Equal(AppendStream(nil, a), AppendStream(nil, b))
}

func anyTensor(t *rapid.T) *Tensor {
	dims := rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 4).Draw(t, "dims")
	dtype := rapid.SampledFrom([]DType{Bool, Int32, Int64, Float32, Float64}).Draw(t, "dtype")
	x, err := New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		switch d := x.data.(type) {
		case []bool:
			d[i] = rapid.Bool().Draw(t, "v")
		case []int32:
			d[i] = rapid.Int32().Draw(t, "v")
		case []int64:
			d[i] = rapid.Int64().Draw(t, "v")
		case []float32:
			d[i] = math.Float32frombits(rapid.Uint32().Draw(t, "v"))
		case []float64:
			d[i] = math.Float64frombits(rapid.Uint64().Draw(t, "v"))
		}
	}
	if len(dims) > 0 && rapid.Bool().Draw(t, "lod") {
		middle := rapid.Int64Range(0, dims[0]).Draw(t, "middle")
		x.SetLoD([][]int64{{0, 2}, {0, middle, dims[0]}})
	}
	return x
}
