package main

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	T "gorgonia.org/tensor"
)

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
