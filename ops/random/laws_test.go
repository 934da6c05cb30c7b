package random_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
)

func TestClustersBeginWithEachOp(t *testing.T) {
	begun := func(name string, first layers.Initializer) lawcheck.Program {
		return lawcheck.Program{Name: name, Build: func(m *layers.Model) {
			x := layers.Data(m, "x", layers.Dims(7))
			y := layers.FC(layers.FC(x, 5, layers.Param(layers.ParamAttr{Initializer: first})), 1)
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(y, layers.Data(m, "y", layers.Dims(1)))))
		}}
	}
	lawcheck.Law(t, "random", nil,
		begun("uniform", layers.Uniform(-1, 1)),
		begun("normal", layers.Normal(0, 1)),
		begun("truncated normal", layers.TruncatedNormal(0, 1)))
}
