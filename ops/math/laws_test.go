package math_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/math"
)

func allCases() []gradcheck.Case {
	return slices.Concat(fillCases, moveCases, arithmeticCases, broadcastCases, unaryCases, curveCases, productCases,
		reduceCases, normCases, logicCases, viewCases, sliceCases, extentCases, expandCases, padCases, flipCases, stackCases,
		gatherCases, rangeCases, mutualCases, orderCases, vectorNormCases, finiteCases, spreadCases, unfoldCases, distanceCases, linearCases, specialCases, setCases, partialCases, printCases, frameCases, wrapCases, einsumCases, repeatCases, sendCases, givenCases)
}

func TestLaws(t *testing.T) { gradcheck.Laws(t, "math", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "math", allCases(), map[string]string{
		"merge_selected_rows":           "it reads a sparse gradient, which nothing feeds; din of TestProgramsThatTrainObeyTheLaw has it",
		"get_tensor_from_selected_rows": "likewise",
	})
}
