package nn

import (
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sigmoid_cross_entropy_with_logits",
		Doc: "The cross entropy of the logit of one of two classes: Out = max(X, 0) - X*Label + log(1 + exp(-|X|)), " +
			"zero where Label is ignore_index.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float logits"},
			{Name: "Label", Doc: "from 0 to 1, of the shape and type of X"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{
			{Name: "ignore_index", Doc: "label of elements that cost nothing", Default: int32(-100)},
			{Name: "normalize", Doc: "Fluid's division by the number of elements that count, which would mix the rows of a batch; only false",
				Default: false, Check: neverNormalize}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			s.Like("Out", "X")
			return opkit.SameShape(s, "X", "Label")
		},
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("X", bindSigmoidCrossEntropy[float32], bindSigmoidCrossEntropy[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut*(sigmoid(X) - Label), zero where Label is ignore_index.",
		Inputs:  []string{"X", "Label"},
		Wrt:     []string{"X"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("X", bindSigmoidCrossEntropyGrad[float32], bindSigmoidCrossEntropyGrad[float64]),
	})
}

func neverNormalize(op *program.Op) error {
	if on, _ := op.Bool("normalize"); on {
		return errors.New("false; divide the sum of the costs by what counts")
	}
	return nil
}

func bindSigmoidCrossEntropy[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, label, out, ignored := b.In("X"), b.In("Label"), b.Out("Out"), T(b.Int("ignore_index"))
	return opkit.Loop(b, out.Len(), func(from, to int) {
		kernel.SigmoidCrossEntropy(tensor.Data[T](out)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](label)[from:to], ignored)
	})
}

func bindSigmoidCrossEntropyGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, label, dout, dx, ignored := b.In("X"), b.In("Label"), b.In("Out@GRAD"), b.Out("X@GRAD"), T(b.Int("ignore_index"))
	return opkit.Loop(b, dx.Len(), func(from, to int) {
		kernel.SigmoidCrossEntropyGrad(tensor.Data[T](dx)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](label)[from:to],
			tensor.Data[T](dout)[from:to], ignored)
	})
}
