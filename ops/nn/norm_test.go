package nn_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func batchNorm(name string, a attrs, x, scale, bias, mean, variance *tensor.Tensor, want slots) Case {
	return Case{Type: "batch_norm", Name: name, Attrs: a, Loss: []string{"Y"}, Constant: []string{"Mean", "Variance"}, Want: want,
		Inputs: slots{"X": One(x), "Scale": One(scale), "Bias": One(bias), "Mean": One(mean), "Variance": One(variance)}}
}

func syncBatchNorm(name string, a attrs, x, scale, bias, mean, variance *tensor.Tensor) Case {
	c := batchNorm(name, a, x, scale, bias, mean, variance, nil)
	c.Type = "sync_batch_norm"
	return c
}

// momentumInput has a momentum of 0.25 from a variable, against 0.5 of the attribute.
func momentumInput() Case {
	c := batchNorm("momentum from a variable", attrs{"epsilon": float32(0), "momentum": float32(0.5)},
		Floats(dims{2, 2}, 1, 0, 3, 4), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 0, 10), Floats(dims{2}, 1, 2),
		slots{"Y": One(Floats(dims{2, 2}, -1.5, -2, 2.5, 4)), "MeanOut": One(Floats(dims{2}, 1.5, 4)), "VarianceOut": One(Floats(dims{2}, 1, 3.5))})
	c.Inputs["MomentumTensor"] = One(Floats(dims{1}, 0.25))
	c.Constant = append(c.Constant, "MomentumTensor")
	return c
}

var normCases = []Case{
	batchNorm("", attrs{"epsilon": float32(0), "momentum": float32(0.5)},
		Floats(dims{2, 2}, 1, 0, 3, 4), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 0, 10), Floats(dims{2}, 1, 2),
		slots{"Y": One(Floats(dims{2, 2}, -1.5, -2, 2.5, 4)), "MeanOut": One(Floats(dims{2}, 1, 6)), "VarianceOut": One(Floats(dims{2}, 1, 3)),
			"SavedMean": One(Floats(dims{2}, 2, 2)), "SavedVariance": One(Floats(dims{2}, 1, 0.5))}),
	batchNorm("given statistics", attrs{"epsilon": float32(0), "use_global_stats": true},
		Floats(dims{2, 2}, 1, 0, 3, 4), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 1, 2), Floats(dims{2}, 4, 1),
		slots{"Y": One(Floats(dims{2, 2}, 0.5, -5, 2.5, 7)), "MeanOut": One(Floats(dims{2}, 1, 2)), "VarianceOut": One(Floats(dims{2}, 4, 1))}),
	batchNorm("trainable statistics", attrs{"epsilon": float32(0), "momentum": float32(0.5), "is_test": true, "trainable_statistics": true},
		Floats(dims{2, 2}, 1, 0, 3, 4), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 0, 10), Floats(dims{2}, 1, 2),
		slots{"Y": One(Floats(dims{2, 2}, -1.5, -2, 2.5, 4)), "MeanOut": One(Floats(dims{2}, 1, 6)), "VarianceOut": One(Floats(dims{2}, 1, 3))}),
	batchNorm("trainable and given statistics", attrs{"epsilon": float32(0), "use_global_stats": true, "trainable_statistics": true},
		Floats(dims{2, 2}, 1, 0, 3, 4), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 1, 2), Floats(dims{2}, 4, 1),
		slots{"Y": One(Floats(dims{2, 2}, 0.5, -5, 2.5, 7)), "MeanOut": One(Floats(dims{2}, 1, 2))}),
	momentumInput(),
	batchNorm("test", attrs{"epsilon": float32(0), "is_test": int32(1)},
		Floats(dims{1, 2}, 1, 0), Floats(dims{2}, 2, 3), Floats(dims{2}, 0.5, 1), Floats(dims{2}, 1, 2), Floats(dims{2}, 4, 1),
		slots{"Y": One(Floats(dims{1, 2}, 0.5, -5))}),
	batchNorm("images", nil, Spread(1, 3, 2, 2, 2), Spread(2, 2), Spread(3, 2), Floats(dims{2}, 0, 0), Floats(dims{2}, 1, 1), nil),
	batchNorm("channels last", attrs{"data_layout": "NHWC", "epsilon": float32(0)}, Floats(dims{1, 1, 2, 2}, 1, 30, 3, 10), Floats(dims{2}, 1, 2), Floats(dims{2}, 0, 5),
		Floats(dims{2}, 0, 0), Floats(dims{2}, 1, 1), slots{"Y": One(Floats(dims{1, 1, 2, 2}, -1, 7, 1, 3)), "SavedMean": One(Floats(dims{2}, 2, 20))}),
	batchNorm("channels last, given statistics", attrs{"data_layout": "NHWC", "use_global_stats": true}, Spread(1, 3, 2, 2, 2), Spread(2, 2), Spread(3, 2),
		Floats(dims{2}, 0, 0.5), Floats(dims{2}, 1, 2), nil),
	syncBatchNorm("", nil, Spread(1, 3, 2, 2, 2), Spread(2, 2), Spread(3, 2), Floats(dims{2}, 0, 0), Floats(dims{2}, 1, 1)),
	batchNorm("no rows", nil, Floats(dims{0, 2}), Spread(2, 2), Spread(3, 2), Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4),
		slots{"MeanOut": One(Floats(dims{2}, 1, 2)), "VarianceOut": One(Floats(dims{2}, 3, 4))}),
	{Type: "layer_norm", Attrs: attrs{"epsilon": float32(0)},
		Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 3, 4, 0)), "Scale": One(Floats(dims{2}, 2, 3)), "Bias": One(Floats(dims{2}, 0.5, 1))},
		Want: slots{"Y": One(Floats(dims{2, 2}, -1.5, 4, 2.5, -2)), "Mean": One(Floats(dims{2}, 2, 2)),
			"Variance": One(Floats(dims{2}, 1, 4))}},
	{Type: "layer_norm", Name: "images", Inputs: slots{"X": One(Spread(1, 2, 2, 3)), "Scale": One(Spread(2, 6)), "Bias": One(Spread(3, 6))}},
	{Type: "layer_norm", Name: "last axis, plain", Attrs: attrs{"begin_norm_axis": int32(2)}, Inputs: slots{"X": One(Spread(1, 2, 2, 3))}},
}
