// Custom_optimizer trains with its own update rule. A rule is built from ops, so it is part of the program, and parameter servers
// run it without further code.
//
//	go run ./examples/custom_optimizer -out /tmp/lion
package main

import (
	"math/rand/v2"
	"os"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// lion is Lion (Chen et al. 2023): every step has the same length in each direction, and only its sign follows from gradient and momentum.
//
//	p -= rate · (sign(β₁·v + (1-β₁)·g) + decay·p)
//	v  = β₂·v + (1-β₂)·g
func lion(beta1, beta2, decay float64) optimizer.Rule {
	return func(u *optimizer.Update) {
		velocity := u.State("velocity", 0)
		direction := layers.Sign(blend(velocity, u.Grad, beta1))
		step := layers.Add(direction, layers.Scale(u.Param, decay, 0))
		u.Set(u.Param, layers.Sub(u.Param, layers.Mul(step, u.Rate)))
		u.Set(velocity, blend(velocity, u.Grad, beta2))
	}
}

// blend is share·a + (1-share)·b.
func blend(a, b layers.Variable, share float64) layers.Variable {
	return layers.Add(layers.Scale(a, share, 0), layers.Scale(b, 1-share, 0))
}

// train is a small network that learns whether a point lies within a ring.
func train() (*program.Program, error) {
	m := layers.NewModel().Seed(3)
	points := layers.OpenDataset(m, "train", layers.Field("point", layers.Dims(2)), layers.Field("inside", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.Batch(layers.Shuffle(points, 1000, 1), 50))
	hidden := layers.FC(batch[0], 64, layers.Act("relu"))
	cost, probabilities := layers.SoftmaxWithCrossEntropy(layers.FC(hidden, 2), batch[1])
	loss := layers.Mean(cost, layers.Name("loss"))
	layers.Accuracy(probabilities, batch[1], layers.Name("accuracy"))
	optimizer.Custom(0.003, lion(0.9, 0.99, 0.001)).Minimize(loss)
	return m.Program()
}

func main() { os.Exit(page.Main(write)) }

func write(out string) error {
	if err := page.Save(out, "program.pb", train); err != nil {
		return err
	}
	if err := page.Dataset(out, "train", scatter); err != nil {
		return err
	}
	page.Commands(out, "--passes 20 --fetch accuracy")
	return nil
}

// scatter writes points between -1 and 1. About half of them lie within the ring between radius 0.4 and 0.9.
func scatter(w dataset.RecordWriter) error {
	chance := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		x, y := 2*chance.Float32()-1, 2*chance.Float32()-1
		inside := int64(0)
		if r := x*x + y*y; r > 0.4*0.4 && r < 0.9*0.9 {
			inside = 1
		}
		point, err := tensor.FromSlice([]float32{x, y})
		if err != nil {
			return err
		}
		label, err := tensor.FromSlice([]int64{inside})
		if err != nil {
			return err
		}
		if err := w.Write(dataset.AppendRecord(nil, point, label)); err != nil {
			return err
		}
	}
	return nil
}
