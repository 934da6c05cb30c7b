package math_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/math"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

func allCases() []gradcheck.Case {
	return slices.Concat(fillCases, moveCases, arithmeticCases, broadcastCases, unaryCases, curveCases, productCases,
		reduceCases, normCases, logicCases, viewCases, sliceCases, extentCases, expandCases, padCases, flipCases, stackCases,
		gatherCases, rangeCases, mutualCases, orderCases, extremeCases, vectorNormCases, finiteCases, spreadCases, unfoldCases, distanceCases, linearCases, factorCases, luCases, leastCases, putCases, specialCases, setCases, partialCases, printCases, frameCases, wrapCases, einsumCases, repeatCases, sendCases, messageCases, medianCases, givenCases)
}

func TestLaws(t *testing.T) { gradcheck.Laws(t, "math", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "math", allCases(), lawcheck.Program{Name: "values of a sparse gradient", Build: func(m *layers.Model) {
		id := layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
		loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.Embedding(id, 4, 3, layers.Sparse()), 1), layers.Data(m, "y", layers.Dims(1))))
		optimizer.Custom(0.1, func(u *optimizer.Update) {
			grad := u.Grad
			if strings.HasPrefix(u.Param.Name(), "embedding") { // limits it as Fluid does
				merged := layers.OpInto(m, "merge_selected_rows", layers.In{"X": {grad}}, nil, layers.In{"Out": layers.NewVariables(m, "merged", 1)}).All("Out")
				values := layers.OpInto(m, "get_tensor_from_selected_rows", layers.In{"X": merged}, nil, layers.In{"Out": layers.NewVariables(m, "values", 1)}).All("Out")
				grad = layers.Mul(u.Param, layers.ReduceSum(layers.Square(values[0])))
			}
			u.Set(u.Param, layers.Sub(u.Param, layers.Mul(grad, u.Rate)))
		}).Minimize(loss)
	}}, lawcheck.Program{Name: "rows that data counts", Build: func(m *layers.Model) {
		x := layers.CreateParameter(m, []int64{5, 2}, tensor.Float32, layers.ParamAttr{})
		ids, err := tensor.FromSlice([]int64{0, 0, 1, 3, 3})
		if err != nil {
			m.Report(fault.E(fault.Internal, fault.Cause(err)))
			return
		}
		sums := layers.ReduceSum(layers.Square(layers.SegmentPool(x, layers.AssignValue(m, ids), "MEAN")))
		above := layers.ReduceSum(layers.MaskedSelect(x, layers.GreaterThan(x, layers.FillLike(x, 0))))
		cost := layers.Mean(layers.SquareErrorCost(layers.FC(layers.Data(m, "in", layers.Dims(3)), 1), layers.Data(m, "y", layers.Dims(1))))
		optimizer.SGD(0.1).Minimize(layers.Sums([]layers.Variable{cost, sums, above}))
	}})
}
