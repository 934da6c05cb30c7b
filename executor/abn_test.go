package executor_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A normalisation that Paddle merges with its activation trains as both do, though its gradient names only the end of them.
func TestMergedNormalisationTrainsAsItsParts(t *testing.T) {
	for _, function := range []string{"leaky_relu", "elu"} {
		build := func() *program.Program {
			m := layers.NewModel().Seed(3)
			h := layers.BatchNorm(layers.FC(layers.Data(m, "x", layers.Dims(4)), 3), layers.Act(function))
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(h, 1), layers.Data(m, "y", layers.Dims(1))), layers.Name("loss")))
			return finished(t, m)
		}
		parts, merged := build(), asPaddleMerges(t, build(), function)
		feed := executor.Feed{}
		feed["x"], _ = tensor.FromSlice([]float32{1, -2, 3, 4, -5, 6, 7, -8, 9, 1, 2, 3}, 3, 4)
		feed["y"], _ = tensor.FromSlice([]float32{1, 2, -3}, 3, 1)
		var results [2][]*tensor.Tensor
		for i, p := range []*program.Program{parts, merged} {
			exe := executor.New()
			defer exe.Close()
			for range 3 {
				out, err := exe.Run(t.Context(), p, feed, "loss", "fc_0.w_0", "batch_norm_0.w_0", "batch_norm_0.b_0")
				if err != nil {
					t.Fatal(function, err)
				}
				for _, value := range out {
					results[i] = append(results[i], value.Clone())
				}
			}
		}
		for i := range results[0] {
			if err := gradcheck.SameBits(results[0][i], results[1][i]); err != nil {
				t.Errorf("%s, value %d: %v", function, i, err)
			}
		}
	}
}

// asPaddleMerges writes batch_norm and the function behind it as inplace_abn, with its gradient, and reads the program.
func asPaddleMerges(t *testing.T, p *program.Program, function string) *program.Program {
	t.Helper()
	b := p.Global()
	left, merged := b.Ops[:0:0], 0
	var normal, backward *program.Op // the parts in front
	for _, op := range b.Ops {
		switch op.Type {
		case "batch_norm":
			normal = op
			continue
		case function:
			normal.Type, normal.Outputs["Y"] = "inplace_abn", op.Outputs["Out"]
			normal.SetAttr("activation", function)
			if alpha, ok := op.Attrs["alpha"]; ok {
				normal.SetAttr("alpha", alpha)
			}
			op, merged = normal, merged+1
		case function + "_grad":
			backward = op
			continue
		case "batch_norm_grad":
			op.Type, op.Inputs["Y"], op.Inputs["Y@GRAD"] = "inplace_abn_grad", normal.Outputs["Y"], backward.Inputs["Out@GRAD"]
			delete(op.Inputs, "X")
			op.SetAttr("activation", function)
			if alpha, ok := backward.Attrs["alpha"]; ok {
				op.SetAttr("alpha", alpha)
			}
			merged++
		}
		left = append(left, op)
	}
	b.Ops = left
	data, err := p.Encode()
	if err != nil || merged != 2 {
		t.Fatal(merged, err)
	}
	read, err := program.Decode(data, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return read
}
