package fileio_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
)

func TestClustersSaveWithEachOp(t *testing.T) {
	lawcheck.Law(t, "fileio", nil, lawcheck.Program{Name: "line", Build: func(m *layers.Model) {
		x, y := layers.Data(m, "x", layers.Dims(3)), layers.Data(m, "y", layers.Dims(1))
		optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y)))
	}})
}
