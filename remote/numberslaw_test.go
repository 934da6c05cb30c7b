package remote_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// arranging is a model whose loss depends on ops that choose, arrange, compare and measure elements of each row.
func arranging(t *testing.T) subject {
	m := layers.NewModel().Seed(5)
	x := layers.Data(m, "x", layers.Dims(6))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	h := layers.FC(x, 6, layers.Act("tanh"))

	layers.FC(x, 3, layers.Param(layers.ParamAttr{Name: "unused"}), layers.Bias(layers.ParamAttr{Name: "scale", Initializer: layers.Constant(1)}))
	weight, scale := m.Parameters()[0], m.Parameters()[3]
	h = layers.Add(h, layers.GaussianRandomBatchSizeLike(x, []int64{-1, 6}, 0, 0.1)) // the same for any number of trainers
	known := layers.Gather(weight, label)                                            // a row for each record
	chosen := layers.Where(layers.GreaterThan(h, known), h, known)                   // element by element
	either := layers.Multiplex([]layers.Variable{chosen, h, known, h, known}, layers.Mod(label, layers.FillConstant(m, 2, []int64{1}, layers.DType(tensor.Int64))))
	sorted, places := layers.ArgSort(either)
	sums := layers.CumSum(layers.IndexSample(sorted, places))
	unit := layers.L2Normalize(layers.Add(sums, layers.FillLike(sums, 0.5)), 1)

	heads := layers.Reshape(unit, []int64{-1, 3, 2})
	scores := layers.MatMul(heads, heads, layers.TransposeY()) // a matrix for each record
	mixed := layers.BMM(layers.Softmax(layers.Mul(scores, layers.Reshape(scale, []int64{1, 3, 1}))), heads)
	flat := layers.Concat([]layers.Variable{layers.Reshape(mixed, []int64{-1, 6}), layers.Unsqueeze(layers.PNorm(h, 3), []int{1}), layers.Dot(h, known),
		layers.LogSumExp(h, layers.Axes(1), layers.KeepDims()), layers.ReduceProd(layers.Scale(h, 0.1, 1), layers.Axes(1), layers.KeepDims())}, 1)
	loss := layers.Mean(layers.CrossEntropy(layers.Softmax(layers.FC(flat, testkit.Classes)), label), layers.Name("loss"))
	optimizer.Adam(0.1).Minimize(loss)
	return subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", weight.Name(), "scale"}}
}

// TestLawOfArrangedElements trains on 1 to 4 trainers, which compute what the reference computes: none of these ops mixes the rows of a batch.
func TestLawOfArrangedElements(t *testing.T) {
	l := listener(t)
	s := arranging(t)
	for trainers := range 4 {
		t.Run(fmt.Sprint(trainers+1, " trainers"), func(t *testing.T) {
			spec := &remote.JobSpec{Trainers: int32(trainers) + 1, Pservers: 2, MinBlockSize: 1, Save: t.TempDir()}
			want, err := oracleFor(s.Program, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(l, s, spec, []int64{8, 5, 13}, want); err != nil {
				t.Fatal(err)
			}
		})
	}
}
