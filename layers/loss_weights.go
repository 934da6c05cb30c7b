package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// WeightRows multiplies the loss of each row, such as CrossEntropy gives it, by the weight of the row, both [rows, 1]. weights are a field of the records, or those
// of ClassWeights. Take the Mean of the result: it divides by the number of rows, not by the sum of weights, so weights whose mean is 1 keep the size of gradients.
//
// Options: Name. Op: elementwise_mul.
func WeightRows(cost, weights Variable, opts ...Option) Variable {
	l := start("weight_rows", opts, nil, cost, weights)
	if l.failed {
		return l.fail()
	}
	if cost.rank() != 2 || weights.rank() != 2 || cost.Dims()[1] != 1 || weights.Dims()[1] != 1 {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(weights.Name()), fault.Gotf("%v for the losses %v", weights, cost), fault.Want("a loss and a weight for each row, [rows, 1]")))
	}
	return l.result(l.op("elementwise_mul", In{"X": {cost}, "Y": {weights}}, nil, "Out"))
}

// ClassWeights returns the weight of each row, [rows, 1]: that of its class. weights has one for each class; labels, [rows, 1], are numbers of classes. No gradient
// flows through them.
//
// Options: Name. Ops: assign_value, gather.
func ClassWeights(label Variable, weights []float64, opts ...Option) Variable {
	l := start("class_weights", opts, nil, label)
	if l.failed {
		return l.fail()
	}
	table := make([]float32, len(weights))
	for i, w := range weights {
		if table[i] = float32(w); !(w >= 0) || w > 1e30 {
			return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("the weight %v of class %d", w, i), fault.Want("a number from 0 to 1e30")))
		}
	}
	if label.rank() != 2 || label.Dims()[1] != 1 || label.DType() != tensor.Int64 && label.DType() != tensor.Int32 || len(weights) == 0 {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(label.Name()), fault.Gotf("%v with %d weights", label, len(weights)), fault.Want("the number of a class for each row, int64 [rows, 1], and a weight for each class")))
	}
	values := l.op("assign_value", nil, Attrs{"shape": []int64{int64(len(table)), 1}, "dtype": tensor.Float32, "fp32_values": table}, "Out")
	return l.result(l.op("gather", In{"X": {values}, "Index": {label}}, nil, "Out"))
}
