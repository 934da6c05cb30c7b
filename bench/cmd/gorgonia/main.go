// Gorgonia measures a workload of package bench as gorgonia (gorgonia.org/gorgonia) runs it, and prints what bench/cmd/measure prints. It knows
// mlp and conv, with sgd or adam.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/fault"
	_ "go4.org/unsafe/assume-no-moving-gc" // the version that knows this Go release; without it gorgonia ends the process
	G "gorgonia.org/gorgonia"
	T "gorgonia.org/tensor"
)

// Sizes that all models share.
const (
	batches = 16
	batch   = 64
	classes = 10
	rate    = 1e-3
)

var models = map[string]func(*network){"mlp": mlp, "conv": conv}

// solvers maps the name of an optimizer to its rule.
var solvers = map[string]func() G.Solver{
	"sgd":  func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(rate)) },
	"adam": func() G.Solver { return G.NewAdamSolver(G.WithLearnRate(rate)) },
}

func main() { os.Exit(measure.Main(setup)) }

func setup(_ context.Context, workload string, _ int) (measure.Work, error) {
	model, update, _ := strings.Cut(workload, "/")
	build, solver := models[model], solvers[update]
	if build == nil || solver == nil {
		return nil, fault.E(fault.InvalidArgument, fault.Got("workload "+workload), fault.Want("mlp or conv, / and sgd or adam"))
	}
	n := &network{graph: G.NewGraph()}
	build(n)
	if n.err != nil {
		return nil, n.err
	}
	return n.training(solver())
}

// training returns the step: gorgonia's tape machine runs forward and backward, and its solver updates.
func (n *network) training(solver G.Solver) (measure.Work, error) {
	labels := G.NewMatrix(n.graph, T.Float32, G.WithShape(batch, classes), G.WithName("labels"))
	// The mean over rows of -log of the probability of the label.
	picked := n.next(G.HadamardProd(n.next(G.Log(n.next(G.SoftMax(n.out)))), labels))
	loss := n.next(G.Neg(n.next(G.Mean(n.next(G.Sum(picked, 1))))))
	if n.err != nil {
		return nil, n.err
	}
	if _, err := G.Grad(loss, n.learned...); err != nil {
		return nil, err
	}
	machine := G.NewTapeMachine(n.graph, G.BindDualValues(n.learned...))
	parameters := G.NodesToValueGrads(n.learned)
	var xs, ys []T.Tensor
	for range batches {
		xs = append(xs, random(n.in.Shape()))
		ys = append(ys, oneHot())
	}
	return func(i int) error {
		if err := G.Let(n.in, xs[i%batches]); err != nil {
			return err
		}
		if err := G.Let(labels, ys[i%batches]); err != nil {
			return err
		}
		defer machine.Reset()
		if err := machine.RunAll(); err != nil {
			return err
		}
		return solver.Step(parameters)
	}, nil
}

func random(shape T.Shape) T.Tensor {
	data := make([]float32, shape.TotalSize())
	for i := range data {
		data[i] = rand.Float32()
	}
	return T.New(T.WithShape(shape...), T.WithBacking(data))
}

// oneHot returns labels drawn at random, each a row with a single 1.
func oneHot() T.Tensor {
	data := make([]float32, batch*classes)
	for row := range batch {
		data[row*classes+rand.IntN(classes)] = 1
	}
	return T.New(T.WithShape(batch, classes), T.WithBacking(data))
}

// A network is a model under construction, from in to out.
type network struct {
	graph   *G.ExprGraph
	in, out *G.Node
	learned G.Nodes
	err     error // the first mistake; nothing is built after it
}

func mlp(n *network) {
	n.in = G.NewMatrix(n.graph, T.Float32, G.WithShape(batch, 784), G.WithName("image"))
	n.out = n.in
	n.connect(784, 200)
	n.relu()
	n.connect(200, 200)
	n.relu()
	n.connect(200, classes)
}

func conv(n *network) {
	n.in = G.NewTensor(n.graph, T.Float32, 4, G.WithShape(batch, 1, 28, 28), G.WithName("image"))
	n.out = n.in
	n.convolve(1, 20)
	n.relu()
	n.pool()
	n.convolve(20, 50)
	n.relu()
	n.pool()
	if n.err == nil {
		n.out = n.next(G.Reshape(n.out, T.Shape{batch, 800}))
	}
	n.connect(800, classes)
}

// next takes the result of a function of gorgonia. After a mistake it returns the node of before, so that building goes on, to no effect.
func (n *network) next(node *G.Node, err error) *G.Node {
	if n.err == nil {
		n.err = err
	}
	if n.err != nil {
		return n.out
	}
	return node
}

// parameter is a new parameter of a shape.
func (n *network) parameter(init G.InitWFn, shape ...int) *G.Node {
	p := G.NewTensor(n.graph, T.Float32, len(shape), G.WithShape(shape...), G.WithName(fmt.Sprintf("p%d", len(n.learned))), G.WithInit(init))
	n.learned = append(n.learned, p)
	return p
}

func (n *network) connect(inputs, outputs int) {
	product := n.next(G.Mul(n.out, n.parameter(G.GlorotU(1), inputs, outputs)))
	n.out = n.next(G.BroadcastAdd(product, n.parameter(G.Zeroes(), 1, outputs), nil, []byte{0}))
}

func (n *network) convolve(channels, filters int) {
	w := n.parameter(G.GlorotU(1), filters, channels, 5, 5)
	y := n.next(G.Conv2d(n.out, w, T.Shape{5, 5}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
	n.out = n.next(G.BroadcastAdd(y, n.parameter(G.Zeroes(), 1, filters, 1, 1), nil, []byte{0, 2, 3}))
}

func (n *network) relu() { n.out = n.next(G.Rectify(n.out)) }

func (n *network) pool() {
	n.out = n.next(G.MaxPool2D(n.out, T.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
}
