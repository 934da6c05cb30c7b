package program_test

import (
	"fmt"
	"os"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// double returns y = 2x.
func double() *program.Program {
	p := program.New()
	b := p.Global()
	b.EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 4}, NeedCheckFeed: true})
	b.EnsureVar(program.Var{Name: "y", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 4}})
	op := b.Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"y"}}})
	op.SetAttr("scale", float32(2))
	p.Startup = nil
	return p
}

func ExampleBlock_Append() {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"x", "y"} {
		if _, err := b.AddVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 4}}); err != nil {
			fmt.Println(err)
		}
	}
	op := b.Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"y"}}})
	fmt.Println(op.Type, "reads", op.InputNames(), "and writes", op.OutputNames())
	// Output: relu reads [x] and writes [y]
}

func ExampleDecode() {
	data, err := double().Encode()
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := program.Decode(data, program.DefaultLimits())
	fmt.Println(len(p.Blocks), "block,", len(p.Global().Ops), "op,", err)

	_, err = program.Decode(append(data, "garbage"...), program.DefaultLimits())
	fmt.Println(err)
	// Output:
	// 1 block, 1 op, <nil>
	// byte 121: corrupt data: got cannot parse reserved wire type, want a whole program file
}

func ExampleProgram_Text() {
	if err := double().Text(os.Stdout, program.TextOptions{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// program 176b930d9770, version 0
	// block 0
	//   x  float32[-1 4] data
	//   y  float32[-1 4]
	//     0  Out=y = scale(X=x) {scale=2}
}
