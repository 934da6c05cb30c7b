package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// EmbeddingSums and its gradient have the bits of the loops that they stand for, also of negative zeros and of padding.
func TestEmbeddingSumsHaveTheBitsOfTheirParts(t *testing.T) {
	const rows = 300
	random := rand.New(rand.NewPCG(3, 4))
	for _, width := range []int{1, 3, 16, 17} {
		for _, padding := range []int64{NoPadding, 7} {
			offsets := []int64{0}
			for _, n := range []int64{0, 1, 200, 3, 0, 64, 65, 7} {
				offsets = append(offsets, offsets[len(offsets)-1]+n)
			}
			sequences, n := len(offsets)-1, int(offsets[len(offsets)-1])
			ids, table, dout := make([]int64, n), make([]float32, rows*width), make([]float32, sequences*width)
			for i := range ids {
				ids[i] = random.Int64N(rows / 10)
			}
			for _, values := range [][]float32{table, dout} {
				for i := range values {
					if values[i] = float32(random.NormFloat64()); i%5 == 0 {
						values[i] = float32(math.Copysign(0, -1))
					}
				}
			}
			looked, want, got := make([]float32, n*width), make([]float32, sequences*width), make([]float32, sequences*width)
			Embedding(looked, table, ids, width, padding)
			spread, wantGrad, gotGrad := make([]float32, n*width), make([]float32, rows*width), make([]float32, rows*width)
			for i := range sequences {
				if from, to := int(offsets[i])*width, int(offsets[i+1])*width; from < to {
					SequenceSum(want[i*width:][:width], looked[from:to], width, 1)
					SequenceSumGrad(spread[from:to], dout[i*width:][:width], width, 1)
				}
			}
			EmbeddingSums(got, table, ids, offsets, width, padding)
			EmbeddingGrad(wantGrad, ids, spread, width, padding, 0, rows)
			EmbeddingSumsGrad(gotGrad, ids, offsets, dout, width, padding, 0, rows/2)
			EmbeddingSumsGrad(gotGrad, ids, offsets, dout, width, padding, rows/2, rows)
			same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
			if !slices.EqualFunc(got, want, same) {
				t.Errorf("width %d, padding %d: the sums differ", width, padding)
			}
			if !slices.EqualFunc(gotGrad, wantGrad, same) {
				t.Errorf("width %d, padding %d: the gradients differ", width, padding)
			}
			part := make([]float32, 3*width) // as a worker has it
			EmbeddingSums(part, table, ids, offsets[2:6], width, padding)
			if !slices.EqualFunc(part, want[2*width:5*width], same) {
				t.Errorf("width %d, padding %d: the sums of a part differ", width, padding)
			}
		}
	}
}

// A bag of 30 ids out of a table of 64 MB, in one loop and in two.
func BenchmarkEmbeddingSums(b *testing.B) {
	const rows, width, bags, each = 1 << 20, 16, 512, 30
	random := rand.New(rand.NewPCG(3, 4))
	table, ids, offsets := make([]float32, rows*width), make([]int64, bags*each), make([]int64, bags+1)
	for i := range ids {
		ids[i] = random.Int64N(rows)
	}
	for i := range offsets {
		offsets[i] = int64(i * each)
	}
	out, looked := make([]float32, bags*width), make([]float32, len(ids)*width)
	b.Run("fused", func(b *testing.B) {
		b.SetBytes(4 * int64(len(looked)))
		for b.Loop() {
			EmbeddingSums(out, table, ids, offsets, width, NoPadding)
		}
	})
	b.Run("apart", func(b *testing.B) {
		b.SetBytes(4 * int64(len(looked)))
		for b.Loop() {
			Embedding(looked, table, ids, width, NoPadding)
			for i := range bags {
				SequenceSum(out[i*width:][:width], looked[i*each*width:][:each*width], width, 1)
			}
		}
	})
}
