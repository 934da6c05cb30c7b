package executor_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// A lookup that pools while it looks up has the bits of a lookup and a pool, whatever kind of table it is: those of the results, and of the table that it trains.
func TestLookupsThatPool(t *testing.T) {
	const rows, width = 9, 3
	param := layers.Param(layers.ParamAttr{Name: "table", Initializer: layers.Uniform(-1, 1)})
	distributed := []layers.Option{layers.Sparse(), layers.Distributed()}
	for name, options := range map[string][]layers.Option{
		"held": nil, "sparse": {layers.Sparse()}, "distributed": distributed, "bfloat16": append(distributed, layers.StoreBFloat16()),
		"growing": {layers.Refuse()}, "growing, bfloat16": {layers.Refuse(), layers.StoreBFloat16()},
	} {
		for _, combine := range []string{"sum", "mean", "sqrt"} {
			t.Run(name+", "+combine, func(t *testing.T) {
				grows := name[0] == 'g'
				train := func(pool func(ids layers.Variable) layers.Variable) [][]byte {
					m := layers.NewModel().Seed(3)
					ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
					out := pool(ids)
					optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.Square(layers.FC(out, 2, layers.Act("tanh")))))
					p, err := m.Program()
					if err != nil {
						t.Fatal(err)
					}
					exe := executor.New()
					defer exe.Close()
					random := rand.New(rand.NewPCG(1, 2))
					var bits [][]byte
					for step := range 4 {
						lod := []int64{0}
						for range 40 { // more ids than are looked up at once, with empty sequences among them
							lod = append(lod, lod[len(lod)-1]+random.Int64N(7)/int64(1+step%2)*2)
						}
						value, err := tensor.New(tensor.Int64, lod[len(lod)-1], 1)
						if err != nil {
							t.Fatal(err)
						}
						for i := range value.Int64s() {
							value.Int64s()[i] = random.Int64N(rows)
							if grows && i%5 == 0 {
								value.Int64s()[i] = -1
							}
						}
						value.SetLoD([][]int64{lod})
						got, err := exe.Run(t.Context(), p, executor.Feed{"ids": value}, out.Name(), "table")
						if err != nil {
							t.Fatal(err)
						}
						for _, v := range got {
							bits = append(bits, fmt.Append(nil, v.Dims(), v.LoD(), bitsOf(v)))
						}
					}
					return bits
				}
				given := append(options[:len(options):len(options)], param, layers.PaddingIndex(1))
				apart := func(ids layers.Variable) layers.Variable {
					if grows {
						return layers.SequencePool(layers.SparseEmbedding(ids, 500, width, given...), map[string]string{"sum": "sum", "mean": "average", "sqrt": "sqrt"}[combine])
					}
					return layers.Embedding(ids, rows, width, append(given, layers.Combine(combine))...)
				}
				fused := func(ids layers.Variable) layers.Variable {
					if grows {
						return layers.SparseEmbedding(ids, 500, width, append(given, layers.Combine(combine))...)
					}
					return layers.FusedEmbeddingSeqPool(ids, rows, width, append(given, layers.Combine(combine))...)
				}
				want := train(apart)
				for i, got := range train(fused) {
					if string(got) != string(want[i]) {
						t.Fatalf("step %d: %.300s\nwant %.300s", i/2, got, want[i])
					}
				}
			})
		}
	}
}

// bitsOf returns the elements of a tensor of float32 or bfloat16.
func bitsOf(v *tensor.Tensor) any {
	if v.DType() == tensor.BFloat16 {
		return tensor.Data[uint16](v)
	}
	return v.Float32s()
}
