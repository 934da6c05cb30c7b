package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

var (
	times    = regexp.MustCompile(`"seconds":[0-9.e-]+`)
	textRate = regexp.MustCompile(`seconds [0-9.]+  records/s [0-9]+`)
)

// untimed writes the last standard output to a file, with 0 for whatever depends on the clock.
func untimed(ts *testscript.TestScript, _ bool, args []string) {
	text := times.ReplaceAllString(ts.ReadFile("stdout"), `"seconds":0`)
	text = textRate.ReplaceAllString(text, "seconds 0  records/s 0")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// spoil makes a file that no command can use: spoil empty|random|huge FILE, or spoil cut FILE SOURCE. A huge file is sparse.
func spoil(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[1])
	switch args[0] {
	case "empty":
		ts.Check(os.WriteFile(path, nil, 0o666))
	case "random":
		noise, state := make([]byte, 5000), uint64(88172645463325252)
		for i := range noise {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
			noise[i] = byte(state >> 32)
		}
		ts.Check(os.WriteFile(path, noise, 0o666))
	case "huge":
		ts.Check(os.WriteFile(path, nil, 0o666))
		ts.Check(os.Truncate(path, 3<<30))
	case "cut":
		whole := ts.ReadFile(args[2])
		ts.Check(os.WriteFile(path, []byte(whole[:len(whole)*2/3]), 0o666))
	default:
		ts.Fatalf("spoil does not know %s", args[0])
	}
}

// writeProgram writes a small program of the DSL: program line FILE. All numbers of its first steps on small whole numbers are exact in
// float32, so that outputs can be compared to the letter.
func writeProgram(ts *testscript.TestScript, _ bool, args []string) {
	m := layers.NewModel()
	zero := layers.Constant(0)
	network := func(x layers.Variable) layers.Variable {
		return layers.FC(x, 1, layers.Param(layers.ParamAttr{Initializer: zero}), layers.Bias(layers.ParamAttr{Initializer: zero}),
			layers.Name("prediction"))
	}
	read := func(data string) []layers.Variable {
		table := layers.OpenDataset(m, data, layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
		return layers.Read(layers.Batch(table, 4))
	}
	loss := func(data string) layers.Variable {
		batch := read(data)
		return layers.Mean(layers.SquareErrorCost(network(batch[0]), batch[1]), layers.Name("loss"))
	}
	switch args[0] {
	case "line":
		optimizer.SGD(0.25).Minimize(loss("train"))
	case "test":
		loss("test")
	case "fed":
		x, y := layers.Data(m, "x", layers.Dims(2)), layers.Data(m, "y", layers.Dims(1))
		optimizer.SGD(0.25).Minimize(layers.Mean(layers.SquareErrorCost(network(x), y), layers.Name("loss")))
	case "diverging":
		optimizer.SGD(1e30).Minimize(loss("train"))
	case "infinite": // fetches values that are no numbers
		x := layers.Data(m, "x", layers.Dims(1))
		layers.Log(x, layers.Name("log"))
		layers.Cast(x, tensor.Int64, layers.Name("whole"))
	default:
		ts.Fatalf("no program %s", args[0])
	}
	p, err := m.Program()
	ts.Check(err)
	ts.Check(p.Save(ts.MkAbs(args[1])))
}

// table writes rows that the program "line" learns, all exact in float32: table ROWS FILE.
func table(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b strings.Builder
	b.WriteString("a,b,y\n")
	for i := range rows {
		x, y := i%3-1, i/3%3-1
		fmt.Fprintf(&b, "%d,%d,%d\n", x, y, 2*x+y)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o666))
}

// damage flips the bits of one byte of the first chunk of a record file, behind the header of the chunk.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	b[100] ^= 0xff
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}
