package edlcmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Bounds of --class-weight. A loss times the largest weight is still a float32, with room for a sum.
const (
	mostClasses = 1 << 16
	mostWeight  = 1e30
)

// parseClassWeights reads CLASS=WEIGHT,... and returns the weight of each class; those that are not named weigh 1.
func parseClassWeights(values []string) ([]float32, error) {
	wrong := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("--class-weight"), fault.Got(fault.Quote(got)), fault.Want(want))
	}
	named := map[int64]float32{}
	for _, value := range values {
		class, weight, _ := strings.Cut(value, "=")
		n, err := strconv.ParseInt(class, 10, 64)
		w, bad := strconv.ParseFloat(weight, 32)
		switch _, twice := named[n]; {
		case twice:
			return nil, wrong(value, "one weight for each class")
		case errors.Is(err, strconv.ErrRange), err == nil && (n < 0 || n >= mostClasses):
			return nil, wrong(value, fmt.Sprintf("a class from 0 to %d", mostClasses-1))
		case errors.Is(bad, strconv.ErrRange), bad == nil && !(w >= 0 && w <= mostWeight):
			return nil, wrong(value, fmt.Sprintf("a weight from 0 to %g", mostWeight))
		case err != nil, bad != nil:
			return nil, wrong(value, "CLASS=WEIGHT, such as 1=5")
		}
		named[n] = float32(w)
	}
	weights := make([]float32, slices.Max(slices.Collect(maps.Keys(named)))+1)
	for i := range weights {
		weights[i] = 1
		if w, ok := named[int64(i)]; ok {
			weights[i] = w
		}
	}
	return weights, nil
}

// setClassWeights multiplies the loss of each row of p by the weight of its class, as layers.WeightRows does, in the forward pass and in the backward pass. p trains
// on the mean of a loss for each row, and has one label.
func setClassWeights(p *program.Program, values []string) error {
	weights, err := parseClassWeights(values)
	if err != nil {
		return err
	}
	refuse := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("--class-weight"), fault.Got(got), fault.Want(want))
	}
	if !trains(p) {
		return refuse("a program that trains nothing", "one that trains")
	}
	of, err := metrics.Spec{Kind: "accuracy"}.Fill(p)
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At("--class-weight"), fault.Got("a program without exactly one prediction of classes with its label"), fault.Want("one with a loss such as layers.CrossEntropy"))
	}
	block := p.Global()
	loss := lossName(p)
	mean := slices.IndexFunc(block.Ops, func(op *program.Op) bool { return op.Type == "mean" && op.Out("Out") == loss })
	grad := slices.IndexFunc(block.Ops, func(op *program.Op) bool {
		return op.Type == "mean_grad" && op.In("Out@GRAD") == program.GradName(loss)
	})
	if mean < 0 || grad < mean {
		return refuse("a loss that is no mean", "one that is layers.Mean of a loss for each row, without a penalty in it")
	}
	cost, _ := block.Var(block.Ops[mean].In("X"))
	label, _ := block.Var(of.Label)
	if cost == nil || label == nil || cost.DType != tensor.Float32 || len(cost.Dims) != 2 || cost.Dims[1] != 1 || len(label.Dims) != 2 || label.Dims[1] != 1 {
		return refuse("a loss that has not one float32 for each row", "one such as layers.CrossEntropy, [rows, 1], of labels [rows, 1]")
	}
	if prediction, ok := block.Var(of.Prediction); ok && len(prediction.Dims) == 2 {
		classes := max(prediction.Dims[1], 2)
		if int64(len(weights)) > classes {
			return refuse("the weight of class "+strconv.Itoa(len(weights)-1), "classes of the program, 0 to "+strconv.FormatInt(classes-1, 10))
		}
		for int64(len(weights)) < min(classes, mostClasses) {
			weights = append(weights, 1)
		}
	}
	made := func(name string, dims []int64, dtype tensor.DType) string {
		for block.Declares(name) {
			name += "_"
		}
		block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, StopGradient: true})
		return name
	}
	table := made(cost.Name+".class_weights", []int64{int64(len(weights)), 1}, tensor.Float32)
	row := made(cost.Name+".weight", []int64{program.Unknown, 1}, tensor.Float32)
	weighted := made(cost.Name+".weighted", cost.Dims, cost.DType)
	passed := made(program.GradName(weighted), cost.Dims, cost.DType)
	like := func(model *program.Op, opType string, in, out map[string][]string) *program.Op {
		op := &program.Op{Type: opType, Inputs: in, Outputs: out}
		op.SetRole(model.Role() &^ program.RoleLoss)
		op.SetLine(model.Line())
		return op
	}
	forward, backward := block.Ops[mean], block.Ops[grad]
	arrives := backward.Outputs["X@GRAD"]
	constant := like(forward, "assign_value", nil, map[string][]string{"Out": {table}})
	constant.SetAttr("shape", []int64{int64(len(weights)), 1})
	constant.SetAttr("dtype", int32(tensor.Float32))
	constant.SetAttr("fp32_values", weights)
	weigh := func(model *program.Op, x string, out []string) *program.Op {
		return like(model, "elementwise_mul", map[string][]string{"X": {x}, "Y": {row}}, map[string][]string{"Out": out})
	}
	block.Insert(grad+1, weigh(backward, passed, arrives))
	backward.Outputs["X@GRAD"], backward.Inputs["X"] = []string{passed}, []string{weighted}
	block.Insert(mean, constant, like(forward, "gather", map[string][]string{"X": {table}, "Index": {label.Name}}, map[string][]string{"Out": {row}}), weigh(forward, cost.Name, []string{weighted}))
	forward.Inputs["X"] = []string{weighted}
	return nil
}
