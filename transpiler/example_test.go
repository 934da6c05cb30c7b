package transpiler_test

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/transpiler"
)

// A layer of 1000 inputs and outputs is spread over two servers.
func ExampleTranspile() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1000))
	y := layers.Data(m, "y", layers.Dims(1000))
	optimizer.Adam(0.001).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 1000), y)))
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := transpiler.Transpile(context.Background(), p, transpiler.Config{Trainers: 4, PServers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range r.Placement.Slices {
		fmt.Printf("%s lives on pserver %d, rows %d to %d of %s\n", s.Name, s.Server, s.FirstRow, s.FirstRow+s.Rows-1, s.Param)
	}
	for _, b := range r.PServers[0].Blocks {
		fmt.Println("block", b.Index, types(b))
	}
	// Output:
	// fc_0.w_0.block0 lives on pserver 0, rows 0 to 499 of fc_0.w_0
	// fc_0.w_0.block1 lives on pserver 1, rows 500 to 999 of fc_0.w_0
	// fc_0.b_0 lives on pserver 0, rows 0 to 999 of fc_0.b_0
	// block 0 [listen_and_serv]
	// block 1 [adam scale scale]
	// block 2 [adam scale scale]
}
