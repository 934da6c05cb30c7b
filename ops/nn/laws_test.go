package nn_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/nn"
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
	lawcheck.Law(t, "nn", allCases(), map[string]string{
		"lookup_table_rows_grad": "trainers alone have it, for tables that servers hold; TestLawOfDistributedTables of the transpiler trains such",
	})
}
