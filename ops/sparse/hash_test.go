package sparse_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func hashAttrs(n int32, modulus int64) map[string]program.Attr {
	return map[string]program.Attr{"num_hash": n, "mod_by": modulus}
}

// Hashes are those of Fluid's own tests.
func TestHashIsFluids(t *testing.T) {
	for _, c := range []struct {
		x       []int64
		modulus int64
		want    []int64
	}{
		{[]int64{1, 1<<32 + 1}, 10000, []int64{1269, 9609, 3868, 7268}},
		{[]int64{10, 5}, 1 << 32, []int64{1204014882, 393011615, 3586283837, 2814821595}},
	} {
		x, _ := tensor.FromSlice(c.x, int64(len(c.x)), 1)
		out := zeros(t, tensor.Int64, int64(len(c.x)), 2, 1)
		if err := run(t, "hash", hashAttrs(2, c.modulus), tensors{"X": {x}}, tensors{"Out": {out}}); err != nil || !slices.Equal(out.Int64s(), c.want) {
			t.Errorf("%v modulo %d: %v, %v", c.x, c.modulus, out.Int64s(), err)
		}
	}
	x, _ := tensor.FromSlice([]int32{5, 8, 9, 5, 0, 0, 1, 7}, 8, 1)
	want := []int32{3481, 7475, 1719, 5986, 8473, 694, 3481, 7475, 4372, 9456, 4372, 9456, 6897, 3218, 9038, 7951}
	out := zeros(t, tensor.Int32, 8, 2, 1)
	if err := run(t, "hash", hashAttrs(2, 10000), tensors{"X": {x}}, tensors{"Out": {out}}); err != nil || !slices.Equal(out.Int32s(), want) {
		t.Errorf("int32: %v, %v", out.Int32s(), err)
	}
}

// Rows longer than the memory for bytes are hashed as a whole.
func TestHashOfLongRows(t *testing.T) {
	for _, columns := range []int{63, 64, 65, 200} {
		x, out := zeros(t, tensor.Int64, 2, int64(columns)), zeros(t, tensor.Int64, 2, 1, 1)
		var bytes []byte
		for i := range x.Int64s() {
			x.Int64s()[i] = int64(i*i) - 7
			bytes = binary.LittleEndian.AppendUint64(bytes, uint64(x.Int64s()[i]))
		}
		if err := run(t, "hash", hashAttrs(1, 1<<40), tensors{"X": {x}}, tensors{"Out": {out}}); err != nil {
			t.Fatal(err)
		}
		for row, got := range out.Int64s() {
			if want := int64(xxhash.Sum64(bytes[row*columns*8:][:columns*8]) % (1 << 40)); got != want {
				t.Errorf("row %d of %d columns: %d, want %d", row, columns, got, want)
			}
		}
	}
}

func TestHashesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		attrs map[string]program.Attr
		x     ops.Meta
	}{
		"floats":                {hashAttrs(1, 10), ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{3, 1}}},
		"a vector":              {hashAttrs(1, 10), ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{3}}},
		"no hashes":             {hashAttrs(0, 10), ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{3, 1}}},
		"a billion hashes":      {hashAttrs(1<<30, 10), ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{3, 1}}},
		"modulo 0":              {hashAttrs(1, 0), ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{3, 1}}},
		"hashes beyond numbers": {hashAttrs(1, 1<<33), ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{3, 1}}},
	} {
		op := &program.Op{Type: "hash", Attrs: c.attrs, Inputs: map[string][]string{"X": {"X"}}, Outputs: map[string][]string{"Out": {"Out"}}}
		_, err := ops.Infer(op, func(string) (ops.Meta, bool) { return c.x, true })
		if err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
