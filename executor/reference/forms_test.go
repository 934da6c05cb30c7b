package reference_test

import (
	"runtime"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// A round takes memory for the rows that a batch has, not for the rows that there is room for: those of the tables here have 48 MB.
func TestRoundsTakeNoMemoryForRoom(t *testing.T) {
	const room = 1_000_000
	for name, embed := range map[string]func(layers.Variable) layers.Variable{
		"a table that grows": func(ids layers.Variable) layers.Variable { return layers.SparseEmbedding(ids, room, 8) },
		"a sparse gradient":  func(ids layers.Variable) layers.Variable { return layers.Embedding(ids, room, 8, layers.Sparse()) },
		"a distributed table": func(ids layers.Variable) layers.Variable {
			return layers.Embedding(ids, room, 8, layers.Sparse(), layers.Distributed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(1)
			ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64))
			loss := layers.Mean(layers.Square(layers.FC(embed(ids), 1)))
			optimizer.Adam(0.1, optimizer.Lazy()).Minimize(loss)
			p, err := m.Program()
			if err != nil {
				t.Fatal(err)
			}
			e := open(t, p, 2)
			e.Group(func(uint64) [][]int { return [][]int{{0, 1}} }) // merges the groups, too
			x, err := tensor.FromSlice([]int64{5, 7, 5, 11}, 4, 1)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			for round := range 12 {
				if round == 2 { // plans and copies are made
					runtime.ReadMemStats(&before)
				}
				if _, err := e.Run(t.Context(), p, executor.Feed{"ids": x}, layers.Names(loss)...); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / 10; each > 1<<20 {
				t.Errorf("a round allocates %d bytes", each)
			}
		})
	}
}
