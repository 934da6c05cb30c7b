package reader_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The batch of a round stands in for what the read op would read: a coordinator hands out records in the same way.
func TestClustersReadWithEachOp(t *testing.T) {
	var read []layers.Variable
	minimize := func(x, y layers.Variable) {
		optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y)))
	}
	lawcheck.Law(t, "reader", nil,
		lawcheck.Program{Name: "records", Build: func(m *layers.Model) {
			data := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(3)), layers.Field("y", layers.Dims(1)))
			read = layers.Read(layers.DoubleBuffer(layers.Batch(layers.MultiPass(layers.Shuffle(data, 100, 1), 2), 7)))
			minimize(read[0], read[1])
		}, Feed: func(round int64) executor.Feed {
			feed := executor.Feed{}
			for i, width := range []int64{3, 1} {
				value, err := tensor.New(tensor.Float32, 7, width)
				if err != nil {
					t.Fatal(err)
				}
				for k := range value.Float32s() {
					value.Float32s()[k] = float32((int64(k)*5 + round + int64(i)) % 7)
				}
				feed[read[i].Name()] = value
			}
			return feed
		}},
		lawcheck.Program{Name: "feeds and fetches, as Fluid saves them", Build: func(m *layers.Model) {
			minimize(layers.Data(m, "x", layers.Dims(3)), layers.Data(m, "y", layers.Dims(1)))
		}, Change: func(p *program.Program) {
			b, col := p.Global(), map[string]program.Attr{"col": int32(0)}
			b.EnsureVar(program.Var{Name: "feed", Kind: program.FeedMinibatch, Persistable: true})
			b.EnsureVar(program.Var{Name: "fetch", Kind: program.FetchList, Persistable: true})
			b.Insert(0, &program.Op{Type: "feed", Inputs: map[string][]string{"X": {"feed"}}, Outputs: map[string][]string{"Out": {"x"}}, Attrs: col})
			b.Append(&program.Op{Type: "fetch", Inputs: map[string][]string{"X": {"fc_0.w_0"}}, Outputs: map[string][]string{"Out": {"fetch"}}, Attrs: col})
		}})
}
