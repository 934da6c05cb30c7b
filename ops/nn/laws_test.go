package nn_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/nn"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type (
	slots = map[string][]*tensor.Tensor
	attrs = map[string]program.Attr
	dims  = []int64
)

func allCases() []gradcheck.Case {
	return slices.Concat(dataNormCases, simCases, cvmCases, lossCases, imageCases, convCases, normCases, dropoutCases, lookupCases, classifyCases, activationCases, pointLossCases, imageNormCases, rearrangeCases, poolCases, interpolateCases, gridCases, productCases, spectralCases, rowLossCases(), iouCases, treeCases(), nceCases(), sampledCases, likelihoodCases, deformableCases, networkCases, quantizeCases, drawnCases, cropCases, pairCases, forestCases, gumbelCases, cudnnCases)
}

func TestLaws(t *testing.T) { gradcheck.Laws(t, "nn", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "nn", allCases(), lawcheck.Program{Name: "a table that servers hold", Build: func(m *layers.Model) {
		id := layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
		rows := layers.Embedding(id, 4, 3, layers.Sparse(), layers.Distributed())
		optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), layers.Data(m, "y", layers.Dims(1)))))
	}})
}
