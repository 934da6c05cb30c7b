package sparse

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostHashes bounds num_hash.
const mostHashes = 1 << 16

func init() {
	ops.Register(ops.Def{
		Type: "hash",
		Doc: "Hashes rows of integers: Out[i, j, 0] = XXH64(row i of X, seed j) mod mod_by. The row is hashed as its bytes, least significant first. " +
			"Before 1.6, Fluid hashed half of the bytes of int64.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int64 or int32 [rows, columns]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, num_hash, 1], of the type and LoD of X"}},
		Attrs: []ops.Attr{{Name: "num_hash", Default: int32(1), Doc: "hashes of each row"},
			{Name: "mod_by", Default: int64(100000), Doc: "hashes are below it"}},
		Infer: inferHash,
		Cost:  opkit.PerElement(8),
		Bind:  opkit.BindNumbers("X", nil, nil, bindHash[int32], bindHash[int64]),
	})
}

func inferHash(s *ops.Shapes) error {
	x := s.In("X")
	if x.Kind != program.LoDTensor || len(x.Dims) != 2 || x.DType != tensor.Int32 && x.DType != tensor.Int64 {
		return s.Errorf("X", "int64 or int32 [rows, columns]")
	}
	n, modulus := s.Int("num_hash"), s.Int("mod_by")
	if n < 1 || n > mostHashes {
		return opkit.BadAttr(s, "num_hash", "1 to %d", mostHashes)
	}
	if modulus < 1 || x.DType == tensor.Int32 && modulus > math.MaxInt32+1 {
		return opkit.BadAttr(s, "mod_by", "at least 1, and hashes that fit into %v", x.DType)
	}
	s.Set("Out", x.DType, x.Dims[0], n, 1)
	s.ShareLoD("Out", "X")
	return nil
}

func bindHash[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	x, to, n, modulus := b.In("X"), b.Out("Out"), int(b.Int("num_hash")), uint64(b.Int("mod_by"))
	rows, columns := opkit.Matrix(x.Dims(), 1)
	size := x.DType().Size()
	return opkit.Loop(b, rows, func(from, till int) {
		var some [512]byte
		var digest xxhash.Digest
		for row := from; row < till; row++ {
			for seed := range n {
				digest.ResetWithSeed(uint64(seed))
				used := 0
				for _, id := range tensor.Data[T](x)[row*columns:][:columns] {
					if size == 4 {
						binary.LittleEndian.PutUint32(some[used:], uint32(id))
					} else {
						binary.LittleEndian.PutUint64(some[used:], uint64(id))
					}
					if used += size; used == len(some) {
						digest.Write(some[:])
						used = 0
					}
				}
				digest.Write(some[:used])
				tensor.Data[T](to)[row*n+seed] = T(digest.Sum64() % modulus)
			}
		}
	})
}
